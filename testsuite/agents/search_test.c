// SPDX-License-Identifier: Apache-2.0
/* The evolutionary search on landscapes that can be enumerated. */
#include "lib/unit.h"
#include "agents/landscape.h"
#include "support/strbuf.h"
#include <math.h>
#include <string.h>

static const int host[LANDSCAPE_GENES] = {0, 0, 8, 0, 0, 0};

static struct evo_search *start(struct landscape *l, struct evo_options *o, uint64_t seed) {
  landscape_init(l, seed);
  evo_defaults(o, seed);
  struct evo_search *s = evo_new(&l->space, o);
  assert_int_equal(evo_seed(s, host, 0), 0);
  assert_int_equal(evo_seed(s, host, 1), -1); /* the same again */
  return s;
}

/* Every candidate, in order, as text; every third seventh one fails. */
static char *history(uint64_t seed, bool failures) {
  struct landscape l = {0};
  struct evo_options o;
  struct evo_search *s = start(&l, &o, seed);
  struct strbuf b = {0};
  int first;
  for (size_t n; (n = evo_ask(s, &first));)
    for (size_t i = 0; i < n; i++) {
      const struct evo_candidate *c = evo_get(s, first + (int)i);
      sb_addf(&b, "%d %d %s %d %d:", c->generation, c->island, evo_origin_name(c->origin), c->parents[0],
              c->parents[1]);
      for (int k = 0; k < LANDSCAPE_GENES; k++)
        sb_addf(&b, " %d", c->genome[k]);
      sb_addc(&b, '\n');
      evo_tell(s, c->serial, failures && c->serial % 7 == 3 ? NAN : landscape_cost(&l, c->genome));
    }
  char *state = evo_random_state(s);
  sb_add(&b, state);
  free(state);
  evo_free(s);
  return sb_take(&b);
}

static void same_seed_same_search(void **state) {
  (void)state;
  for (int failures = 0; failures < 2; failures++) {
    char *a = history(7, failures), *b = history(7, failures), *c = history(8, failures);
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    free(a), free(b), free(c);
  }
}

static void random_numbers_are_fixed(void **state) {
  (void)state;
  struct evo_random r, q;
  evo_random_seed(&r, 1, 1);
  evo_random_seed(&q, 1, 2);
  char text[EVO_RANDOM_TEXT], other[EVO_RANDOM_TEXT];
  evo_random_text(&r, text);
  evo_random_text(&q, other);
  assert_string_not_equal(text, other);
  int seen[6] = {0};
  for (int i = 0; i < 6000; i++) {
    int x = evo_random_below(&r, 6);
    assert_in_range(x, 0, 5);
    seen[x]++;
    double u = evo_random_unit(&r);
    assert_true(u >= 0 && u < 1);
  }
  for (int i = 0; i < 6; i++)
    assert_in_range(seen[i], 850, 1150);
}

/* Legal, canonical, all different, parents that exist and are older. */
static void candidates_are_sound(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 5; seed++) {
    struct landscape l = {.model = seed % 2};
    struct evo_options o;
    struct evo_search *s = start(&l, &o, seed);
    int first;
    for (size_t n; (n = evo_ask(s, &first));) {
      assert_true(n <= (size_t)(o.islands * o.population) + 1);
      for (size_t i = 0; i < n; i++) {
        const struct evo_candidate *c = evo_get(s, first + (int)i);
        int g[LANDSCAPE_GENES];
        memcpy(g, c->genome, sizeof g);
        l.space.canonical(&l, g);
        assert_memory_equal(g, c->genome, sizeof g);
        assert_true(l.space.legal(&l, g));
        assert_in_range(c->cell, 0, l.space.cells - 1);
        for (int k = 0; k < 2; k++)
          assert_true(c->parents[k] < c->serial);
        for (int k = 0; k < c->serial; k++)
          assert_memory_not_equal(evo_get(s, k)->genome, g, sizeof g);
        evo_tell(s, c->serial, landscape_cost(&l, c->genome));
      }
    }
    assert_int_equal(evo_generation(s), o.generations);
    const struct evo_migration *list;
    assert_true(evo_migrations(s, &list) > 0);
    evo_free(s);
  }
}

static void finds_the_best(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 3; seed++) {
    struct landscape l = {0};
    landscape_init(&l, seed);
    size_t legal;
    double least = landscape_enumerate(&l, &legal);
    struct evo_options o;
    evo_defaults(&o, seed);
    o.max_candidates = legal / 5;
    o.generations = (int)(legal / 5) / 32 + 1;
    struct evo_search *s = evo_new(&l.space, &o);
    evo_seed(s, host, 0);
    l.asked = 0;
    int first;
    for (size_t n; (n = evo_ask(s, &first));)
      for (size_t i = 0; i < n; i++)
        evo_tell(s, first + (int)i, landscape_cost(&l, evo_get(s, first + (int)i)->genome));
    assert_true(l.asked <= legal / 5);
    assert_true(evo_get(s, evo_best(s))->score <= 1.02 * least);
    assert_true(evo_filled(s) > 15);
    evo_free(s);
  }
}

static void rejected_candidates_are_gone(void **state) {
  (void)state;
  struct landscape l = {0};
  struct evo_options o;
  struct evo_search *s = start(&l, &o, 3);
  int first;
  size_t n = evo_ask(s, &first);
  for (size_t i = 0; i < n; i++)
    evo_tell(s, (int)i, landscape_cost(&l, evo_get(s, (int)i)->genome));
  double last = 0;
  for (int left = (int)n; left > 0; left--) {
    int best = evo_best(s);
    assert_true(best >= 0);
    const struct evo_candidate *c = evo_get(s, best);
    assert_true(c->score >= last);
    last = c->score;
    assert_true(evo_filled(s) > 0);
    evo_reject(s, best);
    assert_int_equal(c->state, EVO_FAILED);
    assert_int_not_equal(evo_elite(s, c->cell), best);
  }
  assert_int_equal(evo_best(s), -1);
  assert_int_equal(evo_filled(s), 0);
  n = evo_ask(s, &first); /* goes on from random ones */
  assert_true(n > 0);
  evo_free(s);
}

static bool only_five(void *ctx, const int *g) {
  (void)ctx;
  return g[1] == 0 && g[2] == 0 && g[3] == 0 && g[4] == 0 && g[5] == 0 && g[0] < 5;
}

/* A space that is smaller than one generation ends the search when all of it was seen. */
static void small_space_ends(void **state) {
  (void)state;
  struct landscape l = {0};
  landscape_init(&l, 1);
  l.space.canonical = NULL;
  l.space.legal = only_five;
  struct evo_options o;
  evo_defaults(&o, 1);
  struct evo_search *s = evo_new(&l.space, &o);
  static const int zero[LANDSCAPE_GENES];
  evo_seed(s, zero, 0);
  int first, generations = 0;
  for (size_t n; (n = evo_ask(s, &first)); generations++)
    for (size_t i = 0; i < n; i++)
      evo_tell(s, first + (int)i, landscape_cost(&l, evo_get(s, first + (int)i)->genome));
  assert_int_equal(evo_count(s), 5);
  assert_true(generations < 10);
  evo_free(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_numbers_are_fixed), cmocka_unit_test(same_seed_same_search),
      cmocka_unit_test(candidates_are_sound),     cmocka_unit_test(finds_the_best),
      cmocka_unit_test(rejected_candidates_are_gone), cmocka_unit_test(small_space_ends)};
  return cmocka_run_group_tests_name("search", tests, NULL, NULL);
}
