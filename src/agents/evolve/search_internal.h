// SPDX-License-Identifier: Apache-2.0
/* What the parts of the search share. */
#ifndef CUCOCC_AGENTS_EVOLVE_SEARCH_INTERNAL_H
#define CUCOCC_AGENTS_EVOLVE_SEARCH_INTERNAL_H

#include "agents/evolve/search.h"

struct island {
  struct evo_random random;
  enum evo_selection selection;
  int beam;                  /* BEAM: whose turn it is */
  VEC(int) members;          /* serials of scored candidates, best first */
};

struct evo_search {
  const struct evo_space *space;
  struct evo_options o;
  int explore_until;         /* generations before this one explore */
  int generation;
  bool over;
  struct island *islands;
  int *elite;                /* per cell: serial or -1 */
  int filled;
  VEC(struct evo_candidate *) candidates;
  VEC(struct evo_migration) migrations;
  int *seen;                 /* hash table of serials + 1, 0 = free */
  size_t seen_size;
};

/* Is candidate A better than B (serials)? */
bool evo_better(const struct evo_search *s, int a, int b);
/* The candidate with this genome, or -1. */
int evo_find(const struct evo_search *s, const int *genome);

/* select.c: a parent of island I, or -1 when it has none. */
int evo_select(struct evo_search *s, int island);

/* propose.c: writes a new legal genome to OUT and what it is to C (origin, parents). False: none found. */
bool evo_propose(struct evo_search *s, int island, int *out, struct evo_candidate *c);
/* A legal genome at random. */
bool evo_random_genome(struct evo_search *s, struct evo_random *r, int *out);

#endif
