// SPDX-License-Identifier: Apache-2.0
/* May a communication and a computation near it run at the same time? A search from each leaf along
 * the dependences tells what comes after it because of data, and what for any reason. */
#include "ir/analyse.h"
#include "support/strbuf.h"
#include <string.h>

enum {
  WINDOW = 16,           /* computations on each side of a communication */
  MOST_LEAVES = 512,     /* leaves between the two */
  LONG_LOOP = 1024,      /* leaves of a loop whose iterations are not compared */
  MOST_STEPS = 40000000, /* edges followed in all; pairs beyond that are left out */
  NEVER = -1
};

/* What one search found. LEVEL: how many of the start's loops, outermost first, the node is reached
 * in the same iteration of, by the best path; NEVER if it is not reached. */
struct search {
  int *level, *via; /* by node; VIA: the dependence it was reached by, or -1 - a node */
  unsigned *stamp, now;
  VEC(ir_id) * queue; /* by level */
  size_t levels;
};

typedef VEC(ir_id) ids;

struct learned { /* the host has waited for data that depends on the start */
  ir_id at;
  int level;
};

struct overlap {
  struct ir_program *p;
  const struct tree *tree;
  const struct effects_table *table;
  int *out;    /* first dependence from a node */
  ir_id *peer; /* next member of the group on the same stream, in a circle */
  unsigned char *role;
  struct search data, order, carry;
  VEC(struct learned) learned;
  long steps;
};

enum { COMM = 1, COMPUTE = 2, BLOCKS = 4, TO_HOST = 8 };

/* ---- searches ------------------------------------------------------------------------------- */

static void search_init(struct search *s, size_t nodes, size_t levels) {
  s->level = xcalloc(nodes + 1, sizeof *s->level);
  s->via = xcalloc(nodes + 1, sizeof *s->via);
  s->stamp = xcalloc(nodes + 1, sizeof *s->stamp);
  s->levels = levels + 1;
  s->queue = xcalloc(s->levels, sizeof *s->queue);
  s->now = 0;
}

static void search_free(struct search *s) {
  for (size_t i = 0; i < s->levels; i++)
    VEC_FREE(&s->queue[i]);
  free(s->queue);
  free(s->level);
  free(s->via);
  free(s->stamp);
}

static int reached(const struct search *s, ir_id n) {
  return s->stamp[n] == s->now ? s->level[n] : NEVER;
}

static void reach(struct search *s, ir_id n, int level, int via) {
  if (reached(s, n) >= level)
    return;
  s->stamp[n] = s->now;
  s->level[n] = level;
  s->via[n] = via;
  VEC_PUSH(&s->queue[level]) = n;
}

/* How much of the same iteration is left after following D, for a search from START? */
static int level_after(const struct tree *t, ir_id start, const struct ir_dep *d, int level) {
  if (!d->carried || t->first[d->loop] > t->position[start] ||
      t->last[d->loop] <= t->position[start])
    return level;
  int l = t->level[d->loop] - 1;
  return l < level ? l : level;
}

enum follow { DATA_EDGES, ORDER_EDGES, TO_BLOCKER };

static bool follows(const struct ir_dep *d, enum follow f) {
  return (d->kind <= IR_DEP_WAW) == (f == DATA_EDGES);
}

/* Spreads from what is queued in S, within leaf positions [LOW, HIGH). */
static void spread(struct overlap *o, struct search *s, ir_id start, enum follow f, int low,
                   int high) {
  for (int level = (int)s->levels - 1; level >= 0; level--)
    while (s->queue[level].n) {
      ir_id n = s->queue[level].v[--s->queue[level].n];
      if (s->level[n] != level)
        continue; /* reached better meanwhile */
      if (f != DATA_EDGES)
        for (ir_id m = o->peer[n]; m != n; m = o->peer[m])
          reach(s, m, level, -1 - n);
      if (f == TO_BLOCKER && n != start && (o->role[n] & BLOCKS))
        continue;
      for (int i = o->out[n + 1]; i-- > o->out[n]; o->steps++) { /* order before data */
        const struct ir_dep *d = &o->p->deps.v[i];
        int at = o->tree->position[d->to];
        if (follows(d, f) && at >= low && at < high)
          reach(s, d->to, level_after(o->tree, start, d, level), i);
      }
    }
}

static void begin(struct overlap *o, struct search *s, ir_id start) {
  s->now++;
  VEC_PUSH(&s->queue[o->tree->level[start]]) = start;
  s->stamp[start] = s->now;
  s->level[start] = o->tree->level[start];
  s->via[start] = -1 - start;
}

/* The host sees data of node N (reached at LEVEL) when it has waited for it. */
static void learn(struct overlap *o, ir_id n, int level, int low, int high) {
  if (o->role[n] & BLOCKS) {
    VEC_PUSH(&o->learned) = (struct learned){n, level};
    return;
  }
  begin(o, &o->carry, n);
  spread(o, &o->carry, n, TO_BLOCKER, low, high);
  for (int i = low; i < high; i++, o->steps++) {
    ir_id m = o->tree->order[i];
    int l = reached(&o->carry, m);
    if (m != n && l != NEVER && (o->role[m] & BLOCKS))
      VEC_PUSH(&o->learned) = (struct learned){m, l < level ? l : level};
  }
}

static void search_from(struct overlap *o, ir_id a, int low, int high) {
  begin(o, &o->order, a);
  spread(o, &o->order, a, ORDER_EDGES, low, high);
  begin(o, &o->data, a);
  spread(o, &o->data, a, DATA_EDGES, low, high);
  o->learned.n = 0;
  o->steps += high - low;
  for (int i = low; i < high; i++) {
    ir_id n = o->tree->order[i];
    if ((o->role[n] & TO_HOST) && reached(&o->data, n) != NEVER)
      learn(o, n, reached(&o->data, n), low, high);
  }
}

/* ---- explanations --------------------------------------------------------------------------- */

static void add_node(const struct overlap *o, struct strbuf *b, ir_id id) {
  const struct ir_node *n = &o->p->nodes.v[id];
  sb_add(b, *n->label ? n->label : ir_node_kind_name(n->kind));
  if (n->range.line)
    sb_addf(b, " (line %u)", n->range.line);
}

static void path_to(const struct search *s, const struct overlap *o, ir_id to, ids *deps) {
  for (ir_id n = to; s->via[n] != -1 - n && deps->n < 10000;) {
    if (s->via[n] < 0) {
      n = -1 - s->via[n];
      continue;
    }
    VEC_PUSH(deps) = s->via[n];
    n = o->p->deps.v[s->via[n]].from;
  }
}

static void explain_data(const struct overlap *o, struct strbuf *b, ir_id to) {
  ids path = {0};
  path_to(&o->data, o, to, &path);
  bool may = false;
  for (size_t i = path.n; i-- > 0;) {
    const struct ir_dep *d = &o->p->deps.v[path.v[i]];
    may = may || d->may;
    if (path.n - i > 3)
      continue;
    sb_addf(b, "%s%s on %s", b->n ? ", then " : "", ir_dep_name(d->kind),
            d->buffer >= 0 ? o->p->buffers.v[d->buffer].name : "unknown memory");
    if (i) {
      sb_add(b, " to ");
      add_node(o, b, d->to);
    }
  }
  if (may)
    sb_add(b, "; possible, as ranges or aliases are not known exactly");
  VEC_FREE(&path);
}

static void add_reason(struct strbuf *b, char *reason) {
  if (!b->s || !strstr(b->s, reason))
    sb_addf(b, "%s%s", b->n ? ", " : "no common data; ordered only by ", reason);
  free(reason);
}

static void explain_order(const struct overlap *o, struct strbuf *b, ir_id to) {
  const struct ir_program *p = o->p;
  ids path = {0};
  path_to(&o->order, o, to, &path);
  for (size_t i = path.n; i-- > 0;) {
    const struct ir_dep *d = &p->deps.v[path.v[i]];
    const struct ir_node *from = &p->nodes.v[d->from], *at = &p->nodes.v[d->to];
    struct strbuf label = {0};
    switch (d->kind) {
    case IR_DEP_STREAM:
      add_reason(b, from->stream >= 0 && from->stream == at->stream
                        ? xasprintf("stream %s", p->streams.v[from->stream].name)
                        : xstrdup("the default stream's implicit order"));
      break;
    case IR_DEP_EVENT:
      add_reason(b, xasprintf("event %s", at->event >= 0 ? p->events.v[at->event].name : "?"));
      break;
    case IR_DEP_HOST:
      add_node(o, &label, o->role[d->to] & BLOCKS ? d->to : d->from);
      add_reason(b, sb_take(&label));
      break;
    case IR_DEP_COMM:
      add_reason(b, xstrdup("the communicator"));
      break;
    default:
      break;
    }
  }
  if (!path.n)
    sb_add(b, "no common data; members of one group");
  VEC_FREE(&path);
}

static void explain_concurrent(const struct overlap *o, struct strbuf *b, ir_id x, ir_id y) {
  ir_id s = o->p->nodes.v[x].stream, t = o->p->nodes.v[y].stream;
  if (s >= 0 && t >= 0 && s != t)
    sb_addf(b, "streams %s and %s, with no order between them", o->p->streams.v[s].name,
            o->p->streams.v[t].name);
  else
    sb_add(b, "no order between them");
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* The host has waited for A's data before it starts B? Returns where, or -1. LEVEL: the level at
 * which the pair is in one iteration; CARRIED: B is one iteration of the next loop later. */
static ir_id host_knows(const struct overlap *o, ir_id b, int level, bool carried) {
  VEC_EACH(&o->learned, l) {
    bool earlier = o->tree->position[l->at] < o->tree->position[b];
    if (carried ? l->level > level || (l->level == level && earlier) : l->level >= level && earlier)
      return l->at;
  }
  return -1;
}

static void classify(struct overlap *o, ir_id a, ir_id b, int level, bool carried) {
  struct strbuf why = {0};
  struct ir_overlap r = {.a = a, .b = b, .carried = carried};
  ir_id at = -1;
  if (reached(&o->data, b) >= level) {
    r.kind = IR_OVERLAP_DATA;
    explain_data(o, &why, b);
  } else if ((at = host_knows(o, b, level, carried)) >= 0) {
    r.kind = IR_OVERLAP_DATA;
    sb_add(&why, "the host waits for its data in ");
    add_node(o, &why, at);
    sb_add(&why, " and may act on it");
  } else if (reached(&o->order, b) >= level) {
    r.kind = IR_OVERLAP_ORDER_ONLY;
    explain_order(o, &why, b);
  } else {
    r.kind = IR_OVERLAP_CONCURRENT;
    explain_concurrent(o, &why, a, b);
  }
  r.why = sb_take(&why);
  VEC_PUSH(&o->p->overlaps) = r;
}

static bool is_pair(const struct overlap *o, ir_id a, ir_id b) {
  return ((o->role[a] & COMM) && (o->role[b] & COMPUTE)) ||
         ((o->role[a] & COMPUTE) && (o->role[b] & COMM));
}

struct window {
  int computes, leaves;
};

/* Steps past leaf N; false when the window is full. */
static bool step(const struct overlap *o, struct window *w, ir_id n) {
  if (o->role[n] & COMPUTE)
    w->computes++;
  return w->computes < WINDOW && ++w->leaves < MOST_LEAVES;
}

static void pairs_behind(struct overlap *o, ir_id a, int end, struct window *w) {
  const struct tree *t = o->tree;
  for (int i = t->position[a] + 1; i < end; i++) {
    ir_id b = t->order[i];
    if (is_pair(o, a, b) && !tree_exclusive(t, a, b) && !tree_same_group(t, a, b))
      classify(o, a, b, t->level[tree_common(t, a, b)], false);
    if (!step(o, w, b))
      return;
  }
}

static void pairs_in_next_iteration(struct overlap *o, ir_id a, ir_id loop) {
  const struct tree *t = o->tree;
  struct window w = {0};
  for (int i = t->position[a] + 1; i < t->last[loop]; i++)
    if (!step(o, &w, t->order[i]))
      return;
  for (int i = t->first[loop]; i < t->position[a]; i++) {
    ir_id b = t->order[i];
    if (is_pair(o, a, b) && tree_carrying_loop(t, a, b, true) == loop)
      classify(o, a, b, t->level[loop] - 1, true);
    if (!step(o, &w, b))
      return;
  }
}

static void pairs_of(struct overlap *o, ir_id a) {
  const struct tree *t = o->tree;
  int end = t->last[o->p->functions.v[o->p->nodes.v[a].function].body];
  int last = t->position[a] + MOST_LEAVES < end ? t->position[a] + MOST_LEAVES : end;
  int low = t->position[a], high = last;
  ir_id loop = tree_carrying_loop(t, a, a, true);
  for (ir_id n = a; n >= 0; n = o->p->nodes.v[n].parent) {
    if (o->p->nodes.v[n].kind != IR_LOOP)
      continue;
    if (t->last[n] - t->first[n] > LONG_LOOP) { /* only pairs within one iteration of it */
      last = last < t->last[n] ? last : t->last[n];
      loop = loop >= 0 && t->depth[loop] <= t->depth[n] ? -1 : loop;
      break;
    }
    low = t->first[n] < low ? t->first[n] : low;
    high = t->last[n] > high ? t->last[n] : high;
  }
  search_from(o, a, low, high);
  struct window w = {0};
  pairs_behind(o, a, last, &w);
  if (loop >= 0)
    pairs_in_next_iteration(o, a, loop);
}

/* ---- preparation ---------------------------------------------------------------------------- */

static void find_roles(struct overlap *o) {
  VEC_EACH(&o->p->nodes, n) {
    if (!ir_node_is_leaf(n))
      continue;
    struct effects e = {0};
    effects_of(o->table, n, &e);
    o->role[n->id] = (unsigned char)((e.communicates ? COMM : 0) | (e.computes ? COMPUTE : 0) |
                                     (e.blocks ? BLOCKS : 0) | (e.to_host ? TO_HOST : 0));
    effects_free(&e);
  }
}

static void find_peers(struct overlap *o) {
  size_t streams = o->p->streams.n + 1;
  ir_id *lead = xmalloc(streams * sizeof *lead);
  for (size_t i = 0; i < streams; i++)
    lead[i] = -1;
  for (size_t i = 0; i < o->p->nodes.n; i++)
    o->peer[i] = (ir_id)i;
  for (int i = 0; i < o->tree->leaves; i++) {
    ir_id n = o->tree->order[i], g = o->tree->group[n];
    if (g < 0 || o->p->nodes.v[n].kind != IR_COLLECTIVE)
      continue;
    ir_id *l = &lead[o->p->nodes.v[n].stream + 1];
    if (*l >= 0 && o->tree->group[*l] == g) {
      o->peer[n] = o->peer[*l];
      o->peer[*l] = n;
    } else {
      *l = n;
    }
  }
  free(lead);
}

void overlap(struct ir_program *p, const struct tree *tree, const struct effects_table *effects) {
  struct overlap o = {.p = p, .tree = tree, .table = effects};
  size_t n = p->nodes.n, levels = 0;
  o.out = xcalloc(n + 2, sizeof *o.out);
  o.peer = xcalloc(n + 1, sizeof *o.peer);
  o.role = xcalloc(n + 1, 1);
  for (size_t i = 0; i < p->deps.n; i++)
    o.out[p->deps.v[i].from + 1]++;
  for (size_t i = 0; i < n; i++) {
    o.out[i + 1] += o.out[i];
    levels = (size_t)tree->level[i] > levels ? (size_t)tree->level[i] : levels;
  }
  search_init(&o.data, n, levels);
  search_init(&o.order, n, levels);
  search_init(&o.carry, n, levels);
  find_roles(&o);
  find_peers(&o);
  for (int i = 0; i < tree->leaves && o.steps < MOST_STEPS; i++)
    if (o.role[tree->order[i]] & (COMM | COMPUTE))
      pairs_of(&o, tree->order[i]);
  search_free(&o.data);
  search_free(&o.order);
  search_free(&o.carry);
  VEC_FREE(&o.learned);
  free(o.out);
  free(o.peer);
  free(o.role);
}
