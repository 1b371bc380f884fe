// SPDX-License-Identifier: Apache-2.0
/* Values, types, variables and recorded accesses of the kernel access analysis. */
#include "frontend/kernel_internal.h"
#include <string.h>

/* ---- types
 * --------------------------------------------------------------------------------------- */

CXType ka_type(CXCursor c) { return clang_getCanonicalType(clang_getCursorType(c)); }

bool ka_is_integer(CXType t) {
  return (t.kind >= CXType_Bool && t.kind <= CXType_Int128) || t.kind == CXType_Enum;
}

bool ka_is_unsigned(CXType t) {
  if (t.kind == CXType_Enum)
    t = clang_getEnumDeclIntegerType(clang_getTypeDeclaration(t));
  t = clang_getCanonicalType(t);
  return (t.kind >= CXType_Bool && t.kind <= CXType_UInt128);
}

static bool is_array(CXType t) {
  return t.kind == CXType_ConstantArray || t.kind == CXType_IncompleteArray ||
         t.kind == CXType_VariableArray || t.kind == CXType_DependentSizedArray;
}

bool ka_is_pointer(CXType t) { return t.kind == CXType_Pointer || is_array(t); }

bool ka_is_dependent_type(CXType t) {
  return t.kind == CXType_Dependent || t.kind == CXType_Unexposed || t.kind == CXType_Invalid;
}

CXType ka_pointee(CXType t) {
  return clang_getCanonicalType(is_array(t) ? clang_getArrayElementType(t)
                                            : clang_getPointeeType(t));
}

struct fields {
  int depth;
  bool found;
};

static enum CXChildVisitResult visit_field(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  struct fields *f = data;
  enum CXCursorKind kind = clang_getCursorKind(c);
  if (kind == CXCursor_FieldDecl || kind == CXCursor_CXXBaseSpecifier)
    f->found = f->found || ka_holds_pointer(ka_type(c), f->depth + 1);
  return f->found ? CXChildVisit_Break : CXChildVisit_Continue;
}

bool ka_holds_pointer(CXType t, int depth) {
  t = clang_getCanonicalType(t);
  if (is_array(t) && depth < 8)
    return ka_holds_pointer(clang_getArrayElementType(t), depth + 1);
  if (t.kind == CXType_Record && depth < 8) {
    struct fields f = {depth, false};
    CXCursor d = clang_getCursorDefinition(clang_getTypeDeclaration(t));
    if (clang_Cursor_isNull(d))
      return true;
    clang_visitChildren(d, visit_field, &f);
    if (!f.found) { /* a class template's specialisation shows no fields */
      CXCursor tmpl = clang_getSpecializedCursorTemplate(d);
      if (!clang_Cursor_isNull(tmpl))
        clang_visitChildren(tmpl, visit_field, &f);
    }
    return f.found;
  }
  return t.kind == CXType_Pointer || t.kind == CXType_LValueReference ||
         t.kind == CXType_RValueReference || t.kind == CXType_MemberPointer || depth >= 8 ||
         ka_is_dependent_type(t);
}

struct ka_poly ka_size(struct ka *k, CXType t) {
  CXType spelled = t;
  t = clang_getCanonicalType(t);
  if (t.kind == CXType_Void)
    return ka_const(1);
  long long n = is_array(t) && t.kind != CXType_ConstantArray ? -1 : clang_Type_getSizeOf(t);
  if (n >= 0)
    return ka_const(n);
  if (!ka_is_dependent_type(t))
    return (struct ka_poly){0};
  char *name = fe_type_name(clang_getUnqualifiedType(spelled));
  char *text = xasprintf("sizeof(%s)", name);
  /* The same name means another type in another function. */
  struct ka_poly r =
      ka_of(k->depth ? ka_atom(&k->s, "", false, true, 1) : ka_named(&k->s, text, true, 1));
  free(name);
  free(text);
  return r;
}

/* ---- values
 * -------------------------------------------------------------------------------------- */

struct ka_val ka_none(void) {
  return (struct ka_val){.kind = KA_NONE};
}
struct ka_val ka_int(struct ka_poly p) {
  return (struct ka_val){.kind = KA_INT, .p = p};
}

struct ka_val ka_local(void) {
  struct ka_val v = {.kind = KA_PTR, .n = 1};
  v.b[0].param = KA_LOCAL;
  v.b[0].off = ka_const(0);
  return v;
}

struct ka_val ka_anything(struct ka *k, CXType t) {
  t = clang_getCanonicalType(t);
  if (ka_is_pointer(t))
    return (struct ka_val){.kind = KA_ANYWHERE};
  if (!ka_is_integer(t) && !ka_is_dependent_type(t))
    return ka_none();
  int a = ka_atom(&k->s, "", false, ka_is_integer(t) && ka_is_unsigned(t), 0);
  struct ka_poly p = ka_of(a);
  long long size = ka_is_integer(t) ? clang_Type_getSizeOf(t) : 0;
  if (size == 1 || size == 2) {
    struct ka_poly max = ka_const(t.kind == CXType_Bool ? 1 : size == 1 ? 255 : 65535);
    struct ka_poly below = ka_add(&max, &p, -1);
    VEC_PUSH(&k->s.cons) = below;
  }
  return ka_int(p);
}

struct ka_val ka_offset(struct ka *k, const struct ka_val *ptr, const struct ka_poly *bytes) {
  (void)k;
  struct ka_val v = *ptr;
  if (v.kind != KA_PTR)
    return (struct ka_val){.kind = KA_ANYWHERE};
  for (int i = 0; i < v.n; i++)
    v.b[i].off = ka_add(&v.b[i].off, bytes, 1);
  return v;
}

struct ka_val ka_convert(struct ka *k, struct ka_val v, CXType from, CXType to) {
  from = clang_getCanonicalType(from);
  to = clang_getCanonicalType(to);
  if (ka_is_pointer(to) || to.kind == CXType_LValueReference)
    return v;
  if (ka_is_dependent_type(to)) /* perhaps a short type */
    return v.kind == KA_INT ? ka_anything(k, to) : v;
  if (!ka_is_integer(to)) {
    if (v.kind == KA_PTR && to.kind != CXType_Void && to.kind != CXType_Bool)
      ka_escape(k, &v);
    return ka_none();
  }
  if (v.kind == KA_PTR && to.kind != CXType_Bool)
    ka_escape(k, &v);
  if (v.kind != KA_INT || !v.p.ok)
    return ka_anything(k, to);
  long long size = clang_Type_getSizeOf(to), old = clang_Type_getSizeOf(from);
  int64_t c;
  if (to.kind == CXType_Bool && from.kind != CXType_Bool)
    return ka_anything(k, to);
  if (size < 4 && size != old) { /* a short type: constants keep their value when they fit */
    if (!ka_is_const(&v.p, &c) || c < 0 || c > 127)
      return ka_anything(k, to);
  }
  bool negative = !ka_proved(&k->s, &v.p);
  if (ka_is_unsigned(to)) {
    if (v.wrap && size > old && old > 0 && negative)
      return ka_anything(k, to);
    v.wrap = negative;
  } else if (v.wrap) {
    if (size > old && negative)
      return ka_anything(k, to);
    v.wrap = false;
  }
  return v;
}

bool ka_same(const struct ka_val *a, const struct ka_val *b) {
  if (a->kind != b->kind)
    return false;
  if (a->kind == KA_INT)
    return a->wrap == b->wrap && ka_equal(&a->p, &b->p);
  if (a->kind != KA_PTR)
    return true;
  if (a->n != b->n)
    return false;
  for (int i = 0; i < a->n; i++)
    if (a->b[i].param != b->b[i].param || !ka_equal(&a->b[i].off, &b->b[i].off))
      return false;
  return true;
}

struct ka_val ka_join(struct ka *k, const struct ka_val *a, const struct ka_val *b, CXType t) {
  if (ka_same(a, b))
    return *a;
  if (a->kind != KA_PTR || b->kind != KA_PTR) {
    if (a->kind == KA_PTR || b->kind == KA_PTR) {
      ka_escape(k, a);
      ka_escape(k, b);
      return (struct ka_val){.kind = KA_ANYWHERE};
    }
    return a->kind == KA_ANYWHERE || b->kind == KA_ANYWHERE ? (struct ka_val){.kind = KA_ANYWHERE}
                                                            : ka_anything(k, t);
  }
  struct ka_val v = *a;
  for (int i = 0; i < b->n; i++) {
    bool known = false;
    for (int j = 0; j < v.n; j++)
      known = known || (v.b[j].param == b->b[i].param &&
                        (v.b[j].param == KA_LOCAL || ka_equal(&v.b[j].off, &b->b[i].off)));
    if (known)
      continue;
    if (v.n == KA_BASES) {
      ka_escape(k, a);
      ka_escape(k, b);
      return (struct ka_val){.kind = KA_ANYWHERE};
    }
    v.b[v.n++] = b->b[i];
  }
  return v;
}

/* ---- variables
 * ----------------------------------------------------------------------------------- */

struct ka_var *ka_find(struct ka *k, fe_key key) {
  for (size_t i = k->env.n; i-- > 0;)
    if (k->env.v[i].key == key)
      return &k->env.v[i];
  return NULL;
}

void ka_set_var(struct ka *k, fe_key key, CXType type, struct ka_val v) {
  struct ka_var *x = ka_find(k, key);
  if (!x) {
    x = &VEC_PUSH(&k->env);
    x->key = key;
  }
  x->type = clang_getCanonicalType(type);
  x->reference = false;
  if (x->unstable) {
    ka_escape(k, &v);
    v = ka_none();
  } else if (v.kind == KA_INT && !v.p.ok) {
    v = ka_anything(k, type);
  }
  x = ka_find(k, key);
  x->val = v;
}

void ka_forget(struct ka *k, fe_key key) {
  struct ka_var *x = ka_find(k, key);
  if (!x)
    return;
  if (x->reference) {
    ka_escape(k, &x->val);
    x->val = (struct ka_val){.kind = KA_ANYWHERE};
    return;
  }
  if (x->val.kind == KA_PTR)
    ka_escape(k, &x->val);
  struct ka_val v = ka_anything(k, x->type);
  ka_find(k, key)->val = v;
}

/* ---- accesses
 * ------------------------------------------------------------------------------------ */

void ka_escape(struct ka *k, const struct ka_val *v) {
  if (k->quiet || v->kind != KA_PTR)
    return;
  for (int i = 0; i < v->n; i++)
    if (v->b[i].param >= 0) {
      k->params[v->b[i].param].unknown = true;
      if (v->b[i].dependent)
        k->params[v->b[i].param].dependent = true;
    }
}

/* An access through a pointer that came from memory. */
static void touch_anywhere(struct ka *k) {
  bool holder = false;
  for (int i = 0; i < k->n_params; i++)
    holder = holder || k->params[i].holder;
  for (int i = 0; i < k->n_params; i++)
    if (k->params[i].holder || (!holder && k->params[i].pointer))
      k->params[i].unknown = true;
}

/* Does every thread of a block touch its own SIZE bytes, side by side? */
static bool is_dense(const struct ka *k, const struct ka_poly *off, const struct ka_poly *size) {
  int64_t bytes;
  if (!ka_is_const(size, &bytes))
    return false;
  int inner = 0;
  for (int i = 0; i < off->n; i++) {
    bool outer = true;
    for (int j = 0; j < off->m[i].n; j++)
      outer = outer && k->s.atoms.v[off->m[i].a[j]].outer;
    if (outer)
      continue;
    inner++;
    if (off->m[i].n != 1 || off->m[i].a[0] != k->thread[0] || off->m[i].c != bytes)
      return false;
  }
  return inner == 1;
}

void ka_touch(struct ka *k, const struct ka_val *addr, const struct ka_poly *size,
              enum ka_mode mode) {
  if (k->quiet)
    return;
  if (addr->kind != KA_PTR) {
    touch_anywhere(k);
    return;
  }
  for (int i = 0; i < addr->n; i++) {
    int param = addr->b[i].param;
    if (param < 0)
      continue;
    if (addr->b[i].dependent)
      k->params[param].dependent = k->params[param].unknown = true;
    struct ka_access *a = &VEC_PUSH(&k->accesses);
    a->param = param;
    a->mode = mode;
    struct ka_poly off = addr->b[i].off, end = ka_add(&off, size, 1);
    a->exact = !k->guarded && addr->n == 1 && off.ok && size->ok && is_dense(k, &off, size);
    for (size_t j = 0; j < k->s.atoms.n && a->n_facts < KA_FACTS; j++)
      if (k->s.atoms.v[j].outer && k->s.atoms.v[j].has_lb) {
        a->facts[a->n_facts].atom = (int)j;
        a->facts[a->n_facts++].lb = k->s.atoms.v[j].lb;
      }
    ka_bound(&k->s, &off, -1, false, &a->lo);
    ka_bound(&k->s, &end, 1, false, &a->hi);
    ka_bound(&k->s, &off, -1, true, &a->whole_lo);
    ka_bound(&k->s, &end, 1, true, &a->whole_hi);
  }
}

void ka_global(struct ka *k, CXCursor decl) {
  if (k->quiet)
    return;
  char *name = fe_spelling(decl);
  VEC_EACH(&k->globals, g)
  if (!strcmp(*g, name)) {
    free(name);
    return;
  }
  VEC_PUSH(&k->globals) = name;
}
