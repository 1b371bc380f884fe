// SPDX-License-Identifier: Apache-2.0
#include "ir/tree.h"

static void visit(struct tree *t, ir_id id) {
  const struct ir_node *n = &t->p->nodes.v[id];
  bool root = n->parent < 0;
  t->depth[id] = root ? 0 : t->depth[n->parent] + 1;
  t->level[id] = (root ? 0 : t->level[n->parent]) + (n->kind == IR_LOOP);
  t->group[id] = root ? -1 : t->group[n->parent];
  if (n->kind == IR_GROUP && t->group[id] < 0)
    t->group[id] = id;
  t->first[id] = t->leaves;
  if (ir_node_is_leaf(n)) {
    t->position[id] = t->leaves;
    t->order[t->leaves++] = id;
  }
  for (size_t i = 0; i < n->children.n; i++)
    visit(t, n->children.v[i]);
  t->last[id] = t->leaves;
}

void tree_init(struct tree *t, const struct ir_program *p) {
  size_t n = p->nodes.n + 1;
  *t = (struct tree){.p = p};
  t->position = xcalloc(n, sizeof *t->position);
  t->depth = xcalloc(n, sizeof *t->depth);
  t->level = xcalloc(n, sizeof *t->level);
  t->group = xcalloc(n, sizeof *t->group);
  t->first = xcalloc(n, sizeof *t->first);
  t->last = xcalloc(n, sizeof *t->last);
  t->order = xcalloc(n, sizeof *t->order);
  VEC_EACH(&p->functions, f) if (f->body >= 0) visit(t, f->body);
}

void tree_free(struct tree *t) {
  free(t->position);
  free(t->depth);
  free(t->level);
  free(t->group);
  free(t->first);
  free(t->last);
  free(t->order);
}

ir_id tree_common(const struct tree *t, ir_id a, ir_id b) {
  while (t->depth[a] > t->depth[b])
    a = t->p->nodes.v[a].parent;
  while (t->depth[b] > t->depth[a])
    b = t->p->nodes.v[b].parent;
  while (a != b) {
    a = t->p->nodes.v[a].parent;
    b = t->p->nodes.v[b].parent;
  }
  return a;
}

bool tree_exclusive(const struct tree *t, ir_id a, ir_id b) {
  return t->p->nodes.v[tree_common(t, a, b)].kind == IR_BRANCH;
}

static bool any_collective(const struct tree *t, ir_id a, ir_id b) {
  return t->p->nodes.v[a].kind == IR_COLLECTIVE || t->p->nodes.v[b].kind == IR_COLLECTIVE;
}

bool tree_same_group(const struct tree *t, ir_id a, ir_id b) {
  return t->group[a] >= 0 && t->group[a] == t->group[b] && any_collective(t, a, b);
}

bool tree_dominates(const struct tree *t, ir_id a, ir_id b) {
  ir_id c = tree_common(t, a, b);
  if (t->p->nodes.v[c].kind == IR_BRANCH)
    return false;
  for (ir_id x = t->p->nodes.v[a].parent; x != c && x >= 0; x = t->p->nodes.v[x].parent)
    if (t->p->nodes.v[x].kind == IR_BRANCH || t->p->nodes.v[x].kind == IR_LOOP)
      return false;
  return true;
}

ir_id tree_carrying_loop(const struct tree *t, ir_id a, ir_id b, bool per_device) {
  ir_id c = tree_common(t, a, b);
  if (t->group[c] >= 0 && any_collective(t, a, b))
    c = t->group[c];
  for (; c >= 0; c = t->p->nodes.v[c].parent) {
    const struct ir_node *n = &t->p->nodes.v[c];
    if (n->kind == IR_LOOP && !(per_device && n->u.control.over_devices))
      return c;
  }
  return -1;
}
