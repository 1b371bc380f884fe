// SPDX-License-Identifier: Apache-2.0
/* Function bodies -> node trees. */
#include "frontend/internal.h"
#include "frontend/kernel_access.h"
#include "support/strbuf.h"
#include <ctype.h>
#include <string.h>

struct walker {
  struct fe *f;
  ir_id fn;
  ir_id cur; /* the sequence that leaves are added to */
  bool uniform, loop_spoiled;
  char *why;
  int loops, device_loops;
  bool capturing;
  bool optional; /* in a switch with labels inside its statements: each statement may be left out */
  int depth;
  VEC(fe_key) device_vars;
};

static void walk(struct walker *w, CXCursor c);
static bool pointer_like(CXType t);
static void assigned(struct walker *w, fe_key key, CXCursor target, CXType type, CXCursor value,
                     bool assign);

/* ---- callee and arguments
 * ------------------------------------------------------------------------ */

static char *overloaded_name(CXCursor c, CXCursor *decl, int depth) {
  if (clang_getCursorKind(c) == CXCursor_OverloadedDeclRef) {
    if (clang_getNumOverloadedDecls(c))
      *decl = clang_getOverloadedDecl(c, 0);
    return fe_spelling(c);
  }
  if (depth > 4 || clang_getCursorKind(c) == CXCursor_CallExpr)
    return NULL;
  fe_list kids = {0};
  fe_children(c, &kids);
  char *r = NULL;
  for (size_t i = 0; i < kids.n && !r; i++)
    r = overloaded_name(kids.v[i], decl, depth + 1);
  VEC_FREE(&kids);
  return r;
}

char *fe_callee(CXCursor call, CXCursor *decl) {
  *decl = clang_getCursorReferenced(call);
  if (!clang_Cursor_isNull(*decl)) {
    char *n = fe_spelling(*decl);
    if (clang_getCursorKind(*decl) == CXCursor_FunctionTemplate || *n)
      return n;
    free(n);
  }
  CXCursor first = fe_child(call, 0);
  char *r = clang_Cursor_isNull(first) ? NULL : overloaded_name(first, decl, 0);
  return r ? r : fe_spelling(call);
}

void fe_call_args(CXCursor call, fe_list *out) {
  int n = clang_Cursor_getNumArguments(call);
  for (int i = 0; i < n; i++)
    VEC_PUSH(out) = clang_Cursor_getArgument(call, (unsigned)i);
}

static bool launch_config(CXCursor call, CXCursor *config) {
  fe_list kids = {0};
  fe_children(call, &kids);
  bool r = false;
  for (size_t i = 1; i < kids.n && i < 3 && !r; i++)
    if (clang_getCursorKind(kids.v[i]) == CXCursor_CallExpr) {
      char *s = fe_spelling(kids.v[i]);
      r = !strcmp(s, "__cudaPushCallConfiguration");
      *config = kids.v[i];
      free(s);
    }
  VEC_FREE(&kids);
  return r;
}

/* ---- nodes
 * --------------------------------------------------------------------------------------- */

static ir_id add_node(struct walker *w, enum ir_node_kind kind, ir_id parent, CXCursor c,
                      const char *label) {
  struct ir_range r = fe_range(w->f, c);
  ir_id id = ir_add_node(w->f->p, kind, parent);
  struct ir_node *n = ir_node(w->f->p, id);
  n->function = w->fn;
  n->range = r;
  ir_set(&n->label, label);
  return id;
}

/* Takes back the last node of the program, an inner node without children. */
static void drop_last(struct walker *w) {
  struct ir_program *p = w->f->p;
  struct ir_node *n = &p->nodes.v[p->nodes.n - 1];
  if (n->parent >= 0)
    p->nodes.v[n->parent].children.n--;
  free(n->label);
  if (n->kind == IR_LOOP || n->kind == IR_BRANCH)
    free(n->u.control.condition);
  if (n->kind == IR_LOOP) {
    VEC_EACH(&n->u.control.varying, v) free(*v);
    VEC_FREE(&n->u.control.varying);
  }
  VEC_FREE(&n->children);
  p->nodes.n--;
}

/* ---- calls
 * --------------------------------------------------------------------------------------- */

/* Offset of the bracket after the callee's name at AT: skips the name, qualifiers, template
 * arguments. */
static size_t after_name(const struct fe_text *t, size_t at) {
  size_t i = at;
  while (i < t->n && (isalnum((unsigned char)t->s[i]) || t->s[i] == '_' || t->s[i] == ':'))
    i++;
  while (i < t->n && isspace((unsigned char)t->s[i]))
    i++;
  if (i < t->n && t->s[i] == '<' && (i + 2 >= t->n || strncmp(t->s + i, "<<<", 3))) {
    int depth = 0;
    for (; i < t->n; i++) {
      if (t->s[i] == '(')
        depth += 100;
      else if (t->s[i] == ')')
        depth -= 100;
      else if (t->s[i] == '<')
        depth++;
      else if (t->s[i] == '>' && --depth == 0) {
        i++;
        break;
      } else if (t->s[i] == ';')
        return at;
    }
    while (i < t->n && isspace((unsigned char)t->s[i]))
      i++;
  }
  return i;
}

static struct fe_text *text_at(struct walker *w, ir_id file) {
  VEC_EACH(&w->f->texts, t)
  if (t->id == file)
    return t;
  return NULL;
}

static void args_to_ir(struct walker *w, CXCursor c, fe_list *cursors, fe_args *split, void *dest) {
  VEC(struct ir_arg) *out = dest;
  size_t written = 0; /* default arguments have no place in the source */
  VEC_EACH(cursors, k) written += fe_range(w->f, *k).file >= 0;
  if (split->n >= written || !cursors->n) {
    VEC_EACH(split, a) VEC_PUSH(out) = *a;
    VEC_FREE(split);
    return;
  }
  fe_args_free(split);
  (void)c;
  VEC_EACH(cursors, k) {
    struct ir_arg a = {fe_cursor_text(w->f, *k), fe_range(w->f, *k)};
    VEC_PUSH(out) = a;
  }
}

/* Appends an ir_call, or returns -1 when a macro that evaluates its argument twice shows it again.
 */
static ir_id add_call(struct walker *w, enum ir_call_kind kind, CXCursor c, const char *name) {
  struct ir_program *p = w->f->p;
  CXCursor callee = fe_child(c, 0);
  CXSourceLocation l = clang_getCursorLocation(clang_Cursor_isNull(callee) ? c : callee);
  struct ir_range nr;
  enum ir_spelling spelled = fe_spelled(l);
  if (!fe_file_loc(w->f, l, &nr))
    return -1;
  if (spelled != IR_SPELLED_MACRO_BODY) {
    struct fe_text *t = text_at(w, nr.file);
    size_t i = nr.begin;
    while (t && i < t->n && (isalnum((unsigned char)t->s[i]) || t->s[i] == '_'))
      i++;
    nr.end = i;
    size_t n = strlen(name);
    if (!t || nr.end - nr.begin != n || memcmp(t->s + nr.begin, name, n))
      spelled = IR_SPELLED_MACRO_BODY; /* the name itself is a macro, or spelled unusually */
  }
  if (spelled == IR_SPELLED_MACRO_ARG)
    VEC_EACH(&p->calls, k)
  if (k->name.file == nr.file && k->name.begin == nr.begin && k->spelling == IR_SPELLED_MACRO_ARG)
    return -1;
  ir_id id = ir_add_call(p, kind, name);
  VEC_PUSH(&w->f->call_functions) = w->fn;
  struct ir_range whole = fe_range(w->f, c);
  fe_list cursors = {0};
  fe_call_args(c, &cursors);
  fe_args split = {0};
  if (spelled != IR_SPELLED_MACRO_BODY) {
    struct fe_text *t = text_at(w, nr.file);
    size_t end = fe_split_args(w->f, nr.file, after_name(t, nr.begin), "(", &split);
    if (end)
      whole = (struct ir_range){nr.file, nr.begin, end, nr.line, nr.col};
  }
  struct ir_call *k = &p->calls.v[id];
  args_to_ir(w, c, &cursors, &split, &k->args);
  k->name = nr;
  k->range = whole;
  k->spelling = spelled;
  k->in_main_file = nr.file >= 0 && p->files.v[nr.file].main_file;
  ir_set(&k->function, p->functions.v[w->fn].name);
  k->function_has_errors = p->functions.v[w->fn].has_errors;
  k->uniform = w->uniform && !w->loop_spoiled;
  if (!k->uniform)
    ir_set(&k->uniform_why, w->why ? w->why : "");
  k->in_loop = w->loops > 0;
  k->in_device_loop = w->device_loops > 0;
  k->captured = w->capturing;
  VEC_FREE(&cursors);
  return id;
}

static void spoil(struct walker *w, const char *why) {
  free(w->why);
  w->why = xasprintf("it depends on '%s', which may differ between ranks", why);
}

/* ---- operands
 * ------------------------------------------------------------------------------------ */

static void set_size(struct ir_operand *o, const struct ir_expr *size) {
  ir_expr_copy(&o->size, size);
  o->exact = ir_expr_known(&o->size) && ir_expr_known(&o->offset);
}

static void add_operand(struct walker *w, ir_id node, CXCursor arg, enum ir_mode mode,
                        const struct ir_expr *size, int position) {
  struct ir_expr offset;
  ir_expr_init(&offset);
  ir_id buffer = fe_buffer(w->f, arg, false, &offset);
  int64_t v;
  if (buffer < 0 &&
      (fe_const(arg, &v) || clang_getCursorKind(fe_strip(arg)) == CXCursor_CXXNullPtrLiteralExpr)) {
    ir_expr_free(&offset);
    return;
  }
  struct ir_operand *o = ir_add_operand(w->f->p, node, buffer, mode);
  char *text = fe_cursor_text(w->f, arg);
  ir_set(&o->text, text);
  o->arg = position;
  free(text);
  if (buffer >= 0 && size) {
    ir_expr_copy(&o->offset, &offset);
    set_size(o, size);
  }
  ir_expr_free(&offset);
}

struct record {
  struct walker *w;
  ir_id node;
};
static enum CXVisitorResult record_field(CXCursor field, CXClientData data) {
  struct record *r = data;
  if (clang_getCanonicalType(clang_getCursorType(field)).kind == CXType_Pointer) {
    ir_id b = fe_find(r->w->f, fe_decl_key(field), FE_BUFFER);
    if (b >= 0) {
      struct ir_operand *o = ir_add_operand(r->w->f->p, r->node, b, IR_READ_WRITE);
      ir_set(&o->text, r->w->f->p->buffers.v[b].name);
    }
  }
  return CXVisit_Continue;
}

static bool touches(const struct ir_access *a) { return a->kind != IR_ACCESS_NONE; }

/* The operand of LAUNCH for access A through argument number I. */
static void launch_operand(struct walker *w, ir_id node, const struct fe_launch *l, CXCursor arg,
                           size_t i, enum ir_mode mode, const struct ir_access *a) {
  size_t before = ir_node(w->f->p, node)->operands.n;
  struct ir_expr offset, size;
  ir_expr_init(&offset);
  ir_expr_init(&size);
  bool known = fe_launch_range(w->f, l, a, &offset, &size);
  add_operand(w, node, arg, mode, known ? &size : NULL, (int)i);
  struct ir_node *n = ir_node(w->f->p, node);
  if (known && n->operands.n > before) {
    struct ir_operand *o = &n->operands.v[before];
    if (o->buffer >= 0)
      ir_expr_add(&o->offset, &o->offset, &offset, 1);
    o->exact = false; /* at most these bytes */
  }
  ir_expr_free(&offset);
  ir_expr_free(&size);
}

static bool same_bytes(const struct ir_access *a, const struct ir_access *b) {
  int64_t d;
  return a->kind == IR_ACCESS_UNKNOWN || b->kind == IR_ACCESS_UNKNOWN ||
         (ir_expr_difference(&a->all_base, &b->all_base, &d) && d == 0 &&
          ir_expr_difference(&a->all_extent, &b->all_extent, &d) && d == 0);
}

static void kernel_operands(struct walker *w, ir_id node, ir_id kernel, fe_list *args,
                            CXCursor grid, CXCursor block) {
  struct ir_program *p = w->f->p;
  struct fe_launch l;
  fe_launch_init(w->f, kernel, args, grid, block, &l);
  for (size_t i = 0; i < args->n; i++) {
    CXType t = clang_getCanonicalType(clang_getCursorType(args->v[i]));
    if (t.kind == CXType_Record) {
      struct record r = {w, node};
      clang_Type_visitFields(t, record_field, &r);
      continue;
    }
    const struct ir_kernel *k = kernel >= 0 ? &p->kernels.v[kernel] : NULL;
    const struct ir_kernel_param *q = k && i < k->params.n ? &k->params.v[i] : NULL;
    char *tn = fe_type_name(t);
    bool pointer = q ? q->pointer : t.kind == CXType_Pointer || strchr(tn, '*');
    bool is_const = q ? strstr(q->type, "const ") == q->type : strstr(tn, "const ") == tn;
    free(tn);
    if (!pointer)
      continue;
    if (!q || k->opaque) {
      add_operand(w, node, args->v[i], is_const ? IR_READ : IR_READ_WRITE, NULL, (int)i);
      continue;
    }
    bool reads = touches(&q->read) || q->atomic, writes = touches(&q->write) || q->atomic;
    if (reads && writes && same_bytes(&q->read, &q->write)) {
      launch_operand(w, node, &l, args->v[i], i, IR_READ_WRITE,
                     q->read.kind == IR_ACCESS_UNKNOWN ? &q->read : &q->write);
      continue;
    }
    if (reads)
      launch_operand(w, node, &l, args->v[i], i, IR_READ, &q->read);
    if (writes)
      launch_operand(w, node, &l, args->v[i], i, IR_WRITE, &q->write);
  }
  fe_launch_free(&l);
}

/* ---- leaves
 * -------------------------------------------------------------------------------------- */

static void params_of(struct fe *f, CXCursor fn, ir_id kernel) {
  fe_list kids = {0};
  fe_children(fn, &kids);
  VEC_EACH(&kids, k) {
    if (clang_getCursorKind(*k) != CXCursor_ParmDecl)
      continue;
    CXType t = clang_getCanonicalType(clang_getCursorType(*k));
    struct ir_kernel_param q = {fe_spelling(*k), fe_type_name(t), false, false, {0}, {0}};
    q.pointer = t.kind == CXType_Pointer || strchr(q.type, '*') != NULL;
    struct ir_access *acc[] = {&q.read, &q.write};
    for (int i = 0; i < 2; i++) {
      acc[i]->kind = q.pointer ? IR_ACCESS_UNKNOWN : IR_ACCESS_NONE;
      for (int d = 0; d < 3; d++)
        ir_expr_init(&acc[i]->block_coef[d]);
      ir_expr_init(&acc[i]->base);
      ir_expr_init(&acc[i]->extent);
      ir_expr_init(&acc[i]->all_base);
      ir_expr_init(&acc[i]->all_extent);
    }
    if (q.pointer && !strncmp(q.type, "const ", 6))
      q.write.kind = IR_ACCESS_NONE;
    VEC_PUSH(&f->p->kernels.v[kernel].params) = q;
  }
  VEC_FREE(&kids);
}

ir_id fe_kernel(struct fe *f, CXCursor decl) {
  fe_key key = fe_decl_key(decl);
  ir_id id = fe_find(f, key, FE_KERNEL);
  if (id >= 0)
    return id;
  CXCursor tmpl = clang_getSpecializedCursorTemplate(decl);
  if (!clang_Cursor_isNull(tmpl))
    decl = tmpl;
  CXCursor def = clang_getCursorDefinition(decl);
  char *name = fe_spelling(decl);
  id = ir_add_kernel(f->p, name);
  free(name);
  fe_bind_symbol(f, key, FE_KERNEL, id);
  f->p->kernels.v[id].range.file = -1;
  CXCursor use = clang_Cursor_isNull(def) ? decl : def;
  f->p->kernels.v[id].is_template = clang_getCursorKind(use) == CXCursor_FunctionTemplate;
  params_of(f, use, id);
  if (clang_Cursor_isNull(def))
    f->p->kernels.v[id].opaque = true;
  else {
    struct ir_range r = fe_range(f, def);
    f->p->kernels.v[id].range = r;
    fe_kernel_access(def, f->p, id);
    fe_kernel_shape(f, def, id);
  }
  return id;
}

static void launch(struct walker *w, CXCursor c, CXCursor config) {
  struct fe *f = w->f;
  CXCursor decl;
  char *name = fe_callee(c, &decl);
  ir_id kernel = clang_Cursor_isNull(decl) ? -1 : fe_kernel(f, decl);
  fe_list args = {0}, conf = {0};
  fe_call_args(c, &args);
  fe_call_args(config, &conf);
  ir_id stream = fe_stream(f, conf.n > 3 ? conf.v[3] : clang_getNullCursor(), false);
  ir_id id = add_node(w, IR_COMPUTE, w->cur, c, name);
  struct ir_node *n = ir_node(f->p, id);
  n->stream = stream;
  n->async = true;
  n->u.compute.kind = IR_COMPUTE_LAUNCH;
  n->u.compute.kernel = kernel;
  struct ir_range at = n->range;
  enum ir_spelling spelled = fe_spelled(clang_getRangeStart(clang_getCursorExtent(c)));
  n->u.compute.launch.file = -1;
  fe_args split = {0}, cfg = {0};
  struct fe_text *t = at.file >= 0 ? text_at(w, at.file) : NULL;
  if (spelled != IR_SPELLED_MACRO_BODY && t) {
    size_t open = after_name(t, at.begin);
    size_t end = fe_split_args(f, at.file, open, "<<<", &cfg);
    if (end) {
      struct ir_range lr = fe_range(f, config);
      lr.begin = open;
      lr.end = end;
      n->u.compute.launch = lr;
      if (cfg.n > 0)
        ir_set(&n->u.compute.grid, cfg.v[0].text);
      if (cfg.n > 1)
        ir_set(&n->u.compute.block, cfg.v[1].text);
      if (cfg.n > 2)
        ir_set(&n->u.compute.shared, cfg.v[2].text);
      while (end < t->n && isspace((unsigned char)t->s[end]))
        end++;
      end = fe_split_args(f, at.file, end, "(", &split);
      if (end)
        n->range.end = end;
    }
  }
  fe_args_free(&cfg);
  args_to_ir(w, c, &args, &split, &n->u.compute.args);
  kernel_operands(w, id, kernel, &args, conf.n > 0 ? conf.v[0] : clang_getNullCursor(),
                  conf.n > 1 ? conf.v[1] : clang_getNullCursor());
  VEC_FREE(&args);
  VEC_FREE(&conf);
  free(name);
}

struct coll_args {
  int send, recv, count, type, op, root, comm, stream;
  int send_scale, recv_scale;
};
enum { NONE, ONE, NRANKS };
static const struct coll_args coll_table[] = {
#define COLL(id, nccl, entry, s, r, c, t, o, p, m, st, ss, rs) {s, r, c, t, o, p, m, st, ss, rs},
#include "collectives.def"
#undef COLL
};

static void nranks_of(struct walker *w, ir_id comm, struct ir_expr *out) {
  VEC_EACH(&w->f->sizes, s)
  if (s->comm == comm) {
    ir_expr_copy(out, &s->nranks);
    return;
  }
  char *s = xasprintf("nranks(%s)", comm >= 0 ? w->f->p->comms.v[comm].name : "?");
  ir_expr_free(out);
  ir_expr_symbol(out, s);
  free(s);
}

/* The name of an enumerator, or "". */
static char *enumerator(CXCursor c) {
  c = fe_strip(c);
  if (clang_getCursorKind(c) == CXCursor_DeclRefExpr) {
    CXCursor d = clang_getCursorReferenced(c);
    if (clang_getCursorKind(d) == CXCursor_EnumConstantDecl)
      return fe_spelling(d);
  }
  return xstrdup("");
}

/* Pointer arguments of NCCL calls by the form that NCCL calls in place. */
static bool same_place(struct walker *w, CXCursor a, CXCursor b) {
  char *x = fe_cursor_text(w->f, fe_strip(a)), *y = fe_cursor_text(w->f, fe_strip(b));
  bool r = *x && !strcmp(x, y) && !strchr(x, '(');
  free(x);
  free(y);
  return r;
}

static void collective(struct walker *w, CXCursor c, const char *name, int op) {
  struct fe *f = w->f;
  const struct coll_args *k = &coll_table[op];
  fe_list args = {0};
  fe_call_args(c, &args);
  int need = k->stream;
  ir_id call = (int)args.n > need ? add_call(w, IR_CALL_COLLECTIVE, c, name) : -1;
  if (call < 0) {
    VEC_FREE(&args);
    return;
  }
  ir_id comm = fe_comm(f, args.v[k->comm], false);
  ir_id stream = fe_stream(f, args.v[k->stream], false);
  f->p->calls.v[call].comm = comm;
  ir_id id = add_node(w, IR_COLLECTIVE, w->cur, c, name);
  struct ir_node *n = ir_node(f->p, id);
  n->range = f->p->calls.v[call].range;
  n->call = call;
  n->stream = stream;
  n->async = true;
  n->u.coll.op = (enum ir_collective)op;
  n->u.coll.comm = comm;
  ir_expr_free(&n->u.coll.count);
  ir_expr_init(&n->u.coll.count);
  fe_expr(f, args.v[k->count], &n->u.coll.count);
  const char *texts[3] = {"", "", ""};
  const int at[3] = {k->type, k->op, k->root};
  struct ir_call *ic = &f->p->calls.v[call];
  for (int i = 0; i < 3; i++)
    if (at[i] >= 0 && (size_t)at[i] < ic->args.n)
      texts[i] = ic->args.v[at[i]].text;
  char *type = enumerator(args.v[k->type]);
  n->u.coll.type_static = *type && fe_type_size(type) > 0;
  ir_set(&n->u.coll.type, n->u.coll.type_static ? type : texts[0]);
  if (k->op >= 0) {
    char *redop = enumerator(args.v[k->op]);
    n->u.coll.redop_static = *redop && strcmp(redop, "ncclNumOps") != 0;
    ir_set(&n->u.coll.redop, n->u.coll.redop_static ? redop : texts[1]);
    free(redop);
  }
  ir_set(&n->u.coll.root_or_peer, texts[2]);
  /* Sizes in bytes. */
  struct ir_expr elem, one, all, ranks;
  struct ir_expr *e[] = {&elem, &one, &all, &ranks};
  for (int i = 0; i < 4; i++)
    ir_expr_init(e[i]);
  if (fe_type_size(type))
    ir_expr_const(&elem, (int64_t)fe_type_size(type));
  else {
    char *s = xasprintf("sizeof(%s)", texts[0]);
    ir_expr_symbol(&elem, s);
    free(s);
  }
  free(type);
  ir_expr_mul(&one, &n->u.coll.count, &elem);
  nranks_of(w, comm, &ranks);
  ir_expr_mul(&all, &one, &ranks);
  bool bcast = op == IR_COLL_bcast;
  bool in_place = false;
  if (k->send >= 0 && k->recv >= 0) {
    in_place = bcast || same_place(w, args.v[k->send], args.v[k->recv]);
    if (!in_place && (op == IR_COLL_all_gather || op == IR_COLL_reduce_scatter)) {
      /* sendbuff == recvbuff + rank * count, or the other way round. */
      struct ir_expr oa, ob;
      ir_expr_init(&oa);
      ir_expr_init(&ob);
      ir_id a = fe_buffer(f, args.v[k->send], false, &oa);
      ir_id b = fe_buffer(f, args.v[k->recv], false, &ob);
      /* The offset between them must be one product: rank * bytes. */
      struct ir_expr d;
      ir_expr_init(&d);
      ir_expr_add(&d, &oa, &ob, -1);
      in_place = a >= 0 && a == b && d.affine && d.terms.n == 1 && !d.constant;
      ir_expr_free(&d);
      ir_expr_free(&oa);
      ir_expr_free(&ob);
    }
  }
  n = ir_node(f->p, id);
  n->u.coll.in_place = in_place;
  if (bcast)
    add_operand(w, id, args.v[0], IR_READ_WRITE, &one, 0);
  else {
    if (k->send >= 0)
      add_operand(w, id, args.v[k->send], IR_READ, k->send_scale == NRANKS ? &all : &one, k->send);
    if (k->recv >= 0)
      add_operand(w, id, args.v[k->recv], IR_WRITE, k->recv_scale == NRANKS ? &all : &one, k->recv);
  }
  for (int i = 0; i < 4; i++)
    ir_expr_free(e[i]);
  VEC_FREE(&args);
}

static CXCursor arg_at(const fe_list *args, int i) {
  return i >= 0 && (size_t)i < args->n ? args->v[i] : clang_getNullCursor();
}

static void host_leaf(struct walker *w, CXCursor c, const char *name, ir_id call) {
  ir_id id = add_node(w, IR_HOST, w->cur, c, name);
  ir_node(w->f->p, id)->call = call;
}

static void comm_call(struct walker *w, CXCursor c, const char *name, const struct fe_api *api,
                      const fe_list *args) {
  struct fe *f = w->f;
  bool create =
      api->cls == FE_COMM_CREATE || api->cls == FE_COMM_INIT_ALL || api->cls == FE_COMM_SPLIT;
  enum ir_call_kind kind = create                        ? IR_CALL_COMM_CREATE
                           : api->cls == FE_COMM_DESTROY ? IR_CALL_COMM_DESTROY
                                                         : IR_CALL_COMM_OTHER;
  ir_id call = add_call(w, kind, c, name);
  if (call < 0)
    return;
  CXCursor a = arg_at(args, api->a);
  ir_id comm = clang_Cursor_isNull(a) ? -1 : fe_comm(f, a, create);
  f->p->calls.v[call].comm = comm;
  if (comm >= 0) {
    struct ir_comm *m = &f->p->comms.v[comm];
    if (create) {
      VEC_PUSH(&m->creates) = call;
      m->origin = api->cls == FE_COMM_INIT_ALL ? IR_COMM_INIT_ALL
                  : api->cls == FE_COMM_SPLIT  ? IR_COMM_SPLIT
                  : api->c >= 0                ? IR_COMM_CONFIG
                                               : IR_COMM_INIT_RANK;
      if (api->cls == FE_COMM_INIT_ALL)
        m->per_device = f->has_init_all = true;
      if (w->device_loops && api->cls == FE_COMM_CREATE)
        f->init_in_device_loop = true;
    } else if (kind == IR_CALL_COMM_DESTROY)
      VEC_PUSH(&m->destroys) = call;
  }
  if (create && comm >= 0 && api->b >= 0 && (size_t)api->b < args->n) {
    struct fe_size s = {.comm = comm};
    ir_expr_init(&s.nranks);
    fe_expr(f, args->v[api->b], &s.nranks);
    VEC_PUSH(&f->sizes) = s;
  }
  host_leaf(w, c, name, call);
}

static void memory_call(struct walker *w, CXCursor c, const char *name, const struct fe_api *api,
                        const fe_list *args) {
  struct fe *f = w->f;
  bool alloc = api->cls == FE_ALLOC;
  ir_id call = add_call(w, alloc ? IR_CALL_ALLOC : IR_CALL_FREE, c, name);
  if (call < 0 || !args->n)
    return;
  ir_id buffer = fe_buffer(f, args->v[api->a], alloc, NULL);
  f->p->calls.v[call].buffer = buffer;
  if (buffer >= 0) {
    struct ir_buffer *b = &f->p->buffers.v[buffer];
    if (alloc) {
      enum ir_origin origin = (enum ir_origin)api->c;
      struct ir_expr size;
      ir_expr_init(&size);
      if (api->b >= 0 && (size_t)api->b < args->n)
        fe_expr(f, args->v[api->b], &size);
      b = &f->p->buffers.v[buffer];
      if (!b->allocs.n) {
        b->origin = origin;
        ir_expr_copy(&b->size, &size);
      } else {
        if (b->origin != origin)
          b->origin = IR_ORIGIN_OTHER;
        if (strcmp(b->size.text, size.text)) {
          ir_expr_free(&b->size);
          ir_expr_init(&b->size);
        }
      }
      ir_expr_free(&size);
      VEC_PUSH(&b->allocs) = call;
    } else
      VEC_PUSH(&b->frees) = call;
  }
  host_leaf(w, c, name, call);
}

static enum ir_copy_kind copy_kind(CXCursor c, const char *name) {
  char *e = clang_Cursor_isNull(c) ? xstrdup("") : enumerator(c);
  enum ir_copy_kind k = strstr(name, "Peer")          ? IR_COPY_PEER
                        : strstr(e, "HostToDevice")   ? IR_COPY_H2D
                        : strstr(e, "DeviceToHost")   ? IR_COPY_D2H
                        : strstr(e, "DeviceToDevice") ? IR_COPY_D2D
                                                      : IR_COPY_DEFAULT;
  free(e);
  return k;
}

static void copy(struct walker *w, CXCursor c, const char *name, const struct fe_api *api,
                 const fe_list *args) {
  struct fe *f = w->f;
  static const char *const labels[] = {"copy to device",       "copy to host", "copy on device",
                                       "copy between devices", "copy",         "memset"};
  enum ir_copy_kind kind =
      api->cls == FE_MEMSET ? IR_COPY_MEMSET : copy_kind(arg_at(args, api->d), name);
  ir_id stream = fe_stream(f, arg_at(args, api->stream), false);
  ir_id id = add_node(w, IR_COPY, w->cur, c, labels[kind]);
  struct ir_node *n = ir_node(f->p, id);
  n->stream = stream;
  n->async = api->stream >= 0 || kind == IR_COPY_MEMSET || kind == IR_COPY_D2D;
  n->u.copy.kind = kind;
  struct ir_expr size;
  ir_expr_init(&size);
  CXCursor s = arg_at(args, api->c);
  if (!clang_Cursor_isNull(s))
    fe_expr(f, s, &size);
  const struct ir_expr *known = ir_expr_known(&size) ? &size : NULL;
  if (api->b >= 0 && (size_t)api->b < args->n)
    add_operand(w, id, args->v[api->b], IR_READ, known, api->b);
  if (args->n)
    add_operand(w, id, args->v[0], IR_WRITE, known, 0);
  ir_expr_free(&size);
}

static void sync_leaf(struct walker *w, CXCursor c, const char *name, enum ir_sync_kind kind,
                      ir_id stream, ir_id event) {
  ir_id id = add_node(w, IR_SYNC, w->cur, c, name);
  struct ir_node *n = ir_node(w->f->p, id);
  n->stream = stream;
  n->event = event;
  n->async = kind == IR_SYNC_EVENT_RECORD || kind == IR_SYNC_EVENT_WAIT;
  n->u.sync.kind = kind;
}

static fe_key handle_key(struct walker *w, CXCursor c) {
  struct fe_place pl;
  if (clang_Cursor_isNull(c) || !fe_place_of(w->f, c, false, &pl))
    return 0;
  fe_key k = pl.key;
  fe_place_free(&pl);
  return k;
}

static void cublas(struct walker *w, CXCursor c, const char *name, const struct fe_api *api,
                   const fe_list *args) {
  struct fe *f = w->f;
  ir_id stream = -1;
  if (!strcmp(name, "cublasLtMatmul"))
    stream = fe_stream(f, arg_at(args, api->stream), false);
  else {
    fe_key key = handle_key(w, arg_at(args, 0));
    for (size_t i = 0; i < f->blas_streams.n; i++)
      if (f->blas_streams.v[i].handle == key)
        stream = f->blas_streams.v[i].stream;
  }
  char *label = xstrdup(name), *v2 = strstr(label, "_v2");
  if (v2)
    *v2 = '\0';
  ir_id id = add_node(w, IR_COMPUTE, w->cur, c, label);
  free(label);
  struct ir_node *n = ir_node(f->p, id);
  n->stream = stream;
  n->async = true;
  n->u.compute.kind = IR_COMPUTE_CUBLAS;
  n->u.compute.kernel = -1;
  n->u.compute.launch.file = -1;
  VEC_EACH(args, a) {
    struct ir_arg x = {fe_cursor_text(f, *a), fe_range(f, *a)};
    VEC_PUSH(&ir_node(f->p, id)->u.compute.args) = x;
  }
  const int reads[] = {api->a, api->b, api->d};
  for (int i = 0; i < 3; i++)
    if (reads[i] >= 0 && (size_t)reads[i] < args->n)
      add_operand(w, id, args->v[reads[i]], IR_READ, NULL, reads[i]);
  if (api->c >= 0 && (size_t)api->c < args->n)
    add_operand(w, id, args->v[api->c], IR_READ_WRITE, NULL, api->c);
}

/* cudaLaunchKernel(kernel, grid, block, args, shared, stream): args is an array of addresses. */
static void launch_api(struct walker *w, CXCursor c, const char *name, const fe_list *args) {
  struct fe *f = w->f;
  CXCursor k = args->n ? fe_strip(args->v[0]) : clang_getNullCursor();
  if (clang_getCursorKind(k) == CXCursor_UnaryOperator)
    k = fe_strip(fe_child(k, 0));
  CXCursor decl = clang_Cursor_isNull(k) ? k : clang_getCursorReferenced(k);
  enum CXCursorKind dk = clang_getCursorKind(decl);
  ir_id kernel =
      dk == CXCursor_FunctionDecl || dk == CXCursor_FunctionTemplate ? fe_kernel(f, decl) : -1;
  ir_id stream = fe_stream(f, arg_at(args, 5), false);
  char *label = kernel >= 0 ? xstrdup(f->p->kernels.v[kernel].name) : xstrdup(name);
  ir_id id = add_node(w, IR_COMPUTE, w->cur, c, label);
  free(label);
  struct ir_node *n = ir_node(f->p, id);
  n->stream = stream;
  n->async = true;
  n->u.compute.kind = IR_COMPUTE_LAUNCH;
  n->u.compute.kernel = kernel;
  n->u.compute.launch.file = -1;
  if (kernel >= 0)
    f->p->kernels.v[kernel].grid_sync |= strstr(name, "Cooperative") != NULL;
  CXCursor array = args->n > 3 ? fe_strip(args->v[3]) : clang_getNullCursor();
  if (clang_getCursorKind(array) != CXCursor_DeclRefExpr)
    return;
  fe_list kids = {0}, list = {0}, pointers = {0};
  fe_children(clang_getCursorReferenced(array), &kids);
  if (kids.n && clang_getCursorKind(kids.v[kids.n - 1]) == CXCursor_InitListExpr)
    fe_children(kids.v[kids.n - 1], &list);
  VEC_EACH(&list, l) {
    CXCursor a = fe_strip(*l);
    VEC_PUSH(&pointers) = clang_getCursorKind(a) == CXCursor_UnaryOperator ? fe_child(a, 0) : a;
  }
  kernel_operands(w, id, kernel, &pointers, arg_at(args, 1), arg_at(args, 2));
  VEC_FREE(&kids);
  VEC_FREE(&list);
  VEC_FREE(&pointers);
}

static void group_start(struct walker *w, CXCursor c, const char *name) {
  ir_id call = add_call(w, IR_CALL_GROUP_START, c, name);
  if (call < 0)
    return;
  ir_id g = add_node(w, IR_GROUP, w->cur, c, "group");
  ir_node(w->f->p, g)->call = call;
  w->cur = add_node(w, IR_SEQ, g, c, "");
}

static void group_end(struct walker *w, CXCursor c, const char *name) {
  struct ir_program *p = w->f->p;
  ir_id call = add_call(w, IR_CALL_GROUP_END, c, name);
  ir_id g = ir_node(p, w->cur)->parent;
  if (call < 0 || g < 0 || ir_node(p, g)->kind != IR_GROUP)
    return;
  struct ir_node *n = ir_node(p, g);
  n->call_end = call;
  if (p->calls.v[call].range.file == n->range.file && p->calls.v[call].range.end > n->range.end)
    n->range.end = ir_node(p, w->cur)->range.end = p->calls.v[call].range.end;
  w->cur = n->parent;
}

static void program_call(struct walker *w, CXCursor c, const char *name, ir_id callee) {
  struct fe *f = w->f;
  f->functions.v[callee].called = true;
  struct fe_edge e = {w->fn,
                      callee,
                      w->uniform && !w->loop_spoiled,
                      w->loops > 0,
                      w->device_loops > 0,
                      w->capturing,
                      xstrdup(w->why ? w->why : "")};
  VEC_PUSH(&f->edges) = e;
  if (!f->functions.v[callee].interesting)
    return;
  ir_id id = add_node(w, IR_CALL, w->cur, c, name);
  fe_list args = {0};
  fe_call_args(c, &args);
  struct ir_node *n = ir_node(f->p, id);
  n->u.callee.callee = callee;
  VEC_EACH(&args, a) {
    struct ir_arg x = {fe_cursor_text(f, *a), fe_range(f, *a)};
    VEC_PUSH(&ir_node(f->p, id)->u.callee.args) = x;
  }
  VEC_FREE(&args);
}

static void stream_create(struct walker *w, const char *name, const struct fe_api *api,
                          const fe_list *args) {
  (void)name;
  ir_id s = args->n ? fe_stream(w->f, args->v[0], true) : -1;
  if (s >= 0 && api->b >= 0 && (size_t)api->b < args->n) {
    char *t = fe_cursor_text(w->f, args->v[api->b]);
    int64_t v;
    if (strstr(t, "NonBlocking") || (fe_const(args->v[api->b], &v) && v == 1))
      w->f->p->streams.v[s].non_blocking = true;
    free(t);
  }
}

static void mark_threads(struct walker *w, const char *name, const fe_list *args) {
  bool thread = !strcmp(name, "pthread_create") || !strcmp(name, "thread") ||
                !strcmp(name, "emplace_back") || !strcmp(name, "async") || !strcmp(name, "jthread");
  VEC_EACH(args, a) {
    CXCursor s = fe_strip(*a);
    if (clang_getCursorKind(s) == CXCursor_UnaryOperator)
      s = fe_strip(fe_child(s, 0));
    if (clang_Cursor_isNull(s) || clang_getCursorKind(s) != CXCursor_DeclRefExpr)
      continue;
    CXCursor d = clang_getCursorReferenced(s);
    enum CXCursorKind k = clang_getCursorKind(d);
    if (k != CXCursor_FunctionDecl && k != CXCursor_FunctionTemplate)
      continue;
    ir_id fn = fe_function_of(w->f, d);
    if (fn < 0)
      continue;
    if (thread) {
      w->f->functions.v[fn].thread_entry = true;
      w->f->functions.v[fn].called = true;
      w->f->has_threads = true;
    } else if (!w->f->functions.v[fn].nonuniform) {
      w->f->functions.v[fn].nonuniform = true;
      w->f->functions.v[fn].why = xstrdup("the address of its function is taken");
    }
  }
}

static void call(struct walker *w, CXCursor c) {
  struct fe *f = w->f;
  CXCursor config, decl;
  fe_list kids = {0}, args = {0};
  if (launch_config(c, &config)) {
    launch(w, c, config);
    return;
  }
  char *name = fe_callee(c, &decl);
  fe_children(c, &kids);
  VEC_EACH(&kids, k) walk(w, *k); /* calls inside arguments come first */
  VEC_FREE(&kids);
  fe_call_args(c, &args);
  ir_id fn = clang_Cursor_isNull(decl) ? -1 : fe_function_of(f, decl);
  const struct fe_api *api = fn >= 0 ? NULL : fe_api_find(name);
  mark_threads(w, name, &args);
  if (fn >= 0)
    program_call(w, c, name, fn);
  else if (!api) {
    if (!strncmp(name, "swap", 5) && args.n == 2) {
      struct fe_assign e = {.a = args.v[0], .b = args.v[1], .assign = true, .both = true};
      VEC_PUSH(&f->pointer_assigns) = e;
    } else if ((!strcmp(name, "push_back") || !strcmp(name, "emplace_back")) && args.n == 1 &&
               pointer_like(clang_getCursorType(args.v[0]))) {
      CXCursor object = fe_child(fe_child(c, 0), 0); /* x of x.push_back */
      struct fe_assign e = {.a = object, .b = args.v[0], .assign = true, .a_elements = true};
      if (!clang_Cursor_isNull(object))
        VEC_PUSH(&f->pointer_assigns) = e;
    } else if (!strncmp(name, "cudaMemcpy", 10) || !strncmp(name, "cudaGraphLaunch", 15)) {
      ir_id id = add_node(w, IR_COMPUTE, w->cur, c, name); /* effects unknown */
      ir_node(f->p, id)->u.compute.kind = IR_COMPUTE_HOST_FUNC;
      ir_node(f->p, id)->u.compute.kernel = -1;
      ir_node(f->p, id)->u.compute.launch.file = -1;
    } else if (!strncmp(name, "MPI_", 4))
      f->has_mpi = true;
  } else
    switch (api->cls) {
    case FE_COLL:
      collective(w, c, name, api->a);
      break;
    case FE_GROUP_START:
      group_start(w, c, name);
      break;
    case FE_GROUP_END:
      group_end(w, c, name);
      break;
    case FE_COMM_CREATE:
    case FE_COMM_INIT_ALL:
    case FE_COMM_SPLIT:
    case FE_COMM_DESTROY:
    case FE_COMM_OTHER:
      comm_call(w, c, name, api, &args);
      break;
    case FE_ALLOC:
    case FE_FREE:
      memory_call(w, c, name, api, &args);
      break;
    case FE_COPY:
    case FE_MEMSET:
      copy(w, c, name, api, &args);
      break;
    case FE_SYNC_DEVICE:
      sync_leaf(w, c, name, IR_SYNC_DEVICE, -1, -1);
      break;
    case FE_SYNC_STREAM:
      sync_leaf(w, c, name, IR_SYNC_STREAM, fe_stream(f, arg_at(&args, 0), false), -1);
      break;
    case FE_QUERY:
      sync_leaf(w, c, name, IR_SYNC_QUERY,
                api->stream >= 0 ? fe_stream(f, arg_at(&args, 0), false) : -1,
                api->a >= 0 && args.n ? fe_event(f, args.v[0], false) : -1);
      break;
    case FE_EVENT_RECORD:
    case FE_EVENT_WAIT:
    case FE_EVENT_HOST:
      if (!args.n || (size_t)api->a >= args.n)
        break;
      sync_leaf(w, c, name,
                api->cls == FE_EVENT_RECORD ? IR_SYNC_EVENT_RECORD
                : api->cls == FE_EVENT_WAIT ? IR_SYNC_EVENT_WAIT
                                            : IR_SYNC_EVENT_HOST,
                api->stream >= 0 ? fe_stream(f, arg_at(&args, api->stream), false) : -1,
                fe_event(f, args.v[api->a], false));
      break;
    case FE_STREAM_CREATE:
      stream_create(w, name, api, &args);
      break;
    case FE_CAPTURE_BEGIN:
      w->capturing = true;
      break;
    case FE_CAPTURE_END:
      w->capturing = false;
      break;
    case FE_IPC:
      f->p->uses_ipc = true;
      break;
    case FE_CUBLAS:
      cublas(w, c, name, api, &args);
      break;
    case FE_CUBLAS_STREAM: {
      fe_key key = handle_key(w, arg_at(&args, 0));
      ir_id s = fe_stream(f, arg_at(&args, 1), false);
      VEC_PUSH(&f->blas_streams) = (struct fe_blas){key, s};
      break;
    }
    case FE_LAUNCH:
      launch_api(w, c, name, &args);
      break;
    case FE_HOST_FUNC: {
      ir_id s = fe_stream(f, arg_at(&args, 0), false);
      ir_id id = add_node(w, IR_COMPUTE, w->cur, c, name);
      struct ir_node *n = ir_node(f->p, id);
      n->stream = s;
      n->async = true;
      n->u.compute.kind = IR_COMPUTE_HOST_FUNC;
      n->u.compute.kernel = -1;
      n->u.compute.launch.file = -1;
      break;
    }
    case FE_MPI_SYNC:
      sync_leaf(w, c, name, IR_SYNC_MPI, -1, -1);
      f->has_mpi = true;
      break;
    case FE_MPI:
      f->has_mpi = true;
      break;
    case FE_RANK:
      f->has_mpi |= !strncmp(name, "MPI_", 4);
      break;
    case FE_THREAD_SYNC:
      sync_leaf(w, c, name, IR_SYNC_THREAD, -1, -1);
      break;
    default:
      break;
    }
  free(name);
  VEC_FREE(&args);
}

/* ---- statements
 * ---------------------------------------------------------------------------------- */

/* Is COND the check of a status that a call returned? */
static bool status_check(CXCursor cond) {
  char *t = fe_type_name(clang_getCursorType(fe_strip(cond)));
  bool r = strstr(t, "ncclResult_t") || strstr(t, "cudaError") || strstr(t, "cublasStatus_t") ||
           strstr(t, "CUresult");
  free(t);
  if (r)
    return true;
  fe_list kids = {0};
  fe_children(cond, &kids);
  for (size_t i = 0; i < kids.n && !r; i++)
    r = status_check(kids.v[i]);
  VEC_FREE(&kids);
  return r;
}

/* Statements around a point that break and continue refer to. */
enum { IN_SWITCH = 1, IN_LOOP = 2 };

/* Does C leave the enclosing loop (1) or the function or process (2)? AROUND: what is between C and
 * that loop. Ways out after a failure, which end the whole program, do not count. */
static int leaves(CXCursor c, int around) {
  int r = 0;
  switch (clang_getCursorKind(c)) {
  case CXCursor_BreakStmt:
    return around ? 0 : 1;
  case CXCursor_ContinueStmt:
    return around & IN_LOOP ? 0 : 1;
  case CXCursor_ReturnStmt:
  case CXCursor_GotoStmt:
  case CXCursor_CXXThrowExpr:
    return 2;
  case CXCursor_LambdaExpr:
    return 0;
  case CXCursor_CallExpr: {
    CXCursor d;
    char *n = fe_callee(c, &d);
    if (!strcmp(n, "exit") || !strcmp(n, "_exit")) {
      fe_list args = {0};
      int64_t code;
      fe_call_args(c, &args);
      r = args.n && fe_const(args.v[0], &code) && code ? 0 : 2;
      VEC_FREE(&args);
    }
    free(n);
    break;
  }
  case CXCursor_IfStmt: {
    CXCursor cond = fe_child(c, 0);
    if (fe_spelled(clang_getCursorLocation(c)) == IR_SPELLED_MACRO_BODY ||
        (clang_isExpression(clang_getCursorKind(cond)) && status_check(cond)))
      return 0;
    break;
  }
  case CXCursor_ForStmt:
  case CXCursor_WhileStmt:
  case CXCursor_DoStmt:
  case CXCursor_CXXForRangeStmt:
    around |= IN_LOOP;
    break;
  case CXCursor_SwitchStmt:
    around |= IN_SWITCH;
    break;
  default:
    break;
  }
  fe_list kids = {0};
  fe_children(c, &kids);
  VEC_EACH(&kids, k) r |= leaves(*k, around);
  VEC_FREE(&kids);
  return r;
}

/* Walks statements into a new sequence under PARENT; returns whether it holds anything. */
static bool sequence(struct walker *w, ir_id parent, const CXCursor *c, size_t n) {
  ir_id saved = w->cur;
  w->cur = add_node(w, IR_SEQ, parent, c[0], "");
  ir_id seq = w->cur;
  struct ir_range last = fe_range(w->f, c[n - 1]);
  struct ir_range *r = &ir_node(w->f->p, seq)->range;
  if (last.file == r->file && last.end > r->end)
    r->end = last.end;
  for (size_t i = 0; i < n; i++)
    walk(w, c[i]);
  w->cur = saved;
  return w->f->p->nodes.v[seq].children.n > 0;
}

static bool body_of(struct walker *w, ir_id parent, CXCursor body) {
  return sequence(w, parent, &body, 1);
}

static const char *depends(struct walker *w, CXCursor cond) {
  if (clang_Cursor_isNull(cond))
    return NULL;
  const char *why = fe_rank_dependent(w->f, cond);
  for (size_t i = 0; i < w->device_vars.n && !why; i++)
    if (fe_mentions(cond, w->device_vars.v[i]))
      why = "the device's index";
  return why;
}

/* Statements that are executed together. */
struct part {
  const CXCursor *c;
  size_t n;
  bool falls_in; /* from the part before: both may be executed, or either */
};

/* Takes back what was added from node ID on, when nothing but N empty nodes was. */
static bool drop_empty(struct walker *w, ir_id id, size_t n) {
  if (w->f->p->nodes.n != (size_t)id + n)
    return false;
  while (n--)
    drop_last(w);
  return true;
}

/* Statements that may be left out: a branch of one arm. */
static bool optional(struct walker *w, const CXCursor *c, size_t n) {
  ir_id id = add_node(w, IR_BRANCH, w->cur, c[0], "part");
  bool any = sequence(w, id, c, n);
  return any || !drop_empty(w, id, 2);
}

/* One arm, of parts that are entered at any of them and go on to the next. */
static bool arm(struct walker *w, ir_id parent, const struct part *parts, size_t n) {
  if (n == 1)
    return sequence(w, parent, parts->c, parts->n);
  ir_id saved = w->cur;
  w->cur = add_node(w, IR_SEQ, parent, parts->c[0], "");
  bool any = false;
  for (size_t i = 0; i < n; i++)
    any |= optional(w, parts[i].c, parts[i].n);
  w->cur = saved;
  return any;
}

/* C executes one of the arms that PARTS make up, or none. AROUND: see leaves(). */
static void branch(struct walker *w, CXCursor c, CXCursor cond, const struct part *parts, size_t n,
                   const char *label, int around) {
  struct ir_program *p = w->f->p;
  if (!clang_Cursor_isNull(cond))
    walk(w, cond);
  const char *why = depends(w, cond);
  ir_id id = add_node(w, IR_BRANCH, w->cur, c, label);
  char *text = clang_Cursor_isNull(cond) ? xstrdup("") : fe_cursor_text(w->f, cond);
  ir_set(&ir_node(p, id)->u.control.condition, text);
  ir_node(p, id)->u.control.rank_dependent = why != NULL;
  free(text);
  bool uniform = w->uniform, any = false, spoiled = w->loop_spoiled;
  char *saved_why = w->why ? xstrdup(w->why) : NULL;
  if (why && uniform && !spoiled)
    spoil(w, why);
  w->uniform = uniform && !why;
  int out = 0;
  size_t arms = 0;
  for (size_t i = 0, next; i < n; i = next, arms++) {
    for (next = i + 1; next < n && parts[next].falls_in;)
      next++;
    any |= arm(w, id, parts + i, next - i);
  }
  for (size_t i = 0; why && i < n; i++)
    for (size_t k = 0; k < parts[i].n; k++)
      out |= leaves(parts[i].c[k], around);
  if (!any)
    drop_empty(w, id, 1 + arms);
  w->uniform = uniform && !(out & 2);
  w->loop_spoiled = spoiled || w->loop_spoiled || (out & 1);
  if (w->uniform && !w->loop_spoiled) {
    free(w->why);
    w->why = saved_why;
  } else
    free(saved_why);
}

/* The index variable of a counting loop: its initialiser declares or assigns one variable. */
static fe_key loop_variable(CXCursor c) {
  CXCursor first = fe_child(c, 0), v = clang_getNullCursor();
  if (clang_getCursorKind(first) == CXCursor_DeclStmt)
    v = fe_child(first, 0);
  else if (clang_getCursorKind(first) == CXCursor_VarDecl)
    v = first;
  else if (clang_getCursorKind(first) == CXCursor_BinaryOperator) {
    CXCursor l = fe_strip(fe_child(first, 0));
    if (clang_getCursorKind(l) == CXCursor_DeclRefExpr)
      v = clang_getCursorReferenced(l);
  }
  return clang_Cursor_isNull(v) ? 0 : fe_decl_key(v);
}

static void loop_role(CXCursor c, fe_key var, bool *devices, bool *peers) {
  if (clang_getCursorKind(c) == CXCursor_CallExpr) {
    CXCursor d;
    char *name = fe_callee(c, &d);
    const struct fe_api *api = fe_api_find(name);
    free(name);
    fe_list args = {0};
    fe_call_args(c, &args);
    int comm = -1, peer = -1;
    if (api && api->cls == FE_SET_DEVICE && args.n && fe_mentions(args.v[0], var))
      *devices = true;
    if (api && api->cls == FE_COLL) {
      comm = coll_table[api->a].comm;
      if (api->a == IR_COLL_send || api->a == IR_COLL_recv)
        peer = coll_table[api->a].root;
    } else if (api && (api->cls == FE_COMM_CREATE || api->cls == FE_COMM_DESTROY ||
                       api->cls == FE_COMM_SPLIT))
      comm = api->a;
    bool by_comm = comm >= 0 && (size_t)comm < args.n && fe_mentions(args.v[comm], var);
    if (by_comm)
      *devices = true;
    else if (peer >= 0 && (size_t)peer < args.n && fe_mentions(args.v[peer], var))
      *peers = true;
    VEC_FREE(&args);
  }
  fe_list kids = {0};
  fe_children(c, &kids);
  VEC_EACH(&kids, k) loop_role(*k, var, devices, peers);
  VEC_FREE(&kids);
}

/* The text between "(" after the keyword and the body. */
static char *loop_head(struct walker *w, CXCursor c, CXCursor body) {
  struct ir_range r = fe_range(w->f, c), b = fe_range(w->f, body);
  struct fe_text *t = r.file >= 0 ? text_at(w, r.file) : NULL;
  if (!t || b.file != r.file || b.begin <= r.begin || b.begin > t->n)
    return xstrdup("");
  const char *open = memchr(t->s + r.begin, '(', b.begin - r.begin);
  if (!open)
    return xstrdup("");
  size_t a = (size_t)(open - t->s) + 1, e = b.begin;
  while (e > a && t->s[e - 1] != ')')
    e--;
  return fe_slice(w->f, r.file, a, e > a ? e - 1 : b.begin);
}

static bool find_init_list(CXCursor c, CXCursor *out, int depth) {
  if (clang_getCursorKind(c) == CXCursor_InitListExpr) {
    *out = c;
    return true;
  }
  fe_list kids = {0};
  bool r = false;
  if (depth < 4)
    fe_children(c, &kids);
  for (size_t i = 0; i < kids.n && !r; i++)
    r = find_init_list(kids.v[i], out, depth + 1);
  VEC_FREE(&kids);
  return r;
}

/* for (T *p : range): P is an element of RANGE. */
static void range_elements(struct walker *w, fe_list *kids) {
  CXCursor var = clang_getNullCursor(), range = clang_getNullCursor();
  VEC_EACH(kids, k) {
    CXCursor v = clang_getCursorKind(*k) == CXCursor_DeclStmt ? fe_child(*k, 0) : *k;
    if (clang_getCursorKind(v) == CXCursor_VarDecl && clang_Cursor_isNull(var))
      var = v;
    else if (clang_isExpression(clang_getCursorKind(*k)) && clang_Cursor_isNull(range) &&
             clang_getCursorKind(fe_strip(*k)) != CXCursor_UnaryOperator)
      range = *k;
  }
  if (clang_Cursor_isNull(var) || clang_Cursor_isNull(range))
    return;
  CXCursor list;
  if (find_init_list(range, &list, 0)) {
    fe_list items = {0};
    fe_children(list, &items);
    VEC_EACH(&items, i) { assigned(w, fe_decl_key(var), var, clang_getCursorType(var), *i, true); }
    VEC_FREE(&items);
    return;
  }
  struct fe_assign e = {.a = var, .b = range, .b_elements = true};
  VEC_PUSH(&w->f->pointer_assigns) = e;
}

static void loop(struct walker *w, CXCursor c, fe_list *kids) {
  struct ir_program *p = w->f->p;
  enum CXCursorKind kind = clang_getCursorKind(c);
  CXCursor body = kind == CXCursor_DoStmt ? kids->v[0] : kids->v[kids->n - 1];
  int64_t v;
  if (kind == CXCursor_DoStmt && kids->n == 2 && fe_const(kids->v[1], &v) && !v) {
    walk(w, body); /* do { ... } while (0): not a loop */
    return;
  }
  fe_key var = kind == CXCursor_ForStmt || kind == CXCursor_CXXForRangeStmt ? loop_variable(c) : 0;
  bool devices = false, peers = false;
  if (var)
    loop_role(body, var, &devices, &peers);
  const char *why = NULL;
  for (size_t i = 0; i < kids->n; i++) {
    if (clang_equalCursors(kids->v[i], body))
      continue;
    walk(w, kids->v[i]);
    if (!why && clang_isExpression(clang_getCursorKind(kids->v[i])))
      why = depends(w, kids->v[i]);
    else if (!why && clang_getCursorKind(kids->v[i]) == CXCursor_DeclStmt)
      why = depends(w, kids->v[i]);
  }
  if (kind == CXCursor_CXXForRangeStmt)
    range_elements(w, kids);
  ir_id id = add_node(w, IR_LOOP, w->cur, c, devices ? "for each device" : "loop");
  char *head = loop_head(w, c, body);
  struct ir_node *n = ir_node(p, id);
  ir_set(&n->u.control.condition, head);
  free(head);
  n->u.control.over_devices = devices;
  n->u.control.over_peers = peers && !devices;
  n->u.control.rank_dependent = why != NULL;
  fe_varying(w->f, c, id);
  bool uniform = w->uniform, spoiled = w->loop_spoiled;
  char *saved_why = w->why ? xstrdup(w->why) : NULL;
  if (why && uniform && !spoiled)
    spoil(w, why);
  w->uniform = uniform && !why;
  if (devices) {
    w->device_loops++;
    VEC_PUSH(&w->device_vars) = var;
  } else
    w->loops++;
  /* A rank-dependent exit at the end of the body spoils its beginning in the next iteration. */
  bool any = body_of(w, id, body);
  if (devices) {
    w->device_loops--;
    w->device_vars.n--;
  } else
    w->loops--;
  if (!any && p->nodes.n == (size_t)id + 2) {
    drop_last(w);
    drop_last(w);
  }
  bool returned = !w->uniform && !why && uniform;
  w->uniform = uniform && !returned;
  w->loop_spoiled = spoiled;
  if (w->uniform && !w->loop_spoiled) {
    free(w->why);
    w->why = saved_why;
  } else
    free(saved_why);
}

static bool is_label(CXCursor c) {
  return clang_getCursorKind(c) == CXCursor_CaseStmt ||
         clang_getCursorKind(c) == CXCursor_DefaultStmt;
}

/* Is a case label of the switch around C inside C, below its own labels? */
static bool label_inside(CXCursor c, bool top) {
  if (clang_getCursorKind(c) == CXCursor_SwitchStmt ||
      clang_getCursorKind(c) == CXCursor_LambdaExpr)
    return false;
  if (is_label(c) && !top)
    return true;
  fe_list kids = {0};
  bool r = false;
  fe_children(c, &kids);
  for (size_t i = 0; i < kids.n && !r; i++)
    r = label_inside(kids.v[i], top && is_label(c) && i + 1 == kids.n);
  VEC_FREE(&kids);
  return r;
}

/* Is the statement after C not reached from C? */
static bool ends(CXCursor c) {
  switch (clang_getCursorKind(c)) {
  case CXCursor_BreakStmt:
  case CXCursor_ContinueStmt:
  case CXCursor_ReturnStmt:
  case CXCursor_GotoStmt:
    return true;
  case CXCursor_CaseStmt:
  case CXCursor_DefaultStmt:
  case CXCursor_CompoundStmt: {
    fe_list kids = {0};
    fe_children(c, &kids);
    bool r = kids.n && ends(kids.v[kids.n - 1]);
    VEC_FREE(&kids);
    return r;
  }
  default:
    return false;
  }
}

static void switch_stmt(struct walker *w, CXCursor c, fe_list *kids) {
  CXCursor cond = kids->n > 1 ? kids->v[kids->n - 2] : clang_getNullCursor();
  CXCursor body = kids->v[kids->n - 1];
  for (size_t i = 0; i + 2 < kids->n; i++)
    walk(w, kids->v[i]);
  fe_list list = {0};
  VEC(struct part) parts = {0};
  if (clang_getCursorKind(body) == CXCursor_CompoundStmt)
    fe_children(body, &list);
  bool labels = false, ended = true;
  VEC_EACH(&list, s) labels = labels || label_inside(*s, true);
  VEC_EACH(&list, s) {
    if (is_label(*s) || !parts.n)
      VEC_PUSH(&parts) = (struct part){s, 0, !ended};
    struct part *last = &parts.v[parts.n - 1];
    last->n++;
    bool target = clang_getCursorKind(*s) == CXCursor_LabelStmt;
    ended = (ended && last->n > 1 && !target) || ends(*s);
  }
  struct part whole = {&body, 1, false};
  bool saved = w->optional;
  w->optional = labels;
  if (labels || !parts.n) /* labels in odd places: any statement may be left out */
    branch(w, c, cond, &whole, 1, "switch", IN_SWITCH);
  else
    branch(w, c, cond, parts.v, parts.n, "switch", IN_SWITCH);
  w->optional = saved;
  VEC_FREE(&parts);
  VEC_FREE(&list);
}

static bool pointer_like(CXType t) { return clang_getCanonicalType(t).kind == CXType_Pointer; }

static bool type_has(CXType t, const char *what) {
  char *s = fe_type_name(clang_getCanonicalType(t));
  bool r = strstr(s, what) != NULL;
  free(s);
  return r;
}

/* Is C made of the hidden iterator of a range-based loop? */
static bool reads_iterator(CXCursor c) {
  if (clang_getCursorKind(c) == CXCursor_DeclRefExpr) {
    char *n = fe_spelling(c);
    bool r = !strncmp(n, "__begin", 7);
    free(n);
    return r;
  }
  fe_list kids = {0};
  bool r = false;
  fe_children(c, &kids);
  for (size_t i = 0; i < kids.n && !r; i++)
    r = reads_iterator(kids.v[i]);
  VEC_FREE(&kids);
  return r;
}

/* TARGET (a declaration reference or an lvalue) = VALUE. */
static void assigned(struct walker *w, fe_key key, CXCursor target, CXType type, CXCursor value,
                     bool assign) {
  struct fe *f = w->f;
  if (!pointer_like(type))
    return;
  CXCursor v = fe_strip(value);
  if (type_has(type, "ncclComm ") || type_has(type, "CUstream_st ")) {
    enum fe_sort sort = type_has(type, "ncclComm ") ? FE_COMM : FE_STREAM;
    if (key && fe_find(f, key, sort) < 0) {
      ir_id id = sort == FE_COMM ? fe_comm(f, value, false) : -1;
      int64_t zero;
      if (sort == FE_STREAM && !fe_const(v, &zero) &&
          clang_getCursorKind(v) != CXCursor_CXXNullPtrLiteralExpr)
        id = fe_stream(f, value, false);
      if (id >= 0)
        fe_bind_symbol(f, key, sort, id);
    }
    return;
  }
  int64_t null;
  if (clang_getCursorKind(v) == CXCursor_CXXNullPtrLiteralExpr ||
      clang_getCursorKind(v) == CXCursor_GNUNullExpr || fe_const(v, &null))
    return;
  if (reads_iterator(value))
    return;
  bool host = clang_getCursorKind(v) == CXCursor_CXXNewExpr;
  if (clang_getCursorKind(v) == CXCursor_CallExpr) {
    CXCursor d;
    char *name = fe_callee(v, &d);
    host = !strcmp(name, "malloc") || !strcmp(name, "calloc") || !strcmp(name, "aligned_alloc");
    free(name);
  }
  if (host) {
    if (key)
      VEC_PUSH(&f->host_keys) = key;
    return;
  }
  /* T **p = &x: what is stored through p comes to x. */
  bool address = clang_getCursorKind(v) == CXCursor_UnaryOperator &&
                 clang_getCursorUnaryOperatorKind(v) == CXUnaryOperator_AddrOf &&
                 pointer_like(clang_getPointeeType(clang_getCanonicalType(type)));
  struct fe_assign e = {.a = target, .b = value, .assign = assign};
  if (address) {
    e.a_elements = e.both = true;
    e.assign = false;
  }
  VEC_PUSH(&f->pointer_assigns) = e;
}

static void assignment(struct walker *w, CXCursor c, fe_list *kids) {
  if (kids->n != 2 || clang_getCursorBinaryOperatorKind(c) != CXBinaryOperator_Assign)
    return;
  struct fe_place pl;
  fe_key key = 0;
  CXType t = clang_getCursorType(kids->v[0]);
  if (!pointer_like(t))
    return;
  if (fe_place_of(w->f, kids->v[0], false, &pl)) {
    key = pl.key;
    fe_place_free(&pl);
  }
  assigned(w, key, kids->v[0], t, kids->v[1], true);
}

static void lambda(struct walker *w, CXCursor c, fe_list *kids) {
  struct fe *f = w->f;
  ir_id id = fe_add_function(f, c);
  f->p->functions.v[id].is_lambda = true;
  f->p->functions.v[id].has_errors = f->p->functions.v[w->fn].has_errors;
  struct walker in = {.f = f, .fn = id, .uniform = true, .depth = w->depth};
  (void)kids;
  in.capturing = w->capturing;
  in.cur = add_node(&in, IR_SEQ, -1, c, "");
  ir_id root = in.cur;
  VEC_EACH(kids, k)
  if (clang_getCursorKind(*k) == CXCursor_CompoundStmt)
    walk(&in, *k);
  f->p->functions.v[id].body = root;
  if (!f->p->nodes.v[root].children.n && f->p->nodes.n == (size_t)root + 1) {
    drop_last(&in);
    f->p->functions.v[id].body = -1;
  }
  free(in.why);
  VEC_FREE(&in.device_vars);
}

static void walk(struct walker *w, CXCursor c) {
  enum CXCursorKind kind = clang_getCursorKind(c);
  if (w->depth > 400)
    return;
  if (kind == CXCursor_CallExpr) {
    w->depth++;
    call(w, c);
    w->depth--;
    return;
  }
  if (clang_isDeclaration(kind) && kind != CXCursor_VarDecl)
    return; /* local classes are walked as methods of their own */
  fe_list kids = {0};
  fe_children(c, &kids);
  w->depth++;
  switch (kind) {
  case CXCursor_IfStmt: {
    size_t i = 0;
    while (i < kids.n && !clang_isExpression(clang_getCursorKind(kids.v[i]))) {
      if (clang_isStatement(clang_getCursorKind(kids.v[i])) &&
          clang_getCursorKind(kids.v[i]) != CXCursor_DeclStmt)
        break;
      walk(w, kids.v[i++]);
    }
    CXCursor cond = i < kids.n && clang_isExpression(clang_getCursorKind(kids.v[i]))
                        ? kids.v[i++]
                        : clang_getNullCursor();
    struct part arms[2] = {{kids.v + i, 1, false}, {kids.v + i + 1, 1, false}};
    if (i < kids.n)
      branch(w, c, cond, arms, kids.n - i > 1 ? 2 : 1, "if", 0);
    break;
  }
  case CXCursor_CompoundStmt:
    VEC_EACH(&kids, k) if (w->optional) optional(w, k, 1);
    else walk(w, *k);
    break;
  case CXCursor_SwitchStmt:
    if (kids.n)
      switch_stmt(w, c, &kids);
    break;
  case CXCursor_ForStmt:
  case CXCursor_WhileStmt:
  case CXCursor_DoStmt:
  case CXCursor_CXXForRangeStmt:
    if (kids.n)
      loop(w, c, &kids);
    break;
  case CXCursor_LambdaExpr:
    lambda(w, c, &kids);
    break;
  case CXCursor_VarDecl:
    VEC_EACH(&kids, k) walk(w, *k);
    if (kids.n && clang_isExpression(clang_getCursorKind(kids.v[kids.n - 1])))
      assigned(w, fe_decl_key(c), c, clang_getCursorType(c), kids.v[kids.n - 1], false);
    break;
  case CXCursor_BinaryOperator:
    VEC_EACH(&kids, k) walk(w, *k);
    assignment(w, c, &kids);
    break;
  default:
    VEC_EACH(&kids, k) walk(w, *k);
    break;
  }
  w->depth--;
  VEC_FREE(&kids);
}

ir_id fe_add_function(struct fe *f, CXCursor c) {
  char *name = clang_getCursorKind(c) == CXCursor_LambdaExpr ? xstrdup("lambda") : fe_spelling(c);
  ir_id id = ir_add_function(f->p, name);
  struct ir_range r = fe_range(f, c);
  f->p->functions.v[id].range = r;
  f->p->functions.v[id].is_main = !strcmp(name, "main");
  f->p->functions.v[id].is_template = clang_getCursorKind(c) == CXCursor_FunctionTemplate;
  f->p->functions.v[id].body = -1;
  free(name);
  struct fe_function fn = {.key = fe_decl_key(c), .cursor = c, .begin = r.begin, .end = r.end};
  fn.called = clang_getCursorKind(c) == CXCursor_Destructor; /* by whoever holds the object */
  VEC_PUSH(&f->functions) = fn;
  return id;
}

void fe_walk_function(struct fe *f, ir_id function) {
  struct walker w = {.f = f, .fn = function, .uniform = true};
  CXCursor c = f->functions.v[function].cursor;
  fe_jumps(f, c, function);
  w.cur = add_node(&w, IR_SEQ, -1, c, "");
  ir_id root = w.cur;
  fe_list kids = {0};
  fe_children(c, &kids);
  for (size_t i = 0; i < kids.n; i++) {
    enum CXCursorKind k = clang_getCursorKind(kids.v[i]);
    if (clang_isStatement(k) || (clang_isExpression(k) && i))
      walk(&w, kids.v[i]);
    if (clang_isExpression(k) && i && clang_getCursorKind(kids.v[i - 1]) == CXCursor_MemberRef) {
      CXCursor field = clang_getCursorReferenced(kids.v[i - 1]); /* member(value) */
      assigned(&w, fe_decl_key(field), field, clang_getCursorType(field), kids.v[i], false);
    }
  }
  VEC_FREE(&kids);
  f->p->functions.v[function].body = root;
  if (!f->p->nodes.v[root].children.n && f->p->nodes.n == (size_t)root + 1) {
    drop_last(&w);
    f->p->functions.v[function].body = -1;
  }
  free(w.why);
  VEC_FREE(&w.device_vars);
}
