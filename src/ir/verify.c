// SPDX-License-Identifier: Apache-2.0
/* The invariants of ir.h. Generic ones come from the record table, the rest is stated here. */
#include "ir/record.h"
#include "support/strbuf.h"
#include <string.h>

struct verifier {
  const struct ir_program *p;
  struct strbuf path, why;
};

static bool fail(struct verifier *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool fail(struct verifier *v, const char *fmt, ...) {
  va_list ap;
  sb_addf(&v->why, "%s: ", v->path.n ? v->path.s : "/");
  va_start(ap, fmt);
  sb_vaddf(&v->why, fmt, ap);
  va_end(ap);
  return false;
}

static void leave(struct verifier *v, size_t n) {
  v->path.n = n;
  if (v->path.s)
    v->path.s[n] = '\0';
}

static size_t enter(struct verifier *v, const char *table, size_t i) {
  leave(v, 0);
  sb_addf(&v->path, "/%s/%zu", table, i);
  return v->path.n;
}

static size_t table_size(const struct ir_program *p, enum rec_table t) {
  switch (t) {
  case TABLE_FILES:
    return p->files.n;
  case TABLE_FUNCTIONS:
    return p->functions.n;
  case TABLE_KERNELS:
    return p->kernels.n;
  case TABLE_BUFFERS:
    return p->buffers.n;
  case TABLE_COMMS:
    return p->comms.n;
  case TABLE_STREAMS:
    return p->streams.n;
  case TABLE_EVENTS:
    return p->events.n;
  case TABLE_CALLS:
    return p->calls.n;
  default:
    return p->nodes.n;
  }
}

/* ---- every struct, field by field ----------------------------------------------------------- */

static bool check_id(struct verifier *v, const struct rec_field *f, ir_id id, ir_id least) {
  size_t n = table_size(v->p, f->table);
  if (id >= least && (id < 0 || (size_t)id < n))
    return true;
  return fail(v, "index %d is out of range (the table has %zu entries)", id, n);
}

static bool check_expr(struct verifier *v, const struct ir_expr *e) {
  if (!e->affine)
    return (!e->terms.n && !e->constant) || fail(v, "terms in an expression that is not affine");
  if (!*e->text)
    return fail(v, "an affine expression without text");
  for (size_t i = 0; i < e->terms.n; i++) {
    if (!e->terms.v[i].coef)
      return fail(v, "term %zu has coefficient 0", i);
    if (!*e->terms.v[i].symbol)
      return fail(v, "term %zu has no symbol", i);
    if (i && strcmp(e->terms.v[i - 1].symbol, e->terms.v[i].symbol) >= 0)
      return fail(v, "term %zu is not sorted by symbol", i);
  }
  return true;
}

static bool check_range(struct verifier *v, const struct ir_range *r) {
  if (r->begin > r->end)
    return fail(v, "the range begins after its end");
  if (r->file < 0 && r->end)
    return fail(v, "a range without a file");
  return true;
}

static bool check_record(struct verifier *v, const struct rec_record *r, const void *base);

static bool check_field(struct verifier *v, const struct rec_field *f, const void *at) {
  const struct rec_vec *vec = at;
  switch (f->type) {
  case REC_STR:
    return *(char *const *)at || fail(v, "no string");
  case REC_ID:
    return check_id(v, f, *(const ir_id *)at, f->flags & REC_REQUIRED ? 0 : -1);
  case REC_INT:
    return !(f->flags & REC_MINUS_ONE) || *(const int *)at >= -1 ||
           fail(v, "%d is less than -1", *(const int *)at);
  case REC_ENUM:
    return rec_name(f->values, *(const int *)at) ||
           fail(v, "%d is not %s", *(const int *)at, f->values->what);
  case REC_RECORD:
    return check_record(v, f->sub, at);
  case REC_TRIPLE:
    for (size_t i = 0; i < 3; i++)
      if (!check_record(v, f->sub, (const char *)at + i * f->sub->size))
        return false;
    return true;
  case REC_LIST:
    for (size_t i = 0; i < vec->n; i++) {
      size_t mark = v->path.n;
      sb_addf(&v->path, "/%zu", i);
      if (!check_record(v, f->sub, vec->v + i * f->sub->size))
        return false;
      leave(v, mark);
    }
    return true;
  case REC_STRS:
    for (size_t i = 0; i < vec->n; i++)
      if (!((char *const *)(const void *)vec->v)[i])
        return fail(v, "no string at %zu", i);
    return true;
  case REC_IDS:
    for (size_t i = 0; i < vec->n; i++)
      if (!check_id(v, f, ((const ir_id *)(const void *)vec->v)[i], 0))
        return false;
    return true;
  default:
    return true;
  }
}

static bool check_record(struct verifier *v, const struct rec_record *r, const void *base) {
  size_t mark = v->path.n;
  for (const struct rec_field *f = r->fields; f < r->fields + r->n; f++) {
    if (!rec_present(r, f, base))
      continue;
    sb_addf(&v->path, "/%s", f->key);
    if (!check_field(v, f, rec_at(base, f)))
      return false;
    leave(v, mark);
  }
  if (r == &rec_expr)
    return check_expr(v, base);
  if (r == &rec_range)
    return check_range(v, base);
  return true;
}

/* ---- the tree ------------------------------------------------------------------------------- */

static bool check_children(struct verifier *v, const struct ir_node *n) {
  if (ir_node_is_leaf(n))
    return !n->children.n || fail(v, "a leaf with children");
  for (size_t i = 0; i < n->children.n; i++) {
    const struct ir_node *c = &v->p->nodes.v[n->children.v[i]];
    if (c->parent != n->id)
      return fail(v, "child %d has another parent (%d)", c->id, c->parent);
    if (c->function != n->function)
      return fail(v, "child %d belongs to another function", c->id);
    for (size_t j = 0; j < i; j++)
      if (n->children.v[j] == c->id && n->children.n < 64)
        return fail(v, "child %d appears twice", c->id);
  }
  if ((n->kind == IR_LOOP || n->kind == IR_GROUP) && n->children.n > 1)
    return fail(v, "a %s has one child, the sequence in it; this one has %zu",
                ir_node_kind_name(n->kind), n->children.n);
  return true;
}

static bool check_node(struct verifier *v, const struct ir_node *n, size_t i) {
  if (n->id != (ir_id)i)
    return fail(v, "its id is %d", n->id);
  if (n->parent == n->id)
    return fail(v, "it is its own parent");
  if (n->function < 0)
    return fail(v, "it belongs to no function");
  if (!check_children(v, n))
    return false;
  if (!ir_node_is_leaf(n) && n->operands.n)
    return fail(v, "operands at a %s; only leaves have them", ir_node_kind_name(n->kind));
  if (n->event >= 0 && n->kind != IR_SYNC)
    return fail(v, "an event at a %s", ir_node_kind_name(n->kind));
  if (n->call_end >= 0 && n->kind != IR_GROUP)
    return fail(v, "call_end at a %s; only a group has one", ir_node_kind_name(n->kind));
  if (n->kind == IR_COLLECTIVE && n->call >= 0 && v->p->calls.v[n->call].kind != IR_CALL_COLLECTIVE)
    return fail(v, "the call of a collective is of kind \"%s\"",
                rec_name(&rec_call_kinds, (int)v->p->calls.v[n->call].kind));
  if (n->parent < 0 && v->p->functions.v[n->function].body != n->id)
    return fail(v, "it has no parent and is not the body of its function");
  return true;
}

enum { MOST_NESTED = 2000 }; /* passes walk the tree recursively */

/* Is every node reached exactly once from the bodies? */
static bool check_tree(struct verifier *v) {
  const struct ir_program *p = v->p;
  unsigned char *seen = xcalloc(p->nodes.n + 1, 1);
  int *depth = xcalloc(p->nodes.n + 1, sizeof *depth);
  VEC(ir_id) work = {0};
  bool ok = true;
  for (size_t i = 0; ok && i < p->functions.n; i++) {
    ir_id body = p->functions.v[i].body;
    if (body < 0)
      continue;
    enter(v, "functions", i);
    const struct ir_node *n = &p->nodes.v[body];
    if (n->kind != IR_SEQ || n->parent != -1 || n->function != (ir_id)i)
      ok = fail(v, "its body, node %d, is not a sequence of its own at the root", body);
    else
      VEC_PUSH(&work) = body;
    while (ok && work.n) {
      n = &p->nodes.v[work.v[--work.n]];
      if (seen[n->id]++) {
        enter(v, "nodes", (size_t)n->id);
        ok = fail(v, "it is in the tree twice");
      }
      if (ok && depth[n->id] > MOST_NESTED) {
        enter(v, "nodes", (size_t)n->id);
        ok = fail(v, "it is nested more than %d deep", MOST_NESTED);
      }
      for (size_t c = 0; ok && c < n->children.n; c++) {
        depth[n->children.v[c]] = depth[n->id] + 1;
        VEC_PUSH(&work) = n->children.v[c];
      }
    }
  }
  for (size_t i = 0; ok && i < p->nodes.n; i++)
    if (!seen[i]) {
      enter(v, "nodes", i);
      ok = fail(v, "it is not reachable from a function's body");
    }
  VEC_FREE(&work);
  free(depth);
  free(seen);
  return ok;
}

/* ---- entities, dependences, overlap --------------------------------------------------------- */

static bool check_buffer(struct verifier *v, const struct ir_buffer *b, ir_id id) {
  const struct ir_program *p = v->p;
  if (b->origin == IR_ORIGIN_ALIAS && b->alias_of < 0)
    return fail(v, "an alias of nothing");
  if (b->origin != IR_ORIGIN_ALIAS && b->alias_of >= 0)
    return fail(v, "alias_of is set, but its origin is not \"alias\"");
  size_t steps = 0;
  for (ir_id a = b->alias_of; a >= 0; a = p->buffers.v[a].alias_of)
    if (a == id || ++steps > p->buffers.n)
      return fail(v, "it is an alias of itself");
  for (size_t i = 0; i < b->aliases.n; i++)
    if (b->aliases.v[i] == id)
      return fail(v, "it is listed among its own aliases");
  for (size_t i = 0; i < b->allocs.n; i++)
    if (p->calls.v[b->allocs.v[i]].kind != IR_CALL_ALLOC)
      return fail(v, "call %d among its allocations is no allocation", b->allocs.v[i]);
  for (size_t i = 0; i < b->frees.n; i++)
    if (p->calls.v[b->frees.v[i]].kind != IR_CALL_FREE)
      return fail(v, "call %d among its frees frees nothing", b->frees.v[i]);
  return true;
}

static bool check_comm(struct verifier *v, const struct ir_comm *c) {
  for (size_t i = 0; i < c->creates.n; i++)
    if (v->p->calls.v[c->creates.v[i]].kind != IR_CALL_COMM_CREATE)
      return fail(v, "call %d among its creations creates nothing", c->creates.v[i]);
  for (size_t i = 0; i < c->destroys.n; i++)
    if (v->p->calls.v[c->destroys.v[i]].kind != IR_CALL_COMM_DESTROY)
      return fail(v, "call %d among its destructions destroys nothing", c->destroys.v[i]);
  return true;
}

static bool check_pair(struct verifier *v, ir_id a, ir_id b, bool carried) {
  const struct ir_node *x = &v->p->nodes.v[a], *y = &v->p->nodes.v[b];
  if (!ir_node_is_leaf(x) || !ir_node_is_leaf(y))
    return fail(v, "node %d is no leaf", ir_node_is_leaf(x) ? b : a);
  if (x->function != y->function)
    return fail(v, "its ends are in different functions");
  if (a == b && !carried)
    return fail(v, "node %d depends on itself, but not from one iteration to the next", a);
  return true;
}

static bool check_dep(struct verifier *v, const struct ir_dep *d) {
  if (d->kind > IR_DEP_WAW && d->buffer >= 0)
    return fail(v, "a dependence of kind \"%s\" has no buffer", ir_dep_name(d->kind));
  if (d->carried != (d->loop >= 0) || (d->carried && v->p->nodes.v[d->loop].kind != IR_LOOP))
    return fail(v, "the loop of a carried dependence is missing or no loop");
  return check_pair(v, d->from, d->to, d->carried);
}

static bool check_overlap(struct verifier *v, const struct ir_overlap *o) {
  if (!check_pair(v, o->a, o->b, o->carried))
    return false;
  bool comm = false, compute = false;
  for (int i = 0; i < 2; i++) {
    enum ir_node_kind k = v->p->nodes.v[i ? o->b : o->a].kind;
    comm = comm || k == IR_COLLECTIVE || k == IR_COPY || k == IR_CALL;
    compute = compute || k == IR_COMPUTE || k == IR_CALL;
  }
  return (comm && compute) || fail(v, "it does not join communication and computation");
}

#define CHECK_TABLE(table, check)                                                                  \
  for (size_t i = 0; i < p->table.n; i++) {                                                        \
    enter(v, #table, i);                                                                           \
    if (!(check))                                                                                  \
      return false;                                                                                \
  }

static bool check(struct verifier *v) {
  const struct ir_program *p = v->p;
  if (!check_record(v, &rec_program, p))
    return false;
  unsigned mains = 0;
  CHECK_TABLE(files, (mains += p->files.v[i].main_file) < 2 || fail(v, "a second main file"))
  CHECK_TABLE(nodes, check_node(v, &p->nodes.v[i], i))
  if (!check_tree(v))
    return false;
  CHECK_TABLE(buffers, check_buffer(v, &p->buffers.v[i], (ir_id)i))
  CHECK_TABLE(comms, check_comm(v, &p->comms.v[i]))
  CHECK_TABLE(deps, check_dep(v, &p->deps.v[i]))
  CHECK_TABLE(overlaps, check_overlap(v, &p->overlaps.v[i]))
  return true;
}

bool ir_verify(const struct ir_program *p, char *why, size_t size) {
  struct verifier v = {.p = p};
  bool ok = check(&v);
  if (!ok && size)
    snprintf(why, size, "%s", v.why.s);
  sb_free(&v.path);
  sb_free(&v.why);
  return ok;
}
