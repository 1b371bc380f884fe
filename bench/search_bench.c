// SPDX-License-Identifier: Apache-2.0
/* How good is the search? Runs it on the synthetic landscapes of the tests and prints the tables of
 * docs/search.md: the share of the space that was evaluated, and how far the result is from the best. */
#include "agents/landscape.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 20 };

struct variant {
  const char *name;
  double explore;
  enum evo_selection selection;
  int islands;
  bool seeded, model;
};

struct result {
  double gap, share, first; /* relative to the least cost; evaluated / all; evaluations until within 2 % */
};

static struct result search_once(const struct variant *v, uint64_t seed, double budget) {
  struct landscape l = {.model = v->model};
  landscape_init(&l, seed);
  size_t legal;
  double least = landscape_enumerate(&l, &legal);
  l.asked = 0;
  struct evo_options o;
  evo_defaults(&o, seed);
  o.islands = v->islands;
  o.explore = v->explore;
  o.selection = v->selection;
  o.max_candidates = (size_t)(budget * (double)legal);
  o.generations = (int)(o.max_candidates / (size_t)(o.islands * o.population)) + 1;
  struct evo_search *s = evo_new(&l.space, &o);
  if (v->seeded) {
    static const int host[LANDSCAPE_GENES] = {0, 0, 8, 0, 0, 0};
    static const int fast_path[LANDSCAPE_GENES] = {1, 0, 8, 0, 0, 0};
    evo_seed(s, host, 0);
    evo_seed(s, fast_path, 0);
  }
  struct result r = {.first = INFINITY};
  int first;
  for (size_t n; (n = evo_ask(s, &first));)
    for (size_t i = 0; i < n; i++) {
      int serial = first + (int)i;
      double cost = landscape_cost(&l, evo_get(s, serial)->genome);
      evo_tell(s, serial, cost);
      if (cost <= 1.02 * least && l.asked < r.first)
        r.first = (double)l.asked;
    }
  r.gap = evo_get(s, evo_best(s))->score / least - 1;
  r.share = (double)l.asked / (double)legal;
  evo_free(s);
  return r;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Seeds that are within 2 %. */
static int table_row(const struct variant *v, double budget) {
  double gap[SEEDS], first[SEEDS], share = 0;
  int within = 0;
  for (int i = 0; i < SEEDS; i++) {
    struct result r = search_once(v, (uint64_t)i + 1, budget);
    gap[i] = r.gap;
    first[i] = r.first;
    share = r.share > share ? r.share : share;
    within += r.gap <= 0.02;
  }
  qsort(gap, SEEDS, sizeof *gap, by_value);
  qsort(first, SEEDS, sizeof *first, by_value);
  printf("| %s | %.1f %% | %d of %d | %.2f %% | %.2f %% | ", v->name, 100 * share, within, SEEDS,
         100 * gap[SEEDS / 2], 100 * gap[SEEDS - 1]);
  if (isfinite(first[SEEDS / 2]))
    printf("%.0f |\n", first[SEEDS / 2]);
  else
    printf("never |\n");
  return within;
}

static void header(void) {
  puts("| Variant | evaluated, at most | within 2 % | gap, median | gap, worst | evaluations until within "
       "2 %, median |\n|---|---|---|---|---|---|");
}

int main(void) {
  static const struct variant standard = {"as it is", 0.4, EVO_SELECT_BY_ISLAND, 4, true, false};
  struct landscape l = {0};
  landscape_init(&l, 1);
  size_t legal;
  landscape_enumerate(&l, &legal);
  printf("%d landscapes of %zu legal points.\n\n", SEEDS, legal);
  header();
  int within = table_row(&standard, 0.2);

  puts("\nWith a budget of 5 %:\n");
  header();
  static const struct variant variants[] = {
      {"explore, then exploit", 0.4, EVO_SELECT_BY_ISLAND, 4, true, false},
      {"single phase: explore", 1.0, EVO_SELECT_BY_ISLAND, 4, true, false},
      {"single phase: exploit", 0.0, EVO_SELECT_BY_ISLAND, 4, true, false},
      {"without the fast-path seed", 0.4, EVO_SELECT_BY_ISLAND, 4, false, false},
      {"one island", 0.4, EVO_SELECT_BY_ISLAND, 1, true, false},
      {"power law everywhere", 0.4, EVO_SELECT_POWER_LAW, 4, true, false},
      {"weighted everywhere", 0.4, EVO_SELECT_WEIGHTED, 4, true, false},
      {"beam everywhere", 0.4, EVO_SELECT_BEAM, 4, true, false},
      {"proposals ordered by a model with 15 % of error", 0.4, EVO_SELECT_BY_ISLAND, 4, true, true},
  };
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
    table_row(&variants[i], 0.05);
  return within == SEEDS ? 0 : 1;
}
