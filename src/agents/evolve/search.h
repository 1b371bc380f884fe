// SPDX-License-Identifier: Apache-2.0
/* Evolutionary search over vectors of small numbers, in the ask-and-tell form: islands with a parent
 * selection of their own, elitist migration round the ring, a MAP-Elites archive over features, first
 * exploring, then exploiting. Lower scores are better. It knows nothing of directives; space.h makes a
 * space of them. The decisions depend on the seed, the space and the scores told, and on nothing else. */
#ifndef CUCOCC_AGENTS_EVOLVE_SEARCH_H
#define CUCOCC_AGENTS_EVOLVE_SEARCH_H

#include "agents/evolve/random.h"
#include "support/vec.h"
#include <stdbool.h>
#include <stddef.h>

/* What is searched. A genome is an int for each gene, 0 <= genome[g] < sizes[g]. Genes of one group are
 * about one thing (a region) and can be copied to another group with the same SIZES. */
struct evo_space {
  int genes, groups, cells;
  const int *sizes;
  const int *group;             /* group of each gene, ascending */
  const bool *ordered;          /* neighbouring values are alike */
  const bool *structural;       /* changing it may need all others of the group to follow */
  void *ctx;
  void (*canonical)(void *ctx, int *genome);         /* gives genes without effect their usual value; or NULL */
  bool (*legal)(void *ctx, const int *genome);
  double (*predict)(void *ctx, const int *genome);   /* an estimate of the score; or NULL */
  int (*cell)(void *ctx, const int *genome);         /* feature cell, 0..cells-1 */
};

enum evo_origin {
  EVO_ORIGIN_SEED, EVO_ORIGIN_RANDOM, EVO_ORIGIN_MUTATION, EVO_ORIGIN_NEIGHBOUR, EVO_ORIGIN_CROSSOVER
};
enum evo_selection { EVO_SELECT_POWER_LAW, EVO_SELECT_WEIGHTED, EVO_SELECT_BEAM, EVO_SELECT_BY_ISLAND };

enum evo_state { EVO_PROPOSED, EVO_SCORED, EVO_FAILED };

struct evo_candidate {
  int serial;                   /* index in evo_search.candidates */
  int generation, island;
  enum evo_origin origin;
  int parents[2];               /* serials, -1 = none */
  int *genome;
  int cell, children;
  enum evo_state state;
  double predicted;             /* NAN without a model */
  double score;                 /* SCORED: finite */
};

struct evo_options {
  uint64_t seed;
  int islands, population, generations;
  double explore;               /* share of the generations that explore, 0..1 */
  int migration;                /* generations between migrations; 0 = never */
  int oversample;               /* with predict: proposals made for each one that is kept */
  enum evo_selection selection;
  size_t max_candidates;        /* at most so many in all; 0 = no limit */
};

struct evo_migration {
  int generation, from, to, serial;
};

struct evo_search;

/* The usual values, for SEED. */
void evo_defaults(struct evo_options *o, uint64_t seed);
/* SPACE is borrowed. */
struct evo_search *evo_new(const struct evo_space *space, const struct evo_options *options);
void evo_free(struct evo_search *s);

/* Adds a candidate of generation 0 on ISLAND (legal or not is the caller's business). Returns its serial,
 * or -1 when the same genome is there already. Only before the first evo_ask(). */
int evo_seed(struct evo_search *s, const int *genome, int island);
/* Starts the next generation (the first time: completes generation 0 by random candidates) and returns how
 * many candidates wait for their score: those from serial *FIRST on. None is equal to an earlier one.
 * 0 = the search is over: out of generations, or nothing new was found. */
size_t evo_ask(struct evo_search *s, int *first);
/* The score of a candidate, once. A score that is not finite is a failure. */
void evo_tell(struct evo_search *s, int serial, double score);
/* A scored candidate turned out to be wrong after all: it is no parent and no result from now on. */
void evo_reject(struct evo_search *s, int serial);

int evo_generation(const struct evo_search *s);      /* the one begun last; -1 before the first */
bool evo_exploring(const struct evo_search *s);
size_t evo_count(const struct evo_search *s);
const struct evo_candidate *evo_get(const struct evo_search *s, int serial);
/* Serial of the best scored candidate, -1 if none. Equal scores: the earliest. */
int evo_best(const struct evo_search *s);
/* The best of one archive cell, or -1. */
int evo_elite(const struct evo_search *s, int cell);
/* Cells of the archive that hold a candidate. */
int evo_filled(const struct evo_search *s);
size_t evo_migrations(const struct evo_search *s, const struct evo_migration **list);
/* The state of every random sequence, as text; free() it. */
char *evo_random_state(const struct evo_search *s);
const char *evo_origin_name(enum evo_origin o);

#endif
