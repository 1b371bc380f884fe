// SPDX-License-Identifier: Apache-2.0
#include "ir/edges.h"

static bool is_data(enum ir_dep_kind k) { return k <= IR_DEP_WAW; }

static size_t hash(const struct ir_dep *d) {
  uint64_t h = (uint64_t)(uint32_t)d->from << 32 | (uint32_t)d->to;
  h = (h ^ (uint64_t)(d->buffer + 2) << 13 ^ (uint64_t)(d->loop + 1) << 37 ^
       (uint64_t)is_data(d->kind) << 61) *
      0x9E3779B97F4A7C15u;
  return (size_t)(h ^ h >> 29);
}

static bool same(const struct ir_dep *a, const struct ir_dep *b) {
  return a->from == b->from && a->to == b->to && a->buffer == b->buffer && a->loop == b->loop &&
         is_data(a->kind) == is_data(b->kind);
}

/* The slot of D, or the free one where it belongs. */
static int *slot(const struct edges *e, const struct ir_dep *d) {
  size_t i = hash(d) & (e->size - 1);
  while (e->table[i] >= 0 && !same(&e->list.v[e->table[i]], d))
    i = (i + 1) & (e->size - 1);
  return &e->table[i];
}

static void grow(struct edges *e) {
  free(e->table);
  e->size = e->size ? e->size * 2 : 256;
  e->table = xmalloc(e->size * sizeof *e->table);
  for (size_t i = 0; i < e->size; i++)
    e->table[i] = -1;
  for (size_t i = 0; i < e->list.n; i++)
    *slot(e, &e->list.v[i]) = (int)i;
}

/* Lower is stronger. */
static int rank(enum ir_dep_kind k) {
  switch (k) {
  case IR_DEP_RAW:
  case IR_DEP_EVENT:
    return 0;
  case IR_DEP_WAW:
  case IR_DEP_HOST:
    return 1;
  case IR_DEP_STREAM:
    return 2;
  default:
    return 3;
  }
}

void edges_add(struct edges *e, struct ir_dep d) {
  if (e->list.n * 2 >= e->size)
    grow(e);
  int *at = slot(e, &d);
  if (*at < 0) {
    *at = (int)e->list.n;
    VEC_PUSH(&e->list) = d;
    return;
  }
  struct ir_dep *old = &e->list.v[*at];
  if (rank(d.kind) < rank(old->kind))
    old->kind = d.kind;
  old->may = old->may && d.may;
}

bool edges_ordered(const struct edges *e, ir_id a, ir_id b) {
  struct ir_dep d = {.from = a, .to = b, .kind = IR_DEP_STREAM, .buffer = -1, .loop = -1};
  return e->size && *slot(e, &d) >= 0;
}

void edges_free(struct edges *e) {
  VEC_FREE(&e->list);
  free(e->table);
}
