// SPDX-License-Identifier: Apache-2.0
/* Numbers for the names in a program: what the cost model computes with. Never used to translate.
 * A name gets its value, in this order, from --assume, from a definition in the source, or from the default;
 * each value that was used is remembered with where it came from, so that it can be stated. */
#ifndef CUCOCC_AGENTS_ESTIMATE_H
#define CUCOCC_AGENTS_ESTIMATE_H

#include "support/vec.h"
#include <stdbool.h>
#include <stddef.h>

enum estimate_source { ESTIMATE_GIVEN, ESTIMATE_MACHINE, ESTIMATE_PROGRAM, ESTIMATE_DEFAULT };

struct estimate_definition {
  char *name;
  char *text;        /* the expression */
  size_t position;   /* in the source; those in the function that is looked at count first */
  bool busy;         /* being evaluated: what refers to itself has no value */
};

struct estimate_value {
  char *name;
  double value;
  enum estimate_source source;
  bool used;
};

struct estimate {
  struct estimate *outer;                       /* asked for what is not known here; or NULL */
  VEC(struct estimate_value) values;            /* given or found out */
  VEC(struct estimate_definition) definitions;  /* in source order */
  double fallback;                              /* of names about which nothing is known */
  size_t scope_begin, scope_end;                /* the function that is being looked at */
  int depth, steps;
};

void estimate_init(struct estimate *e, double fallback);
void estimate_free(struct estimate *e);
/* Later values of the same name replace earlier ones. */
void estimate_set(struct estimate *e, const char *name, double value, enum estimate_source source);
void estimate_define(struct estimate *e, const char *name, const char *text, size_t position);
/* Collects `name = expression`, `#define name expression` and `dim3 name(x, y, z)` from C++ text. */
void estimate_scan(struct estimate *e, const char *text, size_t n);

/* The value of a C++ integer or floating expression. False when it has a form that is not understood;
 * names without a value get the default. */
bool estimate_eval(struct estimate *e, const char *text, double *out);
/* The same, but every name must be known. */
bool estimate_known(struct estimate *e, const char *text, double *out);
/* The value of NAME when it was given by --assume. */
bool estimate_given(struct estimate *e, const char *name, double *out);

/* "850us", "1.2ms", "3s" as microseconds; plain numbers, 4k, 16M, 2G (powers of 1024) as they are. */
bool estimate_number(const char *text, double *out);

const char *estimate_source_name(enum estimate_source s);

#endif
