// SPDX-License-Identifier: Apache-2.0
/* The front end: parses a CUDA/NCCL program with libclang and builds its IR. */
#ifndef CUCOCC_FRONTEND_FRONTEND_H
#define CUCOCC_FRONTEND_FRONTEND_H

#include "ir/ir.h"
#include "support/diag.h"
#include "support/strbuf.h"

struct fe_options {
  const char *input;        /* path shown in diagnostics and #line; "<stdin>" for standard input */
  const char *text;         /* its text (borrowed) */
  size_t size;
  const char *const *clang_args; /* parsing options in clang's spelling (-I -D -U -std= -include ...) */
  size_t n_clang_args;
  const char *cuda_path;    /* CUDA toolkit root; NULL = find it */
  const char *nccl_include; /* folder of nccl.h; NULL = search the usual places */
  const char *resource_dir; /* folder of our own shim headers (texture_fetch_functions.h, ...) */
  int verbose;
};

struct fe_result {
  struct ir_program *ir;    /* owned by the caller (ir_free) */
  VEC(char *) headers;      /* files that the input includes, for -MD; owned */
  struct strbuf clang_command; /* for -v */
};

/* Parses and analyses. Returns 0 and fills RESULT; or 1 after reporting errors that concern the input
 * (not CUDA, errors that reach functions which would be rewritten), or 3 for the environment (no CUDA,
 * no NCCL). Errors elsewhere in the input are warnings and mark their function (has_errors). The IR it
 * returns passes ir_verify(); ir_analyse() is the caller's to call. */
int fe_parse(const struct fe_options *o, struct diag_engine *diag, struct fe_result *result);
void fe_result_free(struct fe_result *r);

/* Finds the CUDA toolkit: --cuda-path, $CUDA_PATH, $CUDA_HOME, nvcc on PATH, /usr/local/cuda, the folders
 * of the PyPI wheels (site-packages/nvidia/cu13, ...), then the one that configure was given. Returns a
 * malloc'ed path or NULL. */
char *fe_find_cuda(const char *given);
/* Finds the folder that holds nccl.h (2.28.7 or newer preferred). Returns a malloc'ed path or NULL. */
char *fe_find_nccl(const char *given, const char *cuda_path);

#endif
