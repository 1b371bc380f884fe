// SPDX-License-Identifier: Apache-2.0
/* Lowering: directives on an IR become edits of the user's source plus generated code.
 * The same directives on the same IR give the same bytes. */
#ifndef CUCOCC_BACKEND_LOWER_H
#define CUCOCC_BACKEND_LOWER_H

#include "agents/directive.h"
#include "ir/ir.h"
#include "support/diag.h"
#include "support/strbuf.h"

enum lower_runtime { LOWER_RUNTIME_EMBED, LOWER_RUNTIME_INCLUDE };

struct lower_options {
  enum lower_runtime runtime; /* write the prelude into the output, or #include the installed header */
  const char *input;          /* the path for #line directives */
  const char *text;           /* the input's text */
  size_t size;
};

/* What happened, for --report and tests. */
struct lower_report {
  int regions, translated, host;     /* communication regions */
  int symmetric, staged;             /* cudaMalloc sites moved to symmetric memory, or left */
};

/* Writes the whole translated program to OUT: prelude, generated region code, then the user's text with
 * callee names replaced, byte for byte otherwise, with #line so that diagnostics and debuggers stay on
 * the user's file. When nothing is translated, OUT is the input unchanged. Returns 0, or 1 after
 * reporting an error. */
int lower_program(const struct ir_program *ir, const struct dir_set *set,
                  const struct lower_options *o, struct diag_engine *diag, struct strbuf *out,
                  struct lower_report *report);

#endif
