// SPDX-License-Identifier: Apache-2.0
#include "driver/resources.h"
#include "support/io.h"
#include "support/strbuf.h"
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* PREFIX/bin/cucocc -> PREFIX/share/cucocc */
static char *beside_program(void) {
  char exe[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (n <= 0)
    return xasprintf("%s", PKGDATADIR);
  exe[n] = '\0';
  char *dir = io_dirname(exe);
  char *path = xasprintf("%s/../share/cucocc", dir);
  free(dir);
  return path;
}

static char *join(const char *root, const char *name) {
  char *path = xasprintf("%s/%s", root, name);
  if (access(path, R_OK) == 0)
    return path;
  free(path);
  return NULL;
}

char *resources_find(const char *name) {
  const char *given = getenv("CUCOCC_RESOURCE_DIR");
  char *path = given && *given ? join(given, name) : NULL;
  if (path)
    return path;
  char *root = beside_program();
  path = join(root, name);
  free(root);
  return path ? path : join(BUILD_RESOURCES, name);
}
