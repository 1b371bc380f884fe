// SPDX-License-Identifier: Apache-2.0
/* Finds the CUDA toolkit and NCCL's headers. */
#include "config.h"
#include "frontend/internal.h"
#include "support/strbuf.h"
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool exists(const char *dir, const char *file) {
  char *p = xasprintf("%s/%s", dir, file);
  bool r = access(p, R_OK) == 0;
  free(p);
  return r;
}

static bool is_cuda(const char *root) { return root && exists(root, "include/cuda_runtime.h"); }

static const char *const wheels[] = {
    "/usr/lib/python3*/site-packages/nvidia/%s",
    "/usr/lib/python3*/dist-packages/nvidia/%s",
    "/usr/local/lib/python3*/site-packages/nvidia/%s",
    "/usr/local/lib/python3*/dist-packages/nvidia/%s",
};

/* The last match of the wheels' folders that holds FILE. */
static char *in_wheels(const char *package, const char *file) {
  char *found = NULL;
  const char *venv = getenv("VIRTUAL_ENV"), *home = getenv("HOME");
  char *extra[] = {
      venv ? xasprintf("%s/lib/python3*/site-packages/nvidia/%s", venv, package) : NULL,
      home ? xasprintf("%s/.local/lib/python3*/site-packages/nvidia/%s", home, package) : NULL};
  for (size_t i = 0; i < 2 + sizeof wheels / sizeof *wheels; i++) {
    struct strbuf pattern = {0};
    if (i < 2) {
      if (extra[i])
        sb_add(&pattern, extra[i]);
    } else {
      const char *w = wheels[i - 2];
      size_t n = strlen(w) - 2;
      sb_addn(&pattern, w, n);
      sb_add(&pattern, package);
    }
    glob_t g = {0};
    if (!found && pattern.n && !glob(pattern.s, 0, NULL, &g))
      for (size_t j = 0; j < g.gl_pathc; j++)
        if (exists(g.gl_pathv[j], file)) {
          free(found);
          found = xstrdup(g.gl_pathv[j]);
        }
    globfree(&g);
    sb_free(&pattern);
  }
  free(extra[0]);
  free(extra[1]);
  return found;
}

static char *nvcc_on_path(void) {
  const char *path = getenv("PATH");
  while (path && *path) {
    size_t n = strcspn(path, ":");
    char *nvcc = xasprintf("%.*s/nvcc", (int)n, path);
    char *real = access(nvcc, X_OK) == 0 ? realpath(nvcc, NULL) : NULL;
    free(nvcc);
    if (real) {
      for (int i = 0; i < 2; i++) { /* .../bin/nvcc */
        char *slash = strrchr(real, '/');
        if (slash)
          *slash = '\0';
      }
      if (is_cuda(real))
        return real;
      free(real);
    }
    path += n;
    path += *path == ':';
  }
  return NULL;
}

char *fe_find_cuda(const char *given) {
  if (given)
    return is_cuda(given) ? xstrdup(given) : NULL;
  const char *env[] = {getenv("CUDA_PATH"), getenv("CUDA_HOME")};
  for (int i = 0; i < 2; i++)
    if (is_cuda(env[i]))
      return xstrdup(env[i]);
  char *r = nvcc_on_path();
  if (r)
    return r;
  if (is_cuda("/usr/local/cuda"))
    return xstrdup("/usr/local/cuda");
  r = in_wheels("cu13", "include/cuda_runtime.h");
  if (!r)
    r = in_wheels("cuda_runtime", "include/cuda_runtime.h");
  return r || !*DEFAULT_CUDA || !is_cuda(DEFAULT_CUDA) ? r : xstrdup(DEFAULT_CUDA);
}

int fe_nccl_version(const char *header) {
  FILE *in = fopen(header, "r");
  int v[3] = {0, 0, 0};
  char line[512];
  if (!in)
    return 0;
  while (fgets(line, sizeof line, in)) {
    sscanf(line, "#define NCCL_MAJOR %d", &v[0]);
    sscanf(line, "#define NCCL_MINOR %d", &v[1]);
    sscanf(line, "#define NCCL_PATCH %d", &v[2]);
  }
  fclose(in);
  if (!v[0])
    return 0;
  return v[0] <= 2 && v[1] <= 8 ? v[0] * 1000 + v[1] * 100 + v[2]
                                : v[0] * 10000 + v[1] * 100 + v[2];
}

char *fe_find_nccl(const char *given, const char *cuda_path) {
  if (given)
    return exists(given, "nccl.h") ? xstrdup(given) : NULL;
  const char *home = getenv("NCCL_HOME"), *root = getenv("NCCL_ROOT");
  char *dirs[] = {home ? xasprintf("%s/include", home) : NULL,
                  root ? xasprintf("%s/include", root) : NULL,
                  cuda_path ? xasprintf("%s/include", cuda_path) : NULL,
                  xstrdup("/usr/local/include"),
                  xstrdup("/usr/include"),
                  xstrdup("/usr/include/x86_64-linux-gnu"),
                  in_wheels("nccl", "include/nccl.h")};
  char *best = NULL;
  bool good = false;
  size_t n = sizeof dirs / sizeof *dirs;
  for (size_t i = 0; i < n; i++) {
    if (!dirs[i])
      continue;
    char *dir = i == n - 1 ? xasprintf("%s/include", dirs[i]) : xstrdup(dirs[i]);
    char *h = xasprintf("%s/nccl.h", dir);
    int v = access(h, R_OK) ? 0 : fe_nccl_version(h);
    if (v && (!best || (!good && v >= 22807))) {
      free(best);
      best = xstrdup(dir);
      good = v >= 22807;
    }
    free(h);
    free(dir);
    free(dirs[i]);
  }
  return best;
}
