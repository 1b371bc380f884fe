// SPDX-License-Identifier: Apache-2.0
#include "agents/cost_leaf.h"
#include "support/strbuf.h"
#include <math.h>
#include <string.h>

enum { DEFAULT_BYTES = 1 << 20, DEFAULT_TRIPS = 4, HOST_LINK_GBPS = 50 };

void cost_scope(const struct cost_context *c, ir_id node) {
  const struct ir_node *n = &c->ir->nodes.v[node];
  const struct ir_range *r =
      n->function >= 0 ? &c->ir->functions.v[n->function].range : &n->range;
  c->names->scope_begin = r->begin;
  c->names->scope_end = r->end;
}

static double max(double a, double b) { return a > b ? a : b; }

/* ---- expressions of the IR ----------------------------------------------------------------------- */

static bool value_of(struct estimate *names, const struct ir_expr *e, double *out) {
  if (!ir_expr_known(e))
    return false;
  if (!e->affine)
    return estimate_eval(names, e->text, out);
  double x = (double)e->constant;
  VEC_EACH(&e->terms, t) {
    double y;
    if (!estimate_eval(names, t->symbol, &y))
      return false;
    x += (double)t->coef * y;
  }
  *out = x;
  return isfinite(x);
}

/* Launch dimensions from their source text: a number, a dim3 variable, or dim3(x, y, z). */
static void dimensions(struct estimate *names, const char *text, double out[3]) {
  out[0] = out[1] = out[2] = 1;
  const char *open = strncmp(text, "dim3", 4) == 0 ? strchr(text, '(') : NULL;
  if (open) {
    struct estimate inner = {.outer = names};
    struct strbuf b = {0};
    sb_addf(&b, "dim3 d%s;", open);
    estimate_scan(&inner, b.s, b.n);
    estimate_known(&inner, "d.x", &out[0]);
    estimate_known(&inner, "d.y", &out[1]);
    estimate_known(&inner, "d.z", &out[2]);
    sb_free(&b);
    estimate_free(&inner);
  } else {
    static const char *const suffixes[] = {".x", ".y", ".z"};
    bool variable = false;
    for (int i = 0; i < 3; i++) {
      char *name = xasprintf("%s%s", text, suffixes[i]);
      variable |= estimate_known(names, name, &out[i]);
      free(name);
    }
    if (!variable)
      estimate_eval(names, text, &out[0]);
  }
  for (int i = 0; i < 3; i++)
    out[i] = out[i] >= 1 ? ceil(out[i]) : 1;
}

/* ---- kernels ------------------------------------------------------------------------------------- */

struct launch {
  struct estimate local; /* values of parameters and launch dimensions */
  double grid[3], block[3], blocks, threads;
};

static double element_size(const char *type) {
  char *text = xasprintf("sizeof(%s)", type);
  struct estimate none = {.fallback = 4};
  char *star = strchr(text, '*');
  if (star)
    strcpy(star, ")");
  double size = 4;
  estimate_eval(&none, text, &size);
  estimate_free(&none);
  free(text);
  return size >= 1 ? size : 4;
}

static void bind(const struct cost_context *c, const struct ir_node *n, const struct ir_kernel *k,
                 struct launch *l) {
  estimate_init(&l->local, c->names->fallback);
  l->local.outer = c->names;
  dimensions(c->names, n->u.compute.grid, l->grid);
  dimensions(c->names, n->u.compute.block, l->block);
  static const char *const names[2][3] = {{"gridDim.x", "gridDim.y", "gridDim.z"},
                                          {"blockDim.x", "blockDim.y", "blockDim.z"}};
  l->blocks = l->threads = 1;
  for (int i = 0; i < 3; i++) {
    estimate_set(&l->local, names[0][i], l->grid[i], ESTIMATE_MACHINE);
    estimate_set(&l->local, names[1][i], l->block[i], ESTIMATE_MACHINE);
    l->blocks *= l->grid[i];
    l->threads *= l->grid[i] * l->block[i];
  }
  for (size_t i = 0; k && i < k->params.n && i < n->u.compute.args.n; i++) {
    double x;
    if (!k->params.v[i].pointer && estimate_eval(c->names, n->u.compute.args.v[i].text, &x))
      estimate_set(&l->local, k->params.v[i].name, x, ESTIMATE_MACHINE);
  }
}

/* Bytes from the first to the last that the whole grid may touch, no more than BUFFER (0 = not known). */
static double span(struct launch *l, const struct ir_access *a, double buffer) {
  double extent = 0, coef;
  if (a->kind == IR_ACCESS_NONE)
    return 0;
  if ((a->kind == IR_ACCESS_AFFINE || a->kind == IR_ACCESS_WHOLE) &&
      value_of(&l->local, &a->extent, &extent)) {
    if (a->kind == IR_ACCESS_AFFINE)
      for (int i = 0; i < 3; i++)
        if (value_of(&l->local, &a->block_coef[i], &coef))
          extent += fabs(coef) * (l->grid[i] - 1);
    return buffer > 0 && extent > buffer ? buffer : max(extent, 0);
  }
  return buffer > 0 ? buffer : DEFAULT_BYTES;
}

/* How many elements of a parameter one thread goes through: those of a block by the threads that share
 * them. The least of the inputs is the length of the inner loop, as in a matrix product. */
static double inner_loop(struct launch *l, const struct ir_kernel *k) {
  double least = 0;
  VEC_EACH(&k->params, p) {
    double extent, coef, threads = 1;
    if (!p->pointer || p->read.kind != IR_ACCESS_AFFINE ||
        !value_of(&l->local, &p->read.extent, &extent))
      continue;
    for (int i = 0; i < 3; i++)
      if (value_of(&l->local, &p->read.block_coef[i], &coef) && coef != 0)
        threads *= l->block[i];
    double length = extent / element_size(p->type) / threads;
    if (length >= 1 && (least == 0 || length < least))
      least = length;
  }
  return least >= 1 ? least : 1;
}

static double buffer_size(const struct cost_context *c, const struct ir_node *n, int arg) {
  VEC_EACH(&n->operands, o) {
    double size;
    if (o->arg != arg)
      continue;
    if (value_of(c->names, &o->size, &size))
      return size;
    for (ir_id b = o->buffer; b >= 0; b = c->ir->buffers.v[b].alias_of)
      if (value_of(c->names, &c->ir->buffers.v[b].size, &size))
        return size;
  }
  return 0;
}

static double launch_time(const struct cost_context *c, const struct ir_node *n, double *blocks) {
  const struct hardware *h = c->machine;
  const struct ir_kernel *k =
      n->u.compute.kernel >= 0 ? &c->ir->kernels.v[n->u.compute.kernel] : NULL;
  struct launch l;
  bind(c, n, k, &l);
  double bytes = 0, elements = l.threads;
  for (size_t i = 0; k && i < k->params.n; i++) {
    const struct ir_kernel_param *p = &k->params.v[i];
    if (!p->pointer)
      continue;
    double size = buffer_size(c, n, (int)i), read = span(&l, &p->read, size),
           write = span(&l, &p->write, size);
    bytes += read + write;
    elements = max(elements, write / element_size(p->type));
  }
  if (!k)
    bytes = DEFAULT_BYTES;
  double flops = 2 * elements * (k ? inner_loop(&l, k) : 1);
  *blocks = l.blocks;
  estimate_free(&l.local);
  return h->launch_us + max(flops / (h->fp32_tflops * h->plain_efficiency * 1e6),
                            bytes / (h->memory_gbps * h->memory_efficiency * 1e3));
}

/* cublas*gemm*(handle, opA, opB, m, n, k, ...). */
static double library_time(const struct cost_context *c, const struct ir_node *n, double *blocks) {
  const struct hardware *h = c->machine;
  double x[3], rate = h->fp32_tflops;
  if (!strcasestr(n->label, "gemm") || n->u.compute.args.n < 6)
    return h->launch_us + DEFAULT_BYTES / (h->memory_gbps * h->memory_efficiency * 1e3);
  for (int i = 0; i < 3; i++)
    if (!estimate_eval(c->names, n->u.compute.args.v[3 + i].text, &x[i]) || x[i] < 1)
      x[i] = 1;
  VEC_EACH(&n->u.compute.args, a)
    if (strstr(a->text, "16") || strstr(a->text, "REAL_TYPE"))
      rate = h->tensor_tflops;
  if (strcasestr(n->label, "hgemm"))
    rate = h->tensor_tflops;
  *blocks = ceil(x[0] / 128) * ceil(x[1] / 128);
  return h->launch_us + 2 * x[0] * x[1] * x[2] / (rate * h->library_efficiency * 1e6);
}

double cost_leaf_time(const struct cost_context *c, const struct ir_node *n, double *blocks) {
  const struct hardware *h = c->machine;
  double given;
  *blocks = 0;
  if (n->kind == IR_COMPUTE) {
    double t = n->u.compute.kind == IR_COMPUTE_LAUNCH   ? launch_time(c, n, blocks)
               : n->u.compute.kind == IR_COMPUTE_CUBLAS ? library_time(c, n, blocks)
                                                        : h->launch_us;
    return estimate_given(c->names, n->label, &given) ? max(given, h->launch_us) : t;
  }
  if (n->kind != IR_COPY)
    return 0;
  double bytes = 0, size;
  VEC_EACH(&n->operands, o)
    if (value_of(c->names, &o->size, &size))
      bytes = max(bytes, size);
  bool host = n->u.copy.kind == IR_COPY_H2D || n->u.copy.kind == IR_COPY_D2H;
  return h->launch_us + bytes / ((host ? HOST_LINK_GBPS : h->memory_gbps * h->memory_efficiency / 2) * 1e3);
}

/* ---- communication ------------------------------------------------------------------------------- */

static double type_bytes(const char *type) {
  static const struct {
    const char *part;
    int size;
  } table[] = {{"8", 1},      {"Char", 1},  {"Float16", 2}, {"Half", 2},   {"Bfloat16", 2},
               {"64", 8},     {"Double", 8}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strstr(type, table[i].part))
      return table[i].size;
  return 4;
}

double cost_leaf_bytes(const struct cost_context *c, const struct ir_node *n) {
  double count, r = c->ranks;
  cost_scope(c, n->id);
  if (!value_of(c->names, &n->u.coll.count, &count) || count < 0)
    count = DEFAULT_BYTES / 4;
  double bytes = count * type_bytes(n->u.coll.type);
  switch (n->u.coll.op) {
  case IR_COLL_all_reduce:
    return 2 * bytes * (r - 1) / r;
  case IR_COLL_recv:
    return 0;
  case IR_COLL_send:
    return bytes;
  default:
    return bytes * (r - 1);
  }
}

/* ---- loops --------------------------------------------------------------------------------------- */

/* `T i = from; i < to; i++` and the like. */
static bool counted(const struct cost_context *c, const char *head, double *out) {
  const char *first = strchr(head, ';'), *second = first ? strchr(first + 1, ';') : NULL;
  const char *equals = strchr(head, '=');
  if (!second || !equals || equals > first)
    return false;
  const char *compare = first + strcspn(first, "<>");
  if (compare >= second)
    return false;
  bool inclusive = compare[1] == '=';
  char *from = xstrndup(equals + 1, (size_t)(first - equals - 1)),
       *to = xstrndup(compare + 1 + inclusive, (size_t)(second - compare - 1 - inclusive));
  const char *step_text = strpbrk(second, "=");
  double a, b, step = 1;
  bool ok = estimate_known(c->names, from, &a) && estimate_known(c->names, to, &b);
  if (ok && step_text && (step_text[-1] == '+' || step_text[-1] == '-'))
    ok = estimate_known(c->names, step_text + 1, &step) && step > 0;
  free(from);
  free(to);
  if (ok)
    *out = max(0, ceil((fabs(b - a) + inclusive) / step));
  return ok;
}

double cost_trips(const struct cost_context *c, const struct ir_node *loop) {
  double n;
  cost_scope(c, loop->id);
  if (loop->u.control.over_devices)
    return 1;
  if (loop->u.control.over_peers)
    return c->ranks;
  return counted(c, loop->u.control.condition, &n) ? n : DEFAULT_TRIPS;
}
