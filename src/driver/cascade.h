// SPDX-License-Identifier: Apache-2.0
/* What a candidate goes through: compile, verify, benchmark. Cheap things first, what fails goes no further.
 * Several candidates at a time; a benchmark has the machine for itself. */
#ifndef CUCOCC_DRIVER_CASCADE_H
#define CUCOCC_DRIVER_CASCADE_H

#include "driver/args.h"
#include "support/strbuf.h"
#include "support/vec.h"
#include <signal.h>
#include <stdbool.h>

enum cascade_stage { CASCADE_COMPILE, CASCADE_VERIFY, CASCADE_BENCHMARK, CASCADE_STAGES };
enum cascade_outcome {
  CASCADE_NOT_RUN,
  CASCADE_OK,
  CASCADE_FAILED,
  CASCADE_TIMEOUT,
  CASCADE_UNAVAILABLE /* the stage cannot be had here, or not for this program */
};

struct cascade_options {
  const char *nvcc;                    /* NULL: candidates are not compiled */
  const struct arg_list *nvcc_args;    /* the user's */
  struct arg_list verifier;            /* words with {candidate}, {original}, {np} in them */
  const struct arg_list *verify_args;  /* words after that: of the front end, and the program's */
  const char *original;                /* path of the original program */
  int ranks[4], n_ranks;               /* verify with each of these */
  struct arg_list launcher;            /* words with {np}, {exe} in them; empty: no benchmark */
  int benchmark_ranks, repetitions;
  const char *timed_original;          /* path of the original with time stamps; NULL: no benchmark */
  double compile_timeout, verify_timeout, benchmark_timeout;
  int jobs;
  const char *dir;                     /* everything is written below it */
  volatile sig_atomic_t *stop;         /* set: end what runs, and return */
};

struct cascade_step {
  enum cascade_stage stage;
  enum cascade_outcome outcome;
  int attempt, exit_status;
  double started, seconds;             /* Unix time; duration */
  char *command, *diagnostics;
};

struct cascade_item {
  int serial;
  char *code, *timed_code;             /* texts; TIMED_CODE may be NULL */
  bool compiled, verified;             /* known from before: these stages are passed over */
  enum cascade_outcome outcome[CASCADE_STAGES];
  bool repaired;
  double milliseconds, original_milliseconds; /* benchmark: medians */
  VEC(double) timings[2];              /* of the original, of the candidate: each repetition */
  void *internal;
};

struct cascade_hooks {
  void *ctx;
  /* A stage of ITEM is over; called at once, before anything else of it starts. */
  void (*step)(void *ctx, struct cascade_item *item, const struct cascade_step *step);
  /* The compiler refused ITEM: put other code into it and return true for one more attempt. May be NULL. */
  bool (*repair)(void *ctx, struct cascade_item *item, const char *diagnostics);
  /* Called a few times a second. May be NULL. */
  void (*tick)(void *ctx);
};

/* Takes the N items through the stages. Items that were interrupted by STOP have CASCADE_NOT_RUN for the stage
 * that was running. */
void cascade_run(const struct cascade_options *o, const struct cascade_hooks *hooks,
                 struct cascade_item *items, size_t n);
/* The value below which the share Q of the N values is, between neighbours in proportion; NAN if N is 0. */
double cascade_quantile(const double *v, size_t n, double q);
/* Frees what belongs to ITEM. */
void cascade_item_free(struct cascade_item *item);

/* TEMPLATE as words; {name} of NAMES[i] becomes VALUES[i]. */
void cascade_expand(struct arg_list *out, const struct arg_list *template, const char *const *names,
                    const char *const *values, size_t n);
const char *cascade_stage_name(enum cascade_stage s);
const char *cascade_outcome_name(enum cascade_outcome o);

#endif
