// SPDX-License-Identifier: Apache-2.0
#include "support/vec.h"
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_CAPACITY = 8, STATUS_ENVIRONMENT = 3 };

_Noreturn static void out_of_memory(void) {
  static const char text[] = "cucocc: fatal error: out of memory\n";
  ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
  (void)ignored;
  exit(STATUS_ENVIRONMENT);
}

void *xmalloc(size_t n) {
  void *p = malloc(n ? n : 1);
  if (!p)
    out_of_memory();
  return p;
}

void *xcalloc(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size ? size : 1);
  if (!p)
    out_of_memory();
  return p;
}

void *xrealloc(void *p, size_t n) {
  p = realloc(p, n ? n : 1);
  if (!p)
    out_of_memory();
  return p;
}

char *xstrdup(const char *s) { return xstrndup(s, strlen(s)); }

char *xstrndup(const char *s, size_t n) {
  n = strnlen(s, n);
  char *copy = xmalloc(n + 1);
  memcpy(copy, s, n);
  copy[n] = '\0';
  return copy;
}

void *vec_grow(void **data, size_t *n, size_t *cap, size_t size) {
  if (*n == *cap) {
    size_t more = *cap ? *cap * 2 : FIRST_CAPACITY;
    if (more > SIZE_MAX / size)
      out_of_memory();
    *data = xrealloc(*data, more * size);
    *cap = more;
  }
  return memset((char *)*data + (*n)++ * size, 0, size);
}
