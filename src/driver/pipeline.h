// SPDX-License-Identifier: Apache-2.0
/* One source through all stages: front end, IR, directives, lowering. */
#ifndef CUCOCC_DRIVER_PIPELINE_H
#define CUCOCC_DRIVER_PIPELINE_H

#include "agents/directive.h"
#include "backend/lower.h"
#include "driver/args.h"
#include "driver/driver.h"
#include "frontend/frontend.h"
#include "support/diag.h"

struct pipeline_options {
  const char *input;                  /* a path, or "-" */
  const struct arg_list *clang_args;
  const char *cuda_path, *nccl_include; /* NULL = find them */
  const char *directives;             /* file for --directives, or NULL */
  enum lower_runtime runtime;
  bool lower;                         /* go on to the translated text */
  bool verbose;
};

struct pipeline {
  const char *name;                   /* of the input in diagnostics */
  struct strbuf text;                 /* the input */
  struct fe_result parsed;
  struct dir_set set;
  struct strbuf output;               /* the translated program, when asked for */
  struct lower_report report;
};

/* Reads the input into P (zeroed). DIAG borrows its text, so P must outlive it. */
enum driver_status pipeline_read(struct pipeline *p, const char *input, struct diag_engine *diag);
/* Runs the stages on what was read. Anything else than DRIVER_OK was reported. */
enum driver_status pipeline_run(struct pipeline *p, const struct pipeline_options *o,
                                struct diag_engine *diag);
void pipeline_free(struct pipeline *p);

#endif
