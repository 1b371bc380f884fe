// SPDX-License-Identifier: Apache-2.0
#include "random.h"
#include "ir/record.h"
#include "support/strbuf.h"
#include <string.h>

uint64_t rnd_next(struct rnd *r) {
  uint64_t x = (r->state += 0x9E3779B97F4A7C15u);
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

int rnd_below(struct rnd *r, int n) { return (int)(rnd_next(r) % (unsigned)n); }

bool rnd_chance(struct rnd *r, int percent) { return rnd_below(r, 100) < percent; }

static void random_string(struct rnd *r, char **out) {
  static const char *const parts[] = {"x",
                                      "d_send",
                                      "a\"b",
                                      "back\\slash",
                                      "\n",
                                      "\t",
                                      "\x01",
                                      "\xff",
                                      "\xc3\xa4",
                                      "\xf0\x9f\x98\x80",
                                      "\xef\x9e\x80",
                                      "\xed\xa0\x80",
                                      "\xc3",
                                      "</b>",
                                      "%s",
                                      "{",
                                      "}",
                                      "[i]"};
  struct strbuf b = {0};
  for (int n = rnd_below(r, 5); n > 0; n--)
    sb_add(&b, parts[rnd_below(r, (int)(sizeof parts / sizeof *parts))]);
  char *s = sb_take(&b);
  ir_set(out, s);
  free(s);
}

static void random_expr(struct rnd *r, struct ir_expr *e, int depth) {
  static const char *const symbols[] = {"n", "m", "rank", "count[p]", "(int)k", "a - b", "s.len"};
  struct ir_expr a, b;
  if (depth == 0 || rnd_chance(r, 40)) {
    switch (rnd_below(r, 4)) {
    case 0:
      ir_expr_const(e, (int64_t)rnd_below(r, 2000) - 1000);
      break;
    case 1:
      ir_expr_opaque(e, rnd_chance(r, 50) ? "f(x) / 3" : "");
      break;
    default:
      ir_expr_symbol(e, symbols[rnd_below(r, 7)]);
      break;
    }
    return;
  }
  ir_expr_init(&a);
  ir_expr_init(&b);
  random_expr(r, &a, depth - 1);
  random_expr(r, &b, depth - 1);
  if (rnd_chance(r, 50))
    ir_expr_add(e, &a, &b, rnd_chance(r, 50) ? 1 : -1);
  else
    ir_expr_mul(e, &a, &b);
  ir_expr_free(&a);
  ir_expr_free(&b);
}

static int table_size(const struct ir_program *p, enum rec_table t) {
  const size_t n[TABLE_COUNT] = {[TABLE_FILES] = p->files.n,     [TABLE_FUNCTIONS] = p->functions.n,
                                 [TABLE_KERNELS] = p->kernels.n, [TABLE_BUFFERS] = p->buffers.n,
                                 [TABLE_COMMS] = p->comms.n,     [TABLE_STREAMS] = p->streams.n,
                                 [TABLE_EVENTS] = p->events.n,   [TABLE_CALLS] = p->calls.n,
                                 [TABLE_NODES] = p->nodes.n};
  return (int)n[t];
}

static const char *const structural[] = {"id",       "kind",     "parent",  "function",  "children",
                                         "alias_of", "origin",   "allocs",  "frees",     "aliases",
                                         "creates",  "destroys", "body",    "main_file", "call",
                                         "call_end", "event",    "operands"};

static bool is_structural(const struct rec_field *f) {
  if (f->type == REC_STR ||
      (f->type == REC_ENUM && strcmp(f->key, "kind") != 0 && strcmp(f->key, "origin") != 0))
    return false;
  for (size_t i = 0; i < sizeof structural / sizeof *structural; i++)
    if (strcmp(structural[i], f->key) == 0)
      return true;
  return false;
}

static void fill(struct rnd *r, const struct ir_program *p, const struct rec_record *rec,
                 void *base);

static void fill_list(struct rnd *r, const struct ir_program *p, const struct rec_field *f,
                      struct rec_vec *vec) {
  for (int n = rnd_below(r, 4); n > 0; n--) {
    if (f->type == REC_LIST) {
      void *e = vec_grow((void **)&vec->v, &vec->n, &vec->cap, f->sub->size);
      rec_init(f->sub, e);
      fill(r, p, f->sub, e);
    } else if (f->type == REC_STRS) {
      char **s = vec_grow((void **)&vec->v, &vec->n, &vec->cap, sizeof *s);
      *s = xstrdup("");
      random_string(r, s);
    } else if (table_size(p, f->table)) {
      ir_id *id = vec_grow((void **)&vec->v, &vec->n, &vec->cap, sizeof *id);
      *id = rnd_below(r, table_size(p, f->table));
    }
  }
}

static void fill_range(struct rnd *r, const struct ir_program *p, struct ir_range *x) {
  if (!p->files.n || rnd_chance(r, 20))
    return;
  x->file = rnd_below(r, (int)p->files.n);
  x->begin = rnd_next(r) >> 40;
  x->end = x->begin + (size_t)rnd_below(r, 100);
  x->line = 1 + (unsigned)rnd_below(r, 10000);
  x->col = 1 + (unsigned)rnd_below(r, 200);
}

static void fill(struct rnd *r, const struct ir_program *p, const struct rec_record *rec,
                 void *base) {
  if (rec == &rec_expr) {
    random_expr(r, base, 3);
    return;
  }
  if (rec == &rec_range) {
    fill_range(r, p, base);
    return;
  }
  for (const struct rec_field *f = rec->fields; f < rec->fields + rec->n; f++) {
    void *at = rec_at(base, f);
    if (!rec_present(rec, f, base) || (rec != &rec_operand && is_structural(f)))
      continue;
    switch (f->type) {
    case REC_STR:
      random_string(r, at);
      break;
    case REC_BOOL:
      *(bool *)at = rnd_chance(r, 50);
      break;
    case REC_INT:
      *(int *)at = rnd_below(r, 10) - 1;
      if (!(f->flags & REC_MINUS_ONE))
        *(int *)at = rnd_below(r, 30000);
      break;
    case REC_UINT:
      *(unsigned *)at = (unsigned)rnd_next(r);
      break;
    case REC_SIZE:
      *(size_t *)at = (size_t)(rnd_next(r) >> 1);
      break;
    case REC_I64:
      *(int64_t *)at = (int64_t)rnd_next(r);
      break;
    case REC_ID:
      *(ir_id *)at = rnd_below(r, table_size(p, f->table) + 1) - 1;
      break;
    case REC_ENUM:
      *(int *)at = f->values->v[rnd_below(r, (int)f->values->n)].value;
      break;
    case REC_RECORD:
      fill(r, p, f->sub, at);
      break;
    case REC_TRIPLE:
      for (size_t i = 0; i < 3; i++)
        fill(r, p, f->sub, (char *)at + i * f->sub->size);
      break;
    default:
      fill_list(r, p, f, at);
      break;
    }
  }
}

static void grow_tree(struct rnd *r, struct ir_program *p, ir_id seq, int depth) {
  for (int n = rnd_below(r, 6); n > 0; n--) {
    enum ir_node_kind kind = (enum ir_node_kind)(1 + rnd_below(r, 9));
    if (kind < IR_COMPUTE && depth == 0)
      kind = IR_COMPUTE;
    ir_id id = ir_add_node(p, kind, seq);
    int children = kind >= IR_COMPUTE ? 0 : kind == IR_BRANCH ? rnd_below(r, 4) : 1;
    while (children-- > 0)
      grow_tree(r, p, ir_add_node(p, IR_SEQ, id), depth - 1);
  }
}

/* Gives nodes what only some kinds have. */
static void fill_node(struct rnd *r, struct ir_program *p, struct ir_node *n) {
  fill(r, p, &rec_node, n);
  if (ir_node_is_leaf(n))
    for (int k = rnd_below(r, 3); k > 0; k--) {
      struct ir_operand *o =
          ir_add_operand(p, n->id, rnd_below(r, (int)p->buffers.n + 1) - 1, IR_READ);
      fill(r, p, &rec_operand, o);
    }
  if (n->kind == IR_SYNC && p->events.n)
    n->event = rnd_below(r, (int)p->events.n);
  for (size_t i = 0; i < p->calls.n; i++)
    if ((n->kind == IR_COLLECTIVE) == (p->calls.v[i].kind == IR_CALL_COLLECTIVE)) {
      n->call = (ir_id)i;
      n->call_end = n->kind == IR_GROUP ? (ir_id)i : -1;
      break;
    }
}

static void fill_buffer(struct rnd *r, struct ir_program *p, ir_id id) {
  struct ir_buffer *b = &p->buffers.v[id];
  b->origin = (enum ir_origin)rnd_below(r, IR_ORIGIN_ALIAS);
  if (id > 0 && rnd_chance(r, 30)) {
    b->origin = IR_ORIGIN_ALIAS;
    b->alias_of = rnd_below(r, id);
  }
  for (int k = rnd_below(r, 3); k > 0; k--) {
    ir_id other = rnd_below(r, (int)p->buffers.n);
    if (other != id)
      VEC_PUSH(&b->aliases) = other;
  }
  for (size_t i = 0; i < p->calls.n; i++) {
    if (p->calls.v[i].kind == IR_CALL_ALLOC && rnd_chance(r, 50))
      VEC_PUSH(&b->allocs) = (ir_id)i;
    if (p->calls.v[i].kind == IR_CALL_FREE && rnd_chance(r, 50))
      VEC_PUSH(&b->frees) = (ir_id)i;
  }
}

#define EACH_FILL(table, record) VEC_EACH(&p->table, e) fill(r, p, &record, e)

struct ir_program *random_ir(uint64_t seed) {
  struct rnd state = {seed}, *r = &state;
  struct ir_program *p = ir_new();
  for (int n = rnd_below(r, 4); n > 0; n--)
    ir_add_file(p, "f.cu", n == 1);
  for (int n = rnd_below(r, 4); n > 0; n--)
    ir_add_kernel(p, "k");
  for (int n = rnd_below(r, 6); n > 0; n--)
    ir_add_buffer(p, "b", "f");
  for (int n = rnd_below(r, 3); n > 0; n--)
    ir_add_comm(p, "c", "f");
  for (int n = rnd_below(r, 4); n > 0; n--)
    ir_add_stream(p, "s", "f");
  for (int n = rnd_below(r, 3); n > 0; n--)
    ir_add_event(p, "e", "f");
  for (int n = rnd_below(r, 9); n > 0; n--)
    ir_add_call(p, (enum ir_call_kind)rnd_below(r, IR_CALL_OTHER + 1), "call");
  for (int n = 1 + rnd_below(r, 3); n > 0; n--) {
    ir_id f = ir_add_function(p, "f");
    if (rnd_chance(r, 20))
      continue;
    ir_id body = ir_add_node(p, IR_SEQ, -1);
    ir_node(p, body)->function = f;
    p->functions.v[f].body = body;
    grow_tree(r, p, body, 3);
  }
  EACH_FILL(files, rec_file);
  EACH_FILL(functions, rec_function);
  EACH_FILL(kernels, rec_kernel);
  EACH_FILL(buffers, rec_buffer);
  EACH_FILL(comms, rec_comm);
  EACH_FILL(streams, rec_stream);
  EACH_FILL(events, rec_event);
  EACH_FILL(calls, rec_call);
  for (size_t i = 0; i < p->nodes.n; i++)
    fill_node(r, p, &p->nodes.v[i]);
  for (size_t i = 0; i < p->buffers.n; i++)
    fill_buffer(r, p, (ir_id)i);
  VEC_EACH(&p->comms, c)
  for (size_t i = 0; i < p->calls.n; i++)
    if (p->calls.v[i].kind == IR_CALL_COMM_CREATE)
      VEC_PUSH(&c->creates) = (ir_id)i;
  p->model = (enum ir_process_model)rnd_below(r, 4);
  p->nccl_version = rnd_below(r, 30000);
  p->translated = rnd_chance(r, 20);
  p->uses_ipc = rnd_chance(r, 20);
  if (rnd_chance(r, 70))
    ir_analyse(p);
  return p;
}
