// SPDX-License-Identifier: Apache-2.0
/* Which values may differ between ranks.
 *
 * A flow-insensitive taint over variables and fields: sources are ranks, device numbers, host
 * names, received or device data and results of functions that are not known; taint follows
 * assignments, arguments, results and control dependence. What is not tainted is the same on every
 * rank, given that every rank is started with the same arguments. */
#include "frontend/internal.h"
#include "support/strbuf.h"
#include <string.h>

static void flow(struct fe *f, fe_key dst, fe_key src) {
  if (dst && src && dst != src)
    VEC_PUSH(&f->flows) = (struct fe_flow){dst, src};
}

static const struct fe_taint *tainted(struct fe *f, fe_key key) {
  VEC_EACH(&f->taints, t)
  if (t->key == key)
    return t;
  return NULL;
}

static void taint(struct fe *f, fe_key key, const char *why) {
  if (key && !tainted(f, key))
    VEC_PUSH(&f->taints) = (struct fe_taint){key, xstrdup(why)};
}

/* The key of a function's result. */
static fe_key result_key(CXCursor function) { return fe_mix(fe_decl_key(function), 'r'); }

typedef VEC(fe_key) fe_keys;

/* Collects the variables that C reads; WHY gets a reason when C itself is a source. */
static void reads(struct fe *f, CXCursor c, fe_keys *keys, char **why) {
  switch (clang_getCursorKind(c)) {
  case CXCursor_DeclRefExpr: {
    CXCursor d = clang_getCursorReferenced(c);
    enum CXCursorKind k = clang_getCursorKind(d);
    if (k == CXCursor_VarDecl || k == CXCursor_ParmDecl)
      VEC_PUSH(keys) = fe_decl_key(d);
    return;
  }
  case CXCursor_MemberRefExpr: {
    CXCursor d = clang_getCursorReferenced(c);
    if (clang_getCursorKind(d) == CXCursor_FieldDecl)
      VEC_PUSH(keys) = fe_decl_key(d);
    break;
  }
  case CXCursor_LambdaExpr:
    return;
  case CXCursor_CallExpr: {
    CXCursor decl;
    char *name = fe_callee(c, &decl);
    bool known = fe_api_known(name);
    if (known) {
      free(name);
      return; /* a status */
    }
    ir_id fn = clang_Cursor_isNull(decl) ? -1 : fe_function_of(f, decl);
    if (fn >= 0)
      VEC_PUSH(keys) = result_key(decl);
    else if (!strcmp(name, "operator()") && fe_in_main_file(decl))
      VEC_PUSH(keys) = result_key(decl); /* a lambda */
    else if (*name && !fe_api_pure(name) && !*why &&
             clang_getCursorKind(decl) != CXCursor_Constructor)
      *why = xasprintf("%s()", name);
    free(name);
    break;
  }
  default:
    break;
  }
  fe_list kids = {0};
  fe_children(c, &kids);
  VEC_EACH(&kids, k) reads(f, *k, keys, why);
  VEC_FREE(&kids);
}

/* DST receives the value of SRC, under the conditions CONTROL. */
static void assign(struct fe *f, fe_key dst, CXCursor src, const fe_keys *control) {
  fe_keys keys = {0};
  char *why = NULL;
  if (!clang_Cursor_isNull(src))
    reads(f, src, &keys, &why);
  VEC_EACH(&keys, k) flow(f, dst, *k);
  VEC_EACH(control, k) flow(f, dst, *k);
  if (why)
    taint(f, dst, why);
  free(why);
  VEC_FREE(&keys);
}

/* The variable behind an lvalue or a pointer argument. */
static fe_key base_key(CXCursor c) {
  c = fe_strip(c);
  switch (clang_getCursorKind(c)) {
  case CXCursor_DeclRefExpr:
  case CXCursor_MemberRefExpr: {
    CXCursor d = clang_getCursorReferenced(c);
    enum CXCursorKind k = clang_getCursorKind(d);
    if (k == CXCursor_VarDecl || k == CXCursor_ParmDecl || k == CXCursor_FieldDecl)
      return fe_decl_key(d);
    CXCursor in = fe_child(c, 0); /* v.data() */
    return clang_Cursor_isNull(in) ? 0 : base_key(in);
  }
  case CXCursor_ArraySubscriptExpr:
  case CXCursor_UnaryOperator:
  case CXCursor_BinaryOperator:
  case CXCursor_CallExpr: {
    CXCursor in = fe_child(c, 0);
    return clang_Cursor_isNull(in) ? 0 : base_key(in);
  }
  default:
    return 0;
  }
}

static void outputs(struct fe *f, CXCursor call, const fe_keys *control) {
  CXCursor decl;
  char *name = fe_callee(call, &decl);
  const struct fe_api *api = fe_api_find(name);
  fe_list args = {0};
  fe_call_args(call, &args);
  ir_id called = clang_Cursor_isNull(decl) ? -1 : fe_function_of(f, decl);
  if (called >= 0)
    VEC_PUSH(&f->call_graph) = (struct fe_flow){(fe_key)f->current, (fe_key)called};
  else if ((api && api->cls != FE_RANK && api->cls != FE_SET_DEVICE) ||
           !strcmp(name, "__cudaPushCallConfiguration"))
    f->functions.v[f->current].interesting = true;
  if (api && api->cls == FE_RANK) {
    int outs[] = {api->a, api->b};
    for (int i = 0; i < 2; i++)
      if (outs[i] >= 0 && (size_t)outs[i] < args.n) {
        fe_key k = base_key(args.v[outs[i]]);
        taint(f, k, name);
      }
  } else if (api && api->cls == FE_COPY) {
    if (args.n > 1)
      taint(f, base_key(args.v[0]), "data copied from a device");
  } else if (fe_api_known(name)) {
    /* Other outputs of CUDA, NCCL and MPI: sizes, handles, properties, reduced values. */
    for (size_t i = 0; i < args.n; i++)
      if (clang_getCursorKind(fe_strip(args.v[i])) == CXCursor_UnaryOperator)
        VEC_EACH(control, k) flow(f, base_key(args.v[i]), *k);
  } else if (!clang_Cursor_isNull(decl)) {
    ir_id fn = called;
    for (size_t i = 0; i < args.n; i++) {
      if (fn >= 0) {
        CXCursor p = clang_Cursor_getArgument(f->functions.v[fn].cursor, (unsigned)i);
        if (clang_getCursorKind(f->functions.v[fn].cursor) == CXCursor_FunctionTemplate) {
          fe_list kids = {0};
          fe_children(f->functions.v[fn].cursor, &kids);
          size_t n = 0;
          p = clang_getNullCursor();
          VEC_EACH(&kids, k)
          if (clang_getCursorKind(*k) == CXCursor_ParmDecl && n++ == i)
            p = *k;
          VEC_FREE(&kids);
        }
        if (clang_Cursor_isNull(p))
          continue;
        fe_key pk = fe_decl_key(p);
        VEC_PUSH(&f->binds) = (struct fe_bind){pk, args.v[i]};
        /* What the callee stores through its parameter comes back to the argument. */
        fe_keys none = {0};
        assign(f, pk, args.v[i], &none);
        CXType t = clang_getCanonicalType(clang_getCursorType(p));
        if ((t.kind == CXType_Pointer || t.kind == CXType_LValueReference) &&
            !clang_isConstQualifiedType(clang_getPointeeType(t)))
          flow(f, base_key(args.v[i]), pk);
      } else if (clang_getCursorKind(fe_strip(args.v[i])) == CXCursor_UnaryOperator &&
                 clang_getCursorUnaryOperatorKind(fe_strip(args.v[i])) == CXUnaryOperator_AddrOf) {
        fe_key out = base_key(args.v[i]);
        if (!fe_api_pure(name))
          taint(f, out, name);
        else
          for (size_t j = 0; j < args.n; j++)
            assign(f, out, args.v[j], control);
      }
    }
    if (fn < 0 &&
        (!strcmp(name, "push_back") || !strcmp(name, "swap") || !strcmp(name, "operator=") ||
         !strcmp(name, "assign") || !strcmp(name, "resize"))) {
      fe_list kids = {0};
      fe_children(call, &kids);
      if (kids.n) {
        fe_key dst = base_key(kids.v[0]);
        for (size_t i = 0; i < args.n; i++)
          assign(f, dst, args.v[i], control);
        if (!strcmp(name, "swap") && args.n == 2) {
          assign(f, base_key(args.v[0]), args.v[1], control);
          assign(f, base_key(args.v[1]), args.v[0], control);
        }
      }
      VEC_FREE(&kids);
    }
  }
  free(name);
  VEC_FREE(&args);
}

/* Conditions of branches and loops for control dependence. */
static size_t push_control(struct fe *f, CXCursor cond, fe_keys *control) {
  size_t before = control->n;
  char *why = NULL;
  reads(f, cond, control, &why);
  if (why) {
    fe_key k = fe_mix(fe_decl_key(cond), 'c');
    taint(f, k, why);
    VEC_PUSH(control) = k;
  }
  free(why);
  return before;
}

static void collect(struct fe *f, CXCursor c, fe_keys *control, fe_key result, int depth) {
  enum CXCursorKind kind = clang_getCursorKind(c);
  if (depth > 400)
    return;
  fe_list kids = {0};
  fe_children(c, &kids);
  size_t mark = control->n;
  switch (kind) {
  case CXCursor_VarDecl:
    if (kids.n && clang_isExpression(clang_getCursorKind(kids.v[kids.n - 1])))
      assign(f, fe_decl_key(c), kids.v[kids.n - 1], control);
    break;
  case CXCursor_BinaryOperator:
  case CXCursor_CompoundAssignOperator:
    if (kids.n == 2 && (kind == CXCursor_CompoundAssignOperator ||
                        clang_getCursorBinaryOperatorKind(c) == CXBinaryOperator_Assign))
      assign(f, base_key(kids.v[0]), kids.v[1], control);
    break;
  case CXCursor_UnaryOperator: {
    enum CXUnaryOperatorKind op = clang_getCursorUnaryOperatorKind(c);
    if (kids.n && op >= CXUnaryOperator_PostInc && op <= CXUnaryOperator_PreDec)
      assign(f, base_key(kids.v[0]), clang_getNullCursor(), control);
    break;
  }
  case CXCursor_LambdaExpr:
    result = result_key(c);
    break;
  case CXCursor_ReturnStmt:
    if (kids.n)
      assign(f, result, kids.v[0], control);
    break;
  case CXCursor_CallExpr:
    outputs(f, c, control);
    break;
  case CXCursor_IfStmt:
  case CXCursor_WhileStmt:
  case CXCursor_SwitchStmt:
    for (size_t i = 0; i + 1 < kids.n && i < 2; i++)
      if (clang_isExpression(clang_getCursorKind(kids.v[i])) &&
          (i == 0 || !clang_isExpression(clang_getCursorKind(kids.v[0])))) {
        push_control(f, kids.v[i], control);
        break;
      }
    break;
  case CXCursor_ForStmt:
    for (size_t i = 0; i + 1 < kids.n; i++)
      if (clang_isExpression(clang_getCursorKind(kids.v[i])))
        push_control(f, kids.v[i], control);
    break;
  default:
    break;
  }
  VEC_EACH(&kids, k) collect(f, *k, control, result, depth + 1);
  control->n = mark;
  VEC_FREE(&kids);
}

void fe_collect_flows(struct fe *f, ir_id function) {
  fe_keys control = {0};
  CXCursor c = f->functions.v[function].cursor;
  f->current = function;
  collect(f, c, &control, result_key(c), 0);
  VEC_FREE(&control);
}

static int by_src(const void *a, const void *b) {
  fe_key x = ((const struct fe_flow *)a)->src, y = ((const struct fe_flow *)b)->src;
  return x < y ? -1 : x > y;
}

void fe_solve_taint(struct fe *f) {
  for (bool change = true; change;) {
    change = false;
    VEC_EACH(&f->call_graph, e)
    if (f->functions.v[e->src].interesting && !f->functions.v[e->dst].interesting)
      f->functions.v[e->dst].interesting = change = true;
  }
  if (f->flows.n)
    qsort(f->flows.v, f->flows.n, sizeof *f->flows.v, by_src);
  for (size_t i = 0; i < f->taints.n; i++) { /* the list grows: a work list */
    fe_key key = f->taints.v[i].key;
    size_t lo = 0, hi = f->flows.n;
    while (lo < hi) {
      size_t mid = (lo + hi) / 2;
      if (f->flows.v[mid].src < key)
        lo = mid + 1;
      else
        hi = mid;
    }
    for (; lo < f->flows.n && f->flows.v[lo].src == key; lo++) {
      char *why = xstrdup(f->taints.v[i].why);
      taint(f, f->flows.v[lo].dst, why);
      free(why);
    }
  }
}

const char *fe_rank_dependent(struct fe *f, CXCursor c) {
  if (clang_Cursor_isNull(c))
    return NULL;
  fe_keys keys = {0};
  char *why = NULL;
  reads(f, c, &keys, &why);
  const char *r = NULL;
  if (why) {
    fe_key k = fe_mix(fe_decl_key(c), 'c');
    taint(f, k, why);
    r = tainted(f, k)->why;
  }
  for (size_t i = 0; i < keys.n && !r; i++) {
    const struct fe_taint *t = tainted(f, keys.v[i]);
    if (t)
      r = t->why;
  }
  free(why);
  VEC_FREE(&keys);
  return r;
}

static void spoil(struct fe_function *fn, const char *why) {
  if (fn->nonuniform)
    return;
  fn->nonuniform = true;
  fn->why = xstrdup(why);
}

void fe_finish_uniform(struct fe *f) {
  struct ir_program *p = f->p;
  for (size_t i = 0; i < f->functions.n; i++) {
    struct fe_function *fn = &f->functions.v[i];
    if (p->functions.v[i].is_main || fn->thread_entry)
      continue;
    if (p->functions.v[i].is_lambda && !fn->called)
      spoil(fn, "it is inside a lambda");
    else if (!fn->called)
      spoil(fn, "the callers of its function are not visible");
  }
  for (bool change = true; change;) {
    change = false;
    VEC_EACH(&f->edges, e) {
      struct fe_function *to = &f->functions.v[e->callee], *from = &f->functions.v[e->caller];
      bool bad = !e->uniform || from->nonuniform;
      if (bad && !to->nonuniform) {
        spoil(to, !e->uniform ? e->why : from->why ? from->why : "");
        change = true;
      }
      bool captured = e->captured || from->captured, loop = e->in_loop || from->in_loop;
      bool device = e->in_device_loop || from->in_device_loop;
      if ((captured && !to->captured) || (loop && !to->in_loop) ||
          (device && !to->in_device_loop)) {
        to->captured |= captured;
        to->in_loop |= loop;
        to->in_device_loop |= device;
        change = true;
      }
    }
  }
}
