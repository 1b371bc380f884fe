// SPDX-License-Identifier: Apache-2.0
/* Launches, on tokens: kernel<<<grid, block, shared, stream>>>(arguments) becomes
 *   ::emu::cuda::launch(::emu::cuda::Config(grid, block, shared, stream).named("kernel"),
 *                       [=](auto... emu_a) { kernel(emu_a...); }, arguments)
 * Nothing moves to another line. */
#include "backend/rewriter.h"
#include "emulator/translate_internal.h"
#include <ctype.h>
#include <string.h>

struct token {
  size_t begin, end;
  CXTokenKind kind;
};
struct tokens {
  const char *text;
  VEC(struct token) list;
};

char *tr_take(CXString s) {
  const char *t = clang_getCString(s);
  char *r = xstrdup(t ? t : "");
  clang_disposeString(s);
  return r;
}

/* The tokens of a text without its comments. The includes are not read. */
static void read_tokens(struct tokens *t, const struct tr_file *f) {
  static const char *const args[] = {"-x",           "cuda", "--cuda-host-only", "-nocudainc",
                                     "-nocudalib",   "-w",   "-std=c++17",
                                     "-fsyntax-only"};
  struct CXUnsavedFile file = {"emu_tokens.cu", f->text.s ? f->text.s : "",
                               (unsigned long)f->text.n};
  CXIndex index = clang_createIndex(0, 0);
  CXTranslationUnit tu = NULL;
  clang_parseTranslationUnit2(
      index, file.Filename, args, sizeof args / sizeof *args, &file, 1,
      CXTranslationUnit_SingleFileParse | CXTranslationUnit_SkipFunctionBodies |
          CXTranslationUnit_KeepGoing,
      &tu);
  t->text = f->text.s;
  if (tu) {
    CXFile self = clang_getFile(tu, file.Filename);
    CXSourceRange all = clang_getRange(clang_getLocationForOffset(tu, self, 0),
                                       clang_getLocationForOffset(tu, self, (unsigned)f->text.n));
    CXToken *v = NULL;
    unsigned n = 0;
    clang_tokenize(tu, all, &v, &n);
    for (unsigned i = 0; i < n; i++) {
      CXTokenKind kind = clang_getTokenKind(v[i]);
      if (kind == CXToken_Comment)
        continue;
      CXSourceRange r = clang_getTokenExtent(tu, v[i]);
      unsigned begin, end;
      clang_getSpellingLocation(clang_getRangeStart(r), NULL, NULL, NULL, &begin);
      clang_getSpellingLocation(clang_getRangeEnd(r), NULL, NULL, NULL, &end);
      if (end > f->text.n)
        end = (unsigned)f->text.n;
      if (begin < end)
        VEC_PUSH(&t->list) = (struct token){begin, end, kind};
    }
    clang_disposeTokens(tu, v, n);
    clang_disposeTranslationUnit(tu);
  }
  clang_disposeIndex(index);
}

static bool is(const struct tokens *t, size_t i, const char *s) {
  size_t n = strlen(s);
  return i < t->list.n && t->list.v[i].end - t->list.v[i].begin == n &&
         memcmp(t->text + t->list.v[i].begin, s, n) == 0;
}
static char first(const struct tokens *t, size_t i) {
  return i < t->list.n ? t->text[t->list.v[i].begin] : '\0';
}
static bool is_word(const struct tokens *t, size_t i) {
  return i < t->list.n &&
         (t->list.v[i].kind == CXToken_Identifier || t->list.v[i].kind == CXToken_Keyword);
}

/* The token before I that opens what the bracket I closes; SIZE_MAX when there is none. */
static size_t open_of(const struct tokens *t, size_t i) {
  unsigned depth = 0;
  for (size_t k = i + 1; k-- > 0;) {
    char c = t->list.v[k].end - t->list.v[k].begin == 1 ? first(t, k) : '\0';
    if (c == ')' || c == ']' || c == '}')
      depth++;
    else if (c == '(' || c == '[' || c == '{')
      if (--depth == 0)
        return k;
  }
  return SIZE_MAX;
}
/* The same for the angle brackets of a template's arguments. */
static size_t open_angle(const struct tokens *t, size_t i) {
  unsigned depth = 0;
  for (size_t k = i + 1; k-- > 0;) {
    if (is(t, k, ")") || is(t, k, "]") || is(t, k, "}")) {
      k = open_of(t, k);
      if (k == SIZE_MAX)
        return k;
    } else if (is(t, k, ">>>"))
      depth += 3;
    else if (is(t, k, ">>"))
      depth += 2;
    else if (is(t, k, ">"))
      depth++;
    else if (is(t, k, "<")) {
      if (--depth == 0)
        return k;
    } else if (is(t, k, ";"))
      return SIZE_MAX;
  }
  return SIZE_MAX;
}
/* The token that closes the round bracket I. */
static size_t close_of(const struct tokens *t, size_t i) {
  unsigned depth = 0;
  for (size_t k = i; k < t->list.n; k++) {
    if (is(t, k, "(") || is(t, k, "[") || is(t, k, "{"))
      depth++;
    else if (is(t, k, ")") || is(t, k, "]") || is(t, k, "}"))
      if (--depth == 0)
        return k;
  }
  return SIZE_MAX;
}

/* The first token of the kernel's name or expression that ends before token I. */
static size_t kernel_begin(const struct tokens *t, size_t i) {
  size_t k = i;
  while (k > 0) {
    size_t last = k - 1;
    if (is(t, last, ">") || is(t, last, ">>")) {
      last = open_angle(t, last);
      if (last == SIZE_MAX || last == 0 || !is_word(t, last - 1))
        return SIZE_MAX;
      last--;
    } else if (is(t, last, "]")) {
      last = open_of(t, last);
      if (last == SIZE_MAX)
        return SIZE_MAX;
      k = last;
      continue;
    } else if (is(t, last, ")")) {
      last = open_of(t, last);
      if (last == SIZE_MAX)
        return SIZE_MAX;
      if (last > 0 && is_word(t, last - 1) && t->list.v[last - 1].kind == CXToken_Identifier) {
        k = last; /* a call that gives the kernel, or a macro */
        continue;
      }
    } else if (!is_word(t, last))
      return k == i ? SIZE_MAX : k;
    k = last;
    while (k > 0 && is(t, k - 1, "##")) /* pasted in a macro's body */
      k = k > 1 ? k - 2 : k - 1;
    if (k > 0 && is(t, k - 1, "template"))
      k--;
    if (k > 0 && is(t, k - 1, "::")) {
      k--;
      if (k == 0 || !(is_word(t, k - 1) || is(t, k - 1, ">")) || is(t, k - 1, "return"))
        return k;
      continue;
    }
    if (k > 0 && (is(t, k - 1, ".") || is(t, k - 1, "->"))) {
      k--;
      continue;
    }
    return k;
  }
  return k;
}

/* The text of tokens [A, B) on one line. */
static char *one_line(const struct tokens *t, size_t a, size_t b) {
  struct strbuf s = {0};
  for (size_t i = a; i < b; i++) {
    if (i > a && t->list.v[i].begin > t->list.v[i - 1].end)
      sb_addc(&s, ' ');
    sb_addn(&s, t->text + t->list.v[i].begin, t->list.v[i].end - t->list.v[i].begin);
  }
  return sb_take(&s);
}

static void quote(struct strbuf *out, const char *s) {
  sb_addc(out, '"');
  for (; *s; s++) {
    if (*s == '"' || *s == '\\')
      sb_addc(out, '\\');
    sb_addc(out, *s);
  }
  sb_addc(out, '"');
}

/* What follows BEGIN up to END, only its line ends (and the backslashes before them). */
static void keep_lines(struct strbuf *out, const char *text, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i++)
    if (text[i] == '\n')
      sb_add(out, i > begin && text[i - 1] == '\\' ? " \\\n" : "\n");
}

static void rewrite_launch(const struct tokens *t, struct rewriter *rw, size_t at) {
  size_t begin = kernel_begin(t, at);
  size_t close = at + 1;
  unsigned depth = 0;
  for (; close < t->list.n && !(depth == 0 && is(t, close, ">>>")); close++) {
    if (is(t, close, "(") || is(t, close, "[") || is(t, close, "{"))
      depth++;
    else if (is(t, close, ")") || is(t, close, "]") || is(t, close, "}"))
      depth--;
    else if (is(t, close, ";"))
      return;
  }
  if (begin == SIZE_MAX || !is(t, close + 1, "("))
    return;
  size_t end = close_of(t, close + 1);
  if (end == SIZE_MAX)
    return;
  char *kernel = one_line(t, begin, at);
  struct strbuf head = {0}, middle = {0};
  sb_add(&head, "::emu::cuda::launch(::emu::cuda::Config(");
  keep_lines(&head, t->text, t->list.v[begin].begin, t->list.v[at].end);
  sb_add(&middle, ").named(");
  quote(&middle, kernel);
  sb_addf(&middle, "), [=](auto... emu_a) { %s(emu_a...); }", kernel);
  if (end > close + 2)
    sb_add(&middle, ", ");
  keep_lines(&middle, t->text, t->list.v[close].begin, t->list.v[close + 1].end);
  rw_replace(rw, t->list.v[begin].begin, t->list.v[at].end, head.s);
  rw_replace(rw, t->list.v[close].begin, t->list.v[close + 1].end, middle.s);
  for (size_t i = close + 2; i < end; i++) /* as a pointer, it needs its type */
    if (is(t, i, "NULL") && (is(t, i - 1, "(") || is(t, i - 1, ",")) &&
        (is(t, i + 1, ",") || is(t, i + 1, ")")))
      rw_replace(rw, t->list.v[i].begin, t->list.v[i].end, "nullptr");
  sb_free(&head);
  sb_free(&middle);
  free(kernel);
}

/* Inline assembly that says something; an empty one only keeps the compiler from moving memory accesses. */
static bool is_assembly(const struct tokens *t, size_t i) {
  if (!is(t, i, "asm") && !is(t, i, "__asm__") && !is(t, i, "__asm"))
    return false;
  for (i++; is(t, i, "volatile") || is(t, i, "__volatile__") || is(t, i, "goto"); i++)
    ;
  return is(t, i, "(") && !is(t, i + 1, "\"\"");
}

static void place(const char *text, size_t at, unsigned *line, unsigned *col) {
  *line = *col = 1;
  for (size_t i = 0; i < at; i++)
    if (text[i] == '\n') {
      ++*line;
      *col = 1;
    } else
      ++*col;
}

void tr_launches(struct tr_file *f) {
  struct tokens t = {0};
  struct rewriter rw;
  read_tokens(&t, f);
  rw_init(&rw, f->text.s ? f->text.s : "", f->text.n);
  for (size_t i = 0; i < t.list.n; i++) {
    if (is(&t, i, "<<<"))
      rewrite_launch(&t, &rw, i);
    else if (is(&t, i, "__device__") || is(&t, i, "__host__")) {
      /* of a lambda: between its captures and its parameters */
      size_t k = i;
      while (k > 0 && (is(&t, k - 1, "__device__") || is(&t, k - 1, "__host__")))
        k--;
      if (k > 0 && is(&t, k - 1, "]"))
        rw_replace(&rw, t.list.v[i].begin, t.list.v[i].end, "");
    } else if (is_assembly(&t, i)) {
      unsigned line, col;
      place(t.text, t.list.v[i].begin, &line, &col);
      VEC_PUSH(&f->assembly) = (struct tr_place){line, col};
    }
  }
  if (rw.edits.n) {
    struct strbuf out = {0};
    rw_apply(&rw, &out);
    sb_free(&f->text);
    f->text = out;
    f->changed = true;
  }
  rw_free(&rw);
  VEC_FREE(&t.list);
}
