// SPDX-License-Identifier: Apache-2.0
/* Each buffer gets the set of buffers whose memory it may hold, itself included. Two names may
 * share memory when their sets meet. Parameters without visible callers may hold each other's
 * memory and that of globals; memory of which nothing is known may be any. */
#include "ir/alias.h"
#include <string.h>

typedef VEC(ir_id) ids;

struct alias {
  const struct ir_program *p;
  ids *sets;    /* sorted */
  bool *wild;   /* may be any memory */
  bool *open;   /* a parameter whose actual arguments are not visible */
  int *classes; /* one more than buffers: the last is for unknown memory */
  int count;
};

static void reach(const struct ir_program *p, ir_id b, unsigned *stamp, unsigned now, ids *out) {
  ids work = {0};
  VEC_PUSH(&work) = b;
  stamp[b] = now;
  while (work.n) {
    ir_id x = work.v[--work.n];
    const struct ir_buffer *f = &p->buffers.v[x];
    VEC_PUSH(out) = x;
    for (size_t i = 0; i <= f->aliases.n; i++) {
      ir_id y = i < f->aliases.n ? f->aliases.v[i] : f->alias_of;
      if (y >= 0 && stamp[y] != now) {
        stamp[y] = now;
        VEC_PUSH(&work) = y;
      }
    }
  }
  VEC_FREE(&work);
}

static int by_id(const void *a, const void *b) { return *(const ir_id *)a - *(const ir_id *)b; }

static int root(int *parent, int x) {
  while (parent[x] != x)
    x = parent[x] = parent[parent[x]];
  return x;
}

static void join(int *parent, int x, int y) { parent[root(parent, x)] = root(parent, y); }

static bool is_global(const struct ir_program *p, ir_id b) { return !*p->buffers.v[b].function; }

/* Numbers the classes: connected components of alias_may(). */
static void number(struct alias *a) {
  int n = (int)a->p->buffers.n, *parent = xcalloc((size_t)n + 1, sizeof *parent);
  int any_wild = -1, open = -1;
  for (int i = 0; i <= n; i++)
    parent[i] = i;
  for (int i = 0; i < n; i++) {
    VEC_EACH(&a->sets[i], s) join(parent, i, *s);
    if (a->wild[i])
      any_wild = i;
    if (a->open[i]) {
      if (open >= 0)
        join(parent, i, open);
      open = i;
    }
  }
  for (int i = 0; i < n; i++) {
    if (open >= 0 && is_global(a->p, i))
      join(parent, i, open);
    if (any_wild >= 0)
      join(parent, i, n);
  }
  int *name = xcalloc((size_t)n + 1, sizeof *name);
  for (int i = 0; i <= n; i++)
    name[i] = -1;
  for (int i = 0; i <= n; i++) {
    int r = root(parent, i);
    if (name[r] < 0)
      name[r] = a->count++;
    a->classes[i] = name[r];
  }
  free(name);
  free(parent);
}

/* Is unknown memory (buffer -1) used anywhere? Then it may be any buffer's. */
static bool uses_unknown(const struct ir_program *p) {
  VEC_EACH(&p->nodes, n)
  VEC_EACH(&n->operands, o)
  if (o->buffer < 0)
    return true;
  return false;
}

struct alias *alias_new(const struct ir_program *p) {
  size_t n = p->buffers.n;
  struct alias *a = xcalloc(1, sizeof *a);
  a->p = p;
  a->sets = xcalloc(n + 1, sizeof *a->sets);
  a->wild = xcalloc(n + 1, sizeof *a->wild);
  a->open = xcalloc(n + 1, sizeof *a->open);
  a->classes = xcalloc(n + 1, sizeof *a->classes);
  unsigned *stamp = xcalloc(n + 1, sizeof *stamp);
  for (size_t i = 0; i < n; i++) {
    ids set = {0};
    reach(p, (ir_id)i, stamp, (unsigned)i + 1, &set);
    qsort(set.v, set.n, sizeof *set.v, by_id);
    a->sets[i] = set;
    const struct ir_buffer *b = &p->buffers.v[i];
    a->open[i] = b->origin == IR_ORIGIN_PARAM && !b->aliases.n;
    a->wild[i] = b->origin == IR_ORIGIN_UNKNOWN && !b->aliases.n;
  }
  free(stamp);
  /* What may hold a wild or open buffer's memory is so itself. */
  bool *wild = xcalloc(n + 1, sizeof *wild), *open = xcalloc(n + 1, sizeof *open);
  for (size_t i = 0; i < n; i++)
    VEC_EACH(&a->sets[i], s) {
      wild[i] = wild[i] || a->wild[*s];
      open[i] = open[i] || a->open[*s];
    }
  free(a->wild);
  free(a->open);
  a->wild = wild;
  a->open = open;
  number(a);
  if (uses_unknown(p)) { /* one class for all */
    memset(a->classes, 0, (n + 1) * sizeof *a->classes);
    a->count = 1;
  }
  return a;
}

void alias_free(struct alias *a) {
  for (size_t i = 0; i < a->p->buffers.n; i++)
    VEC_FREE(&a->sets[i]);
  free(a->sets);
  free(a->wild);
  free(a->open);
  free(a->classes);
  free(a);
}

bool alias_may(const struct alias *a, ir_id x, ir_id y) {
  if (x == y || x < 0 || y < 0 || a->wild[x] || a->wild[y])
    return true;
  if ((a->open[x] && (a->open[y] || is_global(a->p, y))) || (a->open[y] && is_global(a->p, x)))
    return true;
  size_t i = 0, j = 0;
  while (i < a->sets[x].n && j < a->sets[y].n) {
    ir_id p = a->sets[x].v[i], q = a->sets[y].v[j];
    if (p == q)
      return true;
    if (p < q)
      i++;
    else
      j++;
  }
  return false;
}

int alias_class(const struct alias *a, ir_id x) {
  return a->classes[x < 0 ? (ir_id)a->p->buffers.n : x];
}

int alias_classes(const struct alias *a) { return a->count; }

bool alias_stable(const struct ir_program *p, ir_id x) {
  return x >= 0 && !p->buffers.v[x].reassigned && p->buffers.v[x].origin != IR_ORIGIN_UNKNOWN &&
         p->buffers.v[x].origin != IR_ORIGIN_ALIAS;
}
