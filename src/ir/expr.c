// SPDX-License-Identifier: Apache-2.0
/* Symbolic integer expressions: sums of products, kept sorted so that equal values look equal. */
#include "ir/ir.h"
#include "support/strbuf.h"
#include <ctype.h>
#include <string.h>

void ir_expr_init(struct ir_expr *e) {
  *e = (struct ir_expr){0};
  e->text = xstrdup("");
}

static void free_terms(struct ir_expr *e) {
  VEC_EACH(&e->terms, t) free(t->symbol);
  VEC_FREE(&e->terms);
}

void ir_expr_free(struct ir_expr *e) {
  free(e->text);
  free_terms(e);
  *e = (struct ir_expr){0};
}

bool ir_expr_known(const struct ir_expr *e) { return e->text && e->text[0]; }

/* Steals SRC into DST, which is initialised. */
static void move(struct ir_expr *dst, struct ir_expr *src) {
  ir_expr_free(dst);
  *dst = *src;
}

static void push_term(struct ir_expr *e, const char *symbol, int64_t coef) {
  VEC_PUSH(&e->terms) = (struct ir_term){xstrdup(symbol), coef};
}

void ir_expr_const(struct ir_expr *e, int64_t value) {
  struct ir_expr r = {
      .text = xasprintf("%lld", (long long)value), .affine = true, .constant = value};
  move(e, &r);
}

void ir_expr_symbol(struct ir_expr *e, const char *symbol) {
  struct ir_expr r = {.text = xstrdup(symbol), .affine = true};
  push_term(&r, symbol, 1);
  move(e, &r);
}

void ir_expr_opaque(struct ir_expr *e, const char *text) {
  struct ir_expr r = {.text = xstrdup(text)};
  move(e, &r);
}

void ir_expr_copy(struct ir_expr *dst, const struct ir_expr *src) {
  if (dst == src)
    return;
  struct ir_expr r = {.text = xstrdup(src->text ? src->text : ""),
                      .affine = src->affine,
                      .constant = src->constant};
  for (size_t i = 0; i < src->terms.n; i++)
    push_term(&r, src->terms.v[i].symbol, src->terms.v[i].coef);
  move(dst, &r);
}

/* ---- spelling ------------------------------------------------------------------------------- */

/* The end of the primary expression (name, member, call, subscript, parenthesis) that starts at S,
 * or NULL when S does not start one. */
static const char *primary_end(const char *s) {
  const char *start = s;
  while (*s) {
    if (isalnum((unsigned char)*s) || *s == '_' || *s == '.') {
      s++;
    } else if (s > start && ((s[0] == '-' && s[1] == '>') || (s[0] == ':' && s[1] == ':'))) {
      s += 2;
    } else if (*s == '(' || *s == '[') {
      int depth = 0;
      do {
        if (*s == '(' || *s == '[')
          depth++;
        else if (*s == ')' || *s == ']')
          depth--;
        else if (*s == '\0' || *s == '"' || *s == '\'')
          return NULL;
        s++;
      } while (depth);
    } else {
      break;
    }
  }
  return s > start ? s : NULL;
}

typedef VEC(char *) strings;

static void free_strings(strings *l) {
  VEC_EACH(l, s) free(*s);
  VEC_FREE(l);
}

/* Splits SYMBOL into factors: a*b*c, or the whole of it (in parentheses when needed). */
static void factors(const char *symbol, strings *out) {
  size_t before = out->n;
  for (const char *s = symbol;;) {
    while (*s == ' ')
      s++;
    const char *e = primary_end(s);
    if (!e)
      break;
    VEC_PUSH(out) = xstrndup(s, (size_t)(e - s));
    for (s = e; *s == ' ';)
      s++;
    if (!*s)
      return;
    if (*s++ != '*')
      break;
  }
  while (out->n > before)
    free(out->v[--out->n]);
  VEC_PUSH(out) = xasprintf("(%s)", symbol);
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A symbol for A * B, the same whatever the order and grouping. */
static char *product_symbol(const char *a, const char *b) {
  strings l = {0};
  struct strbuf s = {0};
  factors(a, &l);
  factors(b, &l);
  qsort(l.v, l.n, sizeof *l.v, by_text);
  for (size_t i = 0; i < l.n; i++) {
    sb_add(&s, i ? "*" : "");
    sb_add(&s, l.v[i]);
  }
  free_strings(&l);
  return sb_take(&s);
}

/* Is S a product of primaries, so that it needs no parentheses as a factor or a summand? */
static bool is_product(const char *s) {
  strings l = {0};
  factors(s, &l);
  bool r = l.n > 1 || (l.n == 1 && strcmp(l.v[0], s) == 0);
  free_strings(&l);
  return r;
}

static void add_factor(struct strbuf *b, const char *s) {
  if (is_product(s))
    sb_add(b, s);
  else
    sb_addf(b, "(%s)", s);
}

static void add_term(struct strbuf *b, const struct ir_term *t) {
  uint64_t size = t->coef < 0 ? 0 - (uint64_t)t->coef : (uint64_t)t->coef;
  if (b->n)
    sb_add(b, t->coef < 0 ? " - " : " + ");
  else if (t->coef < 0)
    sb_add(b, "-");
  if (size != 1)
    sb_addf(b, "%llu*", (unsigned long long)size);
  add_factor(b, t->symbol);
}

/* Writes the text of an affine expression: positive terms, negative terms, constant. */
static void spell(struct ir_expr *e) {
  struct strbuf b = {0};
  for (int sign = 1; sign >= -1; sign -= 2)
    VEC_EACH(&e->terms, t)
  if ((t->coef > 0) == (sign > 0))
    add_term(&b, t);
  if (!e->terms.n)
    sb_addf(&b, "%lld", (long long)e->constant);
  else if (e->constant)
    sb_addf(
        &b, " %c %llu", e->constant < 0 ? '-' : '+',
        (unsigned long long)(e->constant < 0 ? 0 - (uint64_t)e->constant : (uint64_t)e->constant));
  free(e->text);
  e->text = sb_take(&b);
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

/* e += coef * symbol; false on overflow. */
static bool accumulate(struct ir_expr *e, const char *symbol, int64_t coef) {
  size_t i = 0;
  while (i < e->terms.n && strcmp(e->terms.v[i].symbol, symbol) < 0)
    i++;
  if (i < e->terms.n && strcmp(e->terms.v[i].symbol, symbol) == 0) {
    struct ir_term *t = &e->terms.v[i];
    if (__builtin_add_overflow(t->coef, coef, &t->coef))
      return false;
    if (t->coef == 0) {
      free(t->symbol);
      memmove(t, t + 1, (e->terms.n - i - 1) * sizeof *t);
      e->terms.n--;
    }
    return true;
  }
  if (coef == 0)
    return true;
  push_term(e, symbol, coef);
  struct ir_term last = e->terms.v[e->terms.n - 1];
  memmove(&e->terms.v[i + 1], &e->terms.v[i], (e->terms.n - 1 - i) * sizeof last);
  e->terms.v[i] = last;
  return true;
}

static bool sum(struct ir_expr *r, const struct ir_expr *a, int64_t scale) {
  int64_t v;
  if (__builtin_mul_overflow(a->constant, scale, &v) ||
      __builtin_add_overflow(r->constant, v, &r->constant))
    return false;
  for (size_t i = 0; i < a->terms.n; i++)
    if (__builtin_mul_overflow(a->terms.v[i].coef, scale, &v) ||
        !accumulate(r, a->terms.v[i].symbol, v))
      return false;
  return true;
}

/* DST = "(a) op (b)" as a text only; unknown when one of them is. */
static void opaque_binary(struct ir_expr *dst, const struct ir_expr *a, const struct ir_expr *b,
                          const char *op) {
  struct ir_expr r = {0};
  if (ir_expr_known(a) && ir_expr_known(b)) {
    struct strbuf s = {0};
    add_factor(&s, a->text);
    sb_add(&s, op);
    add_factor(&s, b->text);
    r.text = sb_take(&s);
  } else {
    r.text = xstrdup("");
  }
  move(dst, &r);
}

void ir_expr_add(struct ir_expr *dst, const struct ir_expr *a, const struct ir_expr *b, int sign) {
  struct ir_expr r = {.affine = true};
  if (a->affine && b->affine && sum(&r, a, 1) && sum(&r, b, sign < 0 ? -1 : 1)) {
    spell(&r);
    move(dst, &r);
    return;
  }
  ir_expr_free(&r);
  if (b->affine && !b->terms.n && !b->constant)
    ir_expr_copy(dst, a);
  else if (a->affine && !a->terms.n && !a->constant && sign >= 0)
    ir_expr_copy(dst, b);
  else
    opaque_binary(dst, a, b, sign < 0 ? " - " : " + ");
}

static bool multiply(struct ir_expr *r, const struct ir_expr *a, const struct ir_expr *b) {
  if (!sum(r, b, a->constant))
    return false;
  for (size_t i = 0; i < a->terms.n; i++) {
    const struct ir_term *t = &a->terms.v[i];
    int64_t v;
    if (__builtin_mul_overflow(t->coef, b->constant, &v) || !accumulate(r, t->symbol, v))
      return false;
    for (size_t j = 0; j < b->terms.n; j++) {
      char *s = product_symbol(t->symbol, b->terms.v[j].symbol);
      bool ok = !__builtin_mul_overflow(t->coef, b->terms.v[j].coef, &v) && accumulate(r, s, v);
      free(s);
      if (!ok)
        return false;
    }
  }
  return true;
}

void ir_expr_mul(struct ir_expr *dst, const struct ir_expr *a, const struct ir_expr *b) {
  enum { MOST_TERMS = 64 }; /* products of long sums are not worth their size */
  struct ir_expr r = {.affine = true};
  if (a->affine && b->affine && a->terms.n * b->terms.n <= MOST_TERMS && multiply(&r, a, b)) {
    spell(&r);
    move(dst, &r);
    return;
  }
  ir_expr_free(&r);
  if (a->affine && !a->terms.n && a->constant == 1)
    ir_expr_copy(dst, b);
  else if (b->affine && !b->terms.n && b->constant == 1)
    ir_expr_copy(dst, a);
  else
    opaque_binary(dst, a, b, "*");
}

bool ir_expr_difference(const struct ir_expr *a, const struct ir_expr *b, int64_t *out) {
  if (!a->affine || !b->affine || a->terms.n != b->terms.n)
    return false;
  for (size_t i = 0; i < a->terms.n; i++)
    if (a->terms.v[i].coef != b->terms.v[i].coef ||
        strcmp(a->terms.v[i].symbol, b->terms.v[i].symbol) != 0)
      return false;
  return !__builtin_sub_overflow(a->constant, b->constant, out);
}
