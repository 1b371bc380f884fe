// SPDX-License-Identifier: Apache-2.0
/* Dependences, by a walk through the tree that remembers what later leaves may depend on. Loop
 * bodies are walked twice; what the second walk finds against the first is carried. A body inside a
 * loop that is being walked for the second time is walked once, so the cost grows with the nesting
 * depth only. */
#include "ir/alias.h"
#include "ir/analyse.h"
#include "ir/history.h"
#include <string.h>

enum {
  MOST_REPLACED = 32, /* replaced entries kept in a list, for the sake of certain edges */
  MOST_REDUCED = 48,  /* order edges into one leaf beyond which reduction is not tried */
  MANY_EDGES = 24     /* edges a leaf, on average, beyond which ranges are given up */
};

struct leaf {
  struct effects effects;
  struct range *ranges; /* of effects.uses */
  bool ready;
  bool ordered; /* the first member of its group on its stream: has the order edges */
};

struct candidate { /* an order edge into the current leaf */
  int entry;
  enum ir_dep_kind kind;
  bool may, emit, carried;
};

typedef VEC(int) ints;

struct depend {
  const struct ir_program *p;
  const struct tree *tree;
  const struct effects_table *table;
  struct alias *alias;
  struct leaf *leaves; /* by node */
  struct edges edges;
  struct history history;
  int events, comms, host, data,
      globals;   /* first lists; streams begin at 0, their own work in the middle */
  ir_id loop;    /* walked for the second time, or -1 */
  int low, high; /* entries of its first walk */
  int own;       /* first entry of the current leaf */
  ints later;    /* hidden when the group ends */
  VEC(struct candidate) candidates;
  ints replaced;
  bool coarse; /* too many edges: every use is of the whole class of buffers */
};

/* ---- leaves --------------------------------------------------------------------------------- */

static struct leaf *leaf_of(struct depend *d, ir_id id) {
  struct leaf *l = &d->leaves[id];
  if (l->ready)
    return l;
  l->ready = true;
  effects_of(d->table, &d->p->nodes.v[id], &l->effects);
  l->ranges = xcalloc(l->effects.uses.n + 1, sizeof *l->ranges);
  VEC(const struct ir_node *) loops = {0};
  for (ir_id n = d->p->nodes.v[id].parent; n >= 0; n = d->p->nodes.v[n].parent)
    if (d->p->nodes.v[n].kind == IR_LOOP)
      VEC_PUSH(&loops) = &d->p->nodes.v[n];
  for (size_t i = 0, j = loops.n; i + 1 < j; i++) { /* outermost first */
    const struct ir_node *n = loops.v[i];
    loops.v[i] = loops.v[--j];
    loops.v[j] = n;
  }
  for (size_t i = 0; i < l->effects.uses.n; i++) {
    const struct effect_use *u = &l->effects.uses.v[i];
    if (u->op)
      range_init(&l->ranges[i], u->op, loops.v, loops.n,
                 u->buffer >= 0 && d->p->buffers.v[u->buffer].per_device);
    else
      range_unknown(&l->ranges[i]);
  }
  VEC_FREE(&loops);
  return l;
}

/* Marks the leaves that have order edges. In a group, a member is silent when one before it on the
 * same stream, which is executed whenever it is, speaks for both. */
static void mark_ordered(struct depend *d) {
  enum { MOST_SPEAKERS = 16 };
  VEC(ir_id) speakers = {0};
  ir_id group = -1;
  for (int i = 0; i < d->tree->leaves; i++) {
    ir_id id = d->tree->order[i], g = d->tree->group[id];
    const struct ir_node *n = &d->p->nodes.v[id];
    d->leaves[id].ordered = true;
    if (g != group)
      speakers.n = 0;
    group = g;
    if (g < 0 || n->kind != IR_COLLECTIVE)
      continue;
    VEC_EACH(&speakers, s)
    if (d->p->nodes.v[*s].stream == n->stream && tree_dominates(d->tree, *s, id))
      d->leaves[id].ordered = false;
    if (d->leaves[id].ordered && speakers.n < MOST_SPEAKERS)
      VEC_PUSH(&speakers) = id;
  }
  VEC_FREE(&speakers);
}

/* ---- context of a pair ---------------------------------------------------------------------- */

static bool from_before(const struct depend *d, int entry) {
  return d->loop >= 0 && entry < d->high;
}

/* Is the pair one that this walk should report, and as carried? */
static bool reportable(const struct depend *d, int entry, ir_id x, bool per_device, bool *carried) {
  const struct history_entry *e = &d->history.entries.v[entry];
  *carried = d->loop >= 0;
  if (d->loop < 0)
    return e->leaf != x && !tree_same_group(d->tree, e->leaf, x);
  return entry >= d->low && entry < d->high &&
         tree_carrying_loop(d->tree, e->leaf, x, per_device) == d->loop;
}

/* The largest loop inside the one that is walked for the second time from which ENTRY can be
 * carried to X, or -1. */
static ir_id inner_loop(const struct depend *d, int entry, ir_id x, bool per_device) {
  ir_id l = tree_carrying_loop(d->tree, d->history.entries.v[entry].leaf, x, per_device), r = -1;
  for (; l >= 0 && l != d->loop; l = d->p->nodes.v[l].parent)
    if (d->p->nodes.v[l].kind == IR_LOOP &&
        !(per_device && d->p->nodes.v[l].u.control.over_devices))
      r = l;
  return l == d->loop ? r : -1;
}

/* Does Y come before X in every iteration, and is each executed whenever the other is? Then what
 * holds within an iteration need not be said from one to the next again. */
static bool before(const struct depend *d, ir_id y, ir_id x) {
  return d->tree->position[y] < d->tree->position[x] && tree_dominates(d->tree, y, x) &&
         tree_dominates(d->tree, x, y) && !tree_same_group(d->tree, y, x);
}

/* ---- order ---------------------------------------------------------------------------------- */

static bool list_per_device(const struct depend *d, int list) {
  if (list < d->events)
    return d->p->streams.v[(size_t)list % d->p->streams.n].per_device;
  if (list < d->comms)
    return d->p->events.v[list - d->events].per_device;
  return list < d->host && d->p->comms.v[list - d->comms].per_device;
}

static void consider_list(struct depend *d, ir_id x, int list, enum ir_dep_kind kind, bool may) {
  bool per_device = list_per_device(d, list);
  for (int i = d->history.heads.v[list]; i >= 0; i = d->history.entries.v[i].next) {
    const struct history_entry *e = &d->history.entries.v[i];
    struct candidate c = {.entry = i, .may = may || e->may};
    c.kind = e->order == IR_DEP_HOST || kind == IR_DEP_HOST ? IR_DEP_HOST : kind;
    c.emit = reportable(d, i, x, per_device, &c.carried);
    if (!c.emit && (d->loop < 0 || e->leaf == x || tree_same_group(d->tree, e->leaf, x)))
      continue;
    if (kind == IR_DEP_EVENT)
      for (int j = d->history.heads.v[list]; j >= 0; j = d->history.entries.v[j].next)
        c.may = c.may || j > i; /* unless the later record was in a branch not taken */
    if (c.emit && c.carried && before(d, e->leaf, x))
      c.emit = false; /* implied by the order within each iteration */
    VEC_PUSH(&d->candidates) = c;
  }
}

/* Is the order after C implied by another candidate, which comes after C itself? */
static bool redundant(const struct depend *d, const struct candidate *c, ir_id x) {
  const struct history_entry *e = &d->history.entries.v[c->entry];
  if (d->candidates.n > MOST_REDUCED)
    return false;
  VEC_EACH(&d->candidates, o) {
    const struct history_entry *f = &d->history.entries.v[o->entry];
    if (o->entry > c->entry && f->leaf != e->leaf && !o->may &&
        (e->list == d->host || edges_ordered(&d->edges, e->leaf, f->leaf)) &&
        !tree_same_group(d->tree, f->leaf, x) &&
        tree_dominates(d->tree, f->leaf, from_before(d, o->entry) ? d->loop : x))
      return true;
  }
  return false;
}

/* The lists that touch T is about: [*first, *last). */
static void lists_of(const struct depend *d, const struct effect_touch *t, int *first, int *last) {
  int base = t->resource == EFFECT_EVENT      ? d->events
             : t->resource == EFFECT_COMM     ? d->comms
             : t->resource == EFFECT_OWN_WORK ? d->events / 2
                                              : 0;
  *first = base + t->id;
  *last = *first + 1;
  if (t->resource == EFFECT_ALL_STREAMS) {
    *first = 0;
    *last = d->events;
  } else if (t->id < 0) { /* an unknown event */
    *first = d->events;
    *last = t->resource == EFFECT_EVENT && t->reads ? d->comms : d->events;
  }
}

static bool any(const struct effect_touch *t) {
  return t->id < 0 && (t->may || t->resource == EFFECT_EVENT);
}

static void find_order(struct depend *d, ir_id x, const struct leaf *l) {
  d->candidates.n = 0;
  VEC_EACH(&l->effects.touches, t) {
    int first, last;
    lists_of(d, t, &first, &last);
    for (int i = first; i < last && !t->only; i++)
      if (l->ordered || t->resource == EFFECT_COMM)
        consider_list(d, x, i, t->kind, t->may || any(t));
  }
  if (l->ordered)
    consider_list(d, x, d->host, IR_DEP_HOST, false);
  VEC_EACH(&d->candidates, c)
  if (c->emit && !redundant(d, c, x))
    edges_add(&d->edges, (struct ir_dep){.from = d->history.entries.v[c->entry].leaf,
                                         .to = x,
                                         .kind = c->kind,
                                         .buffer = -1,
                                         .carried = c->carried,
                                         .loop = c->carried ? d->loop : -1,
                                         .may = c->may});
}

/* Hides ENTRY, which X replaces: at once, or for the other members of X's group when the group
 * ends, if X has been executed then. */
static void hide(struct depend *d, ir_id x, int entry) {
  ir_id group = d->tree->group[x];
  if (group < 0)
    history_hide(&d->history, entry);
  else if (tree_dominates(d->tree, x, group))
    VEC_PUSH(&d->later) = entry;
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Marks the entries in d->replaced as replaced by entry NEW of the same list, and hides the oldest
 * replaced ones beyond a number. */
static void replace(struct depend *d, int new, int list) {
  struct history *h = &d->history;
  VEC_EACH(&d->replaced, r) h->entries.v[*r].replaced_by = new;
  size_t most = d->coarse ? 0 : MOST_REPLACED;
  if (d->replaced.n <= most || d->tree->group[h->entries.v[new].leaf] >= 0)
    return;
  d->replaced.n = 0;
  for (int i = h->heads.v[list]; i >= 0; i = h->entries.v[i].next) {
    int by = h->entries.v[i].replaced_by;
    if (by >= 0 && h->entries.v[by].linked)
      VEC_PUSH(&d->replaced) = i;
  }
  if (d->replaced.n <= most)
    return;
  qsort(d->replaced.v, d->replaced.n, sizeof *d->replaced.v, by_number);
  for (size_t i = 0; i + most < d->replaced.n; i++)
    history_hide(h, d->replaced.v[i]);
}

static void record_in(struct depend *d, ir_id x, int list, struct history_entry e, bool replaces) {
  struct history *h = &d->history;
  d->replaced.n = 0;
  for (int i = h->heads.v[list], next; i >= 0; i = next) {
    next = h->entries.v[i].next;
    if (i >= d->own || (tree_same_group(d->tree, h->entries.v[i].leaf, x) && !from_before(d, i)))
      continue;
    if (replaces)
      hide(d, x, i);
    else
      VEC_PUSH(&d->replaced) = i;
  }
  int new = history_add(h, list, e);
  if (d->replaced.n)
    replace(d, new, list);
}

static void record_order(struct depend *d, ir_id x, const struct leaf *l) {
  struct history_entry e = {.leaf = x, .buffer = -1};
  VEC_EACH(&l->effects.touches, t) {
    if (t->reads || (!l->ordered && t->resource != EFFECT_COMM))
      continue;
    int first, last;
    lists_of(d, t, &first, &last);
    e.order = t->kind;
    e.may = t->may;
    for (int i = first; i < last; i++)
      record_in(d, x, i, e, !any(t));
  }
  e.order = IR_DEP_HOST;
  e.may = false;
  if (l->effects.blocks)
    record_in(d, x, d->host, e, true);
}

/* ---- data ----------------------------------------------------------------------------------- */

static int data_list(const struct depend *d, ir_id buffer) {
  return buffer < -1 ? d->globals + (-2 - buffer) : d->data + alias_class(d->alias, buffer);
}

/* How many of the loops around both have the same iteration at ENTRY and at X, which are in
 * different iterations of LOOP (or in one, if -1)? */
static unsigned common_levels(const struct depend *d, int entry, ir_id x, ir_id loop) {
  ir_id c = tree_common(d->tree, d->history.entries.v[entry].leaf, x);
  int level = d->tree->level[c];
  if (loop >= 0 && level >= d->tree->level[loop])
    level = d->tree->level[loop] - 1;
  return (unsigned)level;
}

/* 0 no, 1 maybe, 2 certain. */
static int conflict(const struct depend *d, int entry, ir_id x, const struct effect_use *u,
                    const struct range *r, ir_id loop) {
  const struct history_entry *e = &d->history.entries.v[entry];
  if (d->coarse || e->buffer < 0 || u->buffer < 0)
    return 1;
  if (e->buffer != u->buffer)
    return alias_may(d->alias, e->buffer, u->buffer);
  const struct ir_buffer *b = &d->p->buffers.v[u->buffer];
  if (b->reassigned || (loop >= 0 && !alias_stable(d->p, u->buffer)))
    return 1;
  int c = range_overlap(e->range, r, common_levels(d, entry, x, loop));
  return c == 2 && (e->may || u->may) ? 1 : c;
}

static enum ir_dep_kind hazard(unsigned earlier, unsigned later) {
  if ((earlier & IR_WRITE) && (later & IR_READ))
    return IR_DEP_RAW;
  return earlier & IR_WRITE ? IR_DEP_WAW : IR_DEP_WAR;
}

/* Is a possible edge from E to X implied by a later access that conflicts with both, and is
 * executed whenever X is? */
static bool through_replacement(const struct depend *d, const struct history_entry *e, ir_id x) {
  if (e->replaced_by < 0)
    return false;
  const struct history_entry *r = &d->history.entries.v[e->replaced_by];
  return r->linked && r->leaf != x && !tree_same_group(d->tree, r->leaf, x) &&
         tree_dominates(d->tree, r->leaf, from_before(d, e->replaced_by) ? d->loop : x);
}

static void data_edge(struct depend *d, int entry, ir_id x, const struct effect_use *u,
                      const struct range *r) {
  const struct history_entry *e = &d->history.entries.v[entry];
  bool per_device = u->buffer >= 0 && d->p->buffers.v[u->buffer].per_device && e->buffer >= 0 &&
                    d->p->buffers.v[e->buffer].per_device;
  bool carried;
  if (!reportable(d, entry, x, per_device, &carried)) {
    if (!carried || entry < d->low || entry >= d->high)
      return;
    ir_id inner = inner_loop(d, entry, x, per_device);
    if (inner < 0 || conflict(d, entry, x, u, r, inner))
      return; /* not in the loop, or carried by a loop inside already */
  }
  int c = conflict(d, entry, x, u, r, d->loop);
  if (!c)
    return;
  if (carried && before(d, e->leaf, x) && conflict(d, entry, x, u, r, -1))
    return; /* implied: it holds within each iteration, and the one that writes follows itself */
  if (c < 2 && through_replacement(d, e, x))
    return;
  edges_add(&d->edges, (struct ir_dep){.from = e->leaf,
                                       .to = x,
                                       .kind = hazard(e->mode, u->mode),
                                       .buffer = u->buffer < 0 ? -1 : u->buffer,
                                       .carried = carried,
                                       .loop = carried ? d->loop : -1,
                                       .may = c < 2});
}

static bool is_whole(const struct depend *d, ir_id buffer, const struct range *r) {
  int64_t v;
  const struct ir_expr *size = &d->p->buffers.v[buffer].size;
  return r->known && r->offset->affine && !r->offset->terms.n && r->offset->constant == 0 &&
         size->affine && !(r->end_varies) && ir_expr_difference(&r->end, size, &v) && v >= 0;
}

enum replaces { NOT, LOOSELY, CERTAINLY };

/* Would everything that conflicts with ENTRY conflict with this use as well? */
static enum replaces replaces(const struct depend *d, int entry, ir_id x,
                              const struct effect_use *u, const struct range *r) {
  const struct history_entry *e = &d->history.entries.v[entry];
  if (!(u->mode & IR_WRITE) || entry >= d->own ||
      (tree_same_group(d->tree, e->leaf, x) && !from_before(d, entry)))
    return NOT;
  if (d->coarse)
    return LOOSELY;
  if (e->buffer != u->buffer)
    return NOT;
  if (u->buffer < 0 || !r->known)
    return LOOSELY;
  bool within = (e->range->known &&
                 range_within(r, e->range,
                              common_levels(d, entry, x, from_before(d, entry) ? d->loop : -1))) ||
                is_whole(d, u->buffer, r);
  if (!within || d->p->buffers.v[u->buffer].reassigned)
    return NOT;
  return r->exact && !u->may && alias_stable(d->p, u->buffer) ? CERTAINLY : LOOSELY;
}

/* Are these constant parts of one buffer with nothing in common? The common case of long lists, so
 * quickly. */
static bool apart(const struct depend *d, const struct history_entry *e, ir_id buffer,
                  const struct range *r) {
  return r->fixed && e->range->fixed && e->buffer == buffer && !d->coarse &&
         (r->offset->constant >= e->range->end.constant ||
          e->range->offset->constant >= r->end.constant) &&
         alias_stable(d->p, buffer);
}

static void find_data(struct depend *d, ir_id x, const struct leaf *l) {
  for (size_t k = 0; k < l->effects.uses.n; k++) {
    const struct effect_use *u = &l->effects.uses.v[k];
    int list = data_list(d, u->buffer);
    for (int i = d->history.heads.v[list]; i >= 0; i = d->history.entries.v[i].next)
      if (((d->history.entries.v[i].mode | u->mode) & IR_WRITE) &&
          !apart(d, &d->history.entries.v[i], u->buffer, &l->ranges[k]))
        data_edge(d, i, x, u, &l->ranges[k]);
  }
  if (!d->coarse && d->edges.list.n > (size_t)d->tree->leaves * MANY_EDGES + 4096)
    d->coarse = true;
}

static void record_data(struct depend *d, ir_id x, const struct leaf *l) {
  struct history *h = &d->history;
  for (size_t k = 0; k < l->effects.uses.n; k++) {
    const struct effect_use *u = &l->effects.uses.v[k];
    int list = data_list(d, u->buffer);
    d->replaced.n = 0;
    for (int i = h->heads.v[list], next; i >= 0; i = next) {
      next = h->entries.v[i].next;
      if (apart(d, &h->entries.v[i], u->buffer, &l->ranges[k]))
        continue;
      enum replaces r = replaces(d, i, x, u, &l->ranges[k]);
      if (r == CERTAINLY)
        hide(d, x, i);
      else if (r == LOOSELY)
        VEC_PUSH(&d->replaced) = i;
    }
    struct history_entry e = {
        .leaf = x, .buffer = u->buffer, .mode = u->mode, .may = u->may, .range = &l->ranges[k]};
    int new = history_add(h, list, e);
    if (d->replaced.n)
      replace(d, new, list);
  }
}

/* ---- the walk ------------------------------------------------------------------------------- */

static void walk(struct depend *d, ir_id id);

static void walk_children(struct depend *d, const struct ir_node *n) {
  for (size_t i = 0; i < n->children.n; i++)
    walk(d, n->children.v[i]);
}

static void walk_loop(struct depend *d, const struct ir_node *n) {
  struct history *h = &d->history;
  struct history_scope first = history_enter(h);
  walk_children(d, n);
  if (d->loop < 0) {
    struct history_scope second = history_enter(h);
    d->loop = n->id;
    d->low = (int)first.entries;
    d->high = (int)second.entries;
    size_t later = d->later.n;
    walk_children(d, n);
    d->later.n = later;
    history_park(h, second, NULL);
    history_leave(h, second);
    d->loop = -1;
  }
  if (!d->coarse) /* else a path through the body has to do */
    history_leave(h, first);
}

static void walk_branch(struct depend *d, const struct ir_node *n) {
  struct history *h = &d->history;
  ints parked = {0}, replaced = {0};
  for (size_t i = 0; i < n->children.n; i++) {
    struct history_scope arm = history_enter(h);
    walk(d, n->children.v[i]);
    for (size_t k = arm.undo; d->coarse && k < h->undo.n; k++)
      if ((size_t)h->undo.v[k] < arm.entries)
        VEC_PUSH(&replaced) = h->undo.v[k];
    history_leave(h, arm);
    history_park(h, arm, &parked);
  }
  VEC_EACH(&parked, e) history_show(h, *e);
  VEC_EACH(&replaced, e) history_hide(h, *e);
  VEC_FREE(&parked);
  VEC_FREE(&replaced);
}

static void walk_group(struct depend *d, const struct ir_node *n) {
  walk_children(d, n);
  if (d->tree->group[n->id] != n->id)
    return; /* inside another */
  VEC_EACH(&d->later, e) history_hide(&d->history, *e);
  d->later.n = 0;
}

static void walk(struct depend *d, ir_id id) {
  const struct ir_node *n = &d->p->nodes.v[id];
  switch (n->kind) {
  case IR_SEQ:
    walk_children(d, n);
    break;
  case IR_LOOP:
    walk_loop(d, n);
    break;
  case IR_BRANCH:
    walk_branch(d, n);
    break;
  case IR_GROUP:
    walk_group(d, n);
    break;
  default: {
    const struct leaf *l = leaf_of(d, id);
    find_order(d, id, l);
    find_data(d, id, l);
    d->own = (int)d->history.entries.n;
    record_order(d, id, l);
    record_data(d, id, l);
    break;
  }
  }
}

static int by_ends(const void *a, const void *b) {
  const struct ir_dep *x = a, *y = b;
  if (x->from != y->from)
    return x->from < y->from ? -1 : 1;
  if (x->to != y->to)
    return x->to < y->to ? -1 : 1;
  if (x->kind != y->kind)
    return x->kind < y->kind ? -1 : 1;
  if (x->buffer != y->buffer)
    return x->buffer < y->buffer ? -1 : 1;
  return x->loop < y->loop ? -1 : x->loop > y->loop;
}

void depend(struct ir_program *p, const struct tree *tree, const struct effects_table *effects) {
  struct depend d = {.p = p, .tree = tree, .table = effects, .loop = -1};
  d.alias = alias_new(p);
  d.leaves = xcalloc(p->nodes.n + 1, sizeof *d.leaves);
  d.events = 2 * (int)p->streams.n;
  d.comms = d.events + (int)p->events.n;
  d.host = d.comms + (int)p->comms.n;
  d.data = d.host + 1;
  d.globals = d.data + alias_classes(d.alias);
  mark_ordered(&d);
  VEC_EACH(&p->functions, f) if (f->body >= 0) {
    history_init(&d.history, (size_t)d.globals + effects_device_globals(effects));
    walk(&d, f->body);
    history_free(&d.history);
  }
  VEC_EACH(&d.edges.list, e) VEC_PUSH(&p->deps) = *e;
  if (p->deps.n)
    qsort(p->deps.v, p->deps.n, sizeof *p->deps.v, by_ends);

  for (size_t i = 0; i < p->nodes.n; i++) {
    for (size_t k = 0; d.leaves[i].ready && k < d.leaves[i].effects.uses.n; k++)
      range_free(&d.leaves[i].ranges[k]);
    effects_free(&d.leaves[i].effects);
    free(d.leaves[i].ranges);
  }
  free(d.leaves);
  edges_free(&d.edges);
  alias_free(d.alias);
  VEC_FREE(&d.candidates);
  VEC_FREE(&d.replaced);
  VEC_FREE(&d.later);
}
