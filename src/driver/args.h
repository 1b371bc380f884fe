// SPDX-License-Identifier: Apache-2.0
/* Lists of words, and response files. */
#ifndef CUCOCC_DRIVER_ARGS_H
#define CUCOCC_DRIVER_ARGS_H

#include "support/strbuf.h"
#include "support/vec.h"
#include <stdbool.h>

/* Owned strings. A plain VEC with a name, so that it can be passed to functions. */
struct arg_list {
  char **v;
  size_t n, cap;
};

void args_add(struct arg_list *a, const char *s);  /* appends a copy */
void args_addf(struct arg_list *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void args_append(struct arg_list *a, const struct arg_list *more);
void args_free(struct arg_list *a);
/* The list as a NULL-terminated array that points into it; free() the array only. */
char **args_vector(const struct arg_list *a);

/* Splits TEXT at white space. Quotes ' and " group, a backslash takes the next byte as it is (not inside
 * ' '). Appends the words to OUT. */
void args_split(struct arg_list *out, const char *text);

/* Copies ARGV[0..ARGC) to OUT, each @FILE replaced by the words in FILE, which may name further files.
 * Returns true, or false with a sentence in WHY (free it). What follows "--" is copied unread. */
bool args_expand(struct arg_list *out, int argc, char *const *argv, char **why);

/* Appends the words as a shell would need them, with blanks between. */
void args_quote(struct strbuf *out, const struct arg_list *a);

#endif
