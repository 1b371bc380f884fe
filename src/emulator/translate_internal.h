// SPDX-License-Identifier: Apache-2.0
/* What the parts of the translation share. */
#ifndef CUCOCC_EMULATOR_TRANSLATE_INTERNAL_H
#define CUCOCC_EMULATOR_TRANSLATE_INTERNAL_H

#include "emulator/translate.h"
#include "support/strbuf.h"
#include <clang-c/Index.h>

struct tr_place {
  unsigned line, col;
};

/* A file of the program: the input or a local header of it. */
struct tr_file {
  char *path;         /* as clang names it */
  char *target;       /* the name of its translation in out_dir */
  struct strbuf text; /* what was read, then the result of the first pass, then of the second */
  VEC(struct tr_place) assembly; /* where it has inline assembly */
  bool changed;       /* by the first pass */
};
typedef VEC(struct tr_file) tr_files;

/* First pass, on tokens, which also sees macro bodies and inactive code: launches become calls of
 * emu::cuda::launch(), and words that no compiler takes where CUDA allows them go. */
void tr_launches(struct tr_file *f);

/* Second pass, on the syntax tree of TU, which was parsed from the first pass's result: variables of
 * blocks and devices, kernels as addresses; includes of FILES name their translations. Reports what is not modelled; false when it did. */
bool tr_declarations(CXTranslationUnit tu, const tr_files *files, struct tr_file *f,
                     struct diag_engine *diag);

/* The string of S, malloc'ed; disposes of S. */
char *tr_take(CXString s);

#endif
