// SPDX-License-Identifier: Apache-2.0
/* Finding the launches next to a region: a walk through the tree around it, which stops at the first thing
 * that might conflict and cannot take part. */
#include "agents/chain.h"
#include <string.h>

struct search {
  const struct ir_program *ir;
  VEC(ir_id) leaves; /* the region's */
  struct dir_chain *out;
  bool added;
  size_t events; /* of OUT, that lie after its first producer */
};

static const struct ir_node *at(const struct search *s, ir_id id) { return &s->ir->nodes.v[id]; }

static void leaves_of(const struct ir_program *ir, ir_id node, struct search *s) {
  const struct ir_node *n = &ir->nodes.v[node];
  if (ir_node_is_leaf(n))
    VEC_PUSH(&s->leaves) = node;
  VEC_EACH(&n->children, c) leaves_of(ir, *c, s);
}

static bool leaf_conflicts(const struct search *s, const struct ir_node *n) {
  VEC_EACH(&s->leaves, id)
  VEC_EACH(&at(s, *id)->operands, b)
  VEC_EACH(&n->operands, a)
  if (((a->mode | b->mode) & IR_WRITE) && ir_operands_overlap(s->ir, a, b))
    return true;
  return false;
}

static bool conflicts(const struct search *s, ir_id node) {
  const struct ir_node *n = at(s, node);
  if (n->kind == IR_CALL || n->kind == IR_HOST)
    return true;
  if (ir_node_is_leaf(n))
    return leaf_conflicts(s, n);
  VEC_EACH(&n->children, c) if (conflicts(s, *c)) return true;
  return false;
}

const char *dir_stays_whole(const struct ir_program *ir, const struct ir_node *n) {
  if (n->kind == IR_COPY)
    return n->u.copy.kind == IR_COPY_MEMSET && n->async ? NULL : "it is a copy";
  if (n->kind == IR_COMPUTE && n->u.compute.kind == IR_COMPUTE_CUBLAS)
    return strcmp(n->label, "cublasGemmEx") == 0 ? NULL : "it is a library call that cannot be cut";
  if (n->kind != IR_COMPUTE || n->u.compute.kind != IR_COMPUTE_LAUNCH || n->u.compute.kernel < 0)
    return "it is not the launch of a kernel of the program";
  const struct ir_kernel *k = &ir->kernels.v[n->u.compute.kernel];
  if (n->u.compute.launch.file < 0 || !ir->files.v[n->u.compute.launch.file].main_file)
    return "its launch is not spelled out in the input file";
  if (ir->functions.v[n->function].has_errors)
    return "the enclosing function has errors";
  if (k->whole_grid[0])
    return k->whole_grid;
  VEC_EACH(&k->params, q) {
    size_t len = strlen(q->type);
    bool pointer = len && q->type[len - 1] == '*';
    if (q->pointer && (!pointer || (len > 1 && q->type[len - 2] == '*')))
      return "a parameter holds pointers that are not visible in the call";
  }
  return NULL;
}

static bool takes_part(const struct search *s, const struct ir_node *n) {
  return !dir_stays_whole(s->ir, n);
}

/* Walks SEQ backwards from child END. Returns true when it may go on before SEQ. */
static bool back(struct search *s, ir_id seq, size_t end, bool top);

static bool back_node(struct search *s, ir_id id) {
  const struct ir_node *n = at(s, id);
  bool clean = true;
  switch (n->kind) {
  case IR_COMPUTE:
  case IR_COPY:
    if (!leaf_conflicts(s, n))
      return true;
    if (!takes_part(s, n))
      return false;
    VEC_PUSH(&s->out->producers) = id; /* last first */
    s->added = true;
    s->events = s->out->events.n;
    return true;
  case IR_COLLECTIVE:
  case IR_GROUP:
    return !conflicts(s, id);
  case IR_SYNC:
    if (n->u.sync.kind != IR_SYNC_EVENT_RECORD && n->u.sync.kind != IR_SYNC_EVENT_WAIT)
      return n->u.sync.kind == IR_SYNC_QUERY;
    VEC_PUSH(&s->out->events) = id;
    return true;
  case IR_SEQ:
    return back(s, id, n->children.n, false);
  case IR_LOOP:
    return n->u.control.over_devices && n->children.n == 1 && back_node(s, n->children.v[0]);
  case IR_BRANCH:
    VEC_EACH(&n->children, arm) clean &= back_node(s, *arm);
    return clean;
  default:
    return false;
  }
}

static bool back(struct search *s, ir_id seq, size_t end, bool top) {
  const struct ir_node *n = at(s, seq);
  for (size_t i = end; i-- > 0;) {
    ir_id id = n->children.v[i];
    s->added = false;
    bool go_on = back_node(s, id);
    if (top && s->added)
      s->out->begin = ir_node_is_leaf(at(s, id)) ? -1 : id;
    if (!go_on)
      return false;
  }
  return true;
}

/* Walks SEQ backwards from its child INNER. */
static bool back_to(struct search *s, ir_id seq, ir_id inner) {
  const struct ir_node *n = at(s, seq);
  size_t i = 0;
  while (i < n->children.n && n->children.v[i] != inner)
    i++;
  return back(s, seq, i, true);
}

/* Does control leave or enter FUNCTION between two offsets, as far as is spelled out? */
static bool jumps_between(const struct ir_program *ir, ir_id function, size_t a, size_t b) {
  VEC_EACH(&ir->functions.v[function].jumps, j) if (j->at > a && j->at < b) return true;
  return false;
}

static void forward(struct search *s, ir_id seq, size_t begin, const struct ir_node *start) {
  const struct ir_node *n = at(s, seq);
  for (size_t i = begin; i < n->children.n; i++) {
    const struct ir_node *m = at(s, n->children.v[i]);
    switch (m->kind) {
    case IR_COMPUTE:
      if (!leaf_conflicts(s, m))
        continue;
      if (takes_part(s, m) &&
          !jumps_between(s->ir, m->function, start->range.begin, m->range.begin))
        s->out->consumer = m->id;
      return;
    case IR_COPY:
      if (leaf_conflicts(s, m))
        return;
      continue;
    default:
      return;
    }
  }
}

void dir_chain_find(const struct ir_program *ir, const struct dir_region *region,
                    struct dir_chain *out) {
  struct search s = {.ir = ir, .out = out};
  memset(out, 0, sizeof *out);
  out->begin = out->consumer = -1;
  ir_id start = region->node;
  leaves_of(ir, start, &s);
  for (ir_id up = ir->nodes.v[start].parent; up >= 0; up = ir->nodes.v[up].parent)
    if (ir->nodes.v[up].kind == IR_GROUP)
      start = up; /* runs when the outermost group ends */
  ir_id seq = ir->nodes.v[start].parent;
  if (seq < 0 || ir->nodes.v[seq].kind != IR_SEQ) {
    out->why = "it stands alone in its function";
  } else {
    const struct ir_node *n = &ir->nodes.v[seq];
    size_t i = 0;
    while (i < n->children.n && n->children.v[i] != start)
      i++;
    /* What encloses the region in a branch has been passed before it as well. */
    ir_id inner = start, outer = seq;
    while (back_to(&s, outer, inner)) {
      inner = ir->nodes.v[outer].parent;
      if (inner < 0 || ir->nodes.v[inner].kind != IR_BRANCH)
        break;
      outer = ir->nodes.v[inner].parent;
    }
    out->events.n = s.events;
    for (size_t a = 0, b = out->producers.n; a + 1 < b; a++) { /* source order */
      ir_id t = out->producers.v[a];
      out->producers.v[a] = out->producers.v[--b];
      out->producers.v[b] = t;
    }
    forward(&s, seq, i + 1, &ir->nodes.v[start]);
    if (!out->producers.n && out->consumer < 0)
      out->why = "no launch next to it that uses its buffers can be cut into parts";
  }
  VEC_FREE(&s.leaves);
}

void dir_chain_free(struct dir_chain *c) {
  VEC_FREE(&c->producers);
  VEC_FREE(&c->events);
}
