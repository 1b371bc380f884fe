// SPDX-License-Identifier: Apache-2.0
/* What a search did, in an SQLite file: docs/database.md describes the tables. Several processes may use one
 * file. Everything that took time to find out is committed when it is found out. */
#ifndef CUCOCC_AGENTS_EVOLVE_DATABASE_H
#define CUCOCC_AGENTS_EVOLVE_DATABASE_H

#include "agents/evolve/search.h"
#include <stdint.h>

struct evo_db;

/* Opens or creates PATH (":memory:" for none). Returns NULL with a sentence in WHY. */
struct evo_db *evo_db_open(const char *path, char *why, size_t size);
void evo_db_close(struct evo_db *db);
/* The first error since opening, NULL if none. Functions that fail return false or -1. */
const char *evo_db_error(const struct evo_db *db);

struct evo_db_run {
  const char *version, *input, *program; /* PROGRAM: hash of the program's text */
  const char *settings;                  /* JSON: what decides about the search */
  const char *machine, *environment, *assumptions; /* JSON */
};

/* Starts a run, owned by this process. Returns its number or -1. */
int64_t evo_db_begin_run(struct evo_db *db, const struct evo_db_run *run);
/* The last run on the program that no living process works on, now owned by this one: its number, with its
 * settings (free() it); 0 if there is none; -1 on errors. A run that came to its end counts too. */
int64_t evo_db_resume_run(struct evo_db *db, const char *program, char **settings);
/* Other settings from now on. */
bool evo_db_change_settings(struct evo_db *db, int64_t run, const char *settings);
/* STATUS: finished, interrupted. RESULT is a serial or -1. */
bool evo_db_end_run(struct evo_db *db, int64_t run, const char *status, int result, const char *note);

/* Groups what follows into one transaction. */
bool evo_db_begin(struct evo_db *db);
bool evo_db_commit(struct evo_db *db);

/* Records a candidate with its lineage. One that is there already stays, and its genome must be the same:
 * else false, with "differs" as the error. */
bool evo_db_candidate(struct evo_db *db, int64_t run, const struct evo_space *space,
                      const struct evo_candidate *c, const char *directives);
bool evo_db_score(struct evo_db *db, int64_t run, const struct evo_candidate *c);
/* The text of a candidate; equal texts are stored once. */
bool evo_db_code(struct evo_db *db, int64_t run, int serial, const char *hash, const char *text);
bool evo_db_migration(struct evo_db *db, int64_t run, const struct evo_migration *m);
bool evo_db_generation(struct evo_db *db, int64_t run, int generation, size_t candidates, int best,
                       double score, int filled, const char *random_state, double seconds);
/* The random state recorded for GENERATION; free() it. NULL if none. */
char *evo_db_random_state(struct evo_db *db, int64_t run, int generation);

struct evo_db_evaluation {
  const char *stage;        /* lower, compile, verify, benchmark */
  const char *outcome;      /* ok, failed, timeout, unavailable */
  int attempt;              /* 1, or 2 after a repair */
  double started, seconds;  /* Unix time; duration */
  const char *command;
  int exit_status;
  const char *diagnostics;
  double value;             /* benchmark: ms; else NAN */
};
/* Returns the number of the evaluation or -1. */
int64_t evo_db_evaluation(struct evo_db *db, int64_t run, int serial,
                          const struct evo_db_evaluation *e);
bool evo_db_timing(struct evo_db *db, int64_t evaluation, const char *program, int repetition,
                   double milliseconds);
/* The last evaluation of a stage: 1 with OUTCOME and DIAGNOSTICS (free() both) and VALUE; 0 if none; -1. */
int evo_db_find_evaluation(struct evo_db *db, int64_t run, int serial, const char *stage,
                           char **outcome, char **diagnostics, double *value);

/* Appends the repetitions of PROGRAM in the last benchmark of a candidate to the growable array *V (see vec_grow). */
bool evo_db_read_timings(struct evo_db *db, int64_t run, int serial, const char *program, double **v,
                         size_t *n, size_t *cap);

/* A fingerprint of N bytes as 32 hexadecimal digits; not for adversaries. */
enum { EVO_HASH = 33 };
void evo_hash(const void *bytes, size_t n, char out[EVO_HASH]);

#endif
