// SPDX-License-Identifier: Apache-2.0
/* The dependences found so far, without repetition. */
#ifndef CUCOCC_IR_EDGES_H
#define CUCOCC_IR_EDGES_H

#include "ir/ir.h"

struct edges {
  VEC(struct ir_dep) list;
  int *table; /* hash table of indices into LIST, -1 = free */
  size_t size;
};

void edges_free(struct edges *e);
/* Adds D; an edge of the same ends, buffer and CARRIED becomes the stronger and the surer of both. */
void edges_add(struct edges *e, struct ir_dep d);
/* Is there an order edge from A to B within one iteration? */
bool edges_ordered(const struct edges *e, ir_id a, ir_id b);

#endif
