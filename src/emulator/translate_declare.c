// SPDX-License-Identifier: Apache-2.0
/* Declarations and uses, on the syntax tree. The emulator's headers mark what CUDA's words declare
 * with annotations while a program is translated (host_defines.h). */
#include "backend/rewriter.h"
#include "emulator/translate_internal.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct pass {
  CXTranslationUnit tu;
  CXFile file;
  struct tr_file *f;
  struct diag_engine *diag;
  struct rewriter rw;
  bool ok;
};

/* ---- places ------------------------------------------------------------------------------------------- */

/* The offset in the pass's file of a place; SIZE_MAX when it is elsewhere. */
static size_t offset_of(const struct pass *p, CXSourceLocation l, bool spelling) {
  CXFile file = NULL;
  unsigned at = 0;
  if (spelling)
    clang_getSpellingLocation(l, &file, NULL, NULL, &at);
  else
    clang_getFileLocation(l, &file, NULL, NULL, &at);
  return file && clang_File_isEqual(file, p->file) ? at : SIZE_MAX;
}
static size_t begin_of(const struct pass *p, CXCursor c) {
  return offset_of(p, clang_getRangeStart(clang_getCursorExtent(c)), false);
}
static size_t end_of(const struct pass *p, CXCursor c) {
  return offset_of(p, clang_getRangeEnd(clang_getCursorExtent(c)), false);
}

static void refuse(struct pass *p, CXCursor c, const char *what) {
  unsigned line, col;
  clang_getFileLocation(clang_getCursorLocation(c), NULL, &line, &col, NULL);
  struct diag_loc at = {p->f->path, line, col, 0};
  diag_report(p->diag, DIAG_emulation_unsupported, &at, "%s", what);
  p->ok = false;
}

/* Replaces [BEGIN, END) and keeps its line ends. */
static void replace(struct pass *p, size_t begin, size_t end, const char *text, CXCursor c) {
  struct strbuf s = {0};
  sb_add(&s, text);
  for (size_t i = begin; i < end; i++)
    if (p->rw.text[i] == '\n')
      sb_add(&s, p->rw.text[i - 1] == '\\' ? " \\\n" : "\n");
  if (!rw_replace(&p->rw, begin, end, s.s))
    refuse(p, c, "this declaration cannot be rewritten: it shares its text with another one; write it out");
  sb_free(&s);
}

/* ---- what the annotations say -------------------------------------------------------------------------- */

enum mark { MARK_NONE, MARK_SHARED, MARK_DEVICE, MARK_MANAGED, MARK_GLOBAL };

static enum CXChildVisitResult on_mark(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  static const char *const names[] = {"", "emu_shared", "emu_device", "emu_managed", "emu_global"};
  enum mark *m = data;
  if (clang_getCursorKind(c) == CXCursor_AnnotateAttr) {
    char *s = tr_take(clang_getCursorSpelling(c));
    for (size_t i = 1; i < sizeof names / sizeof *names; i++)
      if (!strcmp(s, names[i]) && *m < i)
        *m = (enum mark)i;
    free(s);
  }
  return CXChildVisit_Continue;
}

static enum mark mark_of(CXCursor declaration) {
  enum mark m = MARK_NONE;
  clang_visitChildren(declaration, on_mark, &m);
  if (m == MARK_NONE) { /* said at another declaration of the same thing */
    CXCursor first = clang_getCanonicalCursor(declaration);
    if (!clang_equalCursors(first, declaration))
      clang_visitChildren(first, on_mark, &m);
  }
  return m;
}

/* A constant of the language: every use is its value. */
static bool is_constant(CXCursor var) {
  CXEvalResult r = NULL;
  CXType type = clang_getCursorType(var);
  if (!clang_isConstQualifiedType(type) || clang_getCanonicalType(type).kind == CXType_ConstantArray)
    return false;
  CXCursor init = clang_Cursor_getVarDeclInitializer(var);
  if (clang_Cursor_isNull(init))
    return false;
  r = clang_Cursor_Evaluate(init);
  bool yes = r && clang_EvalResult_getKind(r) == CXEval_Int;
  if (r)
    clang_EvalResult_dispose(r);
  return yes;
}

/* ---- shared variables ----------------------------------------------------------------------------------- */

/* Adds the C++ declaration of a __shared__ variable. */
static void shared_variable(struct pass *p, CXCursor v, struct strbuf *out, bool local) {
  CXType type = clang_getCursorType(v);
  char *name = tr_take(clang_getCursorSpelling(v));
  char *spelled = tr_take(clang_getTypeSpelling(type));
  bool dynamic = type.kind == CXType_IncompleteArray;
  if (dynamic) {
    free(spelled);
    spelled = tr_take(clang_getTypeSpelling(clang_getArrayElementType(type)));
  }
  if (strstr(spelled, "(unnamed") || strstr(spelled, "(anonymous") || strstr(spelled, "(lambda"))
    refuse(p, v, "the type of this __shared__ variable has no name; give it one");
  else if (dynamic && !local)
    sb_addf(out, "static ::emu::cuda::SharedDynamic<%s> %s;", spelled, name);
  else if (dynamic)
    sb_addf(out, "%s *%s = ::emu::cuda::shared_dynamic<%s>(); ", spelled, name, spelled);
  else
    sb_addf(out, "auto &%s = ::emu::cuda::shared_var<%s>([] {}); ", name, spelled);
  free(name);
  free(spelled);
}

static enum CXChildVisitResult add_shared(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  struct {
    struct pass *p;
    struct strbuf *out;
  } *d = data;
  if (clang_getCursorKind(c) == CXCursor_VarDecl)
    shared_variable(d->p, c, d->out, true);
  return CXChildVisit_Continue;
}

/* From BEGIN back over the words that may stand before a type. */
static size_t widen(const struct pass *p, size_t begin) {
  static const char *const words[] = {"__shared__", "extern", "static", "volatile"};
  for (bool again = true; again;) {
    size_t e = begin;
    again = false;
    while (e > 0 && isspace((unsigned char)p->rw.text[e - 1]))
      e--;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
      size_t n = strlen(words[i]);
      if (e >= n && !memcmp(p->rw.text + e - n, words[i], n) &&
          (e == n || !(isalnum((unsigned char)p->rw.text[e - n - 1]) || p->rw.text[e - n - 1] == '_'))) {
        begin = e - n;
        again = true;
      }
    }
  }
  return begin;
}

static void shared_statement(struct pass *p, CXCursor statement, CXCursor var) {
  size_t begin = begin_of(p, statement), end = end_of(p, statement);
  if (begin == SIZE_MAX || end == SIZE_MAX || begin >= end || p->rw.text[end - 1] != ';') {
    refuse(p, var, "a __shared__ variable that a macro declares is not emulated; write it out");
    return;
  }
  struct strbuf out = {0};
  struct {
    struct pass *p;
    struct strbuf *out;
  } d = {p, &out};
  clang_visitChildren(statement, add_shared, &d);
  if (out.n)
    replace(p, widen(p, begin), end, out.s, var);
  sb_free(&out);
}

static enum CXChildVisitResult find_shared(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  if (clang_getCursorKind(c) == CXCursor_VarDecl && mark_of(c) == MARK_SHARED) {
    *(CXCursor *)data = c;
    return CXChildVisit_Break;
  }
  return CXChildVisit_Continue;
}

/* ---- variables of a device ------------------------------------------------------------------------------ */

static void device_use(struct pass *p, CXCursor use, CXCursor var, enum mark m) {
  char *name = tr_take(clang_getCursorSpelling(var));
  size_t n = strlen(name);
  CXSourceLocation l = clang_getCursorLocation(use);
  size_t at = offset_of(p, l, false);
  bool in_macro = at == SIZE_MAX || at + n > p->rw.size || memcmp(p->rw.text + at, name, n);
  if (in_macro) /* the use is in a macro's body */
    at = offset_of(p, l, true);
  if (at == SIZE_MAX || at + n > p->rw.size || memcmp(p->rw.text + at, name, n)) {
    refuse(p, use, "this use of a __device__ variable comes out of a macro that cannot be rewritten; write it out");
    free(name);
    return;
  }
  size_t begin = at; /* with its namespace */
  while (begin > 0 && (isalnum((unsigned char)p->rw.text[begin - 1]) || strchr("_:", p->rw.text[begin - 1])))
    begin--;
  if (at - begin < 2 || p->rw.text[at - 1] != ':')
    begin = at;
  char *whole = xstrndup(p->rw.text + begin, at + n - begin);
  char *text = xasprintf("(*::emu::cuda::%s(&%s))", m == MARK_MANAGED ? "managed_var" : "device_var", whole);
  if (!rw_replace(&p->rw, begin, at + n, text))
    refuse(p, use, "this use of a __device__ variable cannot be rewritten; write it out");
  free(text);
  free(whole);
  free(name);
}

/* ---- kernels as addresses ---------------------------------------------------------------------------------- */

static enum CXChildVisitResult find_kernel(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  CXCursor d = clang_getNullCursor();
  if (clang_getCursorKind(c) == CXCursor_DeclRefExpr)
    d = clang_getCursorReferenced(c);
  else if (clang_getCursorKind(c) == CXCursor_OverloadedDeclRef && clang_getNumOverloadedDecls(c))
    d = clang_getOverloadedDecl(c, 0);
  CXCursor general = clang_getSpecializedCursorTemplate(d);
  if (mark_of(d) == MARK_GLOBAL || (!clang_Cursor_isNull(general) && mark_of(general) == MARK_GLOBAL)) {
    *(bool *)data = true;
    return CXChildVisit_Break;
  }
  return clang_getCursorKind(c) == CXCursor_CallExpr || clang_getCursorKind(c) == CXCursor_LambdaExpr
             ? CXChildVisit_Continue
             : CXChildVisit_Recurse;
}

static enum CXChildVisitResult last_child(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  *(CXCursor *)data = c;
  return CXChildVisit_Continue;
}

static void kernel_cast(struct pass *p, CXCursor cast) {
  CXType to = clang_getCanonicalType(clang_getCursorType(cast));
  bool found = false;
  if (to.kind != CXType_Pointer || clang_getCanonicalType(clang_getPointeeType(to)).kind != CXType_Void)
    return;
  clang_visitChildren(cast, find_kernel, &found);
  if (!found)
    return;
  CXCursor operand = clang_getNullCursor();
  clang_visitChildren(cast, last_child, &operand);
  size_t begin = begin_of(p, operand), end = end_of(p, operand), close = end_of(p, cast);
  if (begin == SIZE_MAX || end == SIZE_MAX || close == SIZE_MAX || end <= begin)
    return;
  if (clang_getCursorKind(cast) == CXCursor_CStyleCastExpr)
    end = close;
  if (end < close && p->rw.text[end] == '>') /* the extent of a name without its template arguments */
    end++;
  char *whole = xstrndup(p->rw.text + begin, end - begin);
  char *text = xasprintf("::emu::cuda::kernel_handle(%s)", whole);
  rw_replace(&p->rw, begin, end, text);
  free(text);
  free(whole);
}

/* ---- the walk ------------------------------------------------------------------------------------------------- */

static enum CXChildVisitResult on_cursor(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  struct pass *p = data;
  enum CXCursorKind kind = clang_getCursorKind(c);
  CXCursor var;
  switch (kind) {
  case CXCursor_DeclStmt:
    var = clang_getNullCursor();
    clang_visitChildren(c, find_shared, &var);
    if (clang_Cursor_isNull(var))
      break;
    shared_statement(p, c, var);
    return CXChildVisit_Continue;
  case CXCursor_CStyleCastExpr:
  case CXCursor_CXXReinterpretCastExpr:
    kernel_cast(p, c);
    break;
  case CXCursor_DeclRefExpr:
  case CXCursor_MemberRefExpr: {
    CXCursor d = clang_getCursorReferenced(c);
    if (clang_getCursorKind(d) != CXCursor_VarDecl)
      break;
    enum mark m = mark_of(d);
    char *name = m == MARK_DEVICE || m == MARK_MANAGED ? tr_take(clang_getCursorSpelling(d)) : NULL;
    if (name && !is_constant(d))
      device_use(p, c, d, m);
    free(name);
    break;
  }
  default:
    break;
  }
  return CXChildVisit_Recurse;
}

static enum CXChildVisitResult on_top(CXCursor c, CXCursor parent, CXClientData data) {
  struct pass *p = data;
  CXFile file = NULL;
  clang_getFileLocation(clang_getCursorLocation(c), &file, NULL, NULL, NULL);
  if (!file || !clang_File_isEqual(file, p->file))
    return CXChildVisit_Continue;
  enum CXCursorKind kind = clang_getCursorKind(c);
  if (kind == CXCursor_Namespace || kind == CXCursor_LinkageSpec || kind == CXCursor_UnexposedDecl) {
    clang_visitChildren(c, on_top, data);
    return CXChildVisit_Continue;
  }
  if (kind == CXCursor_VarDecl && mark_of(c) == MARK_SHARED) {
    size_t begin = begin_of(p, c), end = end_of(p, c);
    struct strbuf out = {0};
    shared_variable(p, c, &out, false);
    while (end < p->rw.size && end != SIZE_MAX && p->rw.text[end] != ';')
      end++;
    if (out.n && begin != SIZE_MAX && end < p->rw.size)
      replace(p, widen(p, begin), end + 1, out.s, c);
    sb_free(&out);
    return CXChildVisit_Continue;
  }
  if (on_cursor(c, parent, data) == CXChildVisit_Recurse)
    clang_visitChildren(c, on_cursor, data);
  return CXChildVisit_Continue;
}

/* Assembly in code that is compiled. */
static void refuse_assembly(struct pass *p) {
  CXSourceRangeList *skipped = clang_getSkippedRanges(p->tu, p->file);
  VEC_EACH(&p->f->assembly, a) {
    bool active = true;
    for (unsigned i = 0; skipped && i < skipped->count; i++) {
      unsigned begin, end;
      clang_getSpellingLocation(clang_getRangeStart(skipped->ranges[i]), NULL, &begin, NULL, NULL);
      clang_getSpellingLocation(clang_getRangeEnd(skipped->ranges[i]), NULL, &end, NULL, NULL);
      active &= a->line < begin || a->line > end;
    }
    if (active) {
      struct diag_loc at = {p->f->path, a->line, a->col, 0};
      diag_report(p->diag, DIAG_emulation_unsupported, &at,
                  "inline PTX is not emulated; choose a form of the program without it");
      p->ok = false;
    }
  }
  if (skipped)
    clang_disposeSourceRangeList(skipped);
}

/* Local files are included by the names of their translations. */
static enum CXChildVisitResult on_include(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  struct {
    struct pass *p;
    const tr_files *files;
  } *d = data;
  struct pass *p = d->p;
  if (clang_getCursorKind(c) != CXCursor_InclusionDirective)
    return CXChildVisit_Continue;
  size_t begin = begin_of(p, c), end = end_of(p, c);
  CXFile included = clang_getIncludedFile(c);
  if (begin == SIZE_MAX || end == SIZE_MAX || !included)
    return CXChildVisit_Continue;
  char *path = tr_take(clang_getFileName(included));
  const char *name = NULL;
  VEC_EACH(d->files, f)
  if (!strcmp(f->path, path))
    name = f->target;
  while (begin < end && !strchr("\"<", p->rw.text[begin]))
    begin++;
  if (begin < end && (name || p->rw.text[begin] == '"')) {
    size_t close = begin + 1;
    while (close < p->rw.size && !strchr("\">\n", p->rw.text[close]))
      close++;
    char *real = name ? NULL : realpath(path, NULL);
    char *text = xasprintf("\"%s\"", name ? name : real ? real : path);
    if (close < p->rw.size)
      rw_replace(&p->rw, begin, close + 1, text);
    free(text);
    free(real);
  }
  free(path);
  return CXChildVisit_Continue;
}

bool tr_declarations(CXTranslationUnit tu, const tr_files *files, struct tr_file *f,
                     struct diag_engine *diag) {
  struct pass p = {.tu = tu, .file = clang_getFile(tu, f->path), .f = f, .diag = diag, .ok = true};
  struct {
    struct pass *p;
    const tr_files *files;
  } include = {&p, files};
  if (!p.file)
    return true;
  rw_init(&p.rw, f->text.s, f->text.n);
  refuse_assembly(&p);
  clang_visitChildren(clang_getTranslationUnitCursor(tu), on_include, &include);
  clang_visitChildren(clang_getTranslationUnitCursor(tu), on_top, &p);
  struct strbuf out = {0};
  rw_apply(&p.rw, &out);
  sb_free(&f->text);
  f->text = out;
  rw_free(&p.rw);
  return p.ok;
}
