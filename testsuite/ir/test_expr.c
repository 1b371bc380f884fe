// SPDX-License-Identifier: Apache-2.0
/* Symbolic expressions against plain arithmetic on random values. */
#include "lib/unit.h"

#include "ir/ir.h"
#include "random.h"
#include <ctype.h>
#include <string.h>

static const char *const names[] = {"n", "m", "k", "a.b", "(int)x"};
enum { NAMES = 5 };

/* A parser and evaluator of the texts that expressions give: + - * and parentheses over NAMES. */
struct text {
  const char *s;
  const int64_t *values;
  bool bad;
};

static int64_t parse_sum(struct text *t);

static int64_t parse_factor(struct text *t) {
  while (*t->s == ' ')
    t->s++;
  for (int i = 0; i < NAMES; i++) {
    size_t n = strlen(names[i]);
    if (strncmp(t->s, names[i], n) == 0 && !isalnum((unsigned char)t->s[n])) {
      t->s += n;
      return t->values[i];
    }
  }
  if (*t->s == '(') {
    t->s++;
    int64_t v = parse_sum(t);
    t->bad = t->bad || *t->s != ')';
    t->s++;
    return v;
  }
  if (*t->s == '-') {
    t->s++;
    return -parse_factor(t);
  }
  char *end;
  int64_t v = strtoll(t->s, &end, 10);
  t->bad = t->bad || end == t->s;
  t->s = end;
  return v;
}

static int64_t parse_product(struct text *t) {
  int64_t v = parse_factor(t);
  while (*t->s == '*') {
    t->s++;
    v *= parse_factor(t);
  }
  return v;
}

static int64_t parse_sum(struct text *t) {
  int64_t v = parse_product(t);
  for (;;) {
    while (*t->s == ' ')
      t->s++;
    if (*t->s != '+' && *t->s != '-')
      return v;
    char op = *t->s++;
    int64_t w = parse_product(t);
    v = op == '+' ? v + w : v - w;
  }
}

static int64_t evaluate_text(const char *s, const int64_t *values) {
  struct text t = {s, values, false};
  int64_t v = parse_sum(&t);
  assert_false(t.bad);
  assert_int_equal(*t.s, '\0');
  return v;
}

static int64_t evaluate_terms(const struct ir_expr *e, const int64_t *values) {
  int64_t v = e->constant;
  for (size_t i = 0; i < e->terms.n; i++)
    v += e->terms.v[i].coef * evaluate_text(e->terms.v[i].symbol, values);
  return v;
}

static void check(const struct ir_expr *e, int64_t expected, const int64_t *values) {
  assert_true(e->affine);
  assert_true(evaluate_terms(e, values) == expected);
  assert_true(evaluate_text(e->text, values) == expected);
  for (size_t i = 0; i < e->terms.n; i++) {
    assert_true(e->terms.v[i].coef != 0);
    if (i)
      assert_true(strcmp(e->terms.v[i - 1].symbol, e->terms.v[i].symbol) < 0);
  }
}

/* Builds a random expression and returns its value. */
static int64_t build(struct rnd *r, struct ir_expr *e, const int64_t *values, int depth) {
  if (depth == 0 || rnd_chance(r, 20)) {
    int i = rnd_below(r, NAMES + 2);
    if (i >= NAMES) {
      int64_t c = rnd_below(r, 13) - 6;
      ir_expr_const(e, c);
      return c;
    }
    ir_expr_symbol(e, names[i]);
    return values[i];
  }
  struct ir_expr a, b;
  ir_expr_init(&a);
  ir_expr_init(&b);
  int64_t x = build(r, &a, values, depth - 1), y = build(r, &b, values, depth - 1), v;
  int op = rnd_below(r, 3);
  if (op == 0) { /* the result may be one of the arguments */
    ir_expr_add(&a, &a, &b, 1);
    v = x + y;
  } else if (op == 1) {
    ir_expr_add(&a, &a, &b, -1);
    v = x - y;
  } else {
    ir_expr_mul(&a, &a, &b);
    v = x * y;
  }
  ir_expr_copy(e, &a);
  ir_expr_free(&a);
  ir_expr_free(&b);
  return v;
}

static void arithmetic(void **state) {
  (void)state;
  struct rnd r = {1};
  for (int i = 0; i < 4000; i++) {
    int64_t values[NAMES];
    for (int k = 0; k < NAMES; k++)
      values[k] = rnd_below(&r, 21) - 10;
    struct ir_expr e;
    ir_expr_init(&e);
    int64_t v = build(&r, &e, values, 1 + rnd_below(&r, 4));
    check(&e, v, values);
    ir_expr_free(&e);
  }
}

/* Equal polynomials are recognised however they were made: (a + b) * c - a * c - c * b == 0. */
static void differences(void **state) {
  (void)state;
  struct rnd r = {2};
  for (int i = 0; i < 1000; i++) {
    int64_t values[NAMES], d;
    for (int k = 0; k < NAMES; k++)
      values[k] = rnd_below(&r, 21) - 10;
    struct ir_expr a, b, c, x, y, z;
    struct ir_expr *all[] = {&a, &b, &c, &x, &y, &z};
    for (int k = 0; k < 6; k++)
      ir_expr_init(all[k]);
    build(&r, &a, values, 2);
    build(&r, &b, values, 2);
    build(&r, &c, values, 1);
    ir_expr_add(&x, &a, &b, 1);
    ir_expr_mul(&x, &x, &c);
    ir_expr_mul(&y, &c, &b);
    ir_expr_mul(&z, &a, &c);
    ir_expr_add(&y, &y, &z, 1);
    assert_true(ir_expr_difference(&x, &y, &d));
    assert_true(d == 0);
    ir_expr_const(&z, 7);
    ir_expr_add(&y, &y, &z, 1);
    assert_true(ir_expr_difference(&y, &x, &d));
    assert_true(d == 7);
    ir_expr_symbol(&z, "other");
    ir_expr_add(&y, &y, &z, 1);
    assert_false(ir_expr_difference(&y, &x, &d));
    for (int k = 0; k < 6; k++)
      ir_expr_free(all[k]);
  }
}

static void texts(void **state) {
  (void)state;
  struct ir_expr a, b, r;
  ir_expr_init(&a);
  ir_expr_init(&b);
  ir_expr_init(&r);
  assert_false(ir_expr_known(&r));
  ir_expr_symbol(&a, "n");
  ir_expr_const(&b, 4);
  ir_expr_mul(&r, &a, &b);
  assert_string_equal(r.text, "4*n");
  ir_expr_symbol(&b, "m / 2");
  ir_expr_mul(&r, &r, &b);
  assert_string_equal(r.text, "4*(m / 2)*n");
  ir_expr_const(&b, -16);
  ir_expr_add(&r, &r, &b, 1);
  assert_string_equal(r.text, "4*(m / 2)*n - 16");
  ir_expr_add(&r, &b, &r, -1);
  assert_string_equal(r.text, "-4*(m / 2)*n");
  ir_expr_add(&r, &a, &a, -1);
  assert_string_equal(r.text, "0");
  ir_expr_opaque(&b, "f(x) ? 1 : 2");
  ir_expr_add(&r, &a, &b, 1);
  assert_string_equal(r.text, "n + (f(x) ? 1 : 2)");
  assert_false(r.affine);
  ir_expr_opaque(&b, "");
  ir_expr_mul(&r, &a, &b);
  assert_false(ir_expr_known(&r));
  ir_expr_free(&a);
  ir_expr_free(&b);
  ir_expr_free(&r);
}

static void overflow(void **state) {
  (void)state;
  struct ir_expr a, b;
  ir_expr_init(&a);
  ir_expr_init(&b);
  ir_expr_const(&a, INT64_MAX);
  ir_expr_const(&b, 2);
  ir_expr_mul(&b, &a, &b);
  assert_false(b.affine);
  ir_expr_const(&b, 1);
  ir_expr_add(&b, &a, &b, 1);
  assert_false(b.affine);
  ir_expr_const(&a, INT64_MIN);
  assert_string_equal(a.text, "-9223372036854775808");
  ir_expr_const(&b, 0);
  ir_expr_add(&b, &b, &a, -1);
  assert_false(b.affine);
  ir_expr_free(&a);
  ir_expr_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(arithmetic), cmocka_unit_test(differences),
                                     cmocka_unit_test(texts), cmocka_unit_test(overflow)};
  return cmocka_run_group_tests_name("expressions", tests, NULL, NULL);
}
