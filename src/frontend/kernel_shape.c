// SPDX-License-Identifier: Apache-2.0
/* Where the parts of a kernel's text are, whether its grid may be launched in parts, and where control
 * may leave or enter a function's straight-line code. */
#include "frontend/internal.h"
#include "support/strbuf.h"
#include <string.h>

struct shape {
  struct fe *f;
  size_t begin, end;      /* the kernel's text */
  bool outside;           /* in a function that the kernel calls */
  VEC(CXCursor) pending;  /* functions called, not looked at yet */
  VEC(fe_key) seen;
  char *why;              /* first reason against parts */
};

static void refuse(struct shape *s, const char *why) {
  if (!s->why)
    s->why = xstrdup(why);
}

/* Is C spelled in the kernel's own text, outside macros? */
static bool spelled_here(struct shape *s, CXCursor c) {
  CXSourceLocation l = clang_getCursorLocation(c);
  CXFile file, spelled_file;
  unsigned at, spelled;
  clang_getExpansionLocation(l, &file, NULL, NULL, &at);
  clang_getSpellingLocation(l, &spelled_file, NULL, NULL, &spelled);
  return !s->outside && clang_Location_isFromMainFile(l) && file && spelled_file &&
         clang_File_isEqual(file, spelled_file) && at == spelled && at >= s->begin && at < s->end;
}

static void called(struct shape *s, CXCursor decl) {
  CXCursor tmpl = clang_getSpecializedCursorTemplate(decl);
  CXCursor def = clang_getCursorDefinition(clang_Cursor_isNull(tmpl) ? decl : tmpl);
  if (clang_Cursor_isNull(def))
    return; /* an intrinsic */
  fe_key key = fe_decl_key(def);
  VEC_EACH(&s->seen, k) if (*k == key) return;
  VEC_PUSH(&s->seen) = key;
  VEC_PUSH(&s->pending) = def;
}

static void look(struct shape *s, CXCursor c) {
  enum CXCursorKind kind = clang_getCursorKind(c);
  fe_list kids = {0};
  if (kind == CXCursor_DeclRefExpr) {
    char *name = fe_spelling(c);
    if ((!strcmp(name, "blockIdx") || !strcmp(name, "gridDim")) && !spelled_here(s, c))
      refuse(s, s->outside ? "a function that it calls uses blockIdx or gridDim"
                           : "it uses blockIdx or gridDim through a macro");
    free(name);
  }
  if (kind == CXCursor_GCCAsmStmt || kind == CXCursor_MSAsmStmt)
    refuse(s, "it, or a function that it calls, contains assembly");
  if (kind == CXCursor_CallExpr || kind == CXCursor_DeclRefExpr || kind == CXCursor_MemberRefExpr) {
    CXCursor decl = clang_getCursorReferenced(c);
    enum CXCursorKind dk = clang_getCursorKind(decl);
    if (dk == CXCursor_FunctionDecl || dk == CXCursor_CXXMethod || dk == CXCursor_Constructor ||
        dk == CXCursor_ConversionFunction || dk == CXCursor_FunctionTemplate)
      called(s, decl);
  }
  if (kind == CXCursor_OverloadedDeclRef)
    for (unsigned i = 0; i < clang_getNumOverloadedDecls(c); i++)
      called(s, clang_getOverloadedDecl(c, i));
  fe_children(c, &kids);
  VEC_EACH(&kids, k) look(s, *k);
  VEC_FREE(&kids);
}

/* Intrinsics are written in assembly in the headers: what system headers define is looked at for the
 * grid's position only through cooperative groups, which the access analysis knows as grid_sync. */
static bool in_system_header(CXCursor c) {
  return clang_Location_isInSystemHeader(clang_getCursorLocation(c)) != 0;
}

void fe_kernel_shape(struct fe *f, CXCursor definition, ir_id kernel) {
  struct ir_kernel *k = &f->p->kernels.v[kernel];
  struct shape s = {.f = f, .begin = k->range.begin, .end = k->range.end};
  if (!fe_in_main_file(definition) ||
      fe_spelled(clang_getCursorLocation(definition)) != IR_SPELLED_PLAIN) {
    ir_set(&k->whole_grid, "it is not defined in the input file itself");
    return;
  }
  fe_list kids = {0};
  fe_children(definition, &kids);
  VEC_EACH(&kids, c) {
    switch (clang_getCursorKind(*c)) {
    case CXCursor_TemplateTypeParameter:
    case CXCursor_NonTypeTemplateParameter:
      VEC_PUSH(&k->template_params) = fe_spelling(*c);
      if (!k->template_params.v[k->template_params.n - 1][0])
        refuse(&s, "a template parameter has no name");
      break;
    case CXCursor_TemplateTemplateParameter:
      refuse(&s, "it has a template template parameter");
      break;
    case CXCursor_ParmDecl: {
      char *name = fe_spelling(*c);
      if (!name[0])
        refuse(&s, "a parameter has no name");
      free(name);
      break;
    }
    case CXCursor_CompoundStmt: {
      struct ir_range r = fe_range(f, *c);
      k->body_at = r.begin;
      look(&s, *c);
      break;
    }
    default:
      break;
    }
  }
  VEC_FREE(&kids);
  s.outside = true;
  for (size_t i = 0; i < s.pending.n && !s.why; i++) {
    CXCursor def = s.pending.v[i];
    if (in_system_header(def)) {
      char *name = fe_spelling(def), *ns = fe_spelling(clang_getCursorSemanticParent(def));
      if (strstr(ns, "grid_group") || strstr(name, "this_grid") || strstr(name, "this_cluster"))
        refuse(&s, "it uses the cooperative group of its grid or cluster");
      free(name), free(ns);
    } else {
      look(&s, def);
    }
  }
  unsigned at = 0;
  CXFile file;
  clang_getExpansionLocation(clang_getCursorLocation(definition), &file, NULL, NULL, &at);
  k->name_at = at;
  if (k->opaque || k->body_at == 0)
    refuse(&s, "its body is not visible");
  if (k->grid_sync)
    refuse(&s, "its blocks wait for each other");
  if (clang_Cursor_isVariadic(definition))
    refuse(&s, "it is variadic");
  VEC_EACH(&k->params, q)
  if (strstr(q->type, "..."))
    refuse(&s, "it has a parameter pack");
  if (k->device_globals.n)
    refuse(&s, "it uses __device__ variables");
  ir_set(&k->whole_grid, s.why ? s.why : "");
  free(s.why);
  VEC_FREE(&s.pending);
  VEC_FREE(&s.seen);
}

/* ---- jumps --------------------------------------------------------------------------------------- */

static void jumps(struct fe *f, CXCursor c, ir_id id) {
  switch (clang_getCursorKind(c)) {
  case CXCursor_LambdaExpr:
    return; /* a function of its own */
  case CXCursor_ReturnStmt:
  case CXCursor_BreakStmt:
  case CXCursor_ContinueStmt:
  case CXCursor_GotoStmt:
  case CXCursor_IndirectGotoStmt:
  case CXCursor_CXXThrowExpr:
  case CXCursor_LabelStmt:
  case CXCursor_CaseStmt:
  case CXCursor_DefaultStmt:
    if (fe_in_main_file(c) && fe_spelled(clang_getCursorLocation(c)) != IR_SPELLED_MACRO_BODY) {
      struct ir_range r = fe_range(f, c);
      VEC_PUSH(&f->p->functions.v[id].jumps).at = r.begin;
    }
    break;
  default:
    break;
  }
  fe_list kids = {0};
  fe_children(c, &kids);
  VEC_EACH(&kids, k) jumps(f, *k, id);
  VEC_FREE(&kids);
}

void fe_jumps(struct fe *f, CXCursor function, ir_id id) {
  fe_list kids = {0};
  fe_children(function, &kids);
  VEC_EACH(&kids, k) jumps(f, *k, id);
  VEC_FREE(&kids);
}
