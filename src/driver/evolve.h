// SPDX-License-Identifier: Apache-2.0
/* -O evolve: the search over directives, put together from the search, the cost model, the cascade and the
 * database. */
#ifndef CUCOCC_DRIVER_EVOLVE_H
#define CUCOCC_DRIVER_EVOLVE_H

#include "agents/cost_model.h"
#include "agents/evolve/database.h"
#include "agents/evolve/search.h"
#include "agents/evolve/space.h"
#include "driver/cascade.h"
#include "driver/options.h"
#include "driver/pipeline.h"

/* What is known about one candidate beside its score. Index = serial. */
struct trial {
  bool tried;                     /* it went into the cascade */
  bool verified;                  /* all of its checks said yes */
  bool repaired;
  enum cascade_outcome outcome[CASCADE_STAGES];
  char *code, *diagnostics;       /* NULL until lowered; NULL without a failure */
  char hash[EVO_HASH];
  struct dir_directive *directives; /* one per region, NULL until lowered */
  double milliseconds, original_milliseconds; /* medians; NAN without a benchmark */
  bool separate;                  /* the times of the two do not overlap where most of them are */
};

struct generation_mark {
  double best, seconds;           /* score; since the start */
  size_t candidates;
};

/* The standard seeds. */
enum { SERIAL_HOST = 0, SERIAL_FAST_PATH = 1 };

struct evolve {
  const struct options *o;
  struct pipeline *p;
  struct diag_engine *diag;
  struct hardware machine;
  struct estimate names;
  struct cost_model *cost;
  struct cost_facts facts;
  struct dir_set fast_path;       /* regions are borrowed from the pipeline */
  struct dir_space *space;
  struct evo_options options;
  struct evo_search *search;
  struct evo_db *db;
  int64_t run;
  VEC(struct trial) trials;
  VEC(struct generation_mark) marks;
  struct cascade_options cascade;
  struct arg_list verify_args;
  char *nvcc, *original_path, *timed_path, *work_dir;
  struct pipeline timed;          /* the program with time stamps; its text is empty when there is none */
  bool measured;                  /* scores are measured milliseconds; else predicted microseconds */
  bool verifier_missing;          /* no candidate of this program can be verified here */
  int evaluations, verified, result; /* RESULT: serial of what is written */
  double started, deadline;
  const char *stopped;            /* why it ended early; NULL */
  char *verdict;                  /* one sentence on the result */
};

/* Searches. P was read; it is left with the directives and the text of the result, for the usual outputs. */
enum driver_status evolve_run(const struct options *o, struct pipeline *p, struct diag_engine *diag);

/* The text of program P (the original, or the one with time stamps) with directives D, one per region: true, or
 * false with what was reported in WHY (free it). */
bool evolve_lower(const struct pipeline *p, const struct dir_directive *d, enum lower_runtime runtime,
                  struct strbuf *out, char **why);

/* evolve_setup.c. Reads the machine and the names, makes model, space, search and database. Anything else than
 * DRIVER_OK was reported. */
enum driver_status evolve_set_up(struct evolve *e);
void evolve_tear_down(struct evolve *e);
/* Which of the two standard programs the verifier, compiler and launcher are asked about, and how. */
enum driver_status evolve_set_up_cascade(struct evolve *e, volatile sig_atomic_t *stop);

/* Times are predicted after all: no program could be timed. */
void evolve_predict_instead(struct evolve *e, const char *why);

/* evolve_trial.c. Takes candidates through the cascade, except for what the database knows already. */
void evolve_try(struct evolve *e, const int *serials, size_t n);
/* Verifies a candidate once more, after it was timed. */
bool evolve_verify_again(struct evolve *e, int serial);
struct trial *evolve_trial(struct evolve *e, int serial);
/* A reason to stop now, or NULL. */
const char *evolve_stop_reason(const struct evolve *e);
/* Directives as JSON, as --emit-directives writes them; free() it. */
char *evolve_directives_json(const struct evolve *e, const struct dir_directive *d);

/* report_html.c: writes the page. Returns 0 or an errno value. */
int evolve_report(const struct evolve *e, const char *path);

/* Score of a candidate for people: "1.234 ms". */
char *evolve_time(const struct evolve *e, double score);

#endif
