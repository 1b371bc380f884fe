// SPDX-License-Identifier: Apache-2.0
/* Which allocations may move to symmetric memory. */
#ifndef CUCOCC_BACKEND_SYMMETRIC_H
#define CUCOCC_BACKEND_SYMMETRIC_H

#include "agents/directive.h"
#include "ir/ir.h"
#include "support/diag.h"

/* Fills MOVE[i] for every ir_call i: true for the cudaMalloc calls that are to become symmetric
 * allocations. An allocation moves when a translated region uses its memory and it provably runs on
 * every rank in the same order, outside loops, and every place that could free it can be rewritten with
 * it. TEXT is the input (to find mentions of cudaFree that are not calls). The others are reported with
 * their reason (CU0402). Returns the number that move; STAYING receives the number that do not. */
int symmetric_choose(const struct ir_program *ir, const struct dir_set *set, const char *text,
                     size_t size, struct diag_engine *diag, bool *move, int *staying);

#endif
