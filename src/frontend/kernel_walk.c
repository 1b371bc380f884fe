// SPDX-License-Identifier: Apache-2.0
/* Statements of kernels: declarations, branches, loops. */
#include "frontend/kernel_internal.h"
#include <string.h>

/* ---- what a piece of code assigns
 * ---------------------------------------------------------------- */

struct change {
  fe_key key;
  bool other; /* assigned in a way that is neither an increment nor a decrement */
  bool up, down;
  VEC(CXCursor) steps; /* right sides of += and -= */
};
typedef VEC(struct change) changes;

static struct change *change_of(changes *l, fe_key key) {
  VEC_EACH(l, x) if (x->key == key) return x;
  struct change *x = &VEC_PUSH(l);
  x->key = key;
  return x;
}

static fe_key target(CXCursor c) {
  c = fe_strip(c);
  return clang_getCursorKind(c) == CXCursor_DeclRefExpr ? fe_decl_key(clang_getCursorReferenced(c))
                                                        : 0;
}

/* Every variable in C, which is assigned to as a whole or in a way that is not understood. */
static void change_all(CXCursor c, changes *out) {
  if (clang_getCursorKind(c) == CXCursor_DeclRefExpr)
    change_of(out, fe_decl_key(clang_getCursorReferenced(c)))->other = true;
  fe_list l = {0};
  fe_children(c, &l);
  VEC_EACH(&l, x) change_all(*x, out);
  VEC_FREE(&l);
}

static void collect(CXCursor c, changes *out) {
  fe_list l = {0};
  fe_children(c, &l);
  fe_key key;
  switch (clang_getCursorKind(c)) {
  case CXCursor_BinaryOperator:
    if (clang_getCursorBinaryOperatorKind(c) == CXBinaryOperator_Assign && l.n) {
      if ((key = target(l.v[0])))
        change_of(out, key)->other = true;
      else if (clang_getCursorKind(fe_strip(l.v[0])) == CXCursor_ConditionalOperator)
        change_all(l.v[0], out);
    }
    break;
  case CXCursor_CompoundAssignOperator:
    if (l.n == 2 && (key = target(l.v[0]))) {
      struct change *x = change_of(out, key);
      enum CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(c);
      if (op == CXBinaryOperator_AddAssign || op == CXBinaryOperator_SubAssign) {
        VEC_PUSH(&x->steps) = l.v[1];
        x->up = x->up || op == CXBinaryOperator_AddAssign;
        x->down = x->down || op == CXBinaryOperator_SubAssign;
      } else {
        x->other = true;
      }
    }
    break;
  case CXCursor_UnaryOperator: {
    enum CXUnaryOperatorKind op = clang_getCursorUnaryOperatorKind(c);
    if (op >= CXUnaryOperator_PostInc && op <= CXUnaryOperator_PreDec && l.n &&
        (key = target(l.v[0]))) {
      struct change *x = change_of(out, key);
      if (op == CXUnaryOperator_PostInc || op == CXUnaryOperator_PreInc)
        x->up = true;
      else
        x->down = true;
    } else if (op == CXUnaryOperator_AddrOf && l.n && (key = target(l.v[0]))) {
      change_of(out, key)->other = true;
    }
    break;
  }
  case CXCursor_VarDecl: /* a new one in every round */
    if (clang_getCursorType(c).kind == CXType_LValueReference)
      VEC_EACH(&l, x) if ((key = target(*x))) change_of(out, key)->other = true;
    change_of(out, fe_decl_key(c))->other = true;
    break;
  case CXCursor_CallExpr:
  case CXCursor_GCCAsmStmt:
  case CXCursor_MSAsmStmt:
  case CXCursor_InitListExpr:
    VEC_EACH(&l, x)
    if (clang_getCursorKind(*x) == CXCursor_DeclRefExpr ||
        clang_getCursorKind(*x) == CXCursor_ParenExpr)
      if ((key = target(*x)))
        change_of(out, key)->other = true;
    break;
  case CXCursor_LambdaExpr:
    change_all(c, out);
    break;
  default:
    break;
  }
  VEC_EACH(&l, x) collect(*x, out);
  VEC_FREE(&l);
}

static void free_changes(changes *l) {
  VEC_EACH(l, x) VEC_FREE(&x->steps);
  VEC_FREE(l);
}

void ka_unstable_variables(struct ka *k, CXCursor c) {
  fe_list l = {0};
  fe_children(c, &l);
  enum CXCursorKind kind = clang_getCursorKind(c);
  fe_key key = 0;
  if (kind == CXCursor_UnaryOperator && l.n &&
      clang_getCursorUnaryOperatorKind(c) == CXUnaryOperator_AddrOf)
    key = target(l.v[0]);
  if (kind == CXCursor_VarDecl && ka_type(c).kind == CXType_LValueReference)
    VEC_EACH(&l, x) if (target(*x)) key = target(*x);
  if (key) {
    struct ka_var *x = ka_find(k, key);
    if (!x) {
      x = &VEC_PUSH(&k->env);
      x->key = key;
    }
    if (!x->reference) {
      ka_escape(k, &x->val);
      x->val = ka_none();
      x->unstable = true;
    }
  }
  VEC_EACH(&l, x) ka_unstable_variables(k, *x);
  VEC_FREE(&l);
}

void ka_const_casts(struct ka *k, CXCursor c) {
  fe_list l = {0};
  fe_children(c, &l);
  enum CXCursorKind kind = clang_getCursorKind(c);
  if (kind == CXCursor_CXXConstCastExpr || kind == CXCursor_GCCAsmStmt)
    k->casts_const = true;
  CXType to = ka_type(c);
  if (kind == CXCursor_CStyleCastExpr || kind == CXCursor_CXXFunctionalCastExpr ||
      kind == CXCursor_CXXReinterpretCastExpr) /* the latter: through an integer */
    VEC_EACH(&l, x) {
      if (!clang_isExpression(clang_getCursorKind(*x)))
        continue;
      CXType from = ka_type(fe_strip(*x));
      bool removes = ka_is_pointer(to) && !clang_isConstQualifiedType(clang_getPointeeType(to)) &&
                     (!ka_is_pointer(from) || clang_isConstQualifiedType(ka_pointee(from)));
      k->casts_const = k->casts_const || removes;
    }
  VEC_EACH(&l, x) ka_const_casts(k, *x);
  VEC_FREE(&l);
}

/* ---- loops
 * --------------------------------------------------------------------------------------- */

struct before {
  fe_key key;
  struct ka_val val;
};
typedef VEC(struct before) befores;

/* Is every step of X >= 0? Evaluated where the loop's variables already have arbitrary values. */
static bool steps_positive(struct ka *k, struct change *x) {
  VEC_EACH(&x->steps, s) {
    if (!ka_pure(*s))
      return false;
    k->quiet++;
    struct ka_val v = ka_eval(k, *s);
    k->quiet--;
    if (v.kind != KA_INT || !ka_proved(&k->s, &v.p))
      return false;
  }
  return true;
}

/* Gives every variable that the loop changes the value of an arbitrary round. */
static void arbitrary_round(struct ka *k, changes *l, const befores *old) {
  VEC_EACH(l, x) {
    struct ka_var *v = ka_find(k, x->key);
    if (!v || v->unstable)
      continue;
    if (v->reference) {
      if (x->other) /* declared inside: bound again there */
        continue;
      continue;
    }
    if (v->val.kind == KA_PTR && !x->other) {
      int moved = ka_atom(&k->s, "", false, false, 0); /* bytes */
      struct ka_poly by = ka_of(moved);
      v->val = ka_offset(k, &v->val, &by);
    } else if (v->val.kind == KA_PTR) {
      ka_forget(k, x->key);
    } else {
      struct ka_val any = v->val.kind == KA_ANYWHERE ? v->val : ka_anything(k, v->type);
      ka_find(k, x->key)->val = any;
    }
  }
  /* What is known of it: a variable that only grows is at least what it was before. */
  VEC_EACH(old, b) {
    struct change *x = change_of(l, b->key);
    struct ka_var *v = ka_find(k, b->key);
    if (x->other || (x->up && x->down) || v->unstable || v->reference || !steps_positive(k, x))
      continue;
    v = ka_find(k, b->key);
    if (b->val.kind == KA_INT && v->val.kind == KA_INT) {
      if (x->down && ka_is_unsigned(v->type))
        continue; /* may wrap below 0 */
      if (b->val.wrap)
        continue;
      struct ka_poly d =
          x->up ? ka_add(&v->val.p, &b->val.p, -1) : ka_add(&b->val.p, &v->val.p, -1);
      ka_assume(&k->s, &d);
      if (x->up && ka_proved(&k->s, &b->val.p) && v->val.p.n == 1) {
        struct ka_poly self = v->val.p;
        ka_assume(&k->s, &self);
      }
    } else if (b->val.kind == KA_PTR && v->val.kind == KA_PTR && b->val.n == v->val.n && b->val.n) {
      struct ka_poly d = ka_add(&v->val.b[0].off, &b->val.b[0].off, -1), zero = ka_const(0);
      if (x->down)
        d = ka_add(&zero, &d, -1);
      ka_assume(&k->s, &d);
    }
  }
}

static void snapshot(struct ka *k, const changes *l, befores *out) {
  VEC_EACH(l, x) {
    struct ka_var *v = ka_find(k, x->key);
    if (v) {
      struct before *b = &VEC_PUSH(out);
      b->key = x->key;
      b->val = v->val;
    }
  }
}

/* COND may be null. DO_LOOP: the body runs before the condition is tested. */
static void loop(struct ka *k, const fe_list *cond, const fe_list *inc, CXCursor body,
                 bool do_loop) {
  changes l = {0};
  befores old = {0};
  VEC_EACH(cond, c) collect(*c, &l);
  VEC_EACH(inc, c) collect(*c, &l);
  collect(body, &l);
  snapshot(k, &l, &old);
  k->guarded++;
  struct ka_mark m = ka_enter(&k->s);
  arbitrary_round(k, &l, &old);
  if (!do_loop) {
    VEC_EACH(cond, c) ka_eval(k, *c);
    VEC_EACH(cond, c) ka_condition(k, *c, true);
  }
  ka_walk(k, body);
  ka_leave(&k->s, m);
  m = ka_enter(&k->s);
  /* The end of a round may be reached by continue: only what the loop itself guarantees holds. */
  arbitrary_round(k, &l, &old);
  if (do_loop)
    VEC_EACH(cond, c) ka_eval(k, *c);
  VEC_EACH(inc, c) ka_eval(k, *c);
  ka_leave(&k->s, m);
  /* After it: the pointers' old values again, so that they are not moved twice. */
  VEC_EACH(&old, b) {
    struct ka_var *v = ka_find(k, b->key);
    if (v && !v->reference && !v->unstable)
      v->val = b->val;
  }
  arbitrary_round(k, &l, &old);
  k->guarded--;
  VEC_FREE(&old);
  free_changes(&l);
}

static bool is_comparison(CXCursor c) {
  c = fe_strip(c);
  if (clang_getCursorKind(c) != CXCursor_BinaryOperator)
    return false;
  enum CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(c);
  return (op >= CXBinaryOperator_LT && op <= CXBinaryOperator_NE) || op == CXBinaryOperator_LAnd ||
         op == CXBinaryOperator_LOr;
}

static bool is_declaration(CXCursor c) {
  return clang_getCursorKind(c) == CXCursor_DeclStmt || clang_isDeclaration(clang_getCursorKind(c));
}

/* Clang leaves missing parts of a for statement out: tell them apart by what they are. */
static void for_loop(struct ka *k, CXCursor c) {
  fe_list l = {0}, cond = {0}, inc = {0};
  fe_children(c, &l);
  if (!l.n)
    return;
  size_t heads = l.n - 1, test = heads;
  for (size_t i = 0; i < heads; i++)
    if (is_comparison(l.v[i]))
      test = i;
  bool sure = test < heads && test <= 1 && heads - test <= 2;
  for (size_t i = 0; i < heads; i++) {
    if (is_declaration(l.v[i]))
      ka_walk(k, l.v[i]);
    else if (sure && i < test)
      ka_eval(k, l.v[i]);
    else if (sure && i == test)
      VEC_PUSH(&cond) = l.v[i];
    else if (sure)
      VEC_PUSH(&inc) = l.v[i];
    else { /* any of the three */
      ka_eval(k, l.v[i]);
      VEC_PUSH(&inc) = l.v[i];
    }
  }
  loop(k, &cond, &inc, l.v[l.n - 1], false);
  VEC_FREE(&l);
  VEC_FREE(&cond);
  VEC_FREE(&inc);
}

static void while_loop(struct ka *k, CXCursor c, bool do_loop) {
  fe_list l = {0}, cond = {0}, none = {0};
  fe_children(c, &l);
  if (l.n == 2) {
    VEC_PUSH(&cond) = l.v[do_loop];
    loop(k, &cond, &none, l.v[!do_loop], do_loop);
  } else {
    k->hopeless = true; /* while (T x = ...) */
  }
  VEC_FREE(&l);
  VEC_FREE(&cond);
}

/* ---- branches
 * ------------------------------------------------------------------------------------ */

/* Does control never come out at the end of C? */
static bool leaves(CXCursor c) {
  switch (clang_getCursorKind(c)) {
  case CXCursor_ReturnStmt:
  case CXCursor_BreakStmt:
  case CXCursor_ContinueStmt:
    return true;
  case CXCursor_CompoundStmt: {
    fe_list l = {0};
    fe_children(c, &l);
    bool r = false;
    VEC_EACH(&l, x) r = r || leaves(*x);
    VEC_FREE(&l);
    return r;
  }
  case CXCursor_IfStmt: {
    fe_list l = {0};
    fe_children(c, &l);
    bool r = l.n == 3 && clang_isStatement(clang_getCursorKind(l.v[1])) && leaves(l.v[1]) &&
             leaves(l.v[2]);
    VEC_FREE(&l);
    return r;
  }
  default:
    return false;
  }
}

static bool may_leave(CXCursor c) {
  return leaves(c) || ka_has_kind(c, CXCursor_ReturnStmt) || ka_has_kind(c, CXCursor_BreakStmt) ||
         ka_has_kind(c, CXCursor_ContinueStmt);
}

static void copy_env(const ka_env *from, ka_env *to) {
  to->n = 0;
  for (size_t i = 0; i < from->n; i++)
    VEC_PUSH(to) = from->v[i];
}

/* The variables after one of two ways: KEEP those of OTHER, or both. */
static void merge(struct ka *k, ka_env *other) {
  for (size_t i = 0; i < other->n && i < k->env.n; i++) {
    struct ka_val v;
    if (k->env.v[i].reference || k->env.v[i].unstable)
      continue;
    v = ka_join(k, &k->env.v[i].val, &other->v[i].val, k->env.v[i].type);
    k->env.v[i].val = v;
  }
}

static void branch(struct ka *k, CXCursor c) {
  fe_list l = {0};
  fe_children(c, &l);
  size_t at = 0;
  while (at < l.n && is_declaration(l.v[at]))
    ka_walk(k, l.v[at++]);
  if (l.n - at < 2 || l.n - at > 3) {
    k->hopeless = true;
    VEC_FREE(&l);
    return;
  }
  CXCursor cond = l.v[at], yes = l.v[at + 1],
           no = l.n - at == 3 ? l.v[at + 2] : clang_getNullCursor();
  bool has_no = l.n - at == 3, yes_leaves = leaves(yes), no_leaves = has_no && leaves(no);
  ka_eval(k, cond);
  ka_env start = {0}, after = {0};
  copy_env(&k->env, &start);
  struct ka_mark m = ka_enter(&k->s);
  k->guarded++;
  ka_condition(k, cond, true);
  ka_walk(k, yes);
  ka_leave(&k->s, m);
  copy_env(&k->env, &after);
  k->env.n = start.n;
  for (size_t i = 0; i < start.n; i++) {
    bool unstable = k->env.v[i].unstable;
    k->env.v[i] = start.v[i];
    k->env.v[i].unstable = unstable || start.v[i].unstable;
  }
  if (has_no) {
    m = ka_enter(&k->s);
    ka_condition(k, cond, false);
    ka_walk(k, no);
    ka_leave(&k->s, m);
  }
  k->guarded--;
  k->env.n = start.n;
  /* The condition is evaluated again below, with the values from before the branches. */
  if (yes_leaves != no_leaves && ka_pure(cond)) {
    ka_env now = {0};
    copy_env(yes_leaves ? &k->env : &after, &now);
    now.n = start.n;
    copy_env(&start, &k->env);
    ka_condition(k, cond, no_leaves);
    copy_env(&now, &k->env);
    VEC_FREE(&now);
  } else if (!yes_leaves && !no_leaves) {
    after.n = start.n;
    merge(k, &after);
  } else if (no_leaves && !yes_leaves) {
    after.n = start.n;
    copy_env(&after, &k->env);
  }
  if (may_leave(yes) || (has_no && may_leave(no)))
    k->guarded++; /* what follows need not be reached: not exact (undone at the function's end) */
  VEC_FREE(&start);
  VEC_FREE(&after);
  VEC_FREE(&l);
}

static void switch_statement(struct ka *k, CXCursor c) {
  fe_list l = {0}, none = {0};
  fe_children(c, &l);
  if (l.n != 2) {
    k->hopeless = true;
  } else {
    ka_eval(k, l.v[0]);
    changes ch = {0};
    befores old = {0};
    collect(l.v[1], &ch);
    VEC_EACH(&ch, x) {
      x->other = true;
      if (ka_find(k, x->key))
        ka_forget(k, x->key);
    }
    /* Entered at any label: constraints inside would have to end at each; a loop body's rules are
     * close, but a label may follow an early exit. So labels reset (see CASE), and assigned
     * variables are followed only after their next assignment. */
    struct ka_mark m = ka_enter(&k->s);
    k->guarded++;
    fe_list body = {0};
    fe_children(l.v[1], &body);
    VEC_EACH(&body, s) {
      enum CXCursorKind kind = clang_getCursorKind(*s);
      if (kind == CXCursor_CaseStmt || kind == CXCursor_DefaultStmt) {
        ka_leave(&k->s, m);
        VEC_EACH(&ch, x) if (ka_find(k, x->key)) ka_forget(k, x->key);
      }
      ka_walk(k, *s);
    }
    if (clang_getCursorKind(l.v[1]) != CXCursor_CompoundStmt)
      k->hopeless = true;
    VEC_FREE(&body);
    k->guarded--;
    ka_leave(&k->s, m);
    VEC_EACH(&ch, x) if (ka_find(k, x->key)) ka_forget(k, x->key);
    VEC_FREE(&old);
    free_changes(&ch);
  }
  VEC_FREE(&none);
  VEC_FREE(&l);
}

/* ---- declarations
 * -------------------------------------------------------------------------------- */

static bool is_auto(CXCursor c) {
  char *n = fe_type_name(clang_getCursorType(c));
  bool r = strstr(n, "auto") != NULL;
  free(n);
  return r;
}

static void declare(struct ka *k, CXCursor c) {
  fe_list l = {0};
  fe_children(c, &l);
  CXType t = ka_type(c);
  bool shared = false;
  CXCursor init = clang_getNullCursor();
  bool array = ka_is_pointer(t) && t.kind != CXType_Pointer;
  VEC_EACH(&l, x) {
    enum CXCursorKind kind = clang_getCursorKind(*x);
    if (kind == CXCursor_CUDASharedAttr)
      shared = true;
    if (clang_isExpression(kind)) {
      if (array && kind != CXCursor_InitListExpr) {
        /* its dimensions are at least 1 */
        struct ka_val d = ka_eval(k, *x);
        struct ka_poly one = ka_const(1);
        d.p = ka_add(&d.p, &one, -1);
        if (d.kind == KA_INT)
          ka_assume(&k->s, &d.p);
        continue;
      }
      init = *x;
    }
  }
  fe_key key = fe_decl_key(c);
  bool is_static = clang_Cursor_getStorageClass(c) == CX_SC_Static;
  if (t.kind == CXType_LValueReference || t.kind == CXType_RValueReference) {
    fe_key ignored;
    struct ka_val v = ka_lvalue(k, init, &ignored);
    ka_set_var(k, key, t, ka_none());
    struct ka_var *x = ka_find(k, key);
    x->reference = true;
    x->val = v;
  } else if (shared || is_static || array || (t.kind == CXType_Record)) {
    if (is_static && !shared)
      ka_global(k, c);
    if (!clang_Cursor_isNull(init)) {
      struct ka_val v = ka_eval(k, init);
      ka_escape(k, &v);
    }
  } else if (clang_Cursor_isNull(init)) {
    ka_set_var(k, key, t, ka_anything(k, t));
  } else {
    CXType from = ka_type(init);
    struct ka_val v = ka_eval(k, init);
    if (v.kind == KA_PTR && v.n && v.b[0].dependent && ka_is_dependent_type(t))
      ; /* T y = x */
    else if (!(ka_is_dependent_type(t) && is_auto(c)))
      v = ka_convert(k, v, ka_is_integer(from) ? from : t, t);
    if (ka_is_dependent_type(t) && v.kind == KA_PTR && !v.b[0].dependent) {
      ; /* auto p = x + i: followed as a pointer */
    } else if (t.kind == CXType_Pointer && v.kind != KA_PTR) {
      v = (struct ka_val){.kind = KA_ANYWHERE};
    }
    ka_set_var(k, key, t, v);
  }
  VEC_FREE(&l);
}

static void walk_children(struct ka *k, CXCursor c) {
  fe_list l = {0};
  fe_children(c, &l);
  VEC_EACH(&l, x) ka_walk(k, *x);
  VEC_FREE(&l);
}

void ka_walk(struct ka *k, CXCursor c) {
  if (clang_Cursor_isNull(c) || k->hopeless)
    return;
  if (++k->nesting > 200) {
    k->hopeless = true;
    return;
  }
  enum CXCursorKind kind = clang_getCursorKind(c);
  switch (kind) {
  case CXCursor_CompoundStmt:
  case CXCursor_DeclStmt:
  case CXCursor_UnexposedStmt: /* one with attributes: #pragma unroll */
    walk_children(k, c);
    break;
  case CXCursor_VarDecl:
    declare(k, c);
    break;
  case CXCursor_IfStmt:
    branch(k, c);
    break;
  case CXCursor_ForStmt:
    for_loop(k, c);
    break;
  case CXCursor_WhileStmt:
    while_loop(k, c, false);
    break;
  case CXCursor_DoStmt:
    while_loop(k, c, true);
    break;
  case CXCursor_SwitchStmt:
    switch_statement(k, c);
    break;
  case CXCursor_CaseStmt:
  case CXCursor_DefaultStmt: {
    fe_list l = {0};
    fe_children(c, &l);
    if (l.n)
      ka_walk(k, l.v[l.n - 1]);
    VEC_FREE(&l);
    break;
  }
  case CXCursor_ReturnStmt: {
    fe_list l = {0};
    fe_children(c, &l);
    struct ka_val v = l.n ? ka_eval(k, l.v[0]) : ka_none();
    VEC_FREE(&l);
    if (k->returned) {
      k->return_many = true;
      ka_escape(k, &v);
      ka_escape(k, &k->result);
    }
    k->returned = true;
    k->result = v;
    break;
  }
  case CXCursor_NullStmt:
  case CXCursor_BreakStmt:
  case CXCursor_ContinueStmt:
    break;
  case CXCursor_GCCAsmStmt:
    ka_eval(k, c);
    break;
  default:
    if (clang_isExpression(kind))
      ka_eval(k, c);
    else if (clang_isStatement(kind) || kind == CXCursor_UnexposedDecl)
      k->hopeless = true; /* goto, labels, try, ranges; structured bindings */
    /* other declarations (using, typedef, static_assert) and attributes do nothing */
  }
  k->nesting--;
}
