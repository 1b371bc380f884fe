// SPDX-License-Identifier: Apache-2.0
#include "support/strbuf.h"
#include "support/vec.h"
#include <stdio.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

/* Makes room for N more bytes and the NUL after them. */
static void reserve(struct strbuf *b, size_t n) {
  if (b->s && n < b->cap - b->n)
    return;
  size_t cap = b->cap ? b->cap : FIRST_CAPACITY;
  while (cap - b->n <= n)
    cap *= 2;
  b->s = xrealloc(b->s, cap);
  b->cap = cap;
}

void sb_addn(struct strbuf *b, const char *s, size_t n) {
  reserve(b, n);
  if (n)
    memcpy(b->s + b->n, s, n);
  b->n += n;
  b->s[b->n] = '\0';
}

void sb_add(struct strbuf *b, const char *s) { sb_addn(b, s, strlen(s)); }

void sb_addc(struct strbuf *b, char c) { sb_addn(b, &c, 1); }

void sb_vaddf(struct strbuf *b, const char *fmt, va_list ap) {
  char *text;
  int n = vasprintf(&text, fmt, ap);
  if (n < 0)
    return;
  sb_addn(b, text, (size_t)n);
  free(text);
}

void sb_addf(struct strbuf *b, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  sb_vaddf(b, fmt, ap);
  va_end(ap);
}

char *sb_take(struct strbuf *b) {
  char *s = b->s ? b->s : xstrdup("");
  b->s = NULL;
  b->n = b->cap = 0;
  return s;
}

void sb_free(struct strbuf *b) {
  free(b->s);
  b->s = NULL;
  b->n = b->cap = 0;
}

char *xasprintf(const char *fmt, ...) {
  struct strbuf b = {0};
  va_list ap;
  va_start(ap, fmt);
  sb_vaddf(&b, fmt, ap);
  va_end(ap);
  return sb_take(&b);
}
