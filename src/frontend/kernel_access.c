// SPDX-License-Identifier: Apache-2.0
/* From recorded accesses to what one block may touch, per parameter. */
#include "frontend/kernel_access.h"
#include "frontend/kernel_internal.h"
#include <string.h>

/* ---- ranges
 * -------------------------------------------------------------------------------------- */

struct range {
  struct ka_poly coef[3], lo, hi;
};

/* Splits P into blockIdx parts and the rest; false when blockIdx occurs in another way. */
static bool split(const struct ka *k, const struct ka_poly *p, struct ka_poly coef[3],
                  struct ka_poly *rest) {
  *rest = ka_const(0);
  for (int d = 0; d < 3; d++)
    coef[d] = ka_const(0);
  for (int i = 0; i < p->n; i++) {
    struct ka_poly term = ka_const(p->m[i].c);
    int block = -1;
    for (int j = 0; j < p->m[i].n; j++) {
      int a = p->m[i].a[j], d = k->s.atoms.v[a].block;
      struct ka_poly x = ka_of(a);
      if (d >= 0 && block >= 0)
        return false;
      if (d >= 0)
        block = d;
      else
        term = ka_mul(&term, &x);
    }
    struct ka_poly *to = block >= 0 ? &coef[block] : rest;
    *to = ka_add(to, &term, 1);
    if (!to->ok)
      return false;
  }
  return true;
}

static bool same_coefs(const struct ka_poly *a, const struct ka_poly *b) {
  return ka_equal(&a[0], &b[0]) && ka_equal(&a[1], &b[1]) && ka_equal(&a[2], &b[2]);
}

/* The smaller (DIR -1) or larger (DIR 1) of A and B, when that can be proved. */
static bool extreme(struct ka *k, struct ka_poly *a, const struct ka_poly *b, int dir) {
  struct ka_poly d = ka_add(a, b, -1), minus = ka_add(b, a, -1);
  if (ka_proved(&k->s, dir > 0 ? &d : &minus))
    return true;
  if (!ka_proved(&k->s, dir > 0 ? &minus : &d))
    return false;
  *a = *b;
  return true;
}

/* Widens R by one of the ranges that LO and HI allow; the blockIdx parts must be R's. */
static bool widen(struct ka *k, struct range *r, const struct ka_bounds *lo,
                  const struct ka_bounds *hi) {
  for (int i = 0; i < lo->n; i++)
    for (int j = 0; j < hi->n; j++) {
      struct ka_poly cl[3], ch[3], l, h;
      struct range t = *r;
      if (split(k, &lo->p[i], cl, &l) && split(k, &hi->p[j], ch, &h) && same_coefs(cl, r->coef) &&
          same_coefs(ch, r->coef) && extreme(k, &t.lo, &l, -1) && extreme(k, &t.hi, &h, 1)) {
        *r = t;
        return true;
      }
    }
  return false;
}

static bool is_zero(const struct ka_poly *p) { return p->ok && p->n == 0; }

/* States what holds wherever any of the accesses is executed. */
static void common_facts(struct ka *k, int param, enum ka_mode mode) {
  struct ka_access *first = NULL;
  VEC_EACH(&k->accesses, a) {
    if (a->param != param || !(a->mode & mode))
      continue;
    if (!first) {
      first = a;
      continue;
    }
    for (int i = first->n_facts; i-- > 0;) {
      int64_t lb = -1;
      for (int j = 0; j < a->n_facts; j++)
        if (a->facts[j].atom == first->facts[i].atom)
          lb = a->facts[j].lb < first->facts[i].lb ? a->facts[j].lb : first->facts[i].lb;
      if (lb < 0)
        first->facts[i] = first->facts[--first->n_facts];
      else
        first->facts[i].lb = lb;
    }
  }
  for (int i = 0; first && i < first->n_facts; i++)
    ka_raise(&k->s, first->facts[i].atom, first->facts[i].lb);
}

/* How many of P's atoms are the launch's dimensions? Bounds without them say more. */
static int launch_atoms(const struct ka *k, const struct ka_poly *p) {
  int r = 0;
  for (int i = 0; i < p->n; i++)
    for (int j = 0; j < p->m[i].n; j++)
      for (int d = 0; d < 3; d++)
        r += p->m[i].a[j] == k->grid_dim[d] || p->m[i].a[j] == k->block_dim[d];
  return r;
}

/* The union of the accesses of PARAM in MODE, starting from each range of the first one. WHOLE:
 * ranges without blockIdx; BEST: of all that are found the one that depends least on the launch. */
static bool unite(struct ka *k, int param, enum ka_mode mode, bool whole, bool best,
                  struct range *out, bool *exact) {
  int cost = -1;
  struct ka_access *first = NULL;
  VEC_EACH(&k->accesses, a) if (a->param == param && a->mode & mode) {
    first = a;
    break;
  }
  const struct ka_bounds *lo = whole ? &first->whole_lo : &first->lo;
  const struct ka_bounds *hi = whole ? &first->whole_hi : &first->hi;
  for (int i = 0; i < lo->n; i++)
    for (int j = 0; j < hi->n; j++) {
      struct range r;
      struct ka_poly ch[3];
      if (!split(k, &lo->p[i], r.coef, &r.lo) || !split(k, &hi->p[j], ch, &r.hi) ||
          !same_coefs(r.coef, ch))
        continue;
      bool block_free = is_zero(&r.coef[0]) && is_zero(&r.coef[1]) && is_zero(&r.coef[2]);
      if (whole != block_free)
        continue;
      bool ok = true;
      VEC_EACH(&k->accesses, a)
      if (a->param == param && a->mode & mode && ok)
        ok = widen(k, &r, whole ? &a->whole_lo : &a->lo, whole ? &a->whole_hi : &a->hi);
      if (!ok)
        continue;
      if (best) {
        int c = launch_atoms(k, &r.lo) + launch_atoms(k, &r.hi);
        if (cost < 0 || c < cost)
          *out = r;
        cost = cost < 0 || c < cost ? c : cost;
        continue;
      }
      /* Exact: one access is, and covers all of it. */
      *exact = false;
      VEC_EACH(&k->accesses, a) if (a->param == param && a->mode & mode && a->exact && !whole) {
        struct ka_poly c[3], l, h;
        for (int x = 0; x < a->lo.n; x++)
          for (int y = 0; y < a->hi.n; y++)
            if (split(k, &a->lo.p[x], c, &l) && ka_equal(&l, &r.lo) &&
                split(k, &a->hi.p[y], c, &h) && ka_equal(&h, &r.hi))
              *exact = true;
      }
      *out = r;
      return true;
    }
  return cost >= 0;
}

enum { EXPRESSIONS = 7 };

/* The expressions of A. */
static void expressions(struct ir_access *a, struct ir_expr *out[EXPRESSIONS]) {
  struct ir_expr *all[EXPRESSIONS] = {&a->block_coef[0], &a->block_coef[1], &a->block_coef[2],
                                      &a->base,          &a->extent,        &a->all_base,
                                      &a->all_extent};
  memcpy(out, all, sizeof all);
}

static void reset(struct ir_access *a, enum ir_access_kind kind) {
  struct ir_expr *e[EXPRESSIONS];
  a->kind = kind;
  a->exact = false;
  expressions(a, e);
  for (int i = 0; i < EXPRESSIONS; i++) {
    ir_expr_free(e[i]);
    ir_expr_init(e[i]);
  }
}

static void fill(struct ka *k, int param, enum ka_mode mode, struct ir_access *out) {
  reset(out, IR_ACCESS_NONE);
  bool any = false;
  VEC_EACH(&k->accesses, a) any = any || (a->param == param && a->mode & mode);
  if (k->params[param].unknown || (k->hopeless && k->params[param].pointer)) {
    out->kind = IR_ACCESS_UNKNOWN;
    return;
  }
  if (!any)
    return;
  struct range r;
  bool exact = false;
  struct ka_mark m = ka_enter(&k->s);
  common_facts(k, param, mode);
  if (unite(k, param, mode, false, false, &r, &exact)) {
    out->kind = IR_ACCESS_AFFINE;
    out->exact = exact;
  } else if (unite(k, param, mode, true, false, &r, &exact)) {
    out->kind = IR_ACCESS_WHOLE;
  } else {
    out->kind = IR_ACCESS_UNKNOWN;
  }
  ka_leave(&k->s, m);
  if (out->kind == IR_ACCESS_UNKNOWN)
    return;
  struct ka_poly extent = ka_add(&r.hi, &r.lo, -1);
  for (int d = 0; d < 3; d++)
    ka_to_expr(&k->s, &r.coef[d], &out->block_coef[d]);
  ka_to_expr(&k->s, &r.lo, &out->base);
  ka_to_expr(&k->s, &extent, &out->extent);
}

/* What all blocks together may touch. After the ranges of single blocks: the work is limited. */
static void fill_all(struct ka *k, int param, enum ka_mode mode, struct ir_access *out) {
  if (out->kind != IR_ACCESS_AFFINE && out->kind != IR_ACCESS_WHOLE)
    return;
  struct range r;
  bool exact;
  struct ka_mark m = ka_enter(&k->s);
  common_facts(k, param, mode);
  bool ok = unite(k, param, mode, true, true, &r, &exact);
  ka_leave(&k->s, m);
  if (!ok)
    return;
  struct ka_poly extent = ka_add(&r.hi, &r.lo, -1);
  if (!extent.ok)
    return;
  ka_to_expr(&k->s, &r.lo, &out->all_base);
  ka_to_expr(&k->s, &extent, &out->all_extent);
}

/* ---- the kernel
 * ---------------------------------------------------------------------------------- */

static int builtin(struct ka *k, const char *name, int d, int64_t lb, bool outer) {
  char *text = xasprintf("%s.%c", name, "xyz"[d]);
  int a = ka_atom(&k->s, text, outer, true, lb);
  free(text);
  return a;
}

static void builtins(struct ka *k) {
  for (int d = 0; d < 3; d++) { /* blockIdx first: the last to be eliminated */
    k->block[d] = builtin(k, "blockIdx", d, 0, true);
    k->s.atoms.v[k->block[d]].block = d;
  }
  for (int d = 0; d < 3; d++) {
    k->block_dim[d] = builtin(k, "blockDim", d, 1, true);
    k->grid_dim[d] = builtin(k, "gridDim", d, 1, true);
  }
  for (int d = 0; d < 3; d++)
    k->thread[d] = builtin(k, "threadIdx", d, 0, false);
  for (int d = 0; d < 3; d++) {
    struct ka_poly one = ka_const(1), t = ka_of(k->thread[d]), n = ka_of(k->block_dim[d]);
    struct ka_poly c = ka_add(&n, &t, -1);
    c = ka_add(&c, &one, -1);
    VEC_PUSH(&k->s.cons) = c;
    t = ka_of(k->block[d]);
    n = ka_of(k->grid_dim[d]);
    c = ka_add(&n, &t, -1);
    c = ka_add(&c, &one, -1);
    VEC_PUSH(&k->s.cons) = c;
  }
}

static void free_param(struct ir_kernel_param *p) {
  struct ir_access *a[2] = {&p->read, &p->write};
  for (int i = 0; i < 2; i++) {
    struct ir_expr *e[EXPRESSIONS];
    expressions(a[i], e);
    for (int j = 0; j < EXPRESSIONS; j++)
      ir_expr_free(e[j]);
  }
  free(p->name);
  free(p->type);
}

static void bind_param(struct ka *k, CXCursor c, int i, const char *name) {
  CXType t = ka_type(c), to = ka_is_pointer(t) ? ka_pointee(t) : t;
  struct ka_val v = ka_none();
  if (t.kind == CXType_Pointer) {
    k->params[i].pointer = true;
    k->params[i].holder = ka_holds_pointer(to, 0) && !ka_is_dependent_type(to);
  } else if (!ka_is_integer(t) && !ka_is_dependent_type(t) && ka_holds_pointer(t, 0)) {
    k->params[i].pointer = k->params[i].holder = k->params[i].unknown = true;
  }
  if (t.kind == CXType_Pointer || ka_is_dependent_type(t)) {
    v = ka_local();
    v.b[0].param = i;
    v.b[0].dependent = t.kind != CXType_Pointer;
  } else if (ka_is_integer(t)) {
    v = ka_int(ka_of(ka_named(&k->s, name, ka_is_unsigned(t), 0)));
  }
  if (t.kind != CXType_Record)
    ka_set_var(k, fe_decl_key(c), t, v);
}

void fe_kernel_access(CXCursor definition, struct ir_program *p, ir_id kernel) {
  struct ir_kernel *out = &p->kernels.v[kernel];
  VEC_EACH(&out->params, x) free_param(x);
  VEC_FREE(&out->params);
  VEC_EACH(&out->device_globals, g) free(*g);
  VEC_FREE(&out->device_globals);

  struct ka k = {0};
  fe_list l = {0}, params = {0};
  CXCursor body = clang_getNullCursor();
  fe_children(definition, &l);
  VEC_EACH(&l, x) {
    if (clang_getCursorKind(*x) == CXCursor_ParmDecl)
      VEC_PUSH(&params) = *x;
    if (clang_getCursorKind(*x) == CXCursor_CompoundStmt)
      body = *x;
  }
  builtins(&k);
  k.n_params = (int)params.n;
  k.params = xcalloc(params.n + 1, sizeof *k.params);
  for (size_t i = 0; i < params.n; i++) {
    struct ir_kernel_param *q = &VEC_PUSH(&out->params);
    q->name = fe_spelling(params.v[i]);
    q->type = fe_type_name(clang_getCursorType(params.v[i]));
    bind_param(&k, params.v[i], (int)i, q->name);
  }
  if (clang_Cursor_isNull(body)) {
    k.hopeless = out->opaque = true;
  } else {
    /* Parameters and what their constraints say hold everywhere; the rest ends with the body. */
    struct ka_mark m = ka_enter(&k.s);
    ka_unstable_variables(&k, body);
    ka_const_casts(&k, body);
    ka_walk(&k, body);
    ka_leave(&k.s, m);
  }
  out->grid_sync = k.grid_sync;
  for (int i = 0; i < k.n_params; i++) {
    struct ir_kernel_param *q = &out->params.v[i];
    q->pointer = k.params[i].pointer || k.params[i].dependent;
    if (k.hopeless && ka_is_dependent_type(ka_type(params.v[i])))
      q->pointer = k.params[i].pointer = true;
    fill(&k, i, KA_READ, &q->read);
    fill(&k, i, KA_WRITE, &q->write);
    CXType t = ka_type(params.v[i]);
    if (t.kind == CXType_Pointer && clang_isConstQualifiedType(ka_pointee(t)) &&
        !k.params[i].holder && !k.casts_const && !out->opaque && q->write.kind == IR_ACCESS_UNKNOWN)
      reset(&q->write, IR_ACCESS_NONE); /* a pointer to const, used as one */
    VEC_EACH(&k.accesses, a) q->atomic = q->atomic || (a->param == i && a->mode == KA_ATOMIC);
  }
  for (int i = 0; i < k.n_params; i++) {
    fill_all(&k, i, KA_READ, &out->params.v[i].read);
    fill_all(&k, i, KA_WRITE, &out->params.v[i].write);
  }
  VEC_EACH(&k.globals, g) VEC_PUSH(&out->device_globals) = *g;
  VEC_FREE(&k.globals);
  VEC_FREE(&k.accesses);
  VEC_FREE(&k.env);
  VEC_FREE(&l);
  VEC_FREE(&params);
  free(k.params);
  ka_space_free(&k.s);
}
