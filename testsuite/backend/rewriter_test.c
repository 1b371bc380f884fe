// SPDX-License-Identifier: Apache-2.0
/* The rewriter against a brute-force model, and the template language. */
#include "backend/rewriter.h"
#include "backend/template.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka needs the headers above first
#include <cmocka.h>

static void random_edits_match_the_model(void **state) {
  (void)state;
  srand(7);
  for (int round = 0; round < 2000; round++) {
    enum { N = 40 };
    char text[N];
    bool taken[N + 1] = {false};
    const char *put[N + 1] = {NULL};
    for (int i = 0; i < N; i++)
      text[i] = (char)(rand() % 256);
    struct rewriter rw;
    rw_init(&rw, text, N);
    for (int e = 0; e < 6; e++) {
      size_t b = (size_t)rand() % N, n = 1 + (size_t)rand() % 5;
      bool fits = b + n <= N;
      for (size_t i = b; fits && i < b + n; i++)
        fits = !taken[i];
      const char *s = rand() % 2 ? "cucocc::x" : "";
      bool done = rw_replace(&rw, b, b + n, s);
      if (!fits && done) { /* only the very same edit may come twice */
        assert_non_null(put[b]);
        assert_string_equal(put[b], s);
        continue;
      }
      assert_int_equal(done, fits);
      if (fits) {
        memset(taken + b, 1, n);
        put[b] = s;
      }
    }
    struct strbuf want = {0}, have = {0};
    for (size_t i = 0; i < N; i++) {
      if (put[i])
        sb_add(&want, put[i]);
      if (!taken[i])
        sb_addc(&want, text[i]);
    }
    rw_apply(&rw, &have);
    assert_int_equal(have.n, want.n);
    assert_memory_equal(have.s, want.s, want.n);
    sb_free(&want);
    sb_free(&have);
    rw_free(&rw);
  }
}

static void placeholders(void **state) {
  (void)state;
  const struct template_value v[] = {{"ID", "3"}, {"IDS", "many"}};
  struct strbuf b = {0};
  assert_true(template_expand("@ID@ region_@ID@: @IDS@, a@b, @ID, @id@ @@", v, 2, &b));
  assert_string_equal(b.s, "3 region_3: many, a@b, @ID, @id@ @@");
  b.n = 0;
  assert_false(template_expand("x @NEW@ y", v, 2, &b));
  sb_free(&b);
}

static void sections(void **state) {
  (void)state;
  static const char text[] = "top\n// cucocc-section: core\ncore\n// cucocc-section: a needs b c\na\n"
                             "// cucocc-section: b\nb\n// cucocc-section: c needs d\nc\n"
                             "// cucocc-section: d\nd\n// cucocc-section: e\ne\n"
                             "// cucocc-section: end\nbottom\n";
  struct strbuf b = {0};
  template_sections(text, (const char *const[]){"core", NULL}, &b);
  assert_string_equal(b.s, "top\ncore\nbottom\n");
  b.n = 0;
  template_sections(text, (const char *const[]){"core", "a", NULL}, &b);
  assert_string_equal(b.s, "top\ncore\na\nb\nc\nd\nbottom\n");
  sb_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_edits_match_the_model),
      cmocka_unit_test(placeholders),
      cmocka_unit_test(sections),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
