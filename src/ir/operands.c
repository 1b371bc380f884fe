// SPDX-License-Identifier: Apache-2.0
/* ir_operands_overlap(): two operands by themselves, outside an analysis. */
#include "ir/alias.h"
#include "ir/range.h"

int ir_operands_overlap(const struct ir_program *p, const struct ir_operand *a,
                        const struct ir_operand *b) {
  if (a->buffer < 0 || b->buffer < 0)
    return 1;
  if (a->buffer != b->buffer) {
    struct alias *alias = alias_new(p);
    bool may = alias_may(alias, a->buffer, b->buffer);
    alias_free(alias);
    return may;
  }
  if (p->buffers.v[a->buffer].reassigned)
    return 1;
  struct range x, y;
  range_init(&x, a, NULL, 0, false);
  range_init(&y, b, NULL, 0, false);
  int r = range_overlap(&x, &y, RANGE_LEVELS);
  range_free(&x);
  range_free(&y);
  return r;
}
