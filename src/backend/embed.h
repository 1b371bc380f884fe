// SPDX-License-Identifier: Apache-2.0
/* The text files that are built into the program: the runtime prelude and the kernel templates. */
#ifndef CUCOCC_BACKEND_EMBED_H
#define CUCOCC_BACKEND_EMBED_H

#include <stddef.h>

/* The text of a file under src/backend, by its path there ("runtime/cucocc_runtime.cuh",
 * "templates/all_reduce.cuh.in") or by its base name alone. NUL-terminated, static; its length goes to
 * N when N is not NULL. Returns NULL when there is no such file. */
const char *embed_file(const char *name, size_t *n);

#endif
