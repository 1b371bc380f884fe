// SPDX-License-Identifier: Apache-2.0
/* Programs: construction and release. */
#include "ir/record.h"
#include <string.h>

struct ir_program *ir_new(void) {
  struct ir_program *p = xcalloc(1, sizeof *p);
  rec_init(&rec_program, p);
  return p;
}

void ir_free(struct ir_program *p) {
  if (!p)
    return;
  rec_free(&rec_program, p);
  free(p);
}

void ir_set(char **field, const char *s) {
  char *copy = xstrdup(s ? s : ""); /* S may be (part of) the old text */
  free(*field);
  *field = copy;
}

#define ADD(table, record)                                                                         \
  do {                                                                                             \
    (void)VEC_PUSH(&p->table);                                                                     \
    rec_init(&record, &p->table.v[p->table.n - 1]);                                                \
  } while (0)
#define LAST(table) (p->table.v[p->table.n - 1])
#define LAST_ID(table) ((ir_id)(p->table.n - 1))

ir_id ir_add_file(struct ir_program *p, const char *path, bool main_file) {
  ADD(files, rec_file);
  ir_set(&LAST(files).path, path);
  LAST(files).main_file = main_file;
  return LAST_ID(files);
}

ir_id ir_add_function(struct ir_program *p, const char *name) {
  ADD(functions, rec_function);
  ir_set(&LAST(functions).name, name);
  return LAST_ID(functions);
}

ir_id ir_add_kernel(struct ir_program *p, const char *name) {
  ADD(kernels, rec_kernel);
  ir_set(&LAST(kernels).name, name);
  return LAST_ID(kernels);
}

ir_id ir_add_buffer(struct ir_program *p, const char *name, const char *function) {
  ADD(buffers, rec_buffer);
  ir_set(&LAST(buffers).name, name);
  ir_set(&LAST(buffers).function, function);
  return LAST_ID(buffers);
}

ir_id ir_add_comm(struct ir_program *p, const char *name, const char *function) {
  ADD(comms, rec_comm);
  ir_set(&LAST(comms).name, name);
  ir_set(&LAST(comms).function, function);
  return LAST_ID(comms);
}

ir_id ir_add_stream(struct ir_program *p, const char *name, const char *function) {
  ADD(streams, rec_stream);
  ir_set(&LAST(streams).name, name);
  ir_set(&LAST(streams).function, function);
  return LAST_ID(streams);
}

ir_id ir_add_event(struct ir_program *p, const char *name, const char *function) {
  ADD(events, rec_event);
  ir_set(&LAST(events).name, name);
  ir_set(&LAST(events).function, function);
  return LAST_ID(events);
}

ir_id ir_add_call(struct ir_program *p, enum ir_call_kind kind, const char *callee) {
  ADD(calls, rec_call);
  LAST(calls).kind = kind;
  ir_set(&LAST(calls).callee, callee);
  return LAST_ID(calls);
}

ir_id ir_add_node(struct ir_program *p, enum ir_node_kind kind, ir_id parent) {
  (void)VEC_PUSH(&p->nodes);
  ir_id id = LAST_ID(nodes);
  struct ir_node *n = &p->nodes.v[id];
  n->kind = kind;
  rec_init(&rec_node, n);
  n->id = id;
  n->parent = parent;
  if (parent >= 0) {
    n->function = p->nodes.v[parent].function;
    VEC_PUSH(&p->nodes.v[parent].children) = id;
  }
  return id;
}

struct ir_node *ir_node(struct ir_program *p, ir_id id) {
  return &p->nodes.v[id];
}

struct ir_operand *ir_add_operand(struct ir_program *p, ir_id node, ir_id buffer,
                                  enum ir_mode mode) {
  struct ir_node *n = &p->nodes.v[node];
  (void)VEC_PUSH(&n->operands);
  struct ir_operand *o = &n->operands.v[n->operands.n - 1];
  rec_init(&rec_operand, o);
  o->buffer = buffer;
  o->mode = mode;
  return o;
}

/* ---- names ---------------------------------------------------------------------------------- */

static const char *name_of(const struct rec_values *values, int value) {
  const char *s = rec_name(values, value);
  return s ? s : "?";
}

const char *ir_node_kind_name(enum ir_node_kind k) { return name_of(&rec_node_kinds, (int)k); }
const char *ir_collective_name(enum ir_collective c) { return name_of(&rec_collectives, (int)c); }
const char *ir_dep_name(enum ir_dep_kind k) { return name_of(&rec_deps, (int)k); }
const char *ir_overlap_name(enum ir_overlap_kind k) { return name_of(&rec_overlaps, (int)k); }
const char *ir_pattern_name(enum ir_pattern k) { return name_of(&rec_patterns, (int)k); }
const char *ir_copy_name(enum ir_copy_kind k) { return name_of(&rec_copies, (int)k); }
const char *ir_sync_name(enum ir_sync_kind k) { return name_of(&rec_syncs, (int)k); }

const char *ir_collective_nccl(enum ir_collective c) {
  static const char *const names[] = {
#define COLL(id, nccl, ...) nccl,
#include "collectives.def"
#undef COLL
  };
  return (unsigned)c < IR_COLL_COUNT ? names[c] : "?";
}

bool ir_node_is_leaf(const struct ir_node *n) { return n->kind >= IR_COMPUTE; }
