// SPDX-License-Identifier: Apache-2.0
/* Makefile rules about the headers that were read (-MD). */
#ifndef CUCOCC_DRIVER_DEPFILE_H
#define CUCOCC_DRIVER_DEPFILE_H

#include "driver/args.h"

struct depfile {
  const struct arg_list *targets; /* at least one */
  const char *input;
  char *const *headers;
  size_t n_headers;
  bool skip_system;               /* -MMD: leave out what lies under /usr or one of system_dirs */
  const char *const *system_dirs; /* ends with NULL; may be NULL */
  bool phony;                     /* -MP */
};

/* Appends the rule to OUT. */
void depfile_format(struct strbuf *out, const struct depfile *d);
/* Appends NAME as make reads it: blanks, '#', '$' and backslashes before them escaped. */
void depfile_name(struct strbuf *out, const char *name);
/* Appends TEXT, a makefile, with every word FROM replaced by TO (both are plain names). */
void depfile_replace(struct strbuf *out, const char *text, const char *from, const char *to);

#endif
