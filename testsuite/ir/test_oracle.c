// SPDX-License-Identifier: Apache-2.0
/* Dependence analysis against an oracle. Random small programs are executed on paper along random
 * paths (trip counts, branch arms); each execution gives the leaves' instances, the bytes that they
 * touch and, from the rules of CUDA taken literally, which must end before which starts. Every true
 * conflict and every true order must be a path in the analysis' edges, and no certain edge may say
 * more than what holds. */
#include "lib/unit.h"

#include "ir/ir.h"
#include "random.h"
#include <stdio.h>
#include <string.h>

enum { MOST = 60, BYTES = 64, MOST_LOOPS = 12 };

/* ---- random programs ------------------------------------------------------------------------ */

struct builder {
  struct rnd r;
  struct ir_program *p;
  ir_id loops[MOST_LOOPS]; /* around the current place */
  int depth, leaves;
};

static void set_expr(struct builder *b, struct ir_expr *e) {
  struct ir_expr x, c;
  ir_expr_init(&x);
  ir_expr_init(&c);
  ir_expr_const(&c, 4 * rnd_below(&b->r, 3));
  int k = rnd_below(&b->r, 10);
  if (k < 2) { /* 4 * n + c */
    ir_expr_symbol(e, "n");
    ir_expr_const(&x, 4);
    ir_expr_mul(e, e, &x);
    ir_expr_add(e, e, &c, 1);
  } else if (k < 5 && b->depth) { /* 4 * i + c */
    char name[32];
    snprintf(name, sizeof name, "i%d", b->loops[rnd_below(&b->r, b->depth)]);
    ir_expr_symbol(e, name);
    ir_expr_const(&x, 4);
    ir_expr_mul(e, e, &x);
    ir_expr_add(e, e, &c, 1);
  } else {
    ir_expr_copy(e, &c);
  }
  ir_expr_free(&x);
  ir_expr_free(&c);
}

static void add_operands(struct builder *b, ir_id leaf) {
  static const enum ir_mode modes[] = {IR_READ,  IR_READ,       IR_WRITE,
                                       IR_WRITE, IR_READ_WRITE, IR_ACCUMULATE};
  for (int k = 1 + rnd_below(&b->r, 2); k > 0; k--) {
    ir_id buffer = rnd_below(&b->r, (int)b->p->buffers.n);
    struct ir_operand *o = ir_add_operand(b->p, leaf, buffer, modes[rnd_below(&b->r, 6)]);
    if (rnd_chance(&b->r, 15))
      continue; /* the whole buffer, or any part of it */
    set_expr(b, &o->offset);
    if (rnd_chance(&b->r, 30)) {
      ir_expr_symbol(&o->size, "n");
    } else {
      ir_expr_const(&o->size, 4 + 4 * rnd_below(&b->r, 3));
    }
    o->exact = rnd_chance(&b->r, 75);
  }
}

static void add_leaf(struct builder *b, ir_id seq, bool in_group) {
  struct ir_program *p = b->p;
  static const enum ir_node_kind kinds[] = {IR_COMPUTE,    IR_COMPUTE,    IR_COMPUTE,
                                            IR_COLLECTIVE, IR_COLLECTIVE, IR_COPY,
                                            IR_SYNC,       IR_SYNC,       IR_HOST};
  enum ir_node_kind kind = in_group ? IR_COLLECTIVE : kinds[rnd_below(&b->r, 9)];
  ir_id id = ir_add_node(p, kind, seq);
  b->leaves++;
  ir_node(p, id)->stream = rnd_below(&b->r, (int)p->streams.n);
  ir_node(p, id)->async = true;
  switch (kind) {
  case IR_COPY:
    ir_node(p, id)->async = rnd_chance(&b->r, 60);
    break;
  case IR_COLLECTIVE:
    ir_node(p, id)->u.coll.comm = rnd_below(&b->r, (int)p->comms.n);
    break;
  case IR_SYNC:
    ir_node(p, id)->u.sync.kind = (enum ir_sync_kind)rnd_below(&b->r, IR_SYNC_QUERY + 1);
    ir_node(p, id)->event = rnd_below(&b->r, (int)p->events.n);
    return;
  case IR_HOST:
    ir_node(p, id)->stream = -1;
    return;
  default:
    break;
  }
  add_operands(b, id);
}

static void add_sequence(struct builder *b, ir_id seq, bool in_group) {
  for (int n = 1 + rnd_below(&b->r, 4); n > 0 && b->leaves < 14; n--) {
    int k = rnd_below(&b->r, 10);
    if (k == 0 && b->depth < 3) {
      ir_id loop = ir_add_node(b->p, IR_LOOP, seq);
      char name[32];
      snprintf(name, sizeof name, "i%d", loop);
      ir_node(b->p, loop)->u.control.varying_known = rnd_chance(&b->r, 80);
      if (ir_node(b->p, loop)->u.control.varying_known)
        VEC_PUSH(&ir_node(b->p, loop)->u.control.varying) = xstrdup(name);
      b->loops[b->depth++] = loop;
      add_sequence(b, ir_add_node(b->p, IR_SEQ, loop), in_group);
      b->depth--;
    } else if (k == 1) {
      ir_id branch = ir_add_node(b->p, IR_BRANCH, seq);
      for (int arms = 1 + rnd_below(&b->r, 2); arms > 0; arms--)
        add_sequence(b, ir_add_node(b->p, IR_SEQ, branch), in_group);
    } else if (k == 2 && !in_group) {
      ir_id group = ir_add_node(b->p, IR_GROUP, seq);
      add_sequence(b, ir_add_node(b->p, IR_SEQ, group), true);
    } else {
      add_leaf(b, seq, in_group);
    }
  }
}

static struct ir_program *random_program(uint64_t seed) {
  struct builder b = {.r = {seed}, .p = ir_new()};
  static const char *const streams[] = {"default", "s1", "s2", "free"};
  ir_id f = ir_add_function(b.p, "main");
  for (int i = 1 + rnd_below(&b.r, 3); i > 0; i--) {
    ir_id x = ir_add_buffer(b.p, "b", "main");
    b.p->buffers.v[x].origin = IR_ORIGIN_CUDA;
  }
  for (int i = 0; i < 4; i++) {
    ir_id s = ir_add_stream(b.p, streams[i], "main");
    b.p->streams.v[s].is_default = i == 0;
    b.p->streams.v[s].non_blocking = i == 3;
  }
  for (int i = 0; i < 2; i++) {
    ir_add_event(b.p, "e", "main");
    ir_add_comm(b.p, "c", "main");
  }
  ir_id body = ir_add_node(b.p, IR_SEQ, -1);
  ir_node(b.p, body)->function = f;
  b.p->functions.v[f].body = body;
  while (b.leaves < 4)
    add_sequence(&b, body, false);
  return b.p;
}

/* ---- executions ----------------------------------------------------------------------------- */

struct instance {
  ir_id leaf;
  int iteration[MOST_LOOPS]; /* of the loops around it, outermost first */
  ir_id loop[MOST_LOOPS];
  int loops;
  int unit;                     /* instances that start and end together have one number */
  uint64_t reads[4], writes[4]; /* bytes of each buffer */
};

struct run {
  const struct ir_program *p;
  struct rnd *r;
  struct instance v[MOST];
  int n, units, n_value;
  bool too_long;
  int iteration[MOST_LOOPS];
  ir_id loop[MOST_LOOPS];
  int loops;
  bool in_group;
  int group_start; /* first instance of the group */
};

static int64_t value_of(const struct run *x, const struct ir_expr *e) {
  int64_t v = e->constant;
  for (size_t i = 0; i < e->terms.n; i++) {
    const char *s = e->terms.v[i].symbol;
    int64_t w = x->n_value;
    for (int k = 0; k < x->loops && s[0] == 'i'; k++)
      if (atoi(s + 1) == x->loop[k])
        w = x->iteration[k];
    v += e->terms.v[i].coef * w;
  }
  return v;
}

/* Bytes that the operand may touch (all of them, when EXACT). */
static uint64_t bytes_of(const struct run *x, const struct ir_operand *o) {
  if (!ir_expr_known(&o->offset))
    return ~(uint64_t)0;
  uint64_t m = 0;
  int64_t from = value_of(x, &o->offset), n = value_of(x, &o->size);
  for (int64_t i = from; i < from + n && i < BYTES; i++)
    m |= (uint64_t)1 << i;
  return m;
}

static void execute_leaf(struct run *x, const struct ir_node *n) {
  if (x->n == MOST) {
    x->too_long = true;
    return;
  }
  struct instance *v = &x->v[x->n];
  *v = (struct instance){.leaf = n->id, .loops = x->loops, .unit = -1};
  memcpy(v->iteration, x->iteration, sizeof v->iteration);
  memcpy(v->loop, x->loop, sizeof v->loop);
  for (int i = x->group_start; x->in_group && i < x->n; i++)
    if (x->p->nodes.v[x->v[i].leaf].stream == n->stream)
      v->unit = x->v[i].unit;
  if (v->unit < 0)
    v->unit = x->units++;
  for (size_t i = 0; i < n->operands.n; i++) {
    const struct ir_operand *o = &n->operands.v[i];
    if (o->mode & IR_READ)
      v->reads[o->buffer] |= bytes_of(x, o);
    if (o->mode & IR_WRITE)
      v->writes[o->buffer] |= bytes_of(x, o);
  }
  x->n++;
}

static void execute(struct run *x, ir_id id) {
  const struct ir_node *n = &x->p->nodes.v[id];
  switch (n->kind) {
  case IR_SEQ:
    for (size_t i = 0; i < n->children.n && !x->too_long; i++)
      execute(x, n->children.v[i]);
    break;
  case IR_LOOP: {
    int trips = rnd_below(x->r, 4);
    x->loop[x->loops] = id;
    for (int i = 0; i < trips && !x->too_long; i++) {
      x->iteration[x->loops++] = i;
      execute(x, n->children.v[0]);
      x->loops--;
    }
    break;
  }
  case IR_BRANCH: {
    int arm = rnd_below(x->r, (int)n->children.n + 1);
    if ((size_t)arm < n->children.n)
      execute(x, n->children.v[arm]);
    break;
  }
  case IR_GROUP:
    x->in_group = true;
    x->group_start = x->n;
    execute(x, n->children.v[0]);
    x->in_group = false;
    break;
  default:
    execute_leaf(x, n);
    break;
  }
}

/* ---- the true order ------------------------------------------------------------------------- */

/* A graph over issue, start and end of each unit. Units are issued in order of their first instance
 * (all of a group's members are issued at its end, with nothing in between). */
struct truth {
  bool edge[3 * MOST][3 * MOST];
};
#define ISSUE(u) (3 * (u))
#define START(u) (3 * (u) + 1)
#define END(u) (3 * (u) + 2)

static bool blocks(const struct ir_node *n) {
  if (n->kind == IR_HOST)
    return true;
  if (n->kind == IR_COPY)
    return !n->async;
  return n->kind == IR_SYNC && n->u.sync.kind != IR_SYNC_EVENT_RECORD &&
         n->u.sync.kind != IR_SYNC_EVENT_WAIT && n->u.sync.kind != IR_SYNC_QUERY;
}

/* Is it an operation that is put on its stream? */
static bool is_stream_work(const struct ir_node *n) {
  return n->kind == IR_COMPUTE || n->kind == IR_COLLECTIVE || n->kind == IR_COPY ||
         (n->kind == IR_SYNC &&
          (n->u.sync.kind == IR_SYNC_EVENT_RECORD || n->u.sync.kind == IR_SYNC_EVENT_WAIT));
}

static bool same_order(const struct ir_program *p, ir_id s, ir_id t) {
  const struct ir_stream *a = &p->streams.v[s], *b = &p->streams.v[t];
  return s == t || (a->is_default && !b->non_blocking) || (b->is_default && !a->non_blocking);
}

static void pair_truth(const struct run *x, struct truth *t, int i, int j) {
  const struct ir_node *a = &x->p->nodes.v[x->v[i].leaf], *b = &x->p->nodes.v[x->v[j].leaf];
  int u = x->v[i].unit, w = x->v[j].unit;
  if (u == w)
    return;
  /* A record does nothing itself: what comes after it comes after what it records. */
  bool mark = a->kind == IR_SYNC && a->u.sync.kind == IR_SYNC_EVENT_RECORD &&
              !x->p->streams.v[a->stream].is_default;
  bool order =
      !mark && is_stream_work(a) && is_stream_work(b) && same_order(x->p, a->stream, b->stream);
  if (b->kind == IR_SYNC && is_stream_work(a) && !mark)
    order = order || b->u.sync.kind == IR_SYNC_DEVICE ||
            (b->u.sync.kind == IR_SYNC_STREAM && a->stream == b->stream);
  if (a->kind == IR_COLLECTIVE && b->kind == IR_COLLECTIVE && a->u.coll.comm == b->u.coll.comm)
    order = true;
  if (order)
    t->edge[END(u)][START(w)] = true;
}

/* The record that the event operation J refers to, or -1. */
static int record_of(const struct run *x, int j) {
  const struct ir_node *b = &x->p->nodes.v[x->v[j].leaf];
  for (int i = j - 1; i >= 0; i--) {
    const struct ir_node *a = &x->p->nodes.v[x->v[i].leaf];
    if (a->kind == IR_SYNC && a->u.sync.kind == IR_SYNC_EVENT_RECORD && a->event == b->event)
      return i;
  }
  return -1;
}

static bool group_mates(const struct run *x, int i, int j) {
  const struct ir_program *p = x->p;
  ir_id g[2] = {-1, -1};
  int k[2] = {i, j};
  for (int s = 0; s < 2; s++)
    for (ir_id n = x->v[k[s]].leaf; n >= 0; n = p->nodes.v[n].parent)
      if (p->nodes.v[n].kind == IR_GROUP)
        g[s] = n;
  if (g[0] < 0 || g[0] != g[1])
    return false;
  for (int a = i; a <= j; a++) { /* the same execution of the group: nothing else in between */
    bool inside = false;
    for (ir_id n = x->v[a].leaf; n >= 0; n = p->nodes.v[n].parent)
      inside = inside || n == g[0];
    if (!inside)
      return false;
  }
  for (int l = 0; l < x->v[i].loops && l < x->v[j].loops; l++) { /* loops around the group */
    bool around = false;
    for (ir_id n = g[0]; n >= 0; n = p->nodes.v[n].parent)
      around = around || n == x->v[i].loop[l];
    if (around && x->v[i].iteration[l] != x->v[j].iteration[l])
      return false;
  }
  return true;
}

static void find_truth(const struct run *x, struct truth *t) {
  memset(t, 0, sizeof *t);
  for (int i = 0; i < x->n; i++) {
    const struct ir_node *a = &x->p->nodes.v[x->v[i].leaf];
    int u = x->v[i].unit;
    t->edge[ISSUE(u)][START(u)] = t->edge[START(u)][END(u)] = true;
    for (int j = i + 1; j < x->n; j++) {
      int w = x->v[j].unit;
      if (group_mates(x, i, j)) {
        continue;
      }
      t->edge[ISSUE(u)][ISSUE(w)] = true;
      if (blocks(a))
        t->edge[END(u)][ISSUE(w)] = true;
      pair_truth(x, t, i, j);
    }
    if (a->kind == IR_SYNC &&
        (a->u.sync.kind == IR_SYNC_EVENT_WAIT || a->u.sync.kind == IR_SYNC_EVENT_HOST)) {
      int r = record_of(x, i);
      if (r >= 0)
        t->edge[END(x->v[r].unit)][START(u)] = true;
    }
  }
  int n = 3 * x->units;
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      if (t->edge[i][k])
        for (int j = 0; j < n; j++)
          t->edge[i][j] = t->edge[i][j] || t->edge[k][j];
}

/* ---- what the edges say --------------------------------------------------------------------- */

enum speaks { NOT, PERHAPS, SURELY };

/* Does D, between leaves, speak of the instances I and J? A carried edge speaks of later iterations
 * of its loop, and perhaps of later iterations of the loops around that. */
static enum speaks speaks_of(const struct run *x, const struct ir_dep *d, int i, int j) {
  const struct instance *a = &x->v[i], *b = &x->v[j];
  bool later = false;
  if (a->leaf != d->from || b->leaf != d->to || i >= j)
    return NOT;
  for (int l = 0; l < a->loops && l < b->loops && a->loop[l] == b->loop[l]; l++) {
    if (d->carried && a->loop[l] == d->loop)
      return later ? PERHAPS : b->iteration[l] > a->iteration[l] ? SURELY : NOT;
    if (a->iteration[l] != b->iteration[l]) {
      if (!d->carried || (!later && b->iteration[l] < a->iteration[l]))
        return NOT;
      later = true;
    }
  }
  return d->carried ? NOT : SURELY;
}

typedef uint64_t rows[MOST];

static void close_rows(rows r, int n) {
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      if (r[i] >> k & 1)
        r[i] |= r[k];
}

static void find_claims(const struct run *x, rows order, rows sure, rows data) {
  memset(order, 0, sizeof(rows));
  memset(sure, 0, sizeof(rows));
  memset(data, 0, sizeof(rows));
  for (size_t k = 0; k < x->p->deps.n; k++) {
    const struct ir_dep *d = &x->p->deps.v[k];
    for (int i = 0; i < x->n; i++)
      for (int j = i + 1; j < x->n; j++) {
        if (!speaks_of(x, d, i, j))
          continue;
        if (d->kind <= IR_DEP_WAW) {
          data[i] |= (uint64_t)1 << j;
        } else {
          order[x->v[i].unit] |= (uint64_t)1 << x->v[j].unit;
          if (!d->may && speaks_of(x, d, i, j) == SURELY)
            sure[x->v[i].unit] |= (uint64_t)1 << x->v[j].unit;
        }
      }
  }
  close_rows(order, x->units);
  close_rows(sure, x->units);
  close_rows(data, x->n);
}

/* Do I and J conflict? A hazard through buffer B only, if B >= 0. */
static bool conflict(const struct instance *i, const struct instance *j, ir_id b) {
  for (ir_id k = 0; k < 4; k++)
    if ((b < 0 || k == b) &&
        ((i->writes[k] & (j->reads[k] | j->writes[k])) || (i->reads[k] & j->writes[k])))
      return true;
  return false;
}

static bool all_constant(const struct ir_node *n) {
  VEC_EACH(&n->operands, o)
  if (!o->exact || o->offset.terms.n || o->size.terms.n || !ir_expr_known(&o->offset))
    return false;
  return true;
}

static _Noreturn void complain(const struct run *x, uint64_t seed, const char *what, int i, int j) {
  char *text = ir_to_json(x->p);
  fprintf(stderr, "seed %d: %s: instance %d (node %d) and %d (node %d)\n", (int)seed, what, i,
          x->v[i].leaf, j, x->v[j].leaf);
  for (int k = 0; k < x->n; k++) {
    fprintf(stderr, " %d: node %d, unit %d, iterations", k, x->v[k].leaf, x->v[k].unit);
    for (int l = 0; l < x->v[k].loops; l++)
      fprintf(stderr, " %d:%d", x->v[k].loop[l], x->v[k].iteration[l]);
    fprintf(stderr, "\n");
  }
  fprintf(stderr, "%s\n", text);
  free(text);
  fail();
  abort();
}

static void compare(const struct run *x, uint64_t seed) {
  static struct truth t;
  rows order, sure, data;
  find_truth(x, &t);
  find_claims(x, order, sure, data);
  for (int i = 0; i < x->n; i++)
    for (int j = i + 1; j < x->n; j++) {
      int u = x->v[i].unit, w = x->v[j].unit;
      bool true_order = u != w && t.edge[END(u)][START(w)];
      if (true_order && !(order[u] >> w & 1))
        complain(x, seed, "order missed", i, j);
      const struct ir_node *a = &x->p->nodes.v[x->v[i].leaf];
      bool mark = a->kind == IR_SYNC && a->u.sync.kind == IR_SYNC_EVENT_RECORD;
      if (!true_order && !mark && u != w && (sure[u] >> w & 1))
        complain(x, seed, "order invented", i, j);
      if (conflict(&x->v[i], &x->v[j], -1) && !group_mates(x, i, j) && !(data[i] >> j & 1))
        complain(x, seed, "conflict missed", i, j);
      for (size_t k = 0; k < x->p->deps.n; k++) {
        const struct ir_dep *d = &x->p->deps.v[k];
        if (d->kind > IR_DEP_WAW || !speaks_of(x, d, i, j))
          continue;
        bool c = conflict(&x->v[i], &x->v[j], d->buffer);
        if (!d->may && !c && speaks_of(x, d, i, j) == SURELY)
          complain(x, seed, "certain edge without conflict", i, j);
        if (!c && speaks_of(x, d, i, j) == SURELY && all_constant(&x->p->nodes.v[x->v[i].leaf]) &&
            all_constant(&x->p->nodes.v[x->v[j].leaf]))
          complain(x, seed, "edge between constant ranges that are disjoint", i, j);
      }
    }
}

/* The innermost common loop has the same iteration at I and J (or, CARRIED, the next one at J), and
 * the loops around it have the same. */
static bool iterations_match(const struct run *x, int i, int j, bool carried) {
  const struct instance *a = &x->v[i], *b = &x->v[j];
  int common = 0;
  while (common < a->loops && common < b->loops && a->loop[common] == b->loop[common])
    common++;
  for (int l = 0; l < common; l++)
    if (b->iteration[l] != a->iteration[l] + (carried && l == common - 1))
      return false;
  return !carried || common > 0;
}

/* What is said about pairs of communication and computation. */
static void compare_overlaps(const struct run *x, uint64_t seed, int *checked) {
  static struct truth t;
  rows data = {0};
  find_truth(x, &t);
  for (int i = 0; i < x->n; i++)
    for (int j = i + 1; j < x->n; j++)
      if (conflict(&x->v[i], &x->v[j], -1) && !group_mates(x, i, j))
        data[i] |= (uint64_t)1 << j;
  close_rows(data, x->n);
  for (size_t k = 0; k < x->p->overlaps.n; k++) {
    const struct ir_overlap *o = &x->p->overlaps.v[k];
    for (int i = 0; i < x->n; i++)
      for (int j = i + 1; j < x->n; j++) {
        if (x->v[i].leaf != o->a || x->v[j].leaf != o->b || !iterations_match(x, i, j, o->carried))
          continue;
        ++*checked;
        if ((data[i] >> j & 1) && o->kind != IR_OVERLAP_DATA)
          complain(x, seed, "data path, but not classified so", i, j);
        if (o->kind == IR_OVERLAP_CONCURRENT && t.edge[END(x->v[i].unit)][START(x->v[j].unit)])
          complain(x, seed, "ordered, but classified as concurrent", i, j);
      }
  }
}

static void against_oracle(void **state) {
  (void)state;
  int programs = 1500, runs = 0, instances = 0, pairs = 0;
  const char *more = getenv("CUCOCC_ORACLE_PROGRAMS");
  if (more)
    programs = atoi(more);
  for (uint64_t seed = 1; seed <= (uint64_t)programs; seed++) {
    struct ir_program *p = random_program(seed);
    char why[300];
    ir_analyse(p);
    if (!ir_verify(p, why, sizeof why))
      fail_msg("seed %d: %s", (int)seed, why);
    struct rnd r = {seed * 7919};
    for (int k = 0; k < 10; k++) {
      static struct run x;
      x = (struct run){.p = p, .r = &r, .n_value = 1 + rnd_below(&r, 5)};
      execute(&x, p->functions.v[0].body);
      if (x.too_long)
        continue;
      runs++;
      instances += x.n;
      compare(&x, seed);
      compare_overlaps(&x, seed, &pairs);
    }
    ir_free(p);
  }
  assert_true(runs > programs * 5); /* the test tests something */
  assert_true(instances > runs * 4);
  assert_true(pairs > runs * 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(against_oracle)};
  return cmocka_run_group_tests_name("dependence analysis against an oracle", tests, NULL, NULL);
}
