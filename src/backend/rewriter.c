// SPDX-License-Identifier: Apache-2.0
#include "backend/rewriter.h"
#include <string.h>

void rw_init(struct rewriter *rw, const char *text, size_t size) {
  *rw = (struct rewriter){.text = text, .size = size};
}

bool rw_replace(struct rewriter *rw, size_t begin, size_t end, const char *text) {
  if (begin > end || end > rw->size)
    return false;
  VEC_EACH(&rw->edits, e) {
    if (e->begin == begin && e->end == end && strcmp(e->text, text) == 0)
      return true;
    if (e->begin == begin || (begin < e->end && e->begin < end))
      return false;
  }
  VEC_PUSH(&rw->edits) = (struct rw_edit){begin, end, xstrdup(text)};
  return true;
}

static int by_begin(const void *a, const void *b) {
  const struct rw_edit *x = a, *y = b;
  return (x->begin > y->begin) - (x->begin < y->begin);
}

void rw_apply(struct rewriter *rw, struct strbuf *out) {
  size_t at = 0;
  if (rw->edits.n)
    qsort(rw->edits.v, rw->edits.n, sizeof *rw->edits.v, by_begin);
  VEC_EACH(&rw->edits, e) {
    sb_addn(out, rw->text + at, e->begin - at);
    sb_add(out, e->text);
    at = e->end;
  }
  sb_addn(out, rw->text + at, rw->size - at);
}

void rw_free(struct rewriter *rw) {
  VEC_EACH(&rw->edits, e) free(e->text);
  VEC_FREE(&rw->edits);
}
