// SPDX-License-Identifier: Apache-2.0
/* The source model: files, ranges, macro arguments, texts. */
#include "frontend/internal.h"
#include "support/strbuf.h"
#include <ctype.h>
#include <string.h>

static enum CXChildVisitResult push_child(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  fe_list *list = data;
  VEC_PUSH(list) = c;
  return CXChildVisit_Continue;
}

/* Every walk of a tree goes through fe_children(), which shows no children when the stack is nearly
 * used up: input with absurd nesting is cut, not followed. */
static _Thread_local const char *stack_base;
static _Thread_local size_t stack_limit;

void fe_stack_guard(size_t limit) {
  char here;
  stack_base = limit ? &here : NULL;
  stack_limit = limit;
}

void fe_children(CXCursor c, fe_list *out) {
  char here;
  uintptr_t a = (uintptr_t)stack_base, b = (uintptr_t)&here;
  if (stack_base && (a > b ? a - b : b - a) > stack_limit)
    return;
  clang_visitChildren(c, push_child, out);
}

CXCursor fe_child(CXCursor c, unsigned n) {
  fe_list l = {0};
  fe_children(c, &l);
  CXCursor r = n < l.n ? l.v[n] : clang_getNullCursor();
  VEC_FREE(&l);
  return r;
}

int fe_param_index(CXCursor decl) {
  if (clang_getCursorKind(decl) != CXCursor_ParmDecl)
    return -1;
  fe_list l = {0};
  int n = 0, r = -1;
  fe_children(clang_getCursorSemanticParent(decl), &l);
  VEC_EACH(&l, k)
  if (clang_getCursorKind(*k) == CXCursor_ParmDecl) {
    if (fe_decl_key(*k) == fe_decl_key(decl))
      r = n;
    n++;
  }
  VEC_FREE(&l);
  return r;
}

bool fe_mentions(CXCursor c, fe_key key) {
  if (clang_getCursorKind(c) == CXCursor_DeclRefExpr)
    return fe_decl_key(clang_getCursorReferenced(c)) == key;
  fe_list l = {0};
  fe_children(c, &l);
  bool r = false;
  for (size_t i = 0; i < l.n && !r; i++)
    r = fe_mentions(l.v[i], key);
  VEC_FREE(&l);
  return r;
}

CXCursor fe_strip(CXCursor c) {
  for (;;) {
    switch (clang_getCursorKind(c)) {
    case CXCursor_UnexposedExpr:
    case CXCursor_ParenExpr:
    case CXCursor_CStyleCastExpr:
    case CXCursor_CXXStaticCastExpr:
    case CXCursor_CXXReinterpretCastExpr:
    case CXCursor_CXXConstCastExpr:
    case CXCursor_CXXFunctionalCastExpr:
      break;
    default:
      return c;
    }
    fe_list l = {0};
    fe_children(c, &l);
    CXCursor in = clang_getNullCursor();
    unsigned n = 0;
    VEC_EACH(&l, k)
    if (clang_isExpression(clang_getCursorKind(*k))) {
      in = *k;
      n++;
    }
    VEC_FREE(&l);
    if (n != 1)
      return c;
    c = in;
  }
}

static char *take(CXString s) {
  const char *t = clang_getCString(s);
  char *r = xstrdup(t ? t : "");
  clang_disposeString(s);
  return r;
}

char *fe_spelling(CXCursor c) { return take(clang_getCursorSpelling(c)); }
char *fe_type_name(CXType t) { return take(clang_getTypeSpelling(t)); }

bool fe_in_main_file(CXCursor c) {
  return clang_Location_isFromMainFile(clang_getCursorLocation(c));
}

fe_key fe_mix(fe_key k, unsigned n) {
  k = (k ^ n) * 0x9E3779B97F4A7C15u;
  return (k ^ k >> 29) | 1;
}

fe_key fe_decl_key(CXCursor decl) {
  CXFile file = NULL;
  unsigned off = 0, spelled = 0;
  CXSourceLocation l = clang_getCursorLocation(clang_getCanonicalCursor(decl));
  clang_getFileLocation(l, &file, NULL, NULL, &off);
  clang_getSpellingLocation(l, NULL, NULL, NULL, &spelled);
  if (!file)
    return 0;
  char *name = take(clang_getFileName(file));
  fe_key h = 1469598103934665603u;
  for (const char *s = name; *s; s++)
    h = (h ^ (unsigned char)*s) * 1099511628211u;
  free(name);
  return fe_mix(fe_mix(h, off), spelled);
}

struct fe_text *fe_text_of(struct fe *f, CXFile file) {
  VEC_EACH(&f->texts, t)
  if (clang_File_isEqual(t->file, file))
    return t;
  size_t n = 0;
  const char *s = clang_getFileContents(f->tu, file, &n);
  char *path = take(clang_getFileName(file));
  bool main_file = !strcmp(path, f->o->input);
  struct fe_text t = {file, ir_add_file(f->p, path, main_file), s ? s : "", s ? n : 0};
  free(path);
  VEC_PUSH(&f->texts) = t;
  return &f->texts.v[f->texts.n - 1];
}

bool fe_file_loc(struct fe *f, CXSourceLocation l, struct ir_range *out) {
  CXFile file = NULL;
  unsigned line = 0, col = 0, off = 0;
  clang_getFileLocation(l, &file, &line, &col, &off);
  *out = (struct ir_range){.file = -1};
  if (!file)
    return false;
  *out = (struct ir_range){fe_text_of(f, file)->id, off, off, line, col};
  return true;
}

enum ir_spelling fe_spelled(CXSourceLocation l) {
  CXFile fa = NULL, fb = NULL, fc = NULL;
  unsigned a = 0, b = 0, c = 0;
  clang_getSpellingLocation(l, &fa, NULL, NULL, &a);
  clang_getFileLocation(l, &fb, NULL, NULL, &b);
  clang_getExpansionLocation(l, &fc, NULL, NULL, &c);
  if (!fa || !fb || a != b || !clang_File_isEqual(fa, fb))
    return IR_SPELLED_MACRO_BODY;
  return b == c ? IR_SPELLED_PLAIN : IR_SPELLED_MACRO_ARG;
}

struct ir_range fe_range(struct fe *f, CXCursor c) {
  CXSourceRange r = clang_getCursorExtent(c);
  struct ir_range a, b;
  if (!fe_file_loc(f, clang_getRangeStart(r), &a))
    return a;
  if (fe_file_loc(f, clang_getRangeEnd(r), &b) && b.file == a.file && b.begin > a.begin)
    a.end = b.begin;
  return a;
}

static const struct fe_text *text_by_id(struct fe *f, ir_id file) {
  VEC_EACH(&f->texts, t)
  if (t->id == file)
    return t;
  return NULL;
}

char *fe_slice(struct fe *f, ir_id file, size_t begin, size_t end) {
  const struct fe_text *t = text_by_id(f, file);
  struct strbuf b = {0};
  if (t && begin <= end && end <= t->n) {
    bool space = false;
    for (size_t i = begin; i < end; i++) {
      if (isspace((unsigned char)t->s[i]) ||
          (t->s[i] == '\\' && i + 1 < end && t->s[i + 1] == '\n')) {
        space = true;
        continue;
      }
      if (space && b.n)
        sb_addc(&b, ' ');
      space = false;
      sb_addc(&b, t->s[i]);
    }
  }
  return sb_take(&b);
}

/* The end of the expression that starts at AT, for texts that end inside a macro argument: clang
 * gives the end of the whole macro use then. */
static size_t clip(const struct fe_text *t, size_t at, size_t end) {
  int depth = 0;
  for (size_t i = at; i < end; i++) {
    char c = t->s[i];
    if (c == '(' || c == '[' || c == '{')
      depth++;
    else if (c == ')' || c == ']' || c == '}') {
      if (depth-- == 0)
        return i;
    } else if (depth == 0 && (c == ',' || c == ';'))
      return i;
  }
  return end;
}

char *fe_cursor_text(struct fe *f, CXCursor c) {
  struct ir_range r = fe_range(f, c);
  if (r.file < 0)
    return xstrdup("");
  const struct fe_text *t = text_by_id(f, r.file);
  CXSourceLocation start = clang_getRangeStart(clang_getCursorExtent(c));
  CXSourceLocation end = clang_getRangeEnd(clang_getCursorExtent(c));
  if (t && r.end <= t->n &&
      (fe_spelled(start) != IR_SPELLED_PLAIN || fe_spelled(end) != IR_SPELLED_PLAIN))
    r.end = clip(t, r.begin, r.end);
  return fe_slice(f, r.file, r.begin, r.end);
}

/* Skips a comment, string or character literal that starts at I; returns I when there is none. */
static size_t skip_literal(const char *s, size_t n, size_t i) {
  if (s[i] == '/' && i + 1 < n && s[i + 1] == '/') {
    while (i < n && s[i] != '\n')
      i++;
    return i;
  }
  if (s[i] == '/' && i + 1 < n && s[i + 1] == '*') {
    for (i += 2; i + 1 < n && !(s[i] == '*' && s[i + 1] == '/'); i++)
      ;
    return i + 2 < n ? i + 2 : n;
  }
  bool digit_separator = s[i] == '\'' && i && isxdigit((unsigned char)s[i - 1]);
  if (s[i] == '"' || (s[i] == '\'' && !digit_separator)) {
    char q = s[i];
    for (i++; i < n && s[i] != q; i++)
      if (s[i] == '\\')
        i++;
    return i < n ? i + 1 : n;
  }
  return i;
}

static void add_arg(struct fe *f, fe_args *out, const struct fe_text *t, size_t a, size_t b) {
  while (a < b && isspace((unsigned char)t->s[a]))
    a++;
  while (b > a && isspace((unsigned char)t->s[b - 1]))
    b--;
  unsigned line = 1, col = 1;
  for (const char *p = t->s, *nl; p < t->s + a; p = nl + 1) {
    nl = memchr(p, '\n', (size_t)(t->s + a - p));
    if (!nl) {
      col = (unsigned)(t->s + a - p) + 1;
      break;
    }
    line++;
  }
  struct ir_arg *arg = &VEC_PUSH(out);
  arg->range = (struct ir_range){t->id, a, b, line, col};
  arg->text = fe_slice(f, t->id, a, b);
}

size_t fe_split_args(struct fe *f, ir_id file, size_t at, const char *open, fe_args *out) {
  const struct fe_text *t = text_by_id(f, file);
  size_t len = strlen(open);
  if (!t || at + len > t->n || strncmp(t->s + at, open, len))
    return 0;
  bool launch = len == 3;
  int depth = 0;
  size_t start = at + len;
  for (size_t i = start; i < t->n;) {
    size_t j = skip_literal(t->s, t->n, i);
    if (j != i) {
      i = j;
      continue;
    }
    char c = t->s[i];
    bool close = launch ? depth == 0 && !strncmp(t->s + i, ">>>", t->n - i < 3 ? t->n - i : 3)
                        : depth == 0 && c == ')';
    if (close) {
      size_t a = start;
      while (a < i && isspace((unsigned char)t->s[a]))
        a++;
      if (a < i || out->n)
        add_arg(f, out, t, start, i);
      return i + len;
    }
    if (c == '(' || c == '[' || c == '{')
      depth++;
    else if (c == ')' || c == ']' || c == '}')
      depth--;
    else if (c == ',' && depth == 0) {
      add_arg(f, out, t, start, i);
      start = i + 1;
    }
    if (depth < 0)
      return 0;
    i++;
  }
  return 0;
}

void fe_args_free(fe_args *a) {
  VEC_EACH(a, x)
  free(x->text);
  VEC_FREE(a);
}
