// SPDX-License-Identifier: Apache-2.0
#include "agents/landscape.h"
#include <math.h>

/* placement, sync, chunk, ctas, depth, vector */
static const int sizes[LANDSCAPE_GENES] = {6, 3, 9, 10, 4, 3};
static const int group[LANDSCAPE_GENES];
static const bool ordered[LANDSCAPE_GENES] = {false, false, true, true, true, true};
static const bool structural[LANDSCAPE_GENES] = {true};

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
  return x ^ (x >> 31);
}

static double noise(uint64_t seed, uint64_t a) {
  return (double)(mix(mix(seed + a * UINT64_C(0x9E3779B97F4A7C15)) + a) >> 11) * 0x1p-53;
}

static uint64_t key(const int *g) {
  uint64_t k = 0;
  for (int i = 0; i < LANDSCAPE_GENES; i++)
    k = k * 16 + (uint64_t)g[i];
  return k;
}

/* Placement 0 is "left as it is"; 1 has neither chunks nor depth; 2 has no depth. */
static void canonical(void *ctx, int *g) {
  (void)ctx;
  if (g[0] == 0)
    g[1] = g[3] = g[5] = 0;
  if (g[0] <= 1)
    g[2] = 8;
  if (g[0] <= 2)
    g[4] = 0;
}

static bool legal(void *ctx, const int *g) {
  (void)ctx;
  return !(g[0] <= 1 && g[1] == 2) && !(g[0] == 5 && g[1] == 0) && !(g[0] == 4 && g[2] > 6) &&
         !(g[0] == 3 && g[3] == 0) && !(g[0] == 5 && g[4] == 0);
}

static int cell(void *ctx, const int *g) {
  (void)ctx;
  return g[0] * 9 + g[2] / 3 * 3 + g[3] / 4;
}

double landscape_cost(struct landscape *l, const int *g) {
  static const double level[] = {100, 88, 80, 70, 74, 78};
  l->asked++;
  uint64_t p = (uint64_t)g[0];
  double cost = level[p];
  if (g[0] == 0)
    return cost;
  double chunk = 1 + 6 * noise(l->seed, 100 + p), ctas = 1 + 8 * noise(l->seed, 200 + p);
  double gain = p == 5 ? 34 : p == 4 ? 18 : 8; /* the deceptive one has the widest valley, not the deepest */
  double narrow = p == 5 ? 1.5 : 3.5;
  double d = ((double)g[2] - chunk) / narrow, e = ((double)g[3] - ctas) / narrow;
  cost -= gain / (1 + d * d + e * e);
  cost += g[4] == 1 ? 0 : 2.0 * (g[4] == 0 ? 2 : g[4] - 1) * (g[0] > 2);
  cost += 3.0 * g[5] + 2.5 * (g[1] != (int)(3 * noise(l->seed, 300 + p)));
  return cost + 1.5 * noise(l->seed, 1000 + key(g));
}

static double predict(void *ctx, const int *g) {
  struct landscape *l = ctx;
  double cost = landscape_cost(l, g);
  l->asked--;
  return cost * (0.85 + 0.3 * noise(l->seed + 7, key(g)));
}

void landscape_init(struct landscape *l, uint64_t seed) {
  *l = (struct landscape){.seed = mix(seed + 1), .model = l->model};
  l->space = (struct evo_space){.genes = LANDSCAPE_GENES,
                                .groups = 1,
                                .cells = 6 * 9,
                                .sizes = sizes,
                                .group = group,
                                .ordered = ordered,
                                .structural = structural,
                                .ctx = l,
                                .canonical = canonical,
                                .legal = legal,
                                .predict = l->model ? predict : NULL,
                                .cell = cell};
}

double landscape_enumerate(struct landscape *l, size_t *n) {
  int g[LANDSCAPE_GENES] = {0}, h[LANDSCAPE_GENES];
  double least = INFINITY;
  *n = 0;
  for (;;) {
    for (int i = 0; i < LANDSCAPE_GENES; i++)
      h[i] = g[i];
    canonical(l, h);
    bool same = true;
    for (int i = 0; i < LANDSCAPE_GENES; i++)
      same &= h[i] == g[i];
    if (same && legal(l, g)) {
      double cost = landscape_cost(l, g);
      least = cost < least ? cost : least;
      ++*n;
    }
    int k = 0;
    while (k < LANDSCAPE_GENES && ++g[k] == sizes[k])
      g[k++] = 0;
    if (k == LANDSCAPE_GENES)
      return least;
  }
}
