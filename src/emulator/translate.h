// SPDX-License-Identifier: Apache-2.0
/* Rewrites a CUDA program into C++ for the emulator: launches become calls, shared variables become
 * parts of a block's storage, variables of the device get one copy per device. Everything else, and
 * every line number, stays; CUDA's words are macros of the emulator's headers. */
#ifndef CUCOCC_EMULATOR_TRANSLATE_H
#define CUCOCC_EMULATOR_TRANSLATE_H

#include "support/diag.h"
#include "support/vec.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emu_translate_options {
  const char *input;             /* path, for messages and #line */
  const char *const *clang_args; /* -I, -D, -U, -std and the like, in clang's spelling */
  size_t n_clang_args;
  const char *include_dir; /* the emulator's headers */
  const char *out_dir;     /* where the result is written; must exist */
};

struct emu_translated {
  char *path;           /* the rewritten program, in out_dir; owned */
  VEC(char *) files;   /* the files that it was made of, the input first; owned */
  bool uses_mpi;       /* one process for each rank */
  uint64_t digest[2];  /* of the result and of every header that it includes, but the system's */
};

/* Translates. Returns 0; 1 after reporting what the emulator does not model, with its place; 3 when
 * a file cannot be read or written. Errors of the language are left to the compiler of the result. */
int emu_translate(const struct emu_translate_options *o, struct diag_engine *diag,
                  struct emu_translated *out);
void emu_translated_free(struct emu_translated *t);

/* Macros that the result is compiled with; NULL-terminated. */
extern const char *const emu_defines[];

#endif
