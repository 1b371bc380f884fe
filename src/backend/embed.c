// SPDX-License-Identifier: Apache-2.0
#include "backend/embed.h"
#include "backend/embed_table.h"
#include <string.h>

const char *embed_file(const char *name, size_t *n) {
  for (const struct embed_entry *e = embed_table; e->name; e++) {
    const char *slash = strrchr(e->name, '/');
    if (strcmp(e->name, name) != 0 && (!slash || strcmp(slash + 1, name) != 0))
      continue;
    if (n)
      *n = (size_t)(e->end - e->begin);
    return e->begin;
  }
  return NULL;
}
