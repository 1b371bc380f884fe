// SPDX-License-Identifier: Apache-2.0
/* The command line of cucocc, parsed. */
#ifndef CUCOCC_DRIVER_OPTIONS_H
#define CUCOCC_DRIVER_OPTIONS_H

#include "driver/args.h"
#include "support/diag.h"
#include <stdint.h>
#include <stdio.h>

/* One enumerator per OPTION of spec/options.def. */
enum option_id {
#define GROUP(title)
#define OPTION(id, spelling, kind, metavar, help) OPTION_##id,
#include "options.def"
#undef GROUP
#undef OPTION
  OPTION_COUNT
};

struct options {
  struct arg_list words;        /* the command line with response files expanded; owns the strings below */
  struct arg_list inputs;
  struct arg_list clang_args;   /* what nvcc's options mean to the parser */
  struct arg_list program_args; /* after "--", for --emulate */
  struct arg_list dep_targets;  /* -MT */
  struct arg_list nvcc_args;    /* nvcc's options as they were given, without those about outputs */
  struct arg_list assumptions;  /* NAME=VALUE of --assume */
  size_t launcher;              /* index into words of nvcc in "cucocc nvcc ...", 0 if none */

  bool fast_path;               /* asked for by name */
  bool evolve;                  /* -O evolve */
  bool evolve_page;             /* --report names a page of the search */
  bool resume, seed_set, generations_set, population_set, islands_set;
  bool include_runtime;         /* --emit-runtime=include */
  bool emulate, emulate_only_check, verbose, dry_run;
  bool md, mmd, mp;
  const char *output, *graph, *emit_ir, *emit_directives, *directives, *report;
  const char *verify, *against;
  const char *dep_file, *cuda_path, *nccl_include;
  bool ranks_set;
  int ranks, schedules;
  uint64_t seed;
  const char *db, *hardware, *verifier, *launcher_template;
  int generations, population, islands, max_evals, jobs; /* max_evals, jobs: 0 = not given */
  double max_time;              /* seconds, 0 = no limit */
};

enum options_result {
  OPTIONS_RUN,   /* go on */
  OPTIONS_DONE,  /* --help and the like were answered on standard output */
  OPTIONS_ERROR  /* reported; the exit status is 2 */
};

/* Parses ARGV into O (zeroed), and sets the format, colour and warnings of DIAG. */
enum options_result options_parse(struct options *o, int argc, char *const *argv,
                                  struct diag_engine *diag);
void options_free(struct options *o);

/* What --help and its relatives print. */
void options_print_help(FILE *out);
void options_print_diagnostics(FILE *out);
void options_print_directives(FILE *out);
void options_print_version(FILE *out);
void options_print_completion(FILE *out); /* a script for bash */

#endif
