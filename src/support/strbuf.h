// SPDX-License-Identifier: Apache-2.0
/* A growable byte string, always NUL-terminated after the first append; may hold NUL bytes. */
#ifndef CUCOCC_SUPPORT_STRBUF_H
#define CUCOCC_SUPPORT_STRBUF_H

#include <stdarg.h>
#include <stddef.h>

struct strbuf {
  char *s;
  size_t n, cap;
};

void sb_add(struct strbuf *b, const char *s);                 /* appends a C string */
void sb_addn(struct strbuf *b, const char *s, size_t n);      /* appends N bytes */
void sb_addc(struct strbuf *b, char c);                       /* appends one byte */
void sb_addf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sb_vaddf(struct strbuf *b, const char *fmt, va_list ap); /* appends formatted text */
/* Hands the string over to the caller (free() it) and empties the buffer; never NULL. */
char *sb_take(struct strbuf *b);
void sb_free(struct strbuf *b);
/* printf into a fresh string; the caller frees it. */
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
