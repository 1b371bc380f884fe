// SPDX-License-Identifier: Apache-2.0
/* Running another program. */
#ifndef CUCOCC_DRIVER_PROCESS_H
#define CUCOCC_DRIVER_PROCESS_H

#include "driver/args.h"

/* Runs WORDS (the first is found on PATH) and waits. Returns its exit status, 128 + N when signal N ended
 * it, or -1 with errno set when it could not be started. The child ends with us. */
int process_run(const struct arg_list *words);

#endif
