// SPDX-License-Identifier: Apache-2.0
/* Where nodes are in the tree of their function: what the analyses ask about two leaves. */
#ifndef CUCOCC_IR_TREE_H
#define CUCOCC_IR_TREE_H

#include "ir/ir.h"

struct tree {
  const struct ir_program *p;
  int *position; /* leaves: 0, 1, ... in program order; functions one after the other */
  int *depth;    /* of nodes: 0 = the root */
  int *level;    /* of nodes: how many loops are at or above them */
  ir_id *group;  /* of nodes: the outermost group at or above them, or -1 */
  int *first, *last; /* of nodes: positions of the first leaf below and behind the last one */
  ir_id *order;  /* leaf by position */
  int leaves;
};

void tree_init(struct tree *t, const struct ir_program *p);
void tree_free(struct tree *t);

/* The lowest node at or above both (A itself when A == B). */
ir_id tree_common(const struct tree *t, ir_id a, ir_id b);
/* Are they in different arms of a branch? */
bool tree_exclusive(const struct tree *t, ir_id a, ir_id b);
/* Are they unordered members of one group? */
bool tree_same_group(const struct tree *t, ir_id a, ir_id b);
/* Is A executed whenever B, behind it in the same sequence of leaves, is? */
bool tree_dominates(const struct tree *t, ir_id a, ir_id b);
/* The innermost loop from one iteration of which A can reach B in the next, or -1: loops over devices do
 * not count for entities that exist PER_DEVICE, loops in a group do not for its members. */
ir_id tree_carrying_loop(const struct tree *t, ir_id a, ir_id b, bool per_device);

#endif
