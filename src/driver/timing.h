// SPDX-License-Identifier: Apache-2.0
/* Time stamps in the user's own code: at the loop bodies that communicate, the same in the original and in every
 * candidate, written by the program to files that only we read. */
#ifndef CUCOCC_DRIVER_TIMING_H
#define CUCOCC_DRIVER_TIMING_H

#include "agents/directive.h"
#include "support/strbuf.h"
#include <stdbool.h>

/* TEXT with time stamps around each iteration of the loops that hold regions (or around the functions that do).
 * No line of the text moves. False when there is no place for them. */
bool timing_instrument(const struct ir_program *ir, const struct dir_set *set, const char *text, size_t n,
                       const char *input, struct strbuf *out);

/* Before a program is run in DIR: removes old times. */
void timing_prepare(const char *dir);
/* After it: milliseconds of all iterations but the first of each place, each the maximum over the ranks. */
bool timing_collect(const char *dir, double *ms);

#endif
