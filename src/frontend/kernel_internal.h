// SPDX-License-Identifier: Apache-2.0
/* What the modules of the kernel access analysis share: values, environments, recorded accesses.
 *
 * A kernel's body is walked once for an arbitrary thread of an arbitrary block. Variables map to
 * polynomials over atoms; a variable that a loop changes gets a new atom for an arbitrary
 * iteration, with what is known about it as constraints; conditions add constraints to the code
 * they guard. */
#ifndef CUCOCC_FRONTEND_KERNEL_INTERNAL_H
#define CUCOCC_FRONTEND_KERNEL_INTERNAL_H

#include "frontend/internal.h"
#include "frontend/kernel_affine.h"

enum { KA_BASES = 3, KA_LOCAL = -1, KA_INLINE_DEPTH = 6, KA_FACTS = 32 };

enum ka_kind {
  KA_NONE, /* not followed: floating point, structures */
  KA_INT,
  KA_PTR,     /* into one of the bases */
  KA_ANYWHERE /* a pointer from memory, or nothing is known */
};
struct ka_base {
  int param;      /* index, or KA_LOCAL: shared, local, constant or string memory */
  bool dependent; /* the value of a parameter whose type is a template parameter: perhaps a pointer
                   */
  struct ka_poly off;
};
struct ka_val {
  enum ka_kind kind;
  bool wrap; /* INT of unsigned type: the true value is P modulo its size, P may be negative */
  struct ka_poly p; /* INT */
  int n;            /* PTR */
  struct ka_base b[KA_BASES];
};
struct ka_var {
  fe_key key;
  CXType type;
  bool reference; /* VAL is the address of what it refers to */
  bool unstable;  /* its address was taken: never followed */
  struct ka_val val;
};
typedef VEC(struct ka_var) ka_env;

enum ka_mode { KA_READ = 1, KA_WRITE = 2, KA_ATOMIC = 7 };
struct ka_access {
  int param;
  enum ka_mode mode;
  bool exact;
  int n_facts; /* lower bounds of launch values wherever the access is executed */
  struct {
    int atom;
    int64_t lb;
  } facts[KA_FACTS];
  struct ka_bounds lo, hi;             /* in outer atoms */
  struct ka_bounds whole_lo, whole_hi; /* without blockIdx */
};

struct ka {
  struct ka_space s;
  ka_env env;
  VEC(struct ka_access) accesses;
  VEC(char *) globals;
  struct {
    bool pointer, holder, dependent, unknown;
  } * params;
  int n_params;
  int quiet;   /* evaluating again: nothing is recorded */
  int guarded; /* inside a condition or loop, or after one that may leave */
  int depth, nesting;
  fe_key stack[KA_INLINE_DEPTH];
  bool hopeless; /* goto and the like: everything is unknown */
  bool grid_sync;
  bool casts_const; /* a cast removes const somewhere: const pointers may be written through */
  bool returned, return_many; /* of the function being inlined */
  struct ka_val result;
  int thread[3], block[3], block_dim[3], grid_dim[3]; /* atoms */
};

/* ---- kernel_value.c
 * ------------------------------------------------------------------------------ */

CXType ka_type(CXCursor c); /* canonical */
bool ka_is_integer(CXType t);
bool ka_is_unsigned(CXType t);
bool ka_is_pointer(CXType t); /* pointers and arrays */
bool ka_is_dependent_type(CXType t);
CXType ka_pointee(CXType t);
bool ka_holds_pointer(CXType t, int depth);
struct ka_poly ka_size(struct ka *k, CXType t); /* sizeof; a named atom for dependent types */
struct ka_val ka_none(void);
struct ka_val ka_int(struct ka_poly p);
struct ka_val ka_anything(struct ka *k, CXType t); /* an unknown value of type T */
struct ka_val ka_local(void);
struct ka_val ka_offset(struct ka *k, const struct ka_val *ptr, const struct ka_poly *bytes);
struct ka_val ka_convert(struct ka *k, struct ka_val v, CXType from, CXType to);
struct ka_val ka_join(struct ka *k, const struct ka_val *a, const struct ka_val *b, CXType t);
bool ka_same(const struct ka_val *a, const struct ka_val *b);
struct ka_var *ka_find(struct ka *k, fe_key key);
void ka_set_var(struct ka *k, fe_key key, CXType type, struct ka_val v);
void ka_forget(struct ka *k, fe_key key);
/* Nothing is known about what is done through V any more. */
void ka_escape(struct ka *k, const struct ka_val *v);
void ka_touch(struct ka *k, const struct ka_val *addr, const struct ka_poly *size,
              enum ka_mode mode);
void ka_global(struct ka *k, CXCursor decl);

/* ---- kernel_eval.c
 * ------------------------------------------------------------------------------- */

struct ka_val ka_eval(struct ka *k, CXCursor c);
/* The address of an lvalue; *KEY is the variable when it is one that is followed (else 0). */
struct ka_val ka_lvalue(struct ka *k, CXCursor c, fe_key *key);
void ka_condition(struct ka *k, CXCursor c, bool truth);
bool ka_pure(CXCursor c);
bool ka_has_kind(CXCursor c, enum CXCursorKind kind);

/* ---- kernel_call.c
 * ------------------------------------------------------------------------------- */

struct ka_val ka_call(struct ka *k, CXCursor c);

/* ---- kernel_walk.c
 * ------------------------------------------------------------------------------- */

void ka_walk(struct ka *k, CXCursor statement);
void ka_unstable_variables(struct ka *k, CXCursor body);
/* Notes in K whether C casts const away. */
void ka_const_casts(struct ka *k, CXCursor c);

#endif
