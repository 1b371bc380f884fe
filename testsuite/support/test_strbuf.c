// SPDX-License-Identifier: Apache-2.0
#include "lib/unit.h"
#include "support/strbuf.h"
#include "support/vec.h"
#include <stdlib.h>
#include <string.h>

static void appends_in_random_pieces(void **state) {
  (void)state;
  srand(7);
  for (int round = 0; round < 50; round++) {
    struct strbuf b = {0};
    char model[4096];
    size_t n = 0;
    while (n < 3000) {
      size_t k = (size_t)rand() % 90;
      for (size_t i = 0; i < k; i++)
        model[n + i] = (char)rand(); /* NUL bytes too */
      sb_addn(&b, model + n, k);
      n += k;
      assert_int_equal(b.n, n);
      assert_int_equal(b.s[n], 0);
    }
    assert_memory_equal(b.s, model, n);
    sb_free(&b);
    assert_null(b.s);
  }
}

static void formats(void **state) {
  (void)state;
  struct strbuf b = {0};
  sb_addf(&b, "%d", 12);
  sb_addc(&b, '-');
  sb_addf(&b, "%0300d", 7);
  sb_add(&b, "end");
  assert_int_equal(b.n, 2 + 1 + 300 + 3);
  assert_string_equal(b.s + b.n - 4, "7end");
  char *s = sb_take(&b);
  assert_null(b.s);
  assert_int_equal(strlen(s), 306);
  free(s);
  s = sb_take(&b);
  assert_string_equal(s, "");
  free(s);
  s = xasprintf("%s/%s", "a", "b");
  assert_string_equal(s, "a/b");
  free(s);
}

static void vector_grows_and_zeroes(void **state) {
  (void)state;
  VEC(struct { int a; char *b; }) v = {0};
  for (int i = 0; i < 1000; i++) {
    __typeof__(v.v) e = &VEC_PUSH(&v);
    assert_int_equal(e->a, 0);
    assert_null(e->b);
    e->a = i;
    e->b = (char *)"poison";
  }
  int sum = 0;
  VEC_EACH(&v, e)
    sum += e->a;
  assert_int_equal(sum, 999 * 1000 / 2);
  VEC_FREE(&v);
  assert_int_equal(v.n, 0);
  VEC_EACH(&v, none)
    fail_msg("an empty vector has an element %p", (void *)none);
}

static void copies(void **state) {
  (void)state;
  char *s = xstrndup("abc", 2);
  assert_string_equal(s, "ab");
  free(s);
  s = xstrndup("abc", 9);
  assert_string_equal(s, "abc");
  free(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(appends_in_random_pieces),
      cmocka_unit_test(formats),
      cmocka_unit_test(vector_grows_and_zeroes),
      cmocka_unit_test(copies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
