// SPDX-License-Identifier: Apache-2.0
/* Where programs that nobody has read yet are run: bubblewrap, when it works here. */
#ifndef CUCOCC_DRIVER_SANDBOX_H
#define CUCOCC_DRIVER_SANDBOX_H

#include "driver/args.h"
#include <stdbool.h>

/* Does bubblewrap work on this machine? Asked once. CUCOCC_SANDBOX=none in the environment says no. */
bool sandbox_available(void);
/* WORDS, to be run with everything read-only but DIR and what is below; it starts in START; with NETWORK or
 * without; in a process namespace that ends with it. Without bubblewrap OUT is a copy. */
void sandbox_wrap(struct arg_list *out, const struct arg_list *words, const char *dir, const char *start,
                  bool network);

#endif
