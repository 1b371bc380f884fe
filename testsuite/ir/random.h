// SPDX-License-Identifier: Apache-2.0
/* Random numbers and random IR for the tests: the same seed gives the same program. */
#ifndef CUCOCC_TESTSUITE_IR_RANDOM_H
#define CUCOCC_TESTSUITE_IR_RANDOM_H

#include "ir/ir.h"

struct rnd {
  uint64_t state;
};
uint64_t rnd_next(struct rnd *r);
int rnd_below(struct rnd *r, int n);          /* 0 .. n-1 */
bool rnd_chance(struct rnd *r, int percent);

/* A valid program with every member of every struct at random values, odd strings included. */
struct ir_program *random_ir(uint64_t seed);

#endif
