// SPDX-License-Identifier: Apache-2.0
/* Effects of leaves, and bottom-up summaries of functions for calls of them. */
#include "ir/effects.h"
#include <string.h>

struct named {
  const char *name, *function;
  ir_id id;
};

struct effects_table {
  const struct ir_program *p;
  struct effects *functions; /* summaries */
  VEC(const char *) globals;
  VEC(struct named) buffers; /* sorted, to find actual arguments by their spelling */
};

void effects_free(struct effects *e) {
  VEC_FREE(&e->uses);
  VEC_FREE(&e->touches);
}

static void use(struct effects *out, ir_id buffer, unsigned mode, const struct ir_operand *op,
                bool may) {
  VEC_PUSH(&out->uses) = (struct effect_use){buffer, mode, op, may};
}

static struct effect_touch *touch(struct effects *out, enum effect_resource r, ir_id id,
                                  enum ir_dep_kind kind) {
  struct effect_touch *t = &VEC_PUSH(&out->touches);
  *t = (struct effect_touch){.resource = r, .id = id, .kind = kind};
  return t;
}

/* Work on a stream comes after earlier work there and before later. Stream 0 waits for, and is
 * waited for by, every stream that was not created as non-blocking. */
static void on_stream(const struct ir_program *p, struct effects *out, ir_id stream,
                      enum ir_dep_kind kind, bool reads) {
  if (stream < 0) {
    struct effect_touch *t = touch(out, EFFECT_ALL_STREAMS, -1, kind);
    t->may = true;
    t->reads = reads;
    return;
  }
  touch(out, EFFECT_STREAM, stream, kind)->reads = reads;
  if (!reads)
    touch(out, EFFECT_OWN_WORK, stream, kind)->only = true;
  if (p->streams.v[stream].is_default)
    for (size_t i = 0; i < p->streams.n; i++)
      if ((ir_id)i != stream && !p->streams.v[i].non_blocking)
        touch(out, EFFECT_STREAM, (ir_id)i, kind)->reads = reads;
}

static ir_id default_stream(const struct ir_program *p) {
  for (size_t i = 0; i < p->streams.n; i++)
    if (p->streams.v[i].is_default)
      return (ir_id)i;
  return -1;
}

static void sync_effects(const struct ir_program *p, const struct ir_node *n, struct effects *out) {
  switch (n->u.sync.kind) {
  case IR_SYNC_DEVICE:
    touch(out, EFFECT_ALL_STREAMS, -1, IR_DEP_HOST);
    out->blocks = true;
    break;
  case IR_SYNC_STREAM:
    if (n->stream >= 0)
      touch(out, EFFECT_OWN_WORK, n->stream, IR_DEP_HOST)->reads = true;
    else
      touch(out, EFFECT_ALL_STREAMS, -1, IR_DEP_HOST)->may = true;
    out->blocks = true;
    break;
  case IR_SYNC_EVENT_RECORD:
    on_stream(p, out, n->stream, IR_DEP_STREAM,
              n->stream < 0 || !p->streams.v[n->stream].is_default);
    touch(out, EFFECT_EVENT, n->event, IR_DEP_EVENT)->only = true;
    break;
  case IR_SYNC_EVENT_WAIT:
    touch(out, EFFECT_EVENT, n->event, IR_DEP_EVENT)->reads = true;
    on_stream(p, out, n->stream, IR_DEP_STREAM, false);
    break;
  case IR_SYNC_EVENT_HOST:
    touch(out, EFFECT_EVENT, n->event, IR_DEP_EVENT)->reads = true;
    out->blocks = true;
    break;
  case IR_SYNC_MPI:
  case IR_SYNC_THREAD:
    out->blocks = true;
    break;
  case IR_SYNC_QUERY:
    break;
  }
}

static void host_effects(const struct ir_program *p, const struct ir_node *n, struct effects *out) {
  out->blocks = true;
  if (n->call < 0)
    return;
  const struct ir_call *c = &p->calls.v[n->call];
  if (c->kind == IR_CALL_FREE && c->buffer >= 0)
    use(out, c->buffer, IR_WRITE, NULL, false);
  if (c->kind == IR_CALL_FREE && strcmp(c->callee, "cudaFreeAsync") != 0)
    touch(out, EFFECT_ALL_STREAMS, -1, IR_DEP_HOST); /* cudaFree waits for the device */
  if (c->comm >= 0)
    touch(out, EFFECT_COMM, c->comm, IR_DEP_COMM);
}

static ir_id device_global(const struct effects_table *t, const char *name) {
  for (size_t i = 0; i < t->globals.n; i++)
    if (strcmp(t->globals.v[i], name) == 0)
      return -2 - (ir_id)i;
  return -1;
}

static void call_effects(const struct effects_table *t, const struct ir_node *n,
                         struct effects *out);

static bool writes_host_memory(const struct ir_program *p, const struct ir_node *n) {
  if (n->kind == IR_COPY && n->u.copy.kind == IR_COPY_D2H)
    return true;
  VEC_EACH(&n->operands, o)
  if ((o->mode & IR_WRITE) && o->buffer >= 0 &&
      (p->buffers.v[o->buffer].origin == IR_ORIGIN_HOST ||
       p->buffers.v[o->buffer].origin == IR_ORIGIN_OTHER))
    return true;
  return false;
}

void effects_of(const struct effects_table *t, const struct ir_node *n, struct effects *out) {
  const struct ir_program *p = t->p;
  out->to_host = n->kind != IR_CALL && writes_host_memory(p, n);
  for (size_t i = 0; i < n->operands.n; i++) {
    const struct ir_operand *o = &n->operands.v[i];
    if (n->kind != IR_CALL || o->arg < 0) /* else it only says what an argument is */
      use(out, o->buffer, o->mode, o, false);
  }
  switch (n->kind) {
  case IR_COMPUTE:
    out->computes = true;
    if (n->u.compute.kernel >= 0) {
      const struct ir_kernel *k = &p->kernels.v[n->u.compute.kernel];
      for (size_t i = 0; i < k->device_globals.n; i++)
        use(out, device_global(t, k->device_globals.v[i]), IR_READ_WRITE, NULL, true);
    }
    on_stream(p, out, n->stream, IR_DEP_STREAM, false);
    break;
  case IR_COLLECTIVE:
    out->communicates = true;
    on_stream(p, out, n->stream, IR_DEP_STREAM, false);
    if (n->u.coll.comm >= 0)
      touch(out, EFFECT_COMM, n->u.coll.comm, IR_DEP_COMM);
    break;
  case IR_COPY:
    out->communicates = n->u.copy.kind != IR_COPY_MEMSET;
    on_stream(p, out, n->stream < 0 && !n->async ? default_stream(p) : n->stream, IR_DEP_STREAM,
              false);
    out->blocks = !n->async;
    break;
  case IR_SYNC:
    sync_effects(p, n, out);
    break;
  case IR_HOST:
    host_effects(p, n, out);
    break;
  default:
    call_effects(t, n, out);
    break;
  }
}

/* ---- calls ---------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
  const struct named *x = a, *y = b;
  int r = strcmp(x->name, y->name);
  return r ? r : strcmp(x->function, y->function);
}

/* The buffer that argument number ARG of call N is, exactly; else -1. */
static ir_id actual(const struct effects_table *t, const struct ir_node *n, int arg,
                    bool *whole_pointer) {
  const struct ir_program *p = t->p;
  *whole_pointer = false;
  for (size_t i = 0; i < n->operands.n; i++)
    if (n->operands.v[i].arg == arg)
      return n->operands.v[i].buffer;
  if (arg < 0 || (size_t)arg >= n->u.callee.args.n || !t->buffers.n)
    return -1;
  struct named key = {n->u.callee.args.v[arg].text, p->functions.v[n->function].name, -1};
  for (int i = 0; i < 2; i++) {
    const struct named *f = bsearch(&key, t->buffers.v, t->buffers.n, sizeof key, by_name);
    if (f) {
      *whole_pointer = true;
      return f->id;
    }
    key.function = "";
  }
  return -1;
}

static bool is_local(const char *owner, const struct ir_function *f) {
  return *owner && strcmp(owner, f->name) == 0;
}

/* Does memory that only the function itself can reach lie behind B? */
static bool is_private(const struct ir_program *p, ir_id b, const struct ir_function *f) {
  const struct ir_buffer *x = &p->buffers.v[b];
  return is_local(x->function, f) && !x->aliases.n && x->alias_of < 0 &&
         x->origin != IR_ORIGIN_PARAM && x->origin != IR_ORIGIN_UNKNOWN;
}

static bool is_constant(const struct ir_operand *o) {
  return o && o->offset.affine && o->size.affine && !o->offset.terms.n && !o->size.terms.n;
}

static void call_uses(const struct effects_table *t, const struct ir_node *n,
                      const struct effects *callee, struct effects *out) {
  const struct ir_program *p = t->p;
  const struct ir_function *f = &p->functions.v[n->u.callee.callee];
  for (size_t i = 0; i < callee->uses.n; i++) {
    const struct effect_use *u = &callee->uses.v[i];
    ir_id b = u->buffer;
    bool same_base = true;
    if (b >= 0 && is_private(p, b, f))
      continue;
    if (b >= 0 && p->buffers.v[b].origin == IR_ORIGIN_PARAM && p->buffers.v[b].param >= 0 &&
        is_local(p->buffers.v[b].function, f)) {
      ir_id a = actual(t, n, p->buffers.v[b].param, &same_base);
      if (a >= 0)
        b = a;
    }
    use(out, b, u->mode, same_base && is_constant(u->op) ? u->op : NULL, true);
  }
}

static void call_effects(const struct effects_table *t, const struct ir_node *n,
                         struct effects *out) {
  const struct ir_program *p = t->p;
  if (n->u.callee.callee < 0) {
    use(out, -1, IR_READ_WRITE, NULL, true);
    touch(out, EFFECT_ALL_STREAMS, -1, IR_DEP_STREAM)->may = true;
    return;
  }
  const struct ir_function *f = &p->functions.v[n->u.callee.callee];
  const struct effects *s = &t->functions[n->u.callee.callee];
  call_uses(t, n, s, out);
  bool unsure = false;
  for (size_t i = 0; i < s->touches.n; i++) {
    struct effect_touch x = s->touches.v[i];
    const char *owner = x.id < 0 ? ""
                        : x.resource == EFFECT_STREAM || x.resource == EFFECT_OWN_WORK
                            ? p->streams.v[x.id].function
                        : x.resource == EFFECT_EVENT ? p->events.v[x.id].function
                                                     : p->comms.v[x.id].function;
    if (x.id >= 0 && is_local(owner, f)) {
      unsure = unsure || x.resource == EFFECT_STREAM;
      continue;
    }
    x.may = true;
    VEC_PUSH(&out->touches) = x;
  }
  if (unsure)
    touch(out, EFFECT_ALL_STREAMS, -1, IR_DEP_STREAM)->may = true;
  out->to_host = out->to_host || s->to_host;
  out->blocks = out->blocks || s->blocks;
  out->computes = out->computes || s->computes;
  out->communicates = out->communicates || s->communicates;
}

/* ---- summaries ------------------------------------------------------------------------------ */

static bool same_range(const struct ir_operand *a, const struct ir_operand *b) {
  int64_t d;
  return a && b && ir_expr_difference(&a->offset, &b->offset, &d) && d == 0 &&
         ir_expr_difference(&a->size, &b->size, &d) && d == 0;
}

/* Merges E into S: one use a buffer, one touch a resource. Returns whether S grew. STAMP has a slot
 * for every buffer and __device__ variable. */
static bool merge(const struct effects_table *t, struct effects *s, const struct effects *e,
                  int *stamp) {
  bool grew = false;
  size_t globals = t->globals.n;
  for (size_t i = 0; i < e->uses.n; i++) {
    const struct effect_use *u = &e->uses.v[i];
    int *slot = &stamp[u->buffer + (ir_id)globals + 1];
    if (*slot < 0) {
      *slot = (int)s->uses.n;
      VEC_PUSH(&s->uses) = *u;
      grew = true;
      continue;
    }
    struct effect_use *old = &s->uses.v[*slot];
    unsigned mode = old->mode | u->mode;
    const struct ir_operand *op = same_range(old->op, u->op) ? old->op : NULL;
    grew = grew || mode != old->mode || op != old->op;
    old->mode = mode;
    old->op = op;
  }
  for (size_t i = 0; i < e->touches.n; i++) {
    const struct effect_touch *x = &e->touches.v[i];
    bool found = false;
    for (size_t j = 0; j < s->touches.n && !found; j++) {
      struct effect_touch *y = &s->touches.v[j];
      found = y->resource == x->resource && y->id == x->id;
      if (!found)
        continue;
      grew = grew || (y->reads && !x->reads) || (y->only && !x->only);
      y->reads = y->reads && x->reads;
      y->only = y->only && x->only;
      if (x->kind == IR_DEP_HOST)
        y->kind = x->kind;
    }
    if (!found) {
      VEC_PUSH(&s->touches) = *x;
      grew = true;
    }
  }
  grew = grew || (e->blocks && !s->blocks) || (e->computes && !s->computes) ||
         (e->communicates && !s->communicates) || (e->to_host && !s->to_host);
  s->to_host = s->to_host || e->to_host;
  s->blocks = s->blocks || e->blocks;
  s->computes = s->computes || e->computes;
  s->communicates = s->communicates || e->communicates;
  return grew;
}

typedef VEC(ir_id) ids;

static bool summarise(struct effects_table *t, ir_id f, const ids *leaves, int *stamp) {
  const struct ir_program *p = t->p;
  struct effects *s = &t->functions[f];
  size_t slots = p->buffers.n + t->globals.n + 1;
  bool grew = false;
  for (size_t i = 0; i < slots; i++)
    stamp[i] = -1;
  for (size_t i = 0; i < s->uses.n; i++)
    stamp[s->uses.v[i].buffer + (ir_id)t->globals.n + 1] = (int)i;
  for (size_t i = 0; i < leaves->n; i++) {
    struct effects e = {0};
    effects_of(t, &p->nodes.v[leaves->v[i]], &e);
    grew = merge(t, s, &e, stamp) || grew;
    effects_free(&e);
  }
  return grew;
}

/* Callees before callers, as far as there is no recursion. */
static void postorder(const struct ir_program *p, const ids *leaves, ids *out) {
  char *state = xcalloc(p->functions.n + 1, 1); /* 1 = on the stack, 2 = done */
  size_t *next = xcalloc(p->functions.n + 1, sizeof *next);
  ids stack = {0};
  for (size_t i = 0; i < p->functions.n; i++) {
    if (state[i])
      continue;
    VEC_PUSH(&stack) = (ir_id)i;
    state[i] = 1;
    while (stack.n) {
      ir_id f = stack.v[stack.n - 1], down = -1;
      while (down < 0 && next[f] < leaves[f].n) {
        const struct ir_node *n = &p->nodes.v[leaves[f].v[next[f]++]];
        if (n->kind == IR_CALL && n->u.callee.callee >= 0 && !state[n->u.callee.callee])
          down = n->u.callee.callee;
      }
      if (down >= 0) {
        state[down] = 1;
        VEC_PUSH(&stack) = down;
      } else {
        state[f] = 2;
        VEC_PUSH(out) = f;
        stack.n--;
      }
    }
  }
  VEC_FREE(&stack);
  free(next);
  free(state);
}

struct effects_table *effects_table_new(const struct ir_program *p) {
  struct effects_table *t = xcalloc(1, sizeof *t);
  t->p = p;
  t->functions = xcalloc(p->functions.n + 1, sizeof *t->functions);
  VEC_EACH(&p->kernels, k)
  VEC_EACH(&k->device_globals, g)
  if (device_global(t, *g) == -1)
    VEC_PUSH(&t->globals) = *g;
  for (size_t i = 0; i < p->buffers.n; i++)
    VEC_PUSH(&t->buffers) =
        (struct named){p->buffers.v[i].name, p->buffers.v[i].function, (ir_id)i};
  if (t->buffers.n)
    qsort(t->buffers.v, t->buffers.n, sizeof *t->buffers.v, by_name);

  ids *leaves = xcalloc(p->functions.n + 1, sizeof *leaves), order = {0};
  bool *called = xcalloc(p->functions.n + 1, sizeof *called);
  VEC_EACH(&p->nodes, n) if (ir_node_is_leaf(n) && n->function >= 0) {
    VEC_PUSH(&leaves[n->function]) = n->id;
    if (n->kind == IR_CALL && n->u.callee.callee >= 0)
      called[n->u.callee.callee] = true;
  }
  postorder(p, leaves, &order);
  int *stamp = xcalloc(p->buffers.n + t->globals.n + 2, sizeof *stamp);
  for (bool grew = true; grew;) {
    grew = false;
    for (size_t i = 0; i < order.n; i++)
      if (called[order.v[i]])
        grew = summarise(t, order.v[i], &leaves[order.v[i]], stamp) || grew;
  }
  for (size_t i = 0; i < p->functions.n; i++)
    VEC_FREE(&leaves[i]);
  free(leaves);
  free(called);
  free(stamp);
  VEC_FREE(&order);
  return t;
}

void effects_table_free(struct effects_table *t) {
  for (size_t i = 0; i < t->p->functions.n; i++)
    effects_free(&t->functions[i]);
  free(t->functions);
  VEC_FREE(&t->globals);
  VEC_FREE(&t->buffers);
  free(t);
}

size_t effects_device_globals(const struct effects_table *t) { return t->globals.n; }
