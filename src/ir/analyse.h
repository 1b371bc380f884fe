// SPDX-License-Identifier: Apache-2.0
/* The two halves of ir_analyse(). */
#ifndef CUCOCC_IR_ANALYSE_H
#define CUCOCC_IR_ANALYSE_H

#include "ir/edges.h"
#include "ir/effects.h"
#include "ir/tree.h"

/* depend.c: finds the dependences. */
void depend(struct ir_program *p, const struct tree *tree, const struct effects_table *effects);
/* overlap.c: classifies pairs, given the dependences. */
void overlap(struct ir_program *p, const struct tree *tree, const struct effects_table *effects);

#endif
