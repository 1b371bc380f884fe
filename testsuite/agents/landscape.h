// SPDX-License-Identifier: Apache-2.0
/* A synthetic landscape of costs, small enough to be enumerated: what the search is measured on. */
#ifndef CUCOCC_TESTSUITE_AGENTS_LANDSCAPE_H
#define CUCOCC_TESTSUITE_AGENTS_LANDSCAPE_H

#include "agents/evolve/search.h"

enum { LANDSCAPE_GENES = 6 };

/* Shaped like directives: a placement with its own best chunk, CTAs and depth, combinations that are
 * illegal, a deceptive placement whose average is good and whose best is not, and ruggedness from SEED. */
struct landscape {
  struct evo_space space;
  uint64_t seed;
  bool model;     /* offer a prediction: the cost with 15 % of error */
  size_t asked;   /* costs computed */
};

void landscape_init(struct landscape *l, uint64_t seed);
double landscape_cost(struct landscape *l, const int *genome);
/* The least cost of all legal genomes; their number in *LEGAL. */
double landscape_enumerate(struct landscape *l, size_t *legal);

#endif
