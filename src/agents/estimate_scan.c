// SPDX-License-Identifier: Apache-2.0
/* Definitions in C++ text, found without a parser: they only feed predictions. */
#include "agents/estimate.h"
#include <ctype.h>
#include <string.h>

struct scan {
  struct estimate *e;
  const char *begin, *s, *end;
};

static bool word_byte(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Skips a comment or a literal at S. */
static bool skip_hidden(struct scan *c) {
  const char *s = c->s;
  size_t left = (size_t)(c->end - s);
  if (left > 1 && s[0] == '/' && s[1] == '/') {
    const char *nl = memchr(s, '\n', left);
    c->s = nl ? nl : c->end;
  } else if (left > 1 && s[0] == '/' && s[1] == '*') {
    const char *close = memmem(s + 2, left - 2, "*/", 2);
    c->s = close ? close + 2 : c->end;
  } else if (*s == '"' || *s == '\'') {
    for (c->s++; c->s < c->end && *c->s != *s && *c->s != '\n'; c->s++)
      if (*c->s == '\\' && c->s + 1 < c->end)
        c->s++;
    c->s += c->s < c->end;
  } else {
    return false;
  }
  return true;
}

static void define(struct scan *c, const char *name, size_t n, const char *suffix, const char *from,
                   const char *to) {
  char full[128];
  while (from < to && isspace((unsigned char)*from))
    from++;
  while (to > from && isspace((unsigned char)to[-1]))
    to--;
  if (n == 0 || n + strlen(suffix) >= sizeof full || to == from || to - from > 400)
    return;
  memcpy(full, name, n);
  strcpy(full + n, suffix);
  char *text = xstrndup(from, (size_t)(to - from));
  estimate_define(c->e, full, text, (size_t)(name - c->begin));
  free(text);
}

/* #define NAME text */
static void directive(struct scan *c) {
  const char *nl = memchr(c->s, '\n', (size_t)(c->end - c->s)), *stop = nl ? nl : c->end;
  const char *s = c->s + 1;
  while (s < stop && (*s == ' ' || *s == '\t'))
    s++;
  if (stop - s > 7 && strncmp(s, "define", 6) == 0 && isspace((unsigned char)s[6])) {
    for (s += 6; s < stop && isspace((unsigned char)*s); s++)
      ;
    const char *name = s;
    while (s < stop && word_byte(*s))
      s++;
    const char *to = memmem(s, (size_t)(stop - s), "//", 2);
    if (s < stop && *s != '(' && stop[-1] != '\\')
      define(c, name, (size_t)(s - name), "", s, to ? to : stop);
  }
  while (stop < c->end && stop > c->s && stop[-1] == '\\') { /* continued lines */
    nl = memchr(stop + 1, '\n', (size_t)(c->end - stop - 1));
    stop = nl ? nl : c->end;
  }
  c->s = stop;
}

/* The end of the expression at S: a ',' or ';' or closing bracket outside of brackets. */
static const char *expression_end(const char *s, const char *end) {
  int depth = 0;
  for (; s < end; s++) {
    if (strchr("([{", *s))
      depth++;
    else if (strchr(")]}", *s)) {
      if (depth-- == 0)
        return s;
    } else if ((*s == ',' || *s == ';') && depth == 0)
      return s;
    else if (*s == '"' || *s == '\'' || *s == '#')
      return s;
  }
  return s;
}

/* x, y, z of dim3 NAME(x, y, z): missing ones are 1. */
static void dimensions(struct scan *c, const char *name, size_t n, const char *s) {
  static const char *const suffixes[] = {".x", ".y", ".z"};
  static const char one[] = "1";
  for (int i = 0; i < 3; i++) {
    const char *stop = expression_end(s, c->end);
    if (stop == s && (stop == c->end || *stop == ')')) {
      define(c, name, n, suffixes[i], one, one + 1);
      continue;
    }
    define(c, name, n, suffixes[i], s, stop);
    s = stop < c->end && *stop == ',' ? stop + 1 : stop;
  }
}

static void word(struct scan *c) {
  const char *name = c->s;
  while (c->s < c->end && word_byte(*c->s))
    c->s++;
  size_t n = (size_t)(c->s - name);
  const char *s = c->s;
  while (s < c->end && isspace((unsigned char)*s))
    s++;
  if (n == 4 && strncmp(name, "dim3", 4) == 0) { /* dim3 NAME(...) or dim3 NAME = dim3(...), more after commas */
    for (;;) {
      const char *variable = s;
      while (s < c->end && word_byte(*s))
        s++;
      size_t length = (size_t)(s - variable);
      while (s < c->end && isspace((unsigned char)*s))
        s++;
      if (c->end - s > 7 && *s == '=')
        for (s++; s < c->end && *s != '(' && *s != '{' && *s != ';'; s++)
          ;
      if (!length || s >= c->end || (*s != '(' && *s != '{'))
        return;
      dimensions(c, variable, length, s + 1);
      s = expression_end(s + 1, c->end);
      while (s < c->end && *s == ',') /* the next argument */
        s = expression_end(s + 1, c->end);
      s += s < c->end;
      while (s < c->end && isspace((unsigned char)*s))
        s++;
      c->s = s;
      if (s >= c->end || *s++ != ',')
        return;
      while (s < c->end && isspace((unsigned char)*s))
        s++;
    }
  }
  if (s + 1 < c->end && *s == '=' && s[1] != '=')
    define(c, name, n, "", s + 1, expression_end(s + 1, c->end));
}

void estimate_scan(struct estimate *e, const char *text, size_t n) {
  struct scan c = {e, text, text, text + n};
  bool line_start = true;
  while (c.s < c.end) {
    if (skip_hidden(&c))
      continue;
    char ch = *c.s;
    if (ch == '#' && line_start)
      directive(&c);
    else if (isdigit((unsigned char)ch))
      while (c.s < c.end && word_byte(*c.s))
        c.s++;
    else if (word_byte(ch))
      word(&c);
    else
      c.s++;
    line_start = ch == '\n' || (line_start && isspace((unsigned char)ch));
  }
}
