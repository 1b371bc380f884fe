// SPDX-License-Identifier: Apache-2.0
/* Growable arrays. A vector is a plain struct {v, n, cap}; elements are moved by realloc, so keep
 * indices, not pointers, across a push. Out of memory ends the program (exit status 3). */
#ifndef CUCOCC_SUPPORT_VEC_H
#define CUCOCC_SUPPORT_VEC_H

#include <stddef.h>
#include <stdlib.h>

/* Declares an anonymous vector type of T. */
#define VEC(T)                                                                                     \
  struct {                                                                                         \
    T *v;                                                                                          \
    size_t n, cap;                                                                                 \
  }

/* Makes room for one more element and returns an lvalue for it, zeroed. */
#define VEC_PUSH(vec)                                                                              \
  (*(__typeof__((vec)->v))vec_grow((void **)&(vec)->v, &(vec)->n, &(vec)->cap, sizeof *(vec)->v))

/* Frees the storage (not what the elements own) and empties the vector. */
#define VEC_FREE(vec) (free((vec)->v), (vec)->v = NULL, (vec)->n = (vec)->cap = 0)

/* Iterates: `VEC_EACH(&list, p)` declares p as a pointer to each element in turn. */
#define VEC_EACH(vec, p)                                                                           \
  for (__typeof__(&*(vec)->v) p = (vec)->v; p && p < (vec)->v + (vec)->n; p++)

/* Appends one zeroed element of SIZE bytes to the vector at DATA and returns its address. */
void *vec_grow(void **data, size_t *n, size_t *cap, size_t size);

/* malloc/realloc/strdup that end the program with exit status 3 when memory is out. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);

#endif
