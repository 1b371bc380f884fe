// SPDX-License-Identifier: Apache-2.0
/* Integer polynomials over atoms, with known inequalities, for the kernel access analysis.
 *
 * An atom is a value that is fixed while one statement is executed by one thread: a parameter,
 * blockIdx.x, threadIdx.x, the value of a variable in one iteration of a loop, a loaded number. A
 * constraint is a polynomial known to be >= 0 in the current scope. Bounds of a polynomial that no
 * longer depend on the thread are found by adding multiples of constraints. */
#ifndef CUCOCC_FRONTEND_KERNEL_AFFINE_H
#define CUCOCC_FRONTEND_KERNEL_AFFINE_H

#include "ir/ir.h"

enum { KA_FACTORS = 5, KA_TERMS = 20, KA_BOUNDS = 8 };

struct ka_mono {
  int64_t c;
  uint16_t n, a[KA_FACTORS]; /* atoms, sorted */
};
/* OK false: the value is not representable. */
struct ka_poly {
  bool ok;
  int n;
  struct ka_mono m[KA_TERMS]; /* sorted by atoms, coefficients not 0 */
};
struct ka_atom {
  char *text;
  bool outer;  /* the same for all threads of a block and known at launch */
  int block;   /* 0, 1, 2 for blockIdx.x, .y, .z; else -1 */
  bool has_lb; /* atom >= lb in the current scope */
  int64_t lb;
};
struct ka_bounds {
  int n;
  struct ka_poly p[KA_BOUNDS];
};
struct ka_quot {
  struct ka_poly num, den;
  int atom;
};
struct ka_space {
  VEC(struct ka_atom) atoms;
  VEC(struct ka_poly) cons;
  VEC(struct {
    int atom;
    bool has_lb;
    int64_t lb;
  })
  undo;
  VEC(struct ka_quot) quots;
  int work;  /* steps left for one query */
  int total; /* steps made: beyond a limit nothing more is proved */
};
struct ka_mark {
  size_t cons, undo;
};

void ka_space_free(struct ka_space *s);
/* A new atom; TEXT "" for a value without a name. HAS_LB: it is at least LB. */
int ka_atom(struct ka_space *s, const char *text, bool outer, bool has_lb, int64_t lb);
/* The outer atom of this name, made when there is none. */
int ka_named(struct ka_space *s, const char *text, bool has_lb, int64_t lb);
struct ka_poly ka_const(int64_t c);
struct ka_poly ka_of(int atom);
struct ka_poly ka_add(const struct ka_poly *a, const struct ka_poly *b,
                      int64_t scale); /* a+scale*b */
struct ka_poly ka_mul(const struct ka_poly *a, const struct ka_poly *b);
bool ka_equal(const struct ka_poly *a, const struct ka_poly *b);
bool ka_is_const(const struct ka_poly *p, int64_t *out);
/* Quotient rounded towards zero, for b >= 1 (proved here), else not ok. Without a proof of a >= 0
 * it is not ok when FLOOR (then rounding matters), else nothing is known of it until it is at
 * least 1. */
struct ka_poly ka_div(struct ka_space *s, const struct ka_poly *a, const struct ka_poly *b,
                      bool floor);
/* Is P >= 0 proved in the current scope? */
bool ka_proved(struct ka_space *s, const struct ka_poly *p);
/* States P >= 0 until the scope ends. */
void ka_assume(struct ka_space *s, const struct ka_poly *p);
struct ka_mark ka_enter(const struct ka_space *s);
void ka_leave(struct ka_space *s, struct ka_mark m);
/* States ATOM >= LB until the scope ends. */
void ka_raise(struct ka_space *s, int atom, int64_t lb);
/* Upper (DIR 1) or lower (DIR -1) bounds of P in outer atoms only; NO_BLOCK: without blockIdx too.
 */
void ka_bound(struct ka_space *s, const struct ka_poly *p, int dir, bool no_block,
              struct ka_bounds *out);
/* E (initialised) = P. */
void ka_to_expr(const struct ka_space *s, const struct ka_poly *p, struct ir_expr *e);

#endif
