// SPDX-License-Identifier: Apache-2.0
/* clang expressions -> symbolic integer expressions. */
#include "frontend/internal.h"
#include "support/strbuf.h"
#include <ctype.h>
#include <string.h>

bool fe_is_dependent(CXCursor c) {
  CXType t = clang_getCursorType(c);
  if (t.kind == CXType_Dependent || t.kind == CXType_Invalid)
    return true;
  bool dependent = false;
  if (t.kind == CXType_Unexposed) {
    char *s = fe_type_name(t);
    dependent = strchr(s, '<') != NULL || !strchr(s, ':');
    free(s);
  }
  return dependent;
}

static bool constant(CXCursor c, int64_t *out, int depth) {
  if (depth > 40)
    return false;
  c = fe_strip(c);
  switch (clang_getCursorKind(c)) {
  case CXCursor_IntegerLiteral:
  case CXCursor_CharacterLiteral:
  case CXCursor_CXXBoolLiteralExpr:
  case CXCursor_UnaryExpr:
  case CXCursor_UnaryOperator:
  case CXCursor_BinaryOperator:
    break;
  case CXCursor_DeclRefExpr: {
    CXCursor d = clang_getCursorReferenced(c);
    if (clang_getCursorKind(d) == CXCursor_EnumConstantDecl) {
      *out = clang_getEnumConstantDeclValue(d);
      return true;
    }
    if (clang_getCursorKind(d) != CXCursor_VarDecl ||
        !clang_isConstQualifiedType(clang_getCanonicalType(clang_getCursorType(d))))
      return false;
    break;
  }
  default:
    return false;
  }
  if (fe_is_dependent(c))
    return false;
  /* Only closed expressions: no variable that is not const, nothing that depends on a template. */
  fe_list kids = {0};
  fe_children(c, &kids);
  bool closed = true;
  enum CXCursorKind kind = clang_getCursorKind(c);
  VEC_EACH(&kids, k) {
    int64_t ignored;
    if (kind == CXCursor_UnaryExpr) { /* sizeof, alignof: of a type or an expression */
      if (clang_isExpression(clang_getCursorKind(*k)) && fe_is_dependent(*k))
        closed = false;
      else if (clang_getCursorKind(*k) == CXCursor_TypeRef &&
               clang_getCursorKind(clang_getCursorReferenced(*k)) == CXCursor_TemplateTypeParameter)
        closed = false;
    } else if (clang_isExpression(clang_getCursorKind(*k)) && !constant(*k, &ignored, depth + 1))
      closed = false;
  }
  VEC_FREE(&kids);
  if (!closed)
    return false;
  CXEvalResult r = clang_Cursor_Evaluate(c);
  bool ok = r && clang_EvalResult_getKind(r) == CXEval_Int;
  if (ok)
    *out = (int64_t)clang_EvalResult_getAsLongLong(r);
  if (r)
    clang_EvalResult_dispose(r);
  return ok;
}

bool fe_const(CXCursor c, int64_t *out) { return constant(c, out, 0); }

static bool has_call(CXCursor c) {
  enum CXCursorKind k = clang_getCursorKind(c);
  if (k == CXCursor_CallExpr || k == CXCursor_LambdaExpr)
    return true;
  fe_list kids = {0};
  bool r = false;
  fe_children(c, &kids);
  for (size_t i = 0; i < kids.n && !r; i++)
    r = has_call(kids.v[i]);
  VEC_FREE(&kids);
  return r;
}

struct spelled {
  char *name, *symbol;
};
typedef VEC(struct spelled) spellings;

/* The variables in C whose symbols are not their names. */
static void versions(struct fe *f, CXCursor c, spellings *out) {
  if (clang_getCursorKind(c) == CXCursor_DeclRefExpr) {
    CXCursor d = clang_getCursorReferenced(c);
    enum CXCursorKind k = clang_getCursorKind(d);
    if (k == CXCursor_VarDecl || k == CXCursor_ParmDecl) {
      struct spelled s = {fe_spelling(d), fe_symbol_of(f, d, c)};
      if (strcmp(s.name, s.symbol)) {
        VEC_PUSH(out) = s;
        return;
      }
      free(s.name);
      free(s.symbol);
    }
  }
  fe_list kids = {0};
  fe_children(c, &kids);
  VEC_EACH(&kids, k) versions(f, *k, out);
  VEC_FREE(&kids);
}

static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The text of C with the symbols of its variables, so that equal texts stand for equal values. */
static char *versioned_text(struct fe *f, CXCursor c) {
  char *text = fe_cursor_text(f, c);
  spellings l = {0};
  struct strbuf b = {0};
  versions(f, c, &l);
  for (const char *s = text; *s && l.n;) {
    size_t n = 0;
    while (in_name(s[n]))
      n++;
    const char *as = NULL;
    VEC_EACH(&l, v)
    if (n && strlen(v->name) == n && !strncmp(v->name, s, n))
      as = v->symbol;
    if (as)
      sb_add(&b, as);
    else
      sb_addn(&b, s, n ? n : 1);
    s += n ? n : 1;
  }
  VEC_EACH(&l, v) {
    free(v->name);
    free(v->symbol);
  }
  if (l.n) {
    free(text);
    text = sb_take(&b);
  }
  VEC_FREE(&l);
  return text;
}

static bool is_floating(CXCursor c) {
  enum CXTypeKind k = clang_getCanonicalType(clang_getCursorType(c)).kind;
  return k == CXType_Float || k == CXType_Double || k == CXType_LongDouble;
}

static void as_symbol(struct fe *f, CXCursor c, struct ir_expr *e) {
  CXCursor d = clang_getCursorKind(c) == CXCursor_DeclRefExpr ? clang_getCursorReferenced(c)
                                                              : clang_getNullCursor();
  enum CXCursorKind k = clang_getCursorKind(d);
  char *text = k == CXCursor_VarDecl || k == CXCursor_ParmDecl ? fe_symbol_of(f, d, c)
                                                               : versioned_text(f, c);
  ir_expr_free(e);
  if (!*text)
    ir_expr_init(e);
  else if (has_call(c))
    ir_expr_opaque(e, text);
  else
    ir_expr_symbol(e, text);
  free(text);
}

void fe_expr(struct fe *f, CXCursor c, struct ir_expr *e) {
  c = fe_strip(c);
  int64_t value;
  if (clang_Cursor_isNull(c))
    return;
  if (fe_const(c, &value)) {
    ir_expr_free(e);
    ir_expr_const(e, value);
    return;
  }
  enum CXBinaryOperatorKind op = clang_getCursorKind(c) == CXCursor_BinaryOperator
                                     ? clang_getCursorBinaryOperatorKind(c)
                                     : CXBinaryOperator_Invalid;
  if (f->depth < 100 && !is_floating(c) && /* rounded as a whole */
      (op == CXBinaryOperator_Add || op == CXBinaryOperator_Sub || op == CXBinaryOperator_Mul)) {
    fe_list kids = {0};
    fe_children(c, &kids);
    if (kids.n == 2) {
      struct ir_expr a, b, r;
      ir_expr_init(&a);
      ir_expr_init(&b);
      ir_expr_init(&r);
      f->depth++;
      fe_expr(f, kids.v[0], &a);
      fe_expr(f, kids.v[1], &b);
      f->depth--;
      if (op == CXBinaryOperator_Mul)
        ir_expr_mul(&r, &a, &b);
      else
        ir_expr_add(&r, &a, &b, op == CXBinaryOperator_Add ? 1 : -1);
      ir_expr_free(e);
      *e = r;
      ir_expr_free(&a);
      ir_expr_free(&b);
      VEC_FREE(&kids);
      return;
    }
    VEC_FREE(&kids);
  }
  as_symbol(f, c, e);
}
