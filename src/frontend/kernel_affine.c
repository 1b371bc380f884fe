// SPDX-License-Identifier: Apache-2.0
/* Polynomials, constraints, proofs and bounds. */
#include "frontend/kernel_affine.h"
#include <string.h>

enum {
  WORK = 3000,         /* steps of one query */
  MOST_WORK = 1000000, /* of one kernel: about half a second */
  PROOF_DEPTH = 5,
  BOUND_DEPTH = 16
};

void ka_space_free(struct ka_space *s) {
  VEC_EACH(&s->atoms, a) free(a->text);
  VEC_FREE(&s->atoms);
  VEC_FREE(&s->cons);
  VEC_FREE(&s->undo);
  VEC_FREE(&s->quots);
}

int ka_atom(struct ka_space *s, const char *text, bool outer, bool has_lb, int64_t lb) {
  VEC_PUSH(&s->atoms) = (struct ka_atom){xstrdup(text), outer, -1, has_lb, lb};
  return (int)s->atoms.n - 1;
}

int ka_named(struct ka_space *s, const char *text, bool has_lb, int64_t lb) {
  for (size_t i = 0; i < s->atoms.n; i++)
    if (s->atoms.v[i].outer && strcmp(s->atoms.v[i].text, text) == 0)
      return (int)i;
  return ka_atom(s, text, true, has_lb, lb);
}

/* ---- arithmetic
 * ---------------------------------------------------------------------------------- */

struct ka_poly ka_const(int64_t c) {
  struct ka_poly p = {.ok = true};
  if (c)
    p.m[p.n++] = (struct ka_mono){.c = c};
  return p;
}

struct ka_poly ka_of(int atom) {
  struct ka_poly p = {.ok = atom >= 0 && atom < UINT16_MAX, .n = 1};
  p.m[0] = (struct ka_mono){.c = 1, .n = 1, .a = {(uint16_t)atom}};
  return p;
}

static int compare(const struct ka_mono *a, const struct ka_mono *b) {
  if (a->n != b->n)
    return a->n < b->n ? -1 : 1;
  for (int i = 0; i < a->n; i++)
    if (a->a[i] != b->a[i])
      return a->a[i] < b->a[i] ? -1 : 1;
  return 0;
}

static void accumulate(struct ka_poly *p, const struct ka_mono *m) {
  int i = 0;
  if (!p->ok || !m->c)
    return;
  while (i < p->n && compare(&p->m[i], m) < 0)
    i++;
  if (i < p->n && compare(&p->m[i], m) == 0) {
    if (__builtin_add_overflow(p->m[i].c, m->c, &p->m[i].c))
      p->ok = false;
    else if (!p->m[i].c)
      memmove(&p->m[i], &p->m[i + 1], (size_t)(--p->n - i) * sizeof p->m[0]);
    return;
  }
  if (p->n == KA_TERMS) {
    p->ok = false;
    return;
  }
  memmove(&p->m[i + 1], &p->m[i], (size_t)(p->n++ - i) * sizeof p->m[0]);
  p->m[i] = *m;
}

struct ka_poly ka_add(const struct ka_poly *a, const struct ka_poly *b, int64_t scale) {
  struct ka_poly r = *a;
  r.ok = a->ok && b->ok;
  for (int i = 0; r.ok && i < b->n; i++) {
    struct ka_mono m = b->m[i];
    if (__builtin_mul_overflow(m.c, scale, &m.c))
      r.ok = false;
    accumulate(&r, &m);
  }
  return r;
}

static bool mono_mul(const struct ka_mono *a, const struct ka_mono *b, struct ka_mono *out) {
  if (a->n + b->n > KA_FACTORS || __builtin_mul_overflow(a->c, b->c, &out->c))
    return false;
  int i = 0, j = 0, n = 0;
  while (i < a->n || j < b->n)
    out->a[n++] = j == b->n || (i < a->n && a->a[i] <= b->a[j]) ? a->a[i++] : b->a[j++];
  out->n = (uint16_t)n;
  return true;
}

struct ka_poly ka_mul(const struct ka_poly *a, const struct ka_poly *b) {
  struct ka_poly r = {.ok = a->ok && b->ok};
  for (int i = 0; r.ok && i < a->n; i++)
    for (int j = 0; r.ok && j < b->n; j++) {
      struct ka_mono m = {0};
      if (!mono_mul(&a->m[i], &b->m[j], &m))
        r.ok = false;
      else
        accumulate(&r, &m);
    }
  return r;
}

bool ka_equal(const struct ka_poly *a, const struct ka_poly *b) {
  if (!a->ok || !b->ok || a->n != b->n)
    return false;
  for (int i = 0; i < a->n; i++)
    if (a->m[i].c != b->m[i].c || compare(&a->m[i], &b->m[i]) != 0)
      return false;
  return true;
}

bool ka_is_const(const struct ka_poly *p, int64_t *out) {
  if (!p->ok || p->n > 1 || (p->n == 1 && p->m[0].n))
    return false;
  *out = p->n ? p->m[0].c : 0;
  return true;
}

/* The quotient A / B of monomials, when B divides A. */
static bool mono_div(const struct ka_mono *a, const struct ka_mono *b, struct ka_mono *out) {
  if (b->n > a->n || a->c % b->c)
    return false;
  *out = (struct ka_mono){.c = a->c / b->c};
  int j = 0;
  for (int i = 0; i < a->n; i++) {
    if (j < b->n && a->a[i] == b->a[j])
      j++;
    else
      out->a[out->n++] = a->a[i];
  }
  return j == b->n;
}

/* ---- proofs
 * -------------------------------------------------------------------------------------- */

/* Is the product of M's atoms >= *LB >= 0? */
static bool mono_lb(const struct ka_space *s, const struct ka_mono *m, int64_t *lb) {
  *lb = 1;
  for (int i = 0; i < m->n; i++) {
    const struct ka_atom *a = &s->atoms.v[m->a[i]];
    bool square = i + 1 < m->n && m->a[i] == m->a[i + 1] && (i == 0 || m->a[i - 1] != m->a[i]);
    if (square && !a->has_lb) { /* a*a >= 0 */
      *lb = 0;
      i++;
      continue;
    }
    if (!a->has_lb || a->lb < 0 || __builtin_mul_overflow(*lb, a->lb, lb))
      return false;
  }
  return true;
}

/* Is M >= *LB? */
static bool term_lb(const struct ka_space *s, const struct ka_mono *m, int64_t *lb) {
  if (m->n == 0) {
    *lb = m->c;
    return true;
  }
  if (m->c < 0)
    return false;
  if (m->n == 1 && s->atoms.v[m->a[0]].has_lb)
    return !__builtin_mul_overflow(m->c, s->atoms.v[m->a[0]].lb, lb);
  return mono_lb(s, m, lb) && !__builtin_mul_overflow(m->c, *lb, lb);
}

static bool prove(struct ka_space *s, const struct ka_poly *p, int depth) {
  if (!p->ok || s->work-- <= 0 || s->total++ > MOST_WORK)
    return false;
  int64_t sum = 0;
  int bad = -1;
  for (int i = 0; i < p->n; i++) {
    int64_t lb;
    if (!term_lb(s, &p->m[i], &lb))
      bad = i;
    else if (__builtin_add_overflow(sum, lb, &sum))
      return false;
  }
  if (bad < 0 && sum >= 0)
    return true;
  if (depth == 0)
    return false;
  /* p = q*g + rest with q >= 0, g >= 0: then rest >= 0 is enough */
  for (size_t k = s->cons.n; k-- > 0;) {
    const struct ka_poly *g = &s->cons.v[k];
    for (int i = 0; i < p->n; i++) {
      int64_t lb;
      if (bad >= 0 && term_lb(s, &p->m[i], &lb))
        continue;
      for (int j = 0; j < g->n; j++) {
        struct ka_mono q;
        if (!g->m[j].n || !mono_div(&p->m[i], &g->m[j], &q) || q.c <= 0 || !mono_lb(s, &q, &lb))
          continue;
        struct ka_poly quotient = {.ok = true, .n = 1};
        quotient.m[0] = q;
        struct ka_poly product = ka_mul(&quotient, g), rest = ka_add(p, &product, -1);
        if (prove(s, &rest, depth - 1))
          return true;
        g = &s->cons.v[k];
      }
    }
  }
  return false;
}

bool ka_proved(struct ka_space *s, const struct ka_poly *p) {
  s->work = WORK;
  return prove(s, p, PROOF_DEPTH);
}

void ka_raise(struct ka_space *s, int atom, int64_t lb) {
  struct ka_atom *a = &s->atoms.v[atom];
  if (a->has_lb && a->lb >= lb)
    return;
  __typeof__(*s->undo.v) *u = &VEC_PUSH(&s->undo);
  u->atom = atom;
  u->has_lb = a->has_lb;
  u->lb = a->lb;
  a->has_lb = true;
  a->lb = lb;
}

static void bound_quotient(struct ka_space *s, const struct ka_quot *quot);

void ka_assume(struct ka_space *s, const struct ka_poly *p) {
  if (!p->ok || !p->n)
    return;
  const struct ka_poly copy = *p; /* P may be moved */
  p = &copy;
  VEC_EACH(&s->cons, c)
  if (ka_equal(c, p))
    return;
  VEC_PUSH(&s->cons) = copy;
  for (int i = 0; i < p->n; i++) {
    if (p->m[i].n != 1 || p->m[i].c <= 0)
      continue;
    int a = p->m[i].a[0];
    for (int64_t lb = 1; lb >= 0 && !(s->atoms.v[a].has_lb && s->atoms.v[a].lb >= lb); lb--) {
      struct ka_poly self = ka_of(a), one = ka_const(lb), e = ka_add(&self, &one, -1);
      if (ka_proved(s, &e)) {
        bool news = lb == 1 && !(s->atoms.v[a].has_lb && s->atoms.v[a].lb >= 1);
        ka_raise(s, a, lb);
        for (size_t j = 0; news && j < s->quots.n; j++)
          if (s->quots.v[j].atom == a) { /* then its numerator is positive */
            struct ka_quot q = s->quots.v[j];
            bound_quotient(s, &q);
          }
        break;
      }
    }
  }
}

struct ka_mark ka_enter(const struct ka_space *s) {
  return (struct ka_mark){s->cons.n, s->undo.n};
}

void ka_leave(struct ka_space *s, struct ka_mark m) {
  s->cons.n = m.cons;
  while (s->undo.n > m.undo) {
    s->undo.n--;
    struct ka_atom *a = &s->atoms.v[s->undo.v[s->undo.n].atom];
    a->has_lb = s->undo.v[s->undo.n].has_lb;
    a->lb = s->undo.v[s->undo.n].lb;
  }
}

/* ---- division
 * ------------------------------------------------------------------------------------ */

/* States b*q <= a < b*q + b for quotient Q; a >= 0 holds. */
static void bound_quotient(struct ka_space *s, const struct ka_quot *quot) {
  struct ka_poly q = ka_of(quot->atom), bq = ka_mul(&quot->den, &q), one = ka_const(1);
  struct ka_poly low = ka_add(&quot->num, &bq, -1), high = ka_add(&quot->den, &low, -1);
  high = ka_add(&high, &one, -1);
  if (low.ok && high.ok) {
    ka_assume(s, &low);
    ka_assume(s, &high);
  }
}

struct ka_poly ka_div(struct ka_space *s, const struct ka_poly *a, const struct ka_poly *b,
                      bool floor) {
  struct ka_poly no = {0}, one = ka_const(1), b1 = ka_add(b, &one, -1);
  int64_t ca, cb;
  if (!a->ok || !b->ok)
    return no;
  if (ka_is_const(a, &ca) && ka_is_const(b, &cb) && cb && !(ca == INT64_MIN && cb == -1))
    return ka_const(ca / cb);
  bool positive = ka_proved(s, a);
  if ((!positive && floor) || !ka_proved(s, &b1))
    return no;
  if (b->n == 1) { /* exact? */
    struct ka_poly r = {.ok = true};
    bool exact = true;
    for (int i = 0; i < a->n && exact; i++) {
      struct ka_mono q;
      exact = mono_div(&a->m[i], &b->m[0], &q);
      if (exact)
        accumulate(&r, &q);
    }
    if (exact)
      return r;
  }
  int atom = -1;
  VEC_EACH(&s->quots, q)
  if (ka_equal(&q->num, a) && ka_equal(&q->den, b))
    atom = q->atom;
  if (atom < 0) {
    bool outer = true; /* of launch values only: it has a text */
    for (int i = 0; i < a->n + b->n; i++) {
      const struct ka_mono *m = i < a->n ? &a->m[i] : &b->m[i - a->n];
      for (int j = 0; j < m->n; j++)
        outer = outer && s->atoms.v[m->a[j]].outer && s->atoms.v[m->a[j]].block < 0;
    }
    if (outer) {
      struct ir_expr x, y;
      ir_expr_init(&x);
      ir_expr_init(&y);
      ka_to_expr(s, a, &x);
      ka_to_expr(s, b, &y);
      size_t size = strlen(x.text) + strlen(y.text) + 16;
      char *text = xmalloc(size);
      snprintf(text, size, "((%s)/(%s))", x.text, y.text);
      atom = ka_atom(s, text, true, false, 0);
      free(text);
      ir_expr_free(&x);
      ir_expr_free(&y);
    } else {
      atom = ka_atom(s, "", false, false, 0);
    }
    VEC_PUSH(&s->quots) = (struct ka_quot){*a, *b, atom};
  }
  if (positive) {
    struct ka_quot q = {*a, *b, atom};
    ka_raise(s, atom, 0);
    bound_quotient(s, &q);
  }
  return ka_of(atom);
}

/* ---- bounds
 * -------------------------------------------------------------------------------------- */

/* The coefficient of ATOM in P; false when ATOM occurs with a power. */
static bool coefficient(const struct ka_poly *p, int atom, struct ka_poly *out) {
  *out = (struct ka_poly){.ok = true};
  struct ka_mono one = {.c = 1, .n = 1, .a = {(uint16_t)atom}};
  for (int i = 0; i < p->n; i++) {
    int n = 0;
    for (int j = 0; j < p->m[i].n; j++)
      n += p->m[i].a[j] == atom;
    if (n > 1)
      return false;
    struct ka_mono q;
    if (n && mono_div(&p->m[i], &one, &q))
      accumulate(out, &q);
  }
  return true;
}

/* Is bound A no better than B? Bounds that differ in blockIdx are not compared. */
static bool weaker(struct ka_space *s, const struct ka_poly *a, const struct ka_poly *b, int dir) {
  struct ka_poly d = dir > 0 ? ka_add(a, b, -1) : ka_add(b, a, -1);
  for (int t = 0; t < d.n; t++)
    for (int f = 0; f < d.m[t].n; f++)
      if (s->atoms.v[d.m[t].a[f]].block >= 0)
        return false;
  int work = s->work;
  s->work = 50;
  bool r = prove(s, &d, 3);
  s->work = work;
  return r;
}

static void add_bound(struct ka_space *s, const struct ka_poly *p, int dir, struct ka_bounds *out) {
  for (int i = 0; i < out->n; i++)
    if (weaker(s, p, &out->p[i], dir))
      return;
  int n = 0;
  for (int i = 0; i < out->n; i++)
    if (!weaker(s, &out->p[i], p, dir))
      out->p[n++] = out->p[i];
  out->n = n;
  if (n < KA_BOUNDS)
    out->p[out->n++] = *p;
}

static void search(struct ka_space *s, const struct ka_poly *p, int dir, bool no_block, int depth,
                   struct ka_bounds *out) {
  if (!p->ok || s->work-- <= 0 || s->total++ > MOST_WORK)
    return;
  int atom = -1;
  for (int i = 0; i < p->n; i++)
    for (int j = 0; j < p->m[i].n; j++) {
      int a = p->m[i].a[j];
      if ((!s->atoms.v[a].outer || (no_block && s->atoms.v[a].block >= 0)) && a > atom)
        atom = a;
    }
  if (atom < 0) {
    add_bound(s, p, dir, out);
    return;
  }
  struct ka_poly c;
  if (depth == 0 || !coefficient(p, atom, &c))
    return;
  /* The constraints, and the atom's own lower bound as the last one. */
  for (size_t k = s->cons.n + 1; k-- > 0;) {
    struct ka_poly g;
    if (k == s->cons.n) {
      if (!s->atoms.v[atom].has_lb)
        continue;
      struct ka_poly self = ka_of(atom), lb = ka_const(s->atoms.v[atom].lb);
      g = ka_add(&self, &lb, -1);
    } else {
      g = s->cons.v[k];
    }
    struct ka_poly cg, q = {.ok = true};
    if (!coefficient(&g, atom, &cg) || cg.n != 1)
      continue;
    /* p <= p + q*g for q >= 0 (p >= p - q*g): choose q so that the atom goes. */
    bool exact = true;
    for (int i = 0; i < c.n && exact; i++) {
      struct ka_mono m;
      exact = mono_div(&c.m[i], &cg.m[0], &m);
      if (exact) {
        m.c *= -dir;
        accumulate(&q, &m);
      }
    }
    int work = s->work;
    if (!exact || !q.ok || !prove(s, &q, 3)) {
      s->work = work - 1;
      continue;
    }
    struct ka_poly qg = ka_mul(&q, &g), next = ka_add(p, &qg, dir);
    search(s, &next, dir, no_block, depth - 1, out);
  }
}

/* Simple ones first: they are the ones that people and other analyses understand. */
static int complexity(const struct ka_poly *p) {
  int n = p->n;
  for (int i = 0; i < p->n; i++)
    n += p->m[i].n;
  return n;
}

static int by_complexity(const void *a, const void *b) { return complexity(a) - complexity(b); }

void ka_bound(struct ka_space *s, const struct ka_poly *p, int dir, bool no_block,
              struct ka_bounds *out) {
  out->n = 0;
  /* Short derivations first: they give the simplest bounds, and long ones may use up the work. */
  for (int depth = 2; depth <= BOUND_DEPTH; depth += depth) {
    s->work = WORK / 4;
    search(s, p, dir, no_block, depth, out);
  }
  qsort(out->p, (size_t)out->n, sizeof out->p[0], by_complexity);
}

void ka_to_expr(const struct ka_space *s, const struct ka_poly *p, struct ir_expr *e) {
  ir_expr_const(e, 0);
  for (int i = 0; i < p->n; i++) {
    struct ir_expr t, a;
    ir_expr_init(&t);
    ir_expr_init(&a);
    ir_expr_const(&t, p->m[i].c);
    for (int j = 0; j < p->m[i].n; j++) {
      ir_expr_symbol(&a, s->atoms.v[p->m[i].a[j]].text);
      ir_expr_mul(&t, &t, &a);
    }
    ir_expr_add(e, e, &t, 1);
    ir_expr_free(&t);
    ir_expr_free(&a);
  }
}
