// SPDX-License-Identifier: Apache-2.0
/* Byte ranges of operands, prepared for many comparisons. */
#ifndef CUCOCC_IR_RANGE_H
#define CUCOCC_IR_RANGE_H

#include "ir/ir.h"

/* [offset, end) in bytes. VARIES: bit k = a symbol of it is assigned in the enclosing loop of level k
 * (0 = outermost), so that it has different values in different iterations. */
struct range {
  const struct ir_expr *offset;
  struct ir_expr end;
  bool known;  /* else anything in the buffer */
  bool exact;  /* all of it is touched */
  bool fixed;  /* known, and both bounds are constants */
  uint64_t offset_varies, end_varies;
};

enum { RANGE_LEVELS = 64 };

/* Prepares the range of operand O, used by a leaf below the loops LOOPS[0..N), outermost first; loops over
 * the process's devices do not count when the buffer exists PER_DEVICE. */
void range_init(struct range *r, const struct ir_operand *o, const struct ir_node *const *loops,
                size_t n, bool per_device);
/* An unknown range. */
void range_unknown(struct range *r);
void range_free(struct range *r);

/* Do A and B share a byte: 0 no, 1 maybe, 2 yes? Loops of level COMMON and deeper may be in different
 * iterations. */
int range_overlap(const struct range *a, const struct range *b, unsigned common);
/* Is B proved to lie within A? */
bool range_within(const struct range *a, const struct range *b, unsigned common);

#endif
