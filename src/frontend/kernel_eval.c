// SPDX-License-Identifier: Apache-2.0
/* Expressions of kernels: values, addresses, conditions. */
#include "frontend/kernel_internal.h"
#include <ctype.h>
#include <string.h>

bool ka_has_kind(CXCursor c, enum CXCursorKind kind) {
  fe_list l = {0};
  fe_children(c, &l);
  bool r = false;
  for (size_t i = 0; i < l.n && !r; i++)
    r = clang_getCursorKind(l.v[i]) == kind || ka_has_kind(l.v[i], kind);
  VEC_FREE(&l);
  return r;
}

bool ka_pure(CXCursor c) {
  switch (clang_getCursorKind(c)) {
  case CXCursor_CompoundAssignOperator:
  case CXCursor_LambdaExpr:
    return false;
  case CXCursor_BinaryOperator:
    if (clang_getCursorBinaryOperatorKind(c) == CXBinaryOperator_Assign)
      return false;
    break;
  case CXCursor_UnaryOperator: {
    enum CXUnaryOperatorKind op = clang_getCursorUnaryOperatorKind(c);
    if (op >= CXUnaryOperator_PostInc && op <= CXUnaryOperator_PreDec)
      return false;
    break;
  }
  case CXCursor_CallExpr: {
    char *n = fe_spelling(c);
    bool ok = !strcmp(n, "min") || !strcmp(n, "max") || !strcmp(n, "__ldg");
    free(n);
    if (!ok)
      return false;
    break;
  }
  default:
    break;
  }
  fe_list l = {0};
  fe_children(c, &l);
  bool r = true;
  for (size_t i = 0; i < l.n && r; i++)
    r = ka_pure(l.v[i]);
  VEC_FREE(&l);
  return r;
}

static void expressions(CXCursor c, fe_list *out) {
  fe_list l = {0};
  fe_children(c, &l);
  VEC_EACH(&l, x)
  if (clang_isExpression(clang_getCursorKind(*x)))
    VEC_PUSH(out) = *x;
  VEC_FREE(&l);
}

/* The only operand of C; a null cursor when there is none or several. */
static CXCursor operand(CXCursor c) {
  fe_list l = {0};
  expressions(c, &l);
  CXCursor r = l.n == 1 ? l.v[0] : clang_getNullCursor();
  VEC_FREE(&l);
  return r;
}

/* What the pointer expression C points to, also inside templates, where C may have no type yet. */
static CXType pointed(CXCursor c) {
  CXType t = clang_getCursorType(c), canon = clang_getCanonicalType(t);
  if (ka_is_pointer(canon)) {
    CXType p = clang_getPointeeType(t);
    if (p.kind == CXType_Invalid)
      p = clang_getArrayElementType(t);
    return p.kind == CXType_Invalid ? ka_pointee(canon) : p;
  }
  CXType none = clang_getCursorType(clang_getNullCursor());
  if (clang_getCursorKind(c) == CXCursor_UnaryOperator &&
      clang_getCursorUnaryOperatorKind(c) == CXUnaryOperator_AddrOf) {
    CXCursor x = fe_strip(operand(c));
    return clang_getCursorKind(x) == CXCursor_ArraySubscriptExpr ? pointed(fe_child(x, 0))
                                                                 : clang_getCursorType(x);
  }
  fe_list l = {0};
  expressions(c, &l);
  CXType r = none;
  enum CXCursorKind k = clang_getCursorKind(c);
  if (k == CXCursor_BinaryOperator || k == CXCursor_ParenExpr || k == CXCursor_UnexposedExpr ||
      k == CXCursor_UnaryOperator)
    for (size_t i = 0; i < l.n && r.kind == CXType_Invalid; i++)
      r = pointed(l.v[i]);
  VEC_FREE(&l);
  return r;
}

static struct ka_poly size_of(struct ka *k, CXType t) {
  char *n = fe_type_name(t);
  bool bad = t.kind == CXType_Invalid || strchr(n, '<') == n;
  free(n);
  return bad ? (struct ka_poly){0} : ka_size(k, t);
}

/* The size of the object that the lvalue C names. */
static struct ka_poly lvalue_size(struct ka *k, CXCursor c) {
  CXCursor x = fe_strip(c);
  if (ka_is_dependent_type(ka_type(c))) {
    if (clang_getCursorKind(x) == CXCursor_ArraySubscriptExpr)
      return size_of(k, pointed(fe_child(x, 0)));
    if (clang_getCursorKind(x) == CXCursor_UnaryOperator)
      return size_of(k, pointed(operand(x)));
  }
  return size_of(k, clang_getCursorType(c));
}

/* ---- blockIdx.x and friends
 * ---------------------------------------------------------------------- */

/* Does the macro definition around offset AT have a parameter called NAME? */
static bool macro_parameter(const char *s, size_t at, char name) {
  size_t b = at;
  while (b > 0 && (s[b - 1] != '\n' || (b > 1 && s[b - 2] == '\\')))
    b--;
  const char *p = s + b;
  while (*p == ' ' || *p == '\t')
    p++;
  if (*p++ != '#')
    return false;
  while (*p == ' ' || *p == '\t')
    p++;
  if (strncmp(p, "define", 6) != 0)
    return false;
  for (p += 6; *p == ' ' || *p == '\t';)
    p++;
  while (isalnum((unsigned char)*p) || *p == '_')
    p++;
  if (*p != '(')
    return false;
  for (; *p && *p != ')'; p++)
    if (*p == name && !isalnum((unsigned char)p[1]) && p[1] != '_' &&
        !isalnum((unsigned char)p[-1]) && p[-1] != '_')
      return true;
  return false;
}

/* Which member does C name? Clang does not say; the text does. -1 when that is not certain. */
static int component(CXCursor c, const char *builtin) {
  CXFile file = NULL;
  unsigned at = 0;
  size_t size = 0, n = strlen(builtin);
  clang_getSpellingLocation(clang_getCursorLocation(c), &file, NULL, NULL, &at);
  const char *s =
      file ? clang_getFileContents(clang_Cursor_getTranslationUnit(c), file, &size) : NULL;
  if (!s || at + n + 2 >= size || strncmp(s + at, builtin, n) != 0)
    return -1;
  size_t i = at + n;
  while (i < size && isspace((unsigned char)s[i]))
    i++;
  if (i >= size || s[i++] != '.')
    return -1;
  while (i < size && isspace((unsigned char)s[i]))
    i++;
  if (i + 1 >= size || s[i] < 'x' || s[i] > 'z' || isalnum((unsigned char)s[i + 1]) ||
      s[i + 1] == '_' || macro_parameter(s, i, s[i]))
    return -1;
  return s[i] - 'x';
}

static bool builtin_index(struct ka *k, CXCursor c, struct ka_val *out) {
  CXCursor base = operand(c);
  if (clang_Cursor_isNull(base) || clang_getCursorKind(base) != CXCursor_DeclRefExpr)
    return false;
  char *n = fe_spelling(base);
  int *atoms = !strcmp(n, "blockIdx")    ? k->block
               : !strcmp(n, "threadIdx") ? k->thread
               : !strcmp(n, "blockDim")  ? k->block_dim
               : !strcmp(n, "gridDim")   ? k->grid_dim
                                         : NULL;
  char *member = fe_spelling(c);
  bool builtin = atoms && !*member;
  if (builtin) {
    int d = component(c, n);
    *out = ka_int(ka_of(d >= 0 ? atoms[d] : ka_atom(&k->s, "", false, true, 0)));
  }
  free(member);
  free(n);
  return builtin;
}

/* ---- addresses
 * ----------------------------------------------------------------------------------- */

static bool has_child(CXCursor c, enum CXCursorKind kind) {
  fe_list l = {0};
  fe_children(c, &l);
  bool r = false;
  VEC_EACH(&l, x) r = r || clang_getCursorKind(*x) == kind;
  VEC_FREE(&l);
  return r;
}

static bool in_function(CXCursor d) {
  switch (clang_getCursorKind(clang_getCursorSemanticParent(d))) {
  case CXCursor_FunctionDecl:
  case CXCursor_FunctionTemplate:
  case CXCursor_CXXMethod:
  case CXCursor_Constructor:
  case CXCursor_ConversionFunction:
    return true;
  default:
    return false;
  }
}

static struct ka_val variable(struct ka *k, CXCursor c, fe_key *key) {
  CXCursor d = clang_getCursorReferenced(c);
  enum CXCursorKind kind = clang_getCursorKind(d);
  if (kind != CXCursor_VarDecl && kind != CXCursor_ParmDecl)
    return kind == CXCursor_FunctionDecl ? ka_local() : (struct ka_val){.kind = KA_ANYWHERE};
  struct ka_var *x = ka_find(k, fe_decl_key(d));
  if (x && x->reference)
    return x->val;
  CXType t = ka_type(d);
  bool local = in_function(d) && clang_Cursor_getStorageClass(d) != CX_SC_Static;
  if (kind == CXCursor_VarDecl && (!x || !local)) {
    bool constant = clang_isConstQualifiedType(t) && !has_child(d, CXCursor_CUDADeviceAttr) &&
                    !has_child(d, CXCursor_CUDAConstantAttr);
    if (!local && !constant && !has_child(d, CXCursor_CUDASharedAttr) &&
        !clang_Location_isInSystemHeader(clang_getCursorLocation(d)))
      ka_global(k, d);
    return t.kind == CXType_LValueReference ? (struct ka_val){.kind = KA_ANYWHERE} : ka_local();
  }
  if (x && !x->unstable && !has_child(d, CXCursor_CUDASharedAttr) &&
      t.kind != CXType_LValueReference && t.kind != CXType_RValueReference)
    *key = x->key;
  else if (!x && t.kind == CXType_LValueReference)
    return (struct ka_val){.kind = KA_ANYWHERE};
  return ka_local();
}

static struct ka_val member(struct ka *k, CXCursor c) {
  CXCursor base = operand(c), f = clang_getCursorReferenced(c);
  if (clang_Cursor_isNull(base) || ka_type(f).kind == CXType_LValueReference)
    return (struct ka_val){.kind = KA_ANYWHERE};
  fe_key ignored = 0;
  struct ka_val v = ka_is_pointer(ka_type(base)) ? ka_eval(k, base) : ka_lvalue(k, base, &ignored);
  if (clang_getCursorKind(f) != CXCursor_FieldDecl)
    return clang_getCursorKind(f) == CXCursor_VarDecl ? ka_local()
                                                      : (struct ka_val){.kind = KA_ANYWHERE};
  long long bits = clang_Cursor_getOffsetOfField(f);
  struct ka_poly off = bits >= 0 && bits % 8 == 0 && !clang_Cursor_isBitField(f)
                           ? ka_const(bits / 8)
                           : (struct ka_poly){0};
  return ka_offset(k, &v, &off);
}

static struct ka_val element(struct ka *k, CXCursor c) {
  CXCursor p = fe_child(c, 0), i = fe_child(c, 1);
  struct ka_val vp = ka_eval(k, p), vi = ka_eval(k, i);
  if (vp.kind == KA_INT && vi.kind != KA_INT) { /* 3[x] */
    struct ka_val t = vp;
    vp = vi;
    vi = t;
    p = i;
  }
  struct ka_poly size = size_of(k, pointed(p)), off = {0};
  if (vi.kind == KA_INT)
    off = ka_mul(&vi.p, &size);
  return ka_offset(k, &vp, &off);
}

/* Every variable that C mentions may have been changed in a way that is not followed. */
static void forget_all(struct ka *k, CXCursor c) {
  if (clang_getCursorKind(c) == CXCursor_DeclRefExpr)
    ka_forget(k, fe_decl_key(clang_getCursorReferenced(c)));
  fe_list l = {0};
  fe_children(c, &l);
  VEC_EACH(&l, x) forget_all(k, *x);
  VEC_FREE(&l);
}

struct ka_val ka_lvalue(struct ka *k, CXCursor c, fe_key *key) {
  struct ka_val anywhere = {.kind = KA_ANYWHERE};
  *key = 0;
  if (clang_Cursor_isNull(c) || ++k->nesting > 200) {
    k->hopeless = k->hopeless || k->nesting > 200;
    return anywhere;
  }
  struct ka_val v = anywhere;
  CXCursor x;
  switch (clang_getCursorKind(c)) {
  case CXCursor_ParenExpr:
  case CXCursor_UnexposedExpr:
  case CXCursor_CStyleCastExpr:
  case CXCursor_CXXStaticCastExpr:
  case CXCursor_CXXReinterpretCastExpr:
  case CXCursor_CXXConstCastExpr:
  case CXCursor_CXXFunctionalCastExpr:
    x = operand(c);
    if (clang_Cursor_isNull(x)) {
      ka_eval(k, c);
      v = ka_local();
    } else if (clang_getCursorKind(c) != CXCursor_ParenExpr && ka_is_pointer(ka_type(c)) &&
               !ka_is_pointer(ka_type(x))) {
      ka_eval(k, c);
    } else {
      v = ka_lvalue(k, x, key);
    }
    break;
  case CXCursor_DeclRefExpr:
    v = variable(k, c, key);
    break;
  case CXCursor_ArraySubscriptExpr:
    v = element(k, c);
    break;
  case CXCursor_MemberRefExpr:
    if (builtin_index(k, c, &v))
      v = ka_local();
    else
      v = member(k, c);
    break;
  case CXCursor_UnaryOperator:
    if (clang_getCursorUnaryOperatorKind(c) == CXUnaryOperator_Deref) {
      v = ka_eval(k, operand(c));
    } else {
      ka_eval(k, c);
      x = operand(c);
      if (clang_getCursorUnaryOperatorKind(c) >= CXUnaryOperator_PreInc &&
          clang_getCursorUnaryOperatorKind(c) <= CXUnaryOperator_PreDec) {
        k->quiet++;
        v = ka_lvalue(k, x, key);
        k->quiet--;
      }
    }
    break;
  case CXCursor_CallExpr: {
    CXCursor d = clang_getCursorReferenced(c);
    enum CXTypeKind r = clang_getResultType(clang_getCursorType(d)).kind;
    struct ka_val result = ka_call(k, c);
    if (clang_getCursorKind(d) == CXCursor_Constructor ||
        (r != CXType_Invalid && r != CXType_LValueReference && r != CXType_RValueReference))
      v = ka_local();
    ka_escape(k, &result);
    break;
  }
  case CXCursor_IntegerLiteral:
  case CXCursor_FloatingLiteral:
  case CXCursor_StringLiteral:
  case CXCursor_CXXBoolLiteralExpr:
  case CXCursor_CharacterLiteral:
    v = ka_local();
    break;
  case CXCursor_InitListExpr:
  case CXCursor_CompoundLiteralExpr:
    ka_eval(k, c);
    v = ka_local();
    break;
  case CXCursor_BinaryOperator:
  case CXCursor_CompoundAssignOperator:
    v = ka_eval(k, c);
    ka_escape(k, &v);
    forget_all(k, c);
    v = ka_is_pointer(ka_type(c)) || !ka_pure(c) ? anywhere : ka_local();
    break;
  default:
    v = ka_eval(k, c);
    ka_escape(k, &v);
    forget_all(k, c);
    v = anywhere;
  }
  k->nesting--;
  return v;
}

/* ---- values
 * -------------------------------------------------------------------------------------- */

static struct ka_val load(struct ka *k, CXCursor c) {
  fe_key key;
  struct ka_val addr = ka_lvalue(k, c, &key);
  if (key)
    return ka_find(k, key)->val;
  CXType t = ka_type(c);
  if (ka_is_pointer(t) && t.kind != CXType_Pointer)
    return addr; /* an array turns into the address of its first element */
  struct ka_poly size = lvalue_size(k, c);
  ka_touch(k, &addr, &size, KA_READ);
  return ka_anything(k, t);
}

static struct ka_val name(struct ka *k, CXCursor c) {
  CXCursor d = clang_getCursorReferenced(c);
  int64_t value;
  switch (clang_getCursorKind(d)) {
  case CXCursor_EnumConstantDecl:
    return ka_int(ka_const(clang_getEnumConstantDeclValue(d)));
  case CXCursor_NonTypeTemplateParameter: {
    fe_key key = fe_decl_key(d);
    struct ka_var *x = ka_find(k, key);
    if (x)
      return x->val;
    if (!ka_is_integer(ka_type(d)))
      return ka_anything(k, ka_type(d));
    char *n = fe_spelling(d);
    bool positive = ka_is_unsigned(ka_type(d));
    struct ka_val v = ka_int(
        ka_of(k->depth ? ka_atom(&k->s, "", false, positive, 0) : ka_named(&k->s, n, positive, 0)));
    free(n);
    ka_set_var(k, key, ka_type(d), v);
    return v;
  }
  case CXCursor_FunctionDecl:
  case CXCursor_FunctionTemplate:
    return ka_none();
  default:
    if (!ka_find(k, fe_decl_key(d)) && fe_const(c, &value))
      return ka_int(ka_const(value));
    return load(k, c);
  }
}

static struct ka_val arithmetic(struct ka *k, enum CXBinaryOperatorKind op, const struct ka_val *a,
                                const struct ka_val *b, CXType t) {
  if (a->kind != KA_INT || b->kind != KA_INT || (!ka_is_integer(t) && !ka_is_dependent_type(t)))
    return ka_anything(k, t);
  struct ka_poly p = {0}, q, d;
  int64_t c;
  bool is_c = ka_is_const(&b->p, &c), shift = is_c && c >= 0 && c < 31;
  switch (op) {
  case CXBinaryOperator_Add:
  case CXBinaryOperator_Sub:
    p = ka_add(&a->p, &b->p, op == CXBinaryOperator_Add ? 1 : -1);
    break;
  case CXBinaryOperator_Mul:
    p = ka_mul(&a->p, &b->p);
    break;
  case CXBinaryOperator_Shl:
    d = ka_const(shift ? (int64_t)1 << c : 0);
    if (shift)
      p = ka_mul(&a->p, &d);
    break;
  case CXBinaryOperator_Div:
    if (!a->wrap && !b->wrap)
      p = ka_div(&k->s, &a->p, &b->p, false);
    break;
  case CXBinaryOperator_Shr:
    d = ka_const(shift ? (int64_t)1 << c : 0);
    if (shift)
      p = ka_div(&k->s, &a->p, &d, true);
    break;
  case CXBinaryOperator_Rem:
    if (a->wrap || b->wrap)
      break;
    q = ka_div(&k->s, &a->p, &b->p, false);
    q = ka_mul(&q, &b->p);
    p = ka_add(&a->p, &q, -1);
    break;
  case CXBinaryOperator_And: {
    const struct ka_val *x = a;
    if (!is_c && ka_is_const(&a->p, &c)) {
      x = b;
      is_c = true;
    }
    if (!is_c || c == INT64_MIN)
      break;
    int64_t unit = c >= 0 ? c + 1 : -c;
    d = ka_const(unit);
    if (unit > 0 && unit < INT32_MAX && !(unit & (unit - 1))) { /* a low mask, or its complement */
      q = ka_div(&k->s, &x->p, &d, true);
      q = ka_mul(&q, &d);
      p = c >= 0 ? ka_add(&x->p, &q, -1) : q;
    }
    if (!p.ok && c >= 0) {
      p = ka_of(ka_atom(&k->s, "", false, true, 0));
      q = ka_const(c);
      q = ka_add(&q, &p, -1);
      ka_assume(&k->s, &q);
    }
    break;
  }
  default:
    break;
  }
  if (!p.ok)
    return ka_anything(k, t);
  struct ka_val v = ka_int(p);
  v.wrap = (ka_is_dependent_type(t) || ka_is_unsigned(t)) && !ka_proved(&k->s, &p);
  return v;
}

static bool pointerish(const struct ka_val *v) {
  return v->kind == KA_PTR || v->kind == KA_ANYWHERE;
}

static bool dependent_value(const struct ka_val *v) {
  return v->kind == KA_PTR && v->n && v->b[0].dependent;
}

/* A op B where one may be a pointer; TA and TB say what a pointer points to. */
static struct ka_val combine(struct ka *k, enum CXBinaryOperatorKind op, const struct ka_val *a,
                             CXType ta, const struct ka_val *b, CXType tb, CXType t) {
  if (dependent_value(a) || dependent_value(b) ||
      (op != CXBinaryOperator_Add && op != CXBinaryOperator_Sub))
    return arithmetic(k, op, a, b, t);
  if (pointerish(a) && pointerish(b))
    return ka_anything(k, t); /* a difference */
  if (!pointerish(a) && !pointerish(b))
    return arithmetic(k, op, a, b, t);
  const struct ka_val *p = pointerish(a) ? a : b, *i = pointerish(a) ? b : a;
  struct ka_poly size = size_of(k, pointerish(a) ? ta : tb), sign, off = {0};
  sign = ka_const(op == CXBinaryOperator_Sub ? -1 : 1);
  if (i->kind == KA_INT) {
    off = ka_mul(&i->p, &size);
    off = ka_mul(&off, &sign);
  }
  return ka_offset(k, p, &off);
}

/* Evaluates C, which is executed only when COND has the value TRUTH. */
static struct ka_val guarded(struct ka *k, CXCursor cond, bool truth, CXCursor c) {
  struct ka_mark m = ka_enter(&k->s);
  bool pure = ka_pure(c);
  ka_env save = {0};
  if (!pure)
    VEC_EACH(&k->env, x) VEC_PUSH(&save) = *x;
  ka_condition(k, cond, truth);
  k->guarded++;
  struct ka_val v = ka_eval(k, c);
  k->guarded--;
  for (size_t i = 0; i < save.n; i++)
    k->env.v[i].val = ka_join(k, &save.v[i].val, &k->env.v[i].val, save.v[i].type);
  VEC_FREE(&save);
  ka_leave(&k->s, m);
  return v;
}

static struct ka_val store(struct ka *k, fe_key key, CXCursor lhs, const struct ka_val *addr,
                           struct ka_val v, CXType from, enum ka_mode mode) {
  CXType t = clang_getCursorType(lhs);
  if (key) {
    struct ka_var *x = ka_find(k, key);
    t = x->type;
    v = ka_convert(k, v, from, t);
    ka_set_var(k, key, t, v);
    return v;
  }
  if (!dependent_value(&v) || !ka_is_dependent_type(clang_getCanonicalType(from)))
    ka_escape(k, &v);
  struct ka_poly size = lvalue_size(k, lhs);
  ka_touch(k, addr, &size, mode);
  return ka_anything(k, t);
}

static enum CXBinaryOperatorKind plain(enum CXBinaryOperatorKind op) {
  switch (op) {
  case CXBinaryOperator_MulAssign:
    return CXBinaryOperator_Mul;
  case CXBinaryOperator_DivAssign:
    return CXBinaryOperator_Div;
  case CXBinaryOperator_RemAssign:
    return CXBinaryOperator_Rem;
  case CXBinaryOperator_AddAssign:
    return CXBinaryOperator_Add;
  case CXBinaryOperator_SubAssign:
    return CXBinaryOperator_Sub;
  case CXBinaryOperator_ShlAssign:
    return CXBinaryOperator_Shl;
  case CXBinaryOperator_ShrAssign:
    return CXBinaryOperator_Shr;
  case CXBinaryOperator_AndAssign:
    return CXBinaryOperator_And;
  default:
    return CXBinaryOperator_Invalid;
  }
}

/* lhs op= v; POST: the value is the old one. */
static struct ka_val update(struct ka *k, CXCursor lhs, enum CXBinaryOperatorKind op,
                            const struct ka_val *v, CXType vt, CXType t, bool post) {
  fe_key key;
  struct ka_val addr = ka_lvalue(k, lhs, &key);
  if (!key)
    return store(k, 0, lhs, &addr, ka_none(), vt, KA_READ | KA_WRITE);
  struct ka_val old = ka_find(k, key)->val;
  CXType wide = ka_is_integer(t) && ka_is_integer(vt) && ka_is_unsigned(vt) ? vt : t;
  struct ka_val now = combine(k, op, &old, pointed(lhs), v, vt, wide);
  now = store(k, key, lhs, &addr, now, wide, KA_WRITE);
  return post ? old : now;
}

static struct ka_val binary(struct ka *k, CXCursor c) {
  CXCursor l = fe_child(c, 0), r = fe_child(c, 1);
  CXType t = ka_type(c);
  enum CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(c);
  struct ka_val a, b;
  fe_key key;
  switch (op) {
  case CXBinaryOperator_Assign:
    b = ka_eval(k, r);
    a = ka_lvalue(k, l, &key);
    return store(k, key, l, &a, b, clang_getCursorType(r), KA_WRITE);
  case CXBinaryOperator_LAnd:
  case CXBinaryOperator_LOr:
    ka_eval(k, l);
    guarded(k, l, op == CXBinaryOperator_LAnd, r);
    return ka_anything(k, t);
  case CXBinaryOperator_Comma:
    ka_eval(k, l);
    return ka_eval(k, r);
  default:
    break;
  }
  a = ka_eval(k, l);
  b = ka_eval(k, r);
  if (op >= CXBinaryOperator_Cmp && op <= CXBinaryOperator_NE)
    return ka_anything(k, t);
  if (op == CXBinaryOperator_PtrMemD || op == CXBinaryOperator_PtrMemI) {
    ka_escape(k, &a);
    ka_escape(k, &b);
    return (struct ka_val){.kind = KA_ANYWHERE};
  }
  return combine(k, op, &a, pointed(l), &b, pointed(r), t);
}

static struct ka_val unary(struct ka *k, CXCursor c) {
  CXCursor x = operand(c);
  CXType t = ka_type(c);
  struct ka_val v, one = ka_int(ka_const(1));
  fe_key key;
  enum CXUnaryOperatorKind op = clang_getCursorUnaryOperatorKind(c);
  switch (op) {
  case CXUnaryOperator_PostInc:
  case CXUnaryOperator_PostDec:
  case CXUnaryOperator_PreInc:
  case CXUnaryOperator_PreDec:
    return update(k, x,
                  op == CXUnaryOperator_PostInc || op == CXUnaryOperator_PreInc
                      ? CXBinaryOperator_Add
                      : CXBinaryOperator_Sub,
                  &one, ka_type(x), ka_type(x),
                  op == CXUnaryOperator_PostInc || op == CXUnaryOperator_PostDec);
  case CXUnaryOperator_AddrOf:
    v = ka_lvalue(k, x, &key);
    return v;
  case CXUnaryOperator_Deref:
    return load(k, c);
  case CXUnaryOperator_Plus:
  case CXUnaryOperator_Extension:
    return ka_eval(k, x);
  case CXUnaryOperator_Minus: {
    struct ka_val zero = ka_int(ka_const(0));
    v = ka_eval(k, x);
    return arithmetic(k, CXBinaryOperator_Sub, &zero, &v, t);
  }
  case CXUnaryOperator_Not: { /* ~v == -v - 1 */
    struct ka_val minus = ka_int(ka_const(-1));
    v = ka_eval(k, x);
    return arithmetic(k, CXBinaryOperator_Sub, &minus, &v, t);
  }
  default:
    ka_eval(k, x);
    return ka_anything(k, t);
  }
}

static struct ka_val conditional(struct ka *k, CXCursor c) {
  CXCursor cond = fe_child(c, 0);
  ka_eval(k, cond);
  struct ka_val a = guarded(k, cond, true, fe_child(c, 1));
  struct ka_val b = guarded(k, cond, false, fe_child(c, 2));
  if (a.kind == KA_INT && b.kind == KA_INT && !ka_same(&a, &b)) {
    bool positive = ka_proved(&k->s, &a.p) && ka_proved(&k->s, &b.p);
    return ka_int(ka_of(ka_atom(&k->s, "", false, positive || ka_is_unsigned(ka_type(c)), 0)));
  }
  return ka_join(k, &a, &b, ka_type(c));
}

struct ka_val ka_eval(struct ka *k, CXCursor c) {
  if (clang_Cursor_isNull(c) || ++k->nesting > 200) {
    k->hopeless = k->hopeless || k->nesting > 200;
    return (struct ka_val){.kind = KA_ANYWHERE};
  }
  CXType t = ka_type(c);
  struct ka_val v = ka_none();
  CXCursor x;
  int64_t value;
  switch (clang_getCursorKind(c)) {
  case CXCursor_IntegerLiteral:
  case CXCursor_CharacterLiteral:
  case CXCursor_CXXBoolLiteralExpr:
    v = fe_const(c, &value) ? ka_int(ka_const(value)) : ka_anything(k, t);
    break;
  case CXCursor_UnaryExpr: { /* sizeof, alignof: the operand is not evaluated */
    if (fe_const(c, &value)) {
      v = ka_int(ka_const(value));
    } else {
      int a = ka_atom(&k->s, "", false, true, 1);
      CXCursor type = fe_child(c, 0);
      char *n = clang_getCursorKind(type) == CXCursor_TypeRef ? fe_spelling(type) : NULL;
      if (n && !k->depth) {
        char *text = xasprintf("sizeof(%s)", n);
        a = ka_named(&k->s, text, true, 1);
        free(text);
      }
      free(n);
      v = ka_int(ka_of(a));
    }
    break;
  }
  case CXCursor_FloatingLiteral:
    break;
  case CXCursor_StringLiteral:
  case CXCursor_CXXNullPtrLiteralExpr:
  case CXCursor_GNUNullExpr:
    v = ka_local();
    break;
  case CXCursor_DeclRefExpr:
    v = name(k, c);
    break;
  case CXCursor_MemberRefExpr:
    if (!builtin_index(k, c, &v))
      v = load(k, c);
    break;
  case CXCursor_ArraySubscriptExpr:
    v = load(k, c);
    break;
  case CXCursor_ParenExpr:
  case CXCursor_UnexposedExpr:
  case CXCursor_CStyleCastExpr:
  case CXCursor_CXXStaticCastExpr:
  case CXCursor_CXXReinterpretCastExpr:
  case CXCursor_CXXConstCastExpr:
  case CXCursor_CXXFunctionalCastExpr:
    x = operand(c);
    if (clang_Cursor_isNull(x)) {
      fe_list l = {0};
      expressions(c, &l);
      VEC_EACH(&l, e) {
        struct ka_val w = ka_eval(k, *e);
        ka_escape(k, &w);
      }
      VEC_FREE(&l);
      v = ka_anything(k, t);
    } else {
      v = ka_eval(k, x);
      if (clang_getCursorKind(c) == CXCursor_ParenExpr)
        break;
      CXType from = ka_type(x);
      if (from.kind == CXType_Invalid || fe_is_dependent(x))
        from = v.kind == KA_INT && !ka_is_integer(from) ? t : from;
      v = ka_convert(k, v, from, t);
      if (ka_is_pointer(t) && v.kind == KA_INT)
        v = ka_is_const(&v.p, &value) && !value ? ka_local() : (struct ka_val){.kind = KA_ANYWHERE};
      else if (ka_is_pointer(t) && v.kind == KA_NONE)
        v = (struct ka_val){.kind = KA_ANYWHERE};
    }
    break;
  case CXCursor_BinaryOperator:
    v = binary(k, c);
    break;
  case CXCursor_CompoundAssignOperator: {
    CXCursor l = fe_child(c, 0), r = fe_child(c, 1);
    struct ka_val rhs = ka_eval(k, r);
    v = update(k, l, plain(clang_getCursorBinaryOperatorKind(c)), &rhs, ka_type(r), ka_type(l),
               false);
    break;
  }
  case CXCursor_UnaryOperator:
    v = unary(k, c);
    break;
  case CXCursor_ConditionalOperator:
    v = conditional(k, c);
    break;
  case CXCursor_CallExpr:
    v = ka_call(k, c);
    break;
  default: { /* initialiser lists, lambdas, assembly, what libclang does not name */
    fe_list l = {0};
    fe_children(c, &l);
    VEC_EACH(&l, e) {
      if (!clang_isExpression(clang_getCursorKind(*e)))
        continue;
      struct ka_val w = ka_eval(k, *e);
      ka_escape(k, &w);
      if (clang_getCursorKind(*e) == CXCursor_DeclRefExpr)
        forget_all(k, *e);
    }
    VEC_FREE(&l);
    v = ka_is_pointer(t) || ka_is_integer(t) || ka_is_dependent_type(t) ? ka_anything(k, t)
                                                                        : ka_none();
    if (clang_getCursorKind(c) == CXCursor_LambdaExpr)
      k->hopeless = true; /* its body runs who knows when */
  }
  }
  k->nesting--;
  return v;
}

/* ---- conditions
 * ---------------------------------------------------------------------------------- */

/* a + 1 - strict <= b */
static void at_most(struct ka *k, const struct ka_val *a, const struct ka_val *b, bool strict) {
  if (b->wrap) /* b's true value may be larger */
    return;
  struct ka_poly one = ka_const(strict), d = ka_add(&b->p, &a->p, -1);
  d = ka_add(&d, &one, -1);
  ka_assume(&k->s, &d);
}

static void compare(struct ka *k, CXCursor c, bool truth) {
  enum CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(c);
  k->quiet++;
  struct ka_val a = ka_eval(k, fe_child(c, 0)), b = ka_eval(k, fe_child(c, 1));
  k->quiet--;
  if (a.kind != KA_INT || b.kind != KA_INT)
    return;
  if (ka_is_dependent_type(ka_type(fe_child(c, 0))) ||
      ka_is_dependent_type(ka_type(fe_child(c, 1)))) { /* perhaps compared as unsigned numbers */
    a.wrap = a.wrap || !ka_proved(&k->s, &a.p);
    b.wrap = b.wrap || !ka_proved(&k->s, &b.p);
  }
  switch (op) {
  case CXBinaryOperator_LT:
    truth ? at_most(k, &a, &b, true) : at_most(k, &b, &a, false);
    break;
  case CXBinaryOperator_LE:
    truth ? at_most(k, &a, &b, false) : at_most(k, &b, &a, true);
    break;
  case CXBinaryOperator_GT:
    truth ? at_most(k, &b, &a, true) : at_most(k, &a, &b, false);
    break;
  case CXBinaryOperator_GE:
    truth ? at_most(k, &b, &a, false) : at_most(k, &a, &b, true);
    break;
  case CXBinaryOperator_EQ:
  case CXBinaryOperator_NE:
    if (truth == (op == CXBinaryOperator_EQ)) {
      at_most(k, &a, &b, false);
      at_most(k, &b, &a, false);
    }
    break;
  default:
    break;
  }
}

void ka_condition(struct ka *k, CXCursor c, bool truth) {
  while (clang_getCursorKind(c) == CXCursor_ParenExpr ||
         clang_getCursorKind(c) == CXCursor_UnexposedExpr) {
    c = operand(c);
    if (clang_Cursor_isNull(c))
      return;
  }
  if (!ka_pure(c))
    return;
  if (clang_getCursorKind(c) == CXCursor_UnaryOperator &&
      clang_getCursorUnaryOperatorKind(c) == CXUnaryOperator_LNot) {
    ka_condition(k, operand(c), !truth);
    return;
  }
  if (clang_getCursorKind(c) != CXCursor_BinaryOperator)
    return;
  enum CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(c);
  if (op == CXBinaryOperator_LAnd || op == CXBinaryOperator_LOr) {
    if (truth == (op == CXBinaryOperator_LAnd)) {
      ka_condition(k, fe_child(c, 0), truth);
      ka_condition(k, fe_child(c, 1), truth);
    }
    return;
  }
  compare(k, c, truth);
}
