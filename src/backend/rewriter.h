// SPDX-License-Identifier: Apache-2.0
/* Offset-based edits of one source text. Edits may be added in any order; they must not overlap. */
#ifndef CUCOCC_BACKEND_REWRITER_H
#define CUCOCC_BACKEND_REWRITER_H

#include "support/strbuf.h"
#include "support/vec.h"
#include <stdbool.h>

struct rw_edit {
  size_t begin, end; /* bytes [begin, end) of the original are replaced by TEXT */
  char *text;
};
struct rewriter {
  const char *text;
  size_t size;
  VEC(struct rw_edit) edits;
};

void rw_init(struct rewriter *rw, const char *text, size_t size); /* TEXT is borrowed */
/* Replaces [begin, end). Returns false (and adds nothing) when it overlaps a different edit or lies
 * outside the text; an identical edit is accepted once. */
bool rw_replace(struct rewriter *rw, size_t begin, size_t end, const char *text);
/* Appends the edited text to OUT: everything outside the edits byte for byte. */
void rw_apply(struct rewriter *rw, struct strbuf *out);
void rw_free(struct rewriter *rw);

#endif
