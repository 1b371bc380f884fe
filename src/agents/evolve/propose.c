// SPDX-License-Identifier: Apache-2.0
/* New genomes: random ones, mutations, neighbours of elites, crossovers. All are legal and new. */
#include "agents/evolve/search_internal.h"
#include <string.h>

enum { TRIES = 48, REPAIRS = 24 };

static void copy(const struct evo_search *s, int *to, const int *from) {
  memcpy(to, from, (size_t)s->space->genes * sizeof *to);
}

static bool finish(const struct evo_search *s, int *g) {
  if (s->space->canonical)
    s->space->canonical(s->space->ctx, g);
  return s->space->legal(s->space->ctx, g);
}

static bool is_new(struct evo_search *s, int *g) { return finish(s, g) && evo_find(s, g) < 0; }

static int any_value(const struct evo_search *s, struct evo_random *r, int gene) {
  return evo_random_below(r, s->space->sizes[gene]);
}

/* Other values for the genes of GROUP until the whole is legal, that of gene KEEP excepted (-1: none). */
static bool repair(struct evo_search *s, struct evo_random *r, int *g, int group, int keep) {
  const struct evo_space *sp = s->space;
  int *trial = xmalloc((size_t)sp->genes * sizeof *trial);
  bool done = false;
  for (int i = 0; i < REPAIRS && !done; i++) {
    copy(s, trial, g);
    for (int k = 0; k < sp->genes; k++)
      if (sp->group[k] == group && k != keep && evo_random_chance(r, i < REPAIRS / 2 ? 0.35 : 0.8))
        trial[k] = any_value(s, r, k);
    int wanted = keep >= 0 ? trial[keep] : 0;
    done = finish(s, trial) && (keep < 0 || trial[keep] == wanted);
  }
  if (done)
    copy(s, g, trial);
  free(trial);
  return done;
}

bool evo_random_genome(struct evo_search *s, struct evo_random *r, int *out) {
  const struct evo_space *sp = s->space;
  for (int i = 0; i < TRIES; i++) {
    for (int k = 0; k < sp->genes; k++)
      out[k] = any_value(s, r, k);
    bool legal = finish(s, out);
    for (int group = 0; group < sp->groups && !legal; group++)
      legal = repair(s, r, out, group, -1);
    if (legal && evo_find(s, out) < 0)
      return true;
  }
  return false;
}

/* One gene to another value: a step for ordered genes most of the time, a repair after structural ones. */
static bool change(struct evo_search *s, struct evo_random *r, int *g) {
  const struct evo_space *sp = s->space;
  int gene = evo_random_below(r, sp->genes), n = sp->sizes[gene];
  if (n < 2)
    return false;
  if (sp->ordered[gene] && evo_random_chance(r, 0.7)) {
    int step = evo_random_chance(r, 0.5) ? 1 : -1;
    if (g[gene] + step < 0 || g[gene] + step >= n)
      step = -step;
    g[gene] += step;
  } else {
    g[gene] = (g[gene] + 1 + evo_random_below(r, n - 1)) % n;
  }
  int wanted = g[gene];
  bool legal = finish(s, g) && g[gene] == wanted;
  if (legal && !(sp->structural[gene] && evo_random_chance(r, 0.5)))
    return true;
  g[gene] = wanted;
  return repair(s, r, g, sp->group[gene], gene) || legal;
}

static bool same_shape(const struct evo_space *sp, int a, int b, int *at_a, int *at_b) {
  int n = 0, m = 0;
  *at_a = *at_b = -1;
  for (int k = 0; k < sp->genes; k++) {
    if (sp->group[k] == a && n++ == 0)
      *at_a = k;
    if (sp->group[k] == b && m++ == 0)
      *at_b = k;
  }
  if (n != m)
    return false;
  for (int k = 0; k < n; k++)
    if (sp->sizes[*at_a + k] != sp->sizes[*at_b + k])
      return false;
  return true;
}

/* What one region has found, for another one. */
static bool spread(struct evo_search *s, struct evo_random *r, int *g) {
  const struct evo_space *sp = s->space;
  if (sp->groups < 2)
    return false;
  int a = evo_random_below(r, sp->groups), b = evo_random_below(r, sp->groups), from, to;
  if (a == b || !same_shape(sp, a, b, &from, &to))
    return false;
  for (int k = from; k < sp->genes && sp->group[k] == a; k++)
    g[to + k - from] = g[k];
  return true;
}

static bool mutate(struct evo_search *s, int island, int *out, struct evo_candidate *c) {
  struct evo_random *r = &s->islands[island].random;
  int parent = evo_select(s, island);
  if (parent < 0)
    return false;
  copy(s, out, s->candidates.v[parent]->genome);
  c->origin = EVO_ORIGIN_MUTATION;
  c->parents[0] = parent;
  if (evo_random_chance(r, 0.15) && spread(s, r, out))
    return is_new(s, out);
  int changes = evo_exploring(s) ? 1 + evo_random_below(r, 4) : 1 + evo_random_below(r, 2);
  for (int i = 0; i < changes; i++)
    change(s, r, out);
  return is_new(s, out);
}

static bool crossover(struct evo_search *s, int island, int *out, struct evo_candidate *c) {
  const struct evo_space *sp = s->space;
  struct evo_random *r = &s->islands[island].random;
  int a = evo_select(s, island), b = evo_select(s, island);
  if (a < 0 || b < 0 || a == b)
    return false;
  const int *x = s->candidates.v[a]->genome, *y = s->candidates.v[b]->genome;
  bool by_group = sp->groups > 1 && evo_random_chance(r, 0.7), take = false;
  for (int k = 0; k < sp->genes; k++) {
    if (!by_group || k == 0 || sp->group[k] != sp->group[k - 1])
      take = evo_random_chance(r, 0.5);
    out[k] = take ? y[k] : x[k];
  }
  c->origin = EVO_ORIGIN_CROSSOVER;
  c->parents[0] = a;
  c->parents[1] = b;
  return is_new(s, out);
}

/* A genome that differs from one of the best in one gene only and was not tried yet: near the end these
 * prove that nothing beside the best is better. */
static bool neighbour(struct evo_search *s, int island, int *out, struct evo_candidate *c) {
  enum { ELITES = 3 };
  const struct evo_space *sp = s->space;
  struct island *is = &s->islands[island];
  for (size_t e = 0; e < is->members.n && e < ELITES; e++) {
    int parent = is->members.v[e], first = evo_random_below(&is->random, sp->genes);
    const int *g = s->candidates.v[parent]->genome;
    for (int i = 0; i < sp->genes; i++) {
      int gene = (first + i) % sp->genes, n = sp->sizes[gene];
      for (int d = 1; d < 2 * n; d++) { /* +1, -1, +2, -2, ... */
        int v = g[gene] + (d & 1 ? (d + 1) / 2 : -(d / 2));
        if (v < 0 || v >= n)
          continue;
        copy(s, out, g);
        out[gene] = v;
        if (!is_new(s, out))
          continue;
        c->origin = EVO_ORIGIN_NEIGHBOUR;
        c->parents[0] = parent;
        return true;
      }
    }
  }
  return false;
}

bool evo_propose(struct evo_search *s, int island, int *out, struct evo_candidate *c) {
  struct evo_random *r = &s->islands[island].random;
  for (int i = 0; i < TRIES; i++) {
    double x = evo_random_unit(r);
    bool explore = evo_exploring(s);
    c->parents[0] = c->parents[1] = -1;
    c->origin = EVO_ORIGIN_RANDOM;
    bool made;
    if (x < (explore ? 0.25 : 0.02))
      made = evo_random_genome(s, r, out);
    else if (x < (explore ? 0.45 : 0.20))
      made = crossover(s, island, out, c);
    else if (x < (explore ? 0.90 : 0.50))
      made = mutate(s, island, out, c);
    else
      made = neighbour(s, island, out, c);
    if (made)
      return true;
  }
  c->parents[0] = c->parents[1] = -1;
  c->origin = EVO_ORIGIN_RANDOM;
  return neighbour(s, island, out, c) || evo_random_genome(s, r, out);
}
