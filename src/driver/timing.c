// SPDX-License-Identifier: Apache-2.0
#include "driver/timing.h"
#include "backend/rewriter.h"
#include "support/vec.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A scope object waits for the device when it begins and ends, and appends "place milliseconds" to a file of
 * its thread in the folder where the program was started. */
static const char prelude[] =
    "#include <cuda_runtime.h>\n#include <chrono>\n#include <cstdio>\n#include <unistd.h>\n"
    "#include <sys/syscall.h>\n"
    "namespace cucocc_timing {\n"
    "inline FILE *file() {\n"
    "  static thread_local FILE *f = nullptr;\n"
    "  if (!f) {\n"
    "    char name[64];\n"
    "    snprintf(name, sizeof name, \"cucocc-times-%ld-%ld\", (long)getpid(), (long)syscall(SYS_gettid));\n"
    "    f = fopen(name, \"w\");\n"
    "  }\n"
    "  return f;\n"
    "}\n"
    "struct Scope {\n"
    "  int place;\n"
    "  std::chrono::steady_clock::time_point begin;\n"
    "  explicit Scope(int n) : place(n) {\n"
    "    (void)cudaDeviceSynchronize();\n"
    "    begin = std::chrono::steady_clock::now();\n"
    "  }\n"
    "  ~Scope() {\n"
    "    (void)cudaDeviceSynchronize();\n"
    "    std::chrono::duration<double, std::milli> t = std::chrono::steady_clock::now() - begin;\n"
    "    if (FILE *f = file()) {\n"
    "      fprintf(f, \"%d %.9g\\n\", place, t.count());\n"
    "      fflush(f);\n"
    "    }\n"
    "  }\n"
    "};\n"
    "} // namespace cucocc_timing\n";

/* The '{' of the body that is timed for REGION, or 0: of the innermost loop that repeats the whole, else of the
 * function. */
static size_t place_of(const struct ir_program *ir, const struct dir_region *r, const char *text, size_t n) {
  const struct ir_node *leaf = &ir->nodes.v[r->node];
  for (ir_id p = leaf->parent; p >= 0; p = ir->nodes.v[p].parent) {
    const struct ir_node *loop = &ir->nodes.v[p];
    if (loop->kind != IR_LOOP || loop->u.control.over_devices || loop->u.control.over_peers ||
        loop->children.n != 1)
      continue;
    const struct ir_range *body = &ir->nodes.v[loop->children.v[0]].range;
    if (body->file >= 0 && ir->files.v[body->file].main_file && body->begin < n && text[body->begin] == '{')
      return body->begin;
  }
  if (leaf->function < 0)
    return 0;
  const struct ir_range *f = &ir->functions.v[leaf->function].range;
  const struct ir_node *body = &ir->nodes.v[ir->functions.v[leaf->function].body];
  if (f->file < 0 || !ir->files.v[f->file].main_file)
    return 0;
  return body->range.begin < n && text[body->range.begin] == '{' ? body->range.begin : 0;
}

bool timing_instrument(const struct ir_program *ir, const struct dir_set *set, const char *text, size_t n,
                       const char *input, struct strbuf *out) {
  VEC(size_t) places = {0};
  struct rewriter rw;
  rw_init(&rw, text, n);
  VEC_EACH(&set->regions, r) {
    size_t at = place_of(ir, r, text, n);
    bool there = at == 0;
    for (size_t i = 0; i < places.n; i++)
      there |= places.v[i] == at;
    if (there)
      continue;
    VEC_PUSH(&places) = at;
    char *scope = xasprintf("{ cucocc_timing::Scope cucocc_timing_scope_(%zu);", places.n);
    rw_replace(&rw, at, at + 1, scope);
    free(scope);
  }
  bool any = places.n > 0;
  if (any) {
    sb_add(out, prelude);
    sb_add(out, "#line 1 \"");
    for (; *input; input++) {
      if (*input == '"' || *input == '\\')
        sb_addc(out, '\\');
      sb_addc(out, *input);
    }
    sb_add(out, "\"\n");
    rw_apply(&rw, out);
  }
  rw_free(&rw);
  VEC_FREE(&places);
  return any;
}

/* ---- reading ------------------------------------------------------------------------------------- */

static bool is_times(const char *name) { return strncmp(name, "cucocc-times-", 13) == 0; }

void timing_prepare(const char *dir) {
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));)
    if (is_times(e->d_name)) {
      char *path = xasprintf("%s/%s", dir, e->d_name);
      unlink(path);
      free(path);
    }
  if (d)
    closedir(d);
}

struct sample {
  int place, iteration;
  double ms;
};

struct samples {
  struct sample *v;
  size_t n, cap;
};

static void add(struct samples *all, int place, int iteration, double ms) {
  for (size_t i = 0; i < all->n; i++)
    if (all->v[i].place == place && all->v[i].iteration == iteration) {
      all->v[i].ms = ms > all->v[i].ms ? ms : all->v[i].ms;
      return;
    }
  *(struct sample *)vec_grow((void **)&all->v, &all->n, &all->cap, sizeof(struct sample)) =
      (struct sample){place, iteration, ms};
}

static void read_file(struct samples *all, const char *path) {
  enum { PLACES = 64 };
  int iterations[PLACES] = {0}, place;
  double ms;
  FILE *f = fopen(path, "re");
  while (f && fscanf(f, "%d %lf", &place, &ms) == 2)
    if (place > 0 && place < PLACES && ms >= 0)
      add(all, place, iterations[place]++, ms);
  if (f)
    fclose(f);
}

bool timing_collect(const char *dir, double *ms) {
  struct samples all = {0};
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));)
    if (is_times(e->d_name)) {
      char *path = xasprintf("%s/%s", dir, e->d_name);
      read_file(&all, path);
      free(path);
    }
  if (d)
    closedir(d);
  *ms = 0;
  for (size_t i = 0; i < all.n; i++) {
    bool only = true;
    for (size_t k = 0; k < all.n; k++)
      only &= all.v[k].place != all.v[i].place || all.v[k].iteration == 0;
    if (all.v[i].iteration > 0 || only)
      *ms += all.v[i].ms;
  }
  bool any = all.n > 0 && *ms > 0;
  free(all.v);
  return any;
}
