// SPDX-License-Identifier: Apache-2.0
/* How far a long job is: one line that is drawn again and again on a terminal, a line now and then elsewhere. */
#ifndef CUCOCC_DRIVER_PROGRESS_H
#define CUCOCC_DRIVER_PROGRESS_H

#include <stdbool.h>

/* Replaces the line on a terminal; elsewhere prints nothing. */
void progress_draw(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints a line that stays, everywhere. */
void progress_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Removes the drawn line. */
void progress_clear(void);
/* "1:02:03" or "2:03". The text is static. */
const char *progress_duration(double seconds);

#endif
