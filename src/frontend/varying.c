// SPDX-License-Identifier: Apache-2.0
/* Which variables change where: versions of symbols, and what a loop assigns. */
#include "frontend/internal.h"
#include "support/strbuf.h"
#include <string.h>

typedef void store_fn(struct fe *f, CXCursor lvalue, CXCursor at, void *data);

/* Calls SEE for every assignment below C; returns false when a call may assign what is not visible.
 */
static bool each_store(struct fe *f, CXCursor c, store_fn *see, void *data, int depth) {
  enum CXCursorKind kind = clang_getCursorKind(c);
  bool known = depth < 400;
  if (!known)
    return false;
  fe_list kids = {0};
  fe_children(c, &kids);
  switch (kind) {
  case CXCursor_VarDecl:
    see(f, c, c, data);
    break;
  case CXCursor_BinaryOperator:
    if (kids.n == 2 && clang_getCursorBinaryOperatorKind(c) == CXBinaryOperator_Assign)
      see(f, kids.v[0], c, data);
    break;
  case CXCursor_CompoundAssignOperator:
    if (kids.n == 2)
      see(f, kids.v[0], c, data);
    break;
  case CXCursor_UnaryOperator: {
    enum CXUnaryOperatorKind op = clang_getCursorUnaryOperatorKind(c);
    /* An address that is taken: whoever receives it may assign. */
    if (kids.n && ((op >= CXUnaryOperator_PostInc && op <= CXUnaryOperator_PreDec) ||
                   op == CXUnaryOperator_AddrOf))
      see(f, kids.v[0], c, data);
    break;
  }
  case CXCursor_LambdaExpr:
    known = false;
    break;
  case CXCursor_CallExpr: {
    CXCursor decl;
    char *name = fe_callee(c, &decl);
    fe_list args = {0};
    fe_call_args(c, &args);
    if (!clang_Cursor_isNull(decl) && fe_function_of(f, decl) >= 0)
      known = false; /* may assign globals, members or reference parameters */
    else if (!strcmp(name, "swap") || !strcmp(name, "exchange"))
      VEC_EACH(&args, a) see(f, *a, c, data);
    VEC_FREE(&args);
    free(name);
    break;
  }
  default:
    break;
  }
  VEC_EACH(&kids, k) known &= each_store(f, *k, see, data, depth + 1);
  VEC_FREE(&kids);
  return known;
}

static CXCursor variable_of(CXCursor lvalue) {
  lvalue = fe_strip(lvalue);
  switch (clang_getCursorKind(lvalue)) {
  case CXCursor_VarDecl:
    return lvalue;
  case CXCursor_DeclRefExpr:
    return clang_getCursorReferenced(lvalue);
  default:
    return clang_getNullCursor();
  }
}

/* The variable that LVALUE is, or is a part of. */
static CXCursor base_of(CXCursor lvalue) {
  for (;;) {
    lvalue = fe_strip(lvalue);
    enum CXCursorKind k = clang_getCursorKind(lvalue);
    if (k != CXCursor_MemberRefExpr && k != CXCursor_ArraySubscriptExpr)
      return variable_of(lvalue);
    lvalue = fe_child(lvalue, 0);
  }
}

static void record(struct fe *f, CXCursor lvalue, CXCursor at, void *data) {
  (void)data;
  CXCursor v = base_of(lvalue);
  struct ir_range r = fe_range(f, at);
  if (!clang_Cursor_isNull(v) && r.file >= 0 && clang_getCursorKind(at) != CXCursor_VarDecl)
    VEC_PUSH(&f->stores) = (struct fe_store){fe_decl_key(v), r.begin};
}

void fe_collect_stores(struct fe *f, CXCursor function) {
  each_store(f, function, record, NULL, 0);
}

char *fe_symbol_of(struct fe *f, CXCursor variable, CXCursor use) {
  fe_key key = fe_decl_key(variable);
  char *name = fe_spelling(variable);
  struct ir_range at = fe_range(f, use);
  unsigned version = 0, before_first = 0;
  size_t first = 0;
  bool used = false;
  VEC_EACH(&f->first_uses, u)
  if (u->key == key) {
    first = u->at;
    used = true;
  }
  if (!used || at.begin < first) {
    if (!used)
      VEC_PUSH(&f->first_uses) = (struct fe_store){key, at.begin};
    first = at.begin;
  }
  VEC_EACH(&f->stores, s)
  if (s->key == key) {
    version += s->at < at.begin;
    before_first += s->at < first;
  }
  /* Two variables of one name in one function: tell the later ones apart. */
  unsigned twin = 0;
  fe_key owner = fe_decl_key(clang_getCursorSemanticParent(variable));
  VEC_EACH(&f->named, n)
  if (n->owner == owner && !strcmp(n->name, name)) {
    if (n->key == key) {
      twin = n->twin;
      goto named;
    }
    twin = n->twin + 1;
  }
  VEC_PUSH(&f->named) = (struct fe_named){key, owner, xstrdup(name), twin};
named:
  version -= before_first;
  if (version || twin) {
    char *s = version && twin ? xasprintf("%s:%u@%u", name, twin, version)
              : version       ? xasprintf("%s@%u", name, version)
                              : xasprintf("%s:%u", name, twin);
    free(name);
    return s;
  }
  return name;
}

struct loop {
  ir_id node;
};

/* Appends TEXT, which it takes over, to what varies in the loop NODE. */
static void add_varying(struct fe *f, ir_id node, char *text) {
  struct ir_node *n = ir_node(f->p, node);
  bool seen = !*text;
  VEC_EACH(&n->u.control.varying, t) seen |= !strcmp(*t, text);
  if (seen)
    free(text);
  else
    VEC_PUSH(&n->u.control.varying) = text;
}

static void vary(struct fe *f, CXCursor lvalue, CXCursor at, void *data) {
  struct loop *l = data;
  (void)at;
  CXCursor v = base_of(lvalue);
  if (clang_Cursor_isNull(variable_of(lvalue)))
    add_varying(f, l->node, fe_cursor_text(f, fe_strip(lvalue)));
  if (clang_Cursor_isNull(v))
    return;
  char *text = fe_spelling(v);
  fe_key key = fe_decl_key(v);
  VEC_EACH(&f->named, n)
  if (n->key == key && n->twin) {
    free(text);
    text = xasprintf("%s:%u", n->name, n->twin);
  }
  add_varying(f, l->node, text);
}

void fe_varying(struct fe *f, CXCursor c, ir_id node) {
  struct loop l = {node};
  bool known = each_store(f, c, vary, &l, 0);
  ir_node(f->p, node)->u.control.varying_known = known;
}
