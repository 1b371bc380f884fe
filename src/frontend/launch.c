// SPDX-License-Identifier: Apache-2.0
/* What a launch touches: the ranges of its kernel with the arguments in place of the parameters. */
#include "frontend/internal.h"
#include <ctype.h>
#include <string.h>

/* ---- dimensions ------------------------------------------------------------------------------ */

static bool is_dim3(CXCursor c) {
  char *s = fe_type_name(clang_getCanonicalType(clang_getCursorType(c)));
  bool r = !strcmp(s, "dim3") || !strcmp(s, "const dim3");
  free(s);
  return r;
}

/* The three numbers of the dim3 or integer C; unknown ones stay so. */
static void dimensions(struct fe *f, CXCursor c, struct ir_expr out[3], int depth) {
  if (clang_Cursor_isNull(c) || depth > 8)
    return;
  c = fe_strip(c);
  enum CXCursorKind kind = clang_getCursorKind(c);
  if (kind == CXCursor_DeclRefExpr && is_dim3(c)) {
    CXCursor d = clang_getCursorReferenced(c);
    enum CXCursorKind dk = clang_getCursorKind(d);
    char *name = dk == CXCursor_VarDecl || dk == CXCursor_ParmDecl ? fe_symbol_of(f, d, c) : NULL;
    for (int i = 0; name && i < 3; i++) {
      char *s = xasprintf("%s.%c", name, "xyz"[i]);
      ir_expr_symbol(&out[i], s);
      free(s);
    }
    free(name);
    return;
  }
  if (kind == CXCursor_CallExpr && is_dim3(c)) {
    fe_list args = {0};
    fe_call_args(c, &args);
    if (args.n == 1 && is_dim3(fe_strip(args.v[0])))
      dimensions(f, args.v[0], out, depth + 1); /* a copy */
    else
      for (size_t i = 0; i < 3; i++)
        if (i < args.n && fe_range(f, args.v[i]).file >= 0)
          fe_expr(f, args.v[i], &out[i]);
        else
          ir_expr_const(&out[i], 1); /* by default */
    VEC_FREE(&args);
    return;
  }
  if (!is_dim3(c)) {
    fe_expr(f, c, &out[0]);
    ir_expr_const(&out[1], 1);
    ir_expr_const(&out[2], 1);
  }
}

/* ---- arguments ------------------------------------------------------------------------------- */

void fe_launch_init(struct fe *f, ir_id kernel, const fe_list *args, CXCursor grid, CXCursor block,
                    struct fe_launch *l) {
  *l = (struct fe_launch){.kernel = kernel};
  for (int i = 0; i < 3; i++) {
    ir_expr_init(&l->grid[i]);
    ir_expr_init(&l->block[i]);
  }
  if (kernel < 0 || f->p->kernels.v[kernel].params.n != args->n)
    return; /* a parameter pack, or not followed */
  dimensions(f, grid, l->grid, 0);
  dimensions(f, block, l->block, 0);
  for (size_t i = 0; i < args->n; i++) {
    struct fe_launch_arg *a = &VEC_PUSH(&l->args);
    CXType t = clang_getCanonicalType(clang_getCursorType(args->v[i]));
    ir_expr_init(&a->value);
    if (t.kind == CXType_Pointer)
      a->pointee = clang_Type_getSizeOf(clang_getPointeeType(t));
    else if (t.kind != CXType_Record)
      fe_expr(f, args->v[i], &a->value);
  }
}

void fe_launch_free(struct fe_launch *l) {
  for (int i = 0; i < 3; i++) {
    ir_expr_free(&l->grid[i]);
    ir_expr_free(&l->block[i]);
  }
  VEC_EACH(&l->args, a) ir_expr_free(&a->value);
  VEC_FREE(&l->args);
}

/* ---- substitution ---------------------------------------------------------------------------- */

/* The size of the template parameter T, from an argument for a parameter of type T *; 0 = unknown.
 */
static int64_t size_of(const struct ir_kernel *k, const struct fe_launch *l, const char *t,
                       size_t n) {
  for (size_t i = 0; i < k->params.n; i++) {
    const char *type = k->params.v[i].type;
    type += strncmp(type, "const ", 6) ? 0 : 6;
    if (!strncmp(type, t, n) &&
        (!strcmp(type + n, " *") || !strncmp(type + n, " *__restrict", 12)) &&
        l->args.v[i].pointee > 0)
      return l->args.v[i].pointee;
  }
  return 0;
}

/* OUT (initialised) = the value of the factor [S, S + N) of a symbol; false when it is not known.
 */
static bool factor(const struct ir_kernel *k, const struct fe_launch *l, const char *s, size_t n,
                   struct ir_expr *out) {
  static const char *const dims[] = {"gridDim.", "blockDim."};
  for (int i = 0; i < 2; i++)
    if (n == strlen(dims[i]) + 1 && !strncmp(s, dims[i], n - 1)) {
      const struct ir_expr *e = &(i ? l->block : l->grid)[s[n - 1] - 'x'];
      ir_expr_copy(out, e);
      return e->affine;
    }
  if (n > 8 && !strncmp(s, "sizeof(", 7)) {
    int64_t size = size_of(k, l, s + 7, n - 8);
    ir_expr_const(out, size);
    return size > 0;
  }
  for (size_t i = 0; i < k->params.n; i++)
    if (!k->params.v[i].pointer && strlen(k->params.v[i].name) == n &&
        !strncmp(k->params.v[i].name, s, n)) {
      ir_expr_copy(out, &l->args.v[i].value);
      return out->affine;
    }
  return false;
}

/* The end of the factor at S: a name, a member, or a name with brackets. */
static const char *factor_end(const char *s) {
  int depth = 0;
  for (; *s && (depth || *s != '*'); s++)
    depth += (*s == '(') - (*s == ')');
  return s;
}

/* OUT (initialised) = E for this launch; false when it cannot be said in terms of the host. */
static bool substitute(const struct ir_kernel *k, const struct fe_launch *l,
                       const struct ir_expr *e, struct ir_expr *out) {
  bool ok = e->affine;
  ir_expr_const(out, e->constant);
  for (size_t i = 0; ok && i < e->terms.n; i++) {
    struct ir_expr term, x;
    ir_expr_init(&term);
    ir_expr_init(&x);
    ir_expr_const(&term, e->terms.v[i].coef);
    for (const char *s = e->terms.v[i].symbol; ok && *s;) {
      const char *end = factor_end(s);
      ok = factor(k, l, s, (size_t)(end - s), &x);
      if (ok)
        ir_expr_mul(&term, &term, &x);
      s = *end ? end + 1 : end;
    }
    if (ok)
      ir_expr_add(out, out, &term, 1);
    ir_expr_free(&term);
    ir_expr_free(&x);
  }
  return ok && out->affine;
}

bool fe_launch_range(const struct fe *f, const struct fe_launch *l, const struct ir_access *a,
                     struct ir_expr *offset, struct ir_expr *size) {
  if (l->kernel < 0 || !l->args.n || !ir_expr_known(&a->all_base) || !ir_expr_known(&a->all_extent))
    return false;
  const struct ir_kernel *k = &f->p->kernels.v[l->kernel];
  return substitute(k, l, &a->all_base, offset) && substitute(k, l, &a->all_extent, size);
}
