// SPDX-License-Identifier: Apache-2.0
/* Parent selection. Members of an island are sorted, best first. */
#include "agents/evolve/search_internal.h"
#include <math.h>

enum { BEAM_WIDTH = 4 };

/* Chance of rank r proportional to (r + 1)^-1 while exploring, then ^-2. Only arithmetic that IEEE 754
 * fixes to the last bit is used here, so that decisions are the same everywhere. */
static double power(const struct evo_search *s, size_t rank) {
  double x = 1 / ((double)rank + 1);
  return evo_exploring(s) ? x : x * x;
}

static int power_law(struct evo_search *s, struct island *is) {
  double total = 0;
  for (size_t r = 0; r < is->members.n; r++)
    total += power(s, r);
  double x = evo_random_unit(&is->random) * total;
  for (size_t r = 0; r < is->members.n; r++)
    if ((x -= power(s, r)) < 0)
      return is->members.v[r];
  return is->members.v[is->members.n - 1];
}

/* A good score counts, measured by the spread of the scores; many children count against. */
static int weighted(struct evo_search *s, struct island *is) {
  enum { LAMBDA = 4 };
  size_t n = is->members.n;
  double median = s->candidates.v[is->members.v[n / 2]]->score;
  double spread = fabs(s->candidates.v[is->members.v[n - 1]]->score -
                       s->candidates.v[is->members.v[0]]->score) / 2;
  if (!(spread > 0))
    spread = 1;
  double total = 0;
  double *w = xmalloc(n * sizeof *w);
  for (size_t r = 0; r < n; r++) {
    const struct evo_candidate *c = s->candidates.v[is->members.v[r]];
    double z = LAMBDA * (c->score - median) / spread;
    w[r] = (1 - z / (1 + fabs(z))) / (1 + c->children);
    total += w[r];
  }
  double x = evo_random_unit(&is->random) * total;
  size_t r = 0;
  while (r + 1 < n && (x -= w[r]) >= 0)
    r++;
  free(w);
  return is->members.v[r];
}

/* The first few in turn. */
static int beam(struct island *is) {
  size_t width = is->members.n < BEAM_WIDTH ? is->members.n : BEAM_WIDTH;
  return is->members.v[(size_t)is->beam++ % width];
}

/* Another niche: the elite of a cell chosen at random. */
static int from_archive(struct evo_search *s, struct evo_random *r) {
  int k = evo_random_below(r, s->filled);
  for (int cell = 0; cell < s->space->cells; cell++)
    if (s->elite[cell] >= 0 && k-- == 0)
      return s->elite[cell];
  return -1;
}

int evo_select(struct evo_search *s, int island) {
  struct island *is = &s->islands[island];
  if (s->filled && evo_random_chance(&is->random, evo_exploring(s) ? 0.4 : 0.1))
    return from_archive(s, &is->random);
  if (is->members.n == 0)
    return -1;
  switch (is->selection) {
  case EVO_SELECT_WEIGHTED:
    return weighted(s, is);
  case EVO_SELECT_BEAM:
    return beam(is);
  default:
    return power_law(s, is);
  }
}
