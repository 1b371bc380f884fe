// SPDX-License-Identifier: Apache-2.0
#include "agents/evolve/search_internal.h"
#include "support/strbuf.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

void evo_defaults(struct evo_options *o, uint64_t seed) {
  *o = (struct evo_options){.seed = seed,
                            .islands = 4,
                            .population = 8,
                            .generations = 20,
                            .explore = 0.4,
                            .migration = 4,
                            .oversample = 4,
                            .selection = EVO_SELECT_BY_ISLAND};
}

struct evo_search *evo_new(const struct evo_space *space, const struct evo_options *options) {
  struct evo_search *s = xcalloc(1, sizeof *s);
  s->space = space;
  s->o = *options;
  s->generation = -1;
  s->explore_until = (int)ceil(options->explore * options->generations);
  s->islands = xcalloc((size_t)options->islands, sizeof *s->islands);
  for (int i = 0; i < options->islands; i++) {
    evo_random_seed(&s->islands[i].random, options->seed, (uint64_t)i + 1);
    s->islands[i].selection = options->selection == EVO_SELECT_BY_ISLAND
                                  ? (enum evo_selection)(i % (int)EVO_SELECT_BY_ISLAND)
                                  : options->selection;
  }
  s->elite = xmalloc((size_t)space->cells * sizeof *s->elite);
  for (int i = 0; i < space->cells; i++)
    s->elite[i] = -1;
  s->seen_size = 256;
  s->seen = xcalloc(s->seen_size, sizeof *s->seen);
  return s;
}

void evo_free(struct evo_search *s) {
  if (!s)
    return;
  VEC_EACH(&s->candidates, c) {
    free((*c)->genome);
    free(*c);
  }
  VEC_FREE(&s->candidates);
  VEC_FREE(&s->migrations);
  for (int i = 0; i < s->o.islands; i++)
    VEC_FREE(&s->islands[i].members);
  free(s->islands);
  free(s->elite);
  free(s->seen);
  free(s);
}

/* ---- what was tried ------------------------------------------------------------------------------ */

static size_t slot_of(const struct evo_search *s, const int *genome) {
  uint64_t h = UINT64_C(0xCBF29CE484222325);
  for (int i = 0; i < s->space->genes; i++)
    h = (h ^ (uint64_t)(unsigned)genome[i]) * UINT64_C(0x100000001B3);
  size_t i = (size_t)(h ^ (h >> 32)) & (s->seen_size - 1);
  while (s->seen[i] && memcmp(s->candidates.v[s->seen[i] - 1]->genome, genome,
                              (size_t)s->space->genes * sizeof *genome) != 0)
    i = (i + 1) & (s->seen_size - 1);
  return i;
}

int evo_find(const struct evo_search *s, const int *genome) {
  return s->seen[slot_of(s, genome)] - 1;
}

static void remember(struct evo_search *s, int serial) {
  if (2 * (s->candidates.n + 1) > s->seen_size) {
    free(s->seen);
    s->seen_size *= 2;
    s->seen = xcalloc(s->seen_size, sizeof *s->seen);
    for (int i = 0; i < serial; i++)
      s->seen[slot_of(s, s->candidates.v[i]->genome)] = i + 1;
  }
  s->seen[slot_of(s, s->candidates.v[serial]->genome)] = serial + 1;
}

static int add(struct evo_search *s, const int *genome, const struct evo_candidate *like, int island) {
  size_t size = (size_t)s->space->genes * sizeof *genome;
  struct evo_candidate *c = xmalloc(sizeof *c);
  *c = *like;
  c->serial = (int)s->candidates.n;
  c->generation = s->generation < 0 ? 0 : s->generation;
  c->island = island;
  c->genome = xmalloc(size ? size : 1);
  memcpy(c->genome, genome, size);
  c->cell = s->space->cell(s->space->ctx, genome);
  c->children = 0;
  c->state = EVO_PROPOSED;
  c->predicted = s->space->predict ? s->space->predict(s->space->ctx, genome) : NAN;
  c->score = NAN;
  for (int i = 0; i < 2; i++)
    if (c->parents[i] >= 0)
      s->candidates.v[c->parents[i]]->children++;
  VEC_PUSH(&s->candidates) = c;
  remember(s, c->serial);
  return c->serial;
}

int evo_seed(struct evo_search *s, const int *genome, int island) {
  struct evo_candidate like = {.origin = EVO_ORIGIN_SEED, .parents = {-1, -1}};
  return evo_find(s, genome) >= 0 ? -1 : add(s, genome, &like, island % s->o.islands);
}

/* ---- scores -------------------------------------------------------------------------------------- */

bool evo_better(const struct evo_search *s, int a, int b) {
  double x = s->candidates.v[a]->score, y = s->candidates.v[b]->score;
  return x < y || (x == y && a < b);
}

static bool is_member(const struct island *is, int serial) {
  VEC_EACH(&is->members, m) if (*m == serial) return true;
  return false;
}

static void join(struct evo_search *s, struct island *is, int serial) {
  size_t most = (size_t)s->o.population * 2;
  if (is_member(is, serial))
    return;
  VEC_PUSH(&is->members) = serial;
  for (size_t i = is->members.n - 1; i > 0 && evo_better(s, serial, is->members.v[i - 1]); i--) {
    is->members.v[i] = is->members.v[i - 1];
    is->members.v[i - 1] = serial;
  }
  if (is->members.n > most)
    is->members.n = most;
}

void evo_tell(struct evo_search *s, int serial, double score) {
  struct evo_candidate *c = s->candidates.v[serial];
  if (!isfinite(score)) {
    c->state = EVO_FAILED;
    return;
  }
  c->state = EVO_SCORED;
  c->score = score;
  join(s, &s->islands[c->island], serial);
  int *elite = &s->elite[c->cell];
  s->filled += *elite < 0;
  if (*elite < 0 || evo_better(s, serial, *elite))
    *elite = serial;
}

void evo_reject(struct evo_search *s, int serial) {
  struct evo_candidate *c = s->candidates.v[serial];
  c->state = EVO_FAILED;
  for (int i = 0; i < s->o.islands; i++) {
    struct island *is = &s->islands[i];
    for (size_t k = 0; k < is->members.n; k++)
      if (is->members.v[k] == serial) {
        memmove(&is->members.v[k], &is->members.v[k + 1],
                (is->members.n - k - 1) * sizeof *is->members.v);
        is->members.n--;
        break;
      }
  }
  if (s->elite[c->cell] != serial)
    return;
  int best = -1;
  VEC_EACH(&s->candidates, other)
    if ((*other)->state == EVO_SCORED && (*other)->cell == c->cell &&
        (best < 0 || evo_better(s, (*other)->serial, best)))
      best = (*other)->serial;
  s->elite[c->cell] = best;
  s->filled -= best < 0;
}

/* ---- generations --------------------------------------------------------------------------------- */

/* The best of every island also joins the next one. */
static void migrate(struct evo_search *s) {
  int n = s->o.islands;
  int *best = xmalloc((size_t)n * sizeof *best);
  for (int i = 0; i < n; i++)
    best[i] = s->islands[i].members.n ? s->islands[i].members.v[0] : -1;
  for (int i = 0; i < n && n > 1; i++) {
    struct island *to = &s->islands[(i + 1) % n];
    if (best[i] < 0 || is_member(to, best[i]))
      continue;
    join(s, to, best[i]);
    VEC_PUSH(&s->migrations) =
        (struct evo_migration){s->generation, i, (i + 1) % n, best[i]};
  }
  free(best);
}

static bool full(const struct evo_search *s) {
  return s->o.max_candidates && s->candidates.n >= s->o.max_candidates;
}

/* One new candidate of ISLAND: the one that the model likes best out of a few, or now and then any. */
static bool grow(struct evo_search *s, int island) {
  const struct evo_space *sp = s->space;
  struct evo_random *r = &s->islands[island].random;
  size_t size = (size_t)sp->genes * sizeof(int);
  int *genome = xmalloc(size + 1), *best = xmalloc(size + 1);
  struct evo_candidate like = {0}, chosen = {0};
  double least = INFINITY;
  bool any = false;
  int tries = sp->predict && !evo_random_chance(r, 0.2) ? s->o.oversample : 1;
  for (int i = 0; i < tries; i++) {
    if (!evo_propose(s, island, genome, &like))
      continue;
    double x = tries > 1 ? sp->predict(sp->ctx, genome) : 0;
    if (any && !(x < least))
      continue;
    any = true;
    least = x;
    chosen = like;
    memcpy(best, genome, size);
  }
  if (any)
    add(s, best, &chosen, island);
  free(genome);
  free(best);
  return any;
}

/* Random candidates beside the seeds. */
static void first_generation(struct evo_search *s) {
  int *genome = xmalloc((size_t)s->space->genes * sizeof *genome + 1);
  struct evo_candidate like = {.origin = EVO_ORIGIN_RANDOM, .parents = {-1, -1}};
  for (int i = 0; i < s->o.islands; i++) {
    int have = 0;
    VEC_EACH(&s->candidates, c) have += (*c)->island == i;
    while (have < s->o.population && !full(s) &&
           evo_random_genome(s, &s->islands[i].random, genome)) {
      add(s, genome, &like, i);
      have++;
    }
  }
  free(genome);
}

size_t evo_ask(struct evo_search *s, int *first) {
  if (s->over)
    return 0;
  s->generation++;
  *first = s->generation == 0 ? 0 : (int)s->candidates.n;
  if (s->generation == 0) {
    first_generation(s);
  } else if (s->generation < s->o.generations) {
    if (s->o.migration && s->generation % s->o.migration == 0)
      migrate(s);
    for (int i = 0; i < s->o.islands; i++)
      for (int k = 0; k < s->o.population && !full(s); k++)
        if (!grow(s, i))
          break;
  }
  size_t n = s->candidates.n - (size_t)*first;
  s->over = n == 0;
  return n;
}

/* ---- questions ----------------------------------------------------------------------------------- */

int evo_generation(const struct evo_search *s) { return s->generation; }
bool evo_exploring(const struct evo_search *s) { return s->generation < s->explore_until; }
size_t evo_count(const struct evo_search *s) { return s->candidates.n; }
const struct evo_candidate *evo_get(const struct evo_search *s, int serial) {
  return s->candidates.v[serial];
}
int evo_elite(const struct evo_search *s, int cell) { return s->elite[cell]; }
int evo_filled(const struct evo_search *s) { return s->filled; }

int evo_best(const struct evo_search *s) {
  int best = -1;
  for (int i = 0; i < s->space->cells; i++)
    if (s->elite[i] >= 0 && (best < 0 || evo_better(s, s->elite[i], best)))
      best = s->elite[i];
  return best;
}

size_t evo_migrations(const struct evo_search *s, const struct evo_migration **list) {
  *list = s->migrations.v;
  return s->migrations.n;
}

char *evo_random_state(const struct evo_search *s) {
  struct strbuf b = {0};
  for (int i = 0; i < s->o.islands; i++) {
    char text[EVO_RANDOM_TEXT];
    evo_random_text(&s->islands[i].random, text);
    sb_addf(&b, "%s%s", i ? " " : "", text);
  }
  return sb_take(&b);
}

const char *evo_origin_name(enum evo_origin o) {
  static const char *const names[] = {"seed", "random", "mutation", "neighbour", "crossover"};
  return names[o];
}
