// SPDX-License-Identifier: Apache-2.0
/* Which buffers may hold the same memory. */
#ifndef CUCOCC_IR_ALIAS_H
#define CUCOCC_IR_ALIAS_H

#include "ir/ir.h"

struct alias;
struct alias *alias_new(const struct ir_program *p);
void alias_free(struct alias *a);

/* May X and Y (buffers, or -1: unknown memory) share a byte? */
bool alias_may(const struct alias *a, ir_id x, ir_id y);
/* Buffers that may share memory, directly or through others, have the same class: 0 <= class < count. */
int alias_class(const struct alias *a, ir_id x);
int alias_classes(const struct alias *a);
/* Does the name stand for the same memory at all uses in one call of its function? */
bool alias_stable(const struct ir_program *p, ir_id x);

#endif
