// SPDX-License-Identifier: Apache-2.0
/* Calls in kernels: atomics and loads by name, the program's own functions inlined, the rest
 * feared. */
#include "frontend/kernel_internal.h"
#include <string.h>

static bool starts(const char *s, const char *prefix) {
  return !strncmp(s, prefix, strlen(prefix));
}

static bool is_one_of(const char *s, const char *const *list) {
  for (; *list; list++)
    if (!strcmp(s, *list))
      return true;
  return false;
}

/* Inside templates a callee may only be a set of overloads: its name and, in *SET, the set. */
static bool overloaded_name(CXCursor c, char **out, CXCursor *set) {
  fe_list l = {0};
  fe_children(c, &l);
  bool found = false;
  for (size_t i = 0; i < l.n && !found; i++) {
    if (clang_getCursorKind(l.v[i]) == CXCursor_OverloadedDeclRef) {
      free(*out);
      *out = fe_spelling(l.v[i]);
      *set = l.v[i];
      found = true;
    } else if (clang_getCursorKind(l.v[i]) == CXCursor_DeclRefExpr) {
      found = overloaded_name(l.v[i], out, set);
    }
  }
  VEC_FREE(&l);
  return found;
}

/* What the pointer argument C points to, in bytes. */
static struct ka_poly pointee_size(struct ka *k, CXCursor c) {
  CXType t = clang_getCursorType(c), p = clang_getPointeeType(clang_getCanonicalType(t));
  if (p.kind != CXType_Invalid)
    return ka_size(k, clang_getPointeeType(t).kind != CXType_Invalid ? clang_getPointeeType(t) : p);
  fe_list l = {0}; /* inside templates: &x[i], x + i */
  struct ka_poly r = {0};
  fe_children(c, &l);
  for (size_t i = 0; i < l.n && !r.ok; i++)
    if (clang_isExpression(clang_getCursorKind(l.v[i])))
      r = pointee_size(k, l.v[i]);
  VEC_FREE(&l);
  return r;
}

static struct ka_val min_max(struct ka *k, const struct ka_val *a, const struct ka_val *b, bool min,
                             CXType t) {
  if (a->kind != KA_INT || b->kind != KA_INT || a->wrap || b->wrap || !a->p.ok || !b->p.ok)
    return ka_anything(k, t);
  bool pa = ka_proved(&k->s, &a->p), pb = ka_proved(&k->s, &b->p);
  struct ka_poly m = ka_of(ka_atom(&k->s, "", false, min ? pa && pb : pa || pb, 0)), d;
  d = min ? ka_add(&a->p, &m, -1) : ka_add(&m, &a->p, -1);
  ka_assume(&k->s, &d);
  d = min ? ka_add(&b->p, &m, -1) : ka_add(&m, &b->p, -1);
  ka_assume(&k->s, &d);
  return ka_int(m);
}

/* Functions that are known by name; false when NAME is none of them. */
static bool known(struct ka *k, const char *name, const fe_list *args, CXType t,
                  struct ka_val *out) {
  static const char *const loads[] = {"__ldg",  "__ldca", "__ldcg", "__ldcs",
                                      "__ldcv", "__ldlu", NULL};
  static const char *const stores[] = {"__stwb", "__stcg", "__stcs", "__stwt", NULL};
  static const char *const blocks[] = {"memcpy", "memmove", "memset", NULL};
  static const char *const quiet[] = {"printf", "assert", "__assert_fail", "__builtin_assume",
                                      NULL};
  struct ka_val a, b;
  struct ka_poly size;
  if (args->n >= 1 && starts(name, "atomic")) {
    a = ka_eval(k, args->v[0]);
    for (size_t i = 1; i < args->n; i++) {
      b = ka_eval(k, args->v[i]);
      if (b.kind == KA_PTR && !b.b[0].dependent)
        ka_escape(k, &b);
    }
    size = pointee_size(k, args->v[0]);
    ka_touch(k, &a, &size, KA_ATOMIC);
    *out = ka_anything(k, t);
    return true;
  }
  if (args->n == 1 && is_one_of(name, loads)) {
    a = ka_eval(k, args->v[0]);
    size = pointee_size(k, args->v[0]);
    ka_touch(k, &a, &size, KA_READ);
    *out = ka_anything(k, t);
    return true;
  }
  if (args->n == 2 && is_one_of(name, stores)) {
    a = ka_eval(k, args->v[0]);
    b = ka_eval(k, args->v[1]);
    size = pointee_size(k, args->v[0]);
    ka_touch(k, &a, &size, KA_WRITE);
    *out = ka_none();
    return true;
  }
  if (args->n == 2 && (!strcmp(name, "min") || !strcmp(name, "max"))) {
    a = ka_eval(k, args->v[0]);
    b = ka_eval(k, args->v[1]);
    CXType ta = ka_type(args->v[0]), tb = ka_type(args->v[1]);
    if (ka_is_integer(ta) && ka_is_integer(tb))
      *out = min_max(k, &a, &b, name[1] == 'i', t);
    else
      *out = ka_anything(k, t);
    return true;
  }
  if (args->n == 3 && is_one_of(name, blocks)) {
    a = ka_eval(k, args->v[0]);
    b = ka_eval(k, args->v[1]);
    struct ka_val n = ka_eval(k, args->v[2]);
    size = n.kind == KA_INT ? n.p : (struct ka_poly){0};
    ka_touch(k, &a, &size, KA_WRITE);
    if (strcmp(name, "memset") != 0)
      ka_touch(k, &b, &size, KA_READ);
    *out = a;
    return true;
  }
  if (is_one_of(name, quiet)) {
    VEC_EACH(args, x) ka_eval(k, *x);
    *out = ka_anything(k, t);
    return true;
  }
  return false;
}

static CXCursor body_of(CXCursor function) {
  fe_list l = {0};
  CXCursor r = clang_getNullCursor();
  fe_children(function, &l);
  VEC_EACH(&l, x) if (clang_getCursorKind(*x) == CXCursor_CompoundStmt) r = *x;
  VEC_FREE(&l);
  return r;
}

static CXCursor definition_of(CXCursor d) {
  if (clang_Cursor_isNull(d) || clang_isInvalid(clang_getCursorKind(d)))
    return clang_getNullCursor();
  CXCursor def = clang_getCursorDefinition(d);
  if (!clang_Cursor_isNull(def) && !clang_Cursor_isNull(body_of(def)))
    return def;
  CXCursor t = clang_getSpecializedCursorTemplate(clang_Cursor_isNull(def) ? d : def);
  return clang_Cursor_isNull(t) ? t : clang_getCursorDefinition(t);
}

/* Records the device variables that code which is not inlined mentions. */
static void scan_globals(struct ka *k, CXCursor c, int depth) {
  CXCursor d = clang_getCursorReferenced(c);
  enum CXCursorKind kind = clang_getCursorKind(c);
  if ((kind == CXCursor_DeclRefExpr || kind == CXCursor_MemberRefExpr) &&
      clang_getCursorKind(d) == CXCursor_VarDecl &&
      !clang_Location_isInSystemHeader(clang_getCursorLocation(d))) {
    enum CXCursorKind p = clang_getCursorKind(clang_getCursorSemanticParent(d));
    if (p == CXCursor_TranslationUnit || p == CXCursor_Namespace) {
      int64_t ignored;
      if (!fe_const(c, &ignored))
        ka_global(k, d);
      if (ka_holds_pointer(ka_type(d), 0))
        k->hopeless = true;
    }
  }
  if (kind == CXCursor_CallExpr && depth < KA_INLINE_DEPTH) {
    CXCursor def = definition_of(d);
    if (!clang_Cursor_isNull(def) && !clang_Location_isInSystemHeader(clang_getCursorLocation(def)))
      scan_globals(k, body_of(def), depth + 1);
  } else if (kind == CXCursor_CallExpr) {
    k->hopeless = true;
  }
  if (clang_Cursor_isNull(c))
    return;
  fe_list l = {0};
  fe_children(c, &l);
  VEC_EACH(&l, x) scan_globals(k, *x, depth);
  VEC_FREE(&l);
}

/* An argument passed by reference: whatever it names may be used by the callee. */
static void by_reference(struct ka *k, CXCursor arg, CXType param, bool trusted) {
  fe_key key;
  CXType to = clang_getPointeeType(clang_getCanonicalType(param));
  struct ka_val addr = ka_lvalue(k, arg, &key);
  bool constant = clang_isConstQualifiedType(to);
  if (key) {
    struct ka_val v = ka_find(k, key)->val;
    if (ka_is_pointer(ka_type(arg)))
      ka_escape(k, &v);
    if (!constant)
      ka_forget(k, key);
    return;
  }
  struct ka_poly size = ka_size(k, to);
  if (!trusted)
    ka_escape(k, &addr);
  ka_touch(k, &addr, &size, constant ? KA_READ : KA_READ | KA_WRITE);
}

struct bound_arg {
  fe_key key;
  CXType type;
  struct ka_val val;
  bool reference;
};

static struct ka_val inline_call(struct ka *k, CXCursor def, const fe_list *args, CXType t) {
  fe_list l = {0}, params = {0};
  VEC(struct bound_arg) bound = {0};
  fe_children(def, &l);
  VEC_EACH(&l, x) if (clang_getCursorKind(*x) == CXCursor_ParmDecl) VEC_PUSH(&params) = *x;
  VEC_FREE(&l);
  for (size_t i = 0; i < params.n; i++) {
    CXType pt = ka_type(params.v[i]);
    struct bound_arg *b = &VEC_PUSH(&bound);
    b->key = fe_decl_key(params.v[i]);
    b->type = pt;
    if (i >= args->n) {
      b->val = ka_anything(k, pt);
    } else if (pt.kind == CXType_LValueReference || pt.kind == CXType_RValueReference) {
      fe_key key;
      b->reference = true;
      b->val = ka_lvalue(k, args->v[i], &key);
      if (key) { /* a local variable: not followed through the reference */
        struct ka_val v = ka_find(k, key)->val;
        CXType to = clang_getPointeeType(pt);
        if (ka_is_pointer(ka_type(args->v[i])))
          ka_escape(k, &v);
        if (clang_isConstQualifiedType(to) && v.kind == KA_INT) {
          b->reference = false;
          b->type = clang_getCanonicalType(to);
          b->val = v;
        } else {
          ka_forget(k, key);
        }
      }
    } else {
      struct ka_val v = ka_eval(k, args->v[i]);
      if (v.kind == KA_PTR && !ka_is_pointer(pt))
        ka_escape(k, &v);
      CXType from = ka_type(args->v[i]);
      b->val = ka_convert(k, v, ka_is_integer(from) ? from : pt, pt);
      if (ka_is_pointer(pt) && v.kind != KA_PTR)
        b->val = (struct ka_val){.kind = KA_ANYWHERE};
    }
  }
  size_t env = k->env.n;
  struct ka_mark m = ka_enter(&k->s);
  for (size_t i = 0; i < bound.n; i++) {
    struct ka_var *x = &VEC_PUSH(&k->env);
    *x = (struct ka_var){bound.v[i].key, bound.v[i].type, bound.v[i].reference, false,
                         bound.v[i].val};
    if (x->val.kind == KA_INT && !x->val.p.ok)
      x->val = ka_anything(k, x->type);
  }
  bool returned = k->returned, many = k->return_many;
  struct ka_val result = k->result;
  int was_guarded = k->guarded;
  k->returned = k->return_many = false;
  k->result = ka_none();
  k->stack[k->depth++] = fe_decl_key(def);
  CXCursor body = body_of(def);
  ka_unstable_variables(k, body);
  ka_const_casts(k, body);
  ka_walk(k, body);
  k->depth--;
  struct ka_val v = k->result;
  if (k->return_many || !k->returned) {
    ka_escape(k, &v);
    v = ka_anything(k, t);
  }
  k->returned = returned;
  k->return_many = many;
  k->result = result;
  k->guarded = was_guarded;
  ka_leave(&k->s, m);
  k->env.n = env;
  VEC_FREE(&bound);
  VEC_FREE(&params);
  return v;
}

/* Launched from a kernel: its blocks are others. */
static bool is_kernel(CXCursor def) {
  fe_list l = {0};
  bool r = false;
  fe_children(def, &l);
  VEC_EACH(&l, x) r = r || clang_getCursorKind(*x) == CXCursor_CUDAGlobalAttr;
  VEC_FREE(&l);
  return r;
}

static bool can_inline(struct ka *k, CXCursor callee, CXCursor def) {
  enum CXCursorKind kind = clang_getCursorKind(def);
  if (clang_Cursor_isNull(def) || clang_Cursor_isNull(body_of(def)) || is_kernel(def) ||
      (kind != CXCursor_FunctionDecl && kind != CXCursor_FunctionTemplate) ||
      clang_Location_isInSystemHeader(clang_getCursorLocation(def)) ||
      k->depth == KA_INLINE_DEPTH || clang_Cursor_isVariadic(callee))
    return false;
  for (int i = 0; i < k->depth; i++)
    if (k->stack[i] == fe_decl_key(def))
      return false;
  enum CXTypeKind r = clang_getCanonicalType(clang_getResultType(clang_getCursorType(def))).kind;
  return r != CXType_LValueReference && r != CXType_RValueReference;
}

static void grid_sync(struct ka *k, CXCursor c, const char *name, const fe_list *args) {
  if (strcmp(name, "sync") != 0 && strcmp(name, "barrier_wait") != 0 &&
      strcmp(name, "barrier_arrive") != 0)
    return;
  CXCursor first = args->n ? args->v[0] : fe_child(fe_child(c, 0), 0);
  char *t = fe_type_name(ka_type(first));
  if (strstr(t, "grid_group") || ka_is_dependent_type(ka_type(first)))
    k->grid_sync = true;
  free(t);
}

struct ka_val ka_call(struct ka *k, CXCursor c) {
  CXCursor callee = clang_getCursorReferenced(c);
  CXType t = ka_type(c);
  char *name = fe_spelling(c);
  CXCursor set = clang_getNullCursor();
  if (!*name)
    overloaded_name(c, &name, &set);
  unsigned overloads = clang_Cursor_isNull(set) ? 0 : clang_getNumOverloadedDecls(set);
  fe_list args = {0}, kids = {0};
  int n = clang_Cursor_getNumArguments(c);
  fe_children(c, &kids);
  if (n >= 0)
    for (int i = 0; i < n; i++)
      VEC_PUSH(&args) = clang_Cursor_getArgument(c, (unsigned)i);
  else /* T(x) in a template */
    VEC_EACH(&kids, x) if (clang_isExpression(clang_getCursorKind(*x))) VEC_PUSH(&args) = *x;
  struct ka_val v = ka_none();
  enum CXCursorKind kind = clang_getCursorKind(callee);
  bool unresolved =
      clang_Cursor_isNull(callee) || clang_isInvalid(kind) || kind == CXCursor_OverloadedDeclRef;
  bool system = !unresolved && clang_Location_isInSystemHeader(clang_getCursorLocation(callee));
  bool by_name = (unresolved && *name) || (kind == CXCursor_FunctionDecl && system);
  for (unsigned i = 0; i < overloads; i++) /* the program's own function of that name? */
    by_name = by_name && clang_Location_isInSystemHeader(
                             clang_getCursorLocation(clang_getOverloadedDecl(set, i)));
  grid_sync(k, c, name, &args);
  if (by_name && known(k, name, &args, t, &v)) {
    if (!strcmp(name, "min") || !strcmp(name, "max") || !ka_is_pointer(t))
      goto done;
    goto done;
  }
  /* Something that is not a function is called: a functor, a function pointer, a lambda. */
  CXCursor called = kids.n ? fe_strip(kids.v[0]) : clang_getNullCursor();
  if (kids.n && (!args.n || !clang_equalCursors(kids.v[0], args.v[0])) &&
      clang_getCursorKind(called) == CXCursor_DeclRefExpr) {
    enum CXCursorKind ck = clang_getCursorKind(clang_getCursorReferenced(called));
    if (ck == CXCursor_ParmDecl || ck == CXCursor_VarDecl) {
      struct ka_val f = ka_eval(k, called);
      ka_escape(k, &f);
    }
  }
  CXCursor def = unresolved ? clang_getNullCursor() : definition_of(callee);
  if (unresolved && overloads == 1 && !starts(name, "operator")) {
    def = definition_of(clang_getOverloadedDecl(set, 0));
    if (can_inline(k, def, def)) {
      v = inline_call(k, def, &args, t);
      goto done;
    }
  }
  if (can_inline(k, callee, def)) {
    v = inline_call(k, def, &args, t);
    goto done;
  }
  /* The object of a method. */
  if (kids.n && clang_getCursorKind(kids.v[0]) == CXCursor_MemberRefExpr) {
    CXCursor object = fe_child(kids.v[0], 0);
    if (clang_isExpression(clang_getCursorKind(object))) {
      fe_key key;
      struct ka_val o =
          ka_is_pointer(ka_type(object)) ? ka_eval(k, object) : ka_lvalue(k, object, &key);
      struct ka_poly unknown = {0};
      if (o.kind == KA_PTR && !ka_is_pointer(ka_type(object)))
        unknown = ka_size(k, ka_type(object));
      if (o.kind == KA_PTR)
        ka_touch(k, &o, &unknown, KA_READ | KA_WRITE);
      if (!system)
        ka_escape(k, &o);
    }
  }
  bool trivial = kind == CXCursor_Constructor || !strcmp(name, "operator=");
  if (trivial && !clang_Cursor_isNull(def) && !clang_Cursor_isNull(body_of(def)))
    trivial = system;
  bool converts = n < 0 || (unresolved && !*name);
  /* Inside a template operators are unresolved calls: x[i] * T(2). */
  bool op = unresolved && starts(name, "operator") && (name[8] < 'a' || name[8] > 'z') &&
            name[8] != '(' && name[8] != '[';
  for (size_t i = 0; i < args.n; i++) {
    CXType param = {0};
    if (!unresolved && kind != CXCursor_FunctionTemplate)
      param = clang_getCanonicalType(clang_getArgType(
          clang_getCursorType(callee),
          (unsigned)(kind == CXCursor_CXXMethod && starts(name, "operator") && i ? i - 1 : i)));
    bool method_object = kind == CXCursor_CXXMethod && starts(name, "operator") && i == 0 &&
                         (int)args.n > clang_getNumArgTypes(clang_getCursorType(callee));
    if (method_object) { /* x[i] = y: the left side */
      fe_key key;
      struct ka_val o = ka_lvalue(k, args.v[0], &key);
      if (key)
        ka_forget(k, key);
      struct ka_poly size = ka_size(k, ka_type(args.v[0]));
      if (o.kind == KA_PTR)
        ka_touch(k, &o, &size, !strcmp(name, "operator=") ? KA_WRITE : KA_READ | KA_WRITE);
      else
        ka_touch(k, &o, &size, KA_READ | KA_WRITE);
      if (!trivial && !system)
        ka_escape(k, &o);
      continue;
    }
    if (param.kind == CXType_LValueReference || param.kind == CXType_RValueReference) {
      by_reference(k, args.v[i], param, system || trivial);
      continue;
    }
    struct ka_val a = ka_eval(k, args.v[i]);
    enum CXCursorKind ak = clang_getCursorKind(args.v[i]);
    bool scalar = a.kind == KA_PTR && a.b[0].dependent && (converts || op);
    if (!scalar)
      ka_escape(k, &a);
    if (unresolved && !converts) {
      /* perhaps by reference */
      CXCursor bare = args.v[i];
      while (clang_getCursorKind(bare) == CXCursor_ParenExpr)
        bare = fe_child(bare, 0);
      ak = clang_getCursorKind(bare);
      if (ak == CXCursor_DeclRefExpr)
        ka_forget(k, fe_decl_key(clang_getCursorReferenced(bare)));
      else if (ak == CXCursor_ArraySubscriptExpr || ak == CXCursor_UnaryOperator ||
               ak == CXCursor_MemberRefExpr) {
        fe_key key;
        k->quiet++;
        struct ka_val addr = ka_lvalue(k, bare, &key);
        k->quiet--;
        bool read_only = op &&
                         !(strlen(name) > 9 && name[strlen(name) - 1] == '=' &&
                           strcmp(name, "operator==") && strcmp(name, "operator!=") &&
                           strcmp(name, "operator<=") && strcmp(name, "operator>=")) &&
                         strcmp(name, "operator++") && strcmp(name, "operator--") &&
                         strcmp(name, "operator=");
        if (!read_only && !key)
          ka_escape(k, &addr);
      }
    }
  }
  if (!system && !clang_Cursor_isNull(def))
    scan_globals(k, body_of(def), 0);
  for (unsigned i = 0; i < overloads; i++) {
    CXCursor d = definition_of(clang_getOverloadedDecl(set, i));
    if (!clang_Cursor_isNull(d) && !clang_Location_isInSystemHeader(clang_getCursorLocation(d)))
      scan_globals(k, body_of(d), 0);
  }
  v = ka_anything(k, t);
done:
  free(name);
  VEC_FREE(&args);
  VEC_FREE(&kids);
  return v;
}
