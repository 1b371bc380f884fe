// SPDX-License-Identifier: Apache-2.0
/* Launches in parts. The kernel's text is copied beside it, with blockIdx and gridDim replaced; what its
 * blocks touch becomes a table over the launch's arguments. */
#include "backend/parts.h"
#include "agents/chain.h"
#include <ctype.h>
#include <string.h>

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* ---- the plan ------------------------------------------------------------------------------------ */

static struct parts_role *role_of(struct parts_plan *p, ir_id node) {
  VEC_EACH(&p->roles, r) if (r->node == node) return r;
  struct parts_role *r = &VEC_PUSH(&p->roles);
  *r = (struct parts_role){.node = node, .parts = 1};
  return r;
}

static bool add_region(int *list, int region) {
  for (int i = 0; i < PARTS_REGIONS; i++)
    if (list[i] == 0 || list[i] == region) {
      list[i] = region;
      return true;
    }
  return false;
}

static bool has_room(const int *list) { return list[PARTS_REGIONS - 1] == 0; }

/* May a statement be put before the one at AT? */
static bool begins_statement(const char *text, size_t at) {
  while (at > 0 && isspace((unsigned char)text[at - 1]))
    at--;
  return at > 0 && strchr(";{}", text[at - 1]) != NULL;
}

/* The calls that take part, and what they become; a launch is told by its brackets. */
static const char *const calls[][2] = {{"cublasGemmEx", "cucocc::gemm_ex"},
                                       {"cudaMemsetAsync", "cucocc::memset_async"},
                                       {"cudaEventRecord", "cucocc::event_record"},
                                       {"cudaStreamWaitEvent", "cucocc::stream_wait_event"}};

/* The new name of the call at the beginning of R, NULL when it is not spelled there. */
static const char *new_name(const struct ir_program *ir, const struct ir_range *r, const char *text,
                            size_t *len) {
  if (r->file < 0 || !ir->files.v[r->file].main_file)
    return NULL;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    *len = strlen(calls[i][0]);
    if (strncmp(text + r->begin, calls[i][0], *len) == 0 && !is_word(text[r->begin + *len]))
      return calls[i][1];
  }
  return NULL;
}

static bool is_launch(const struct ir_node *n) {
  return n->kind == IR_COMPUTE && n->u.compute.kind == IR_COMPUTE_LAUNCH;
}

static bool can_edit(const struct ir_program *ir, ir_id node, const char *text) {
  const struct ir_node *n = &ir->nodes.v[node];
  size_t len;
  return is_launch(n) || new_name(ir, &n->range, text, &len);
}

static struct parts_event *event_of(struct parts_plan *p, ir_id node) {
  VEC_EACH(&p->events, e) if (e->node == node) return e;
  struct parts_event *e = &VEC_PUSH(&p->events);
  *e = (struct parts_event){.node = node};
  return e;
}

/* R takes part in the region of D. */
static void join_role(struct parts_role *r, const struct dir_region *region,
                      const struct dir_directive *d, const struct ir_program *ir) {
  int ctas = dir_is_p2p(ir, region) ? 16 : dir_ctas(d); /* p2p: 8 that send, 8 that receive */
  if (d->depth > r->parts)
    r->parts = d->depth;
  if (ctas > r->ctas)
    r->ctas = ctas;
}

static void plan_region(const struct ir_program *ir, const struct dir_region *region,
                        const struct dir_directive *d, const char *text, struct parts_plan *out) {
  struct dir_chain c;
  dir_chain_find(ir, region, &c);
  bool feed = c.producers.n > 0;
  if (c.begin >= 0) {
    const struct ir_range *r = &ir->nodes.v[c.begin].range;
    feed &= r->file >= 0 && ir->files.v[r->file].main_file && begins_statement(text, r->begin);
  }
  VEC_EACH(&c.producers, p)
  feed = feed && can_edit(ir, *p, text) && has_room(role_of(out, *p)->feeds);
  VEC_EACH(&c.events, e)
  feed = feed && can_edit(ir, *e, text) && has_room(event_of(out, *e)->regions);
  for (size_t i = 0; feed && i < c.producers.n; i++) {
    struct parts_role *r = role_of(out, c.producers.v[i]);
    add_region(r->feeds, region->id);
    r->first |= i == 0 && c.begin < 0;
    join_role(r, region, d, ir);
  }
  for (size_t i = 0; feed && i < c.events.n; i++)
    add_region(event_of(out, c.events.v[i])->regions, region->id);
  if (feed && c.begin >= 0)
    VEC_PUSH(&out->begins) = (struct parts_begin){c.begin, region->id};
  if (c.consumer >= 0 && can_edit(ir, c.consumer, text) && has_room(role_of(out, c.consumer)->uses)) {
    struct parts_role *r = role_of(out, c.consumer);
    add_region(r->uses, region->id);
    join_role(r, region, d, ir);
    VEC_PUSH(&out->late) = region->id;
  }
  dir_chain_free(&c);
}

void parts_plan(const struct ir_program *ir, const struct dir_set *set, const char *text,
                struct parts_plan *out) {
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < set->regions.n; i++) {
    const struct dir_directive *d = &set->directives.v[i];
    if (d->backend != DIR_backend_host &&
        (d->placement == DIR_placement_split || d->placement == DIR_placement_pipelined))
      plan_region(ir, &set->regions.v[i], d, text, out);
  }
}

void parts_plan_free(struct parts_plan *p) {
  VEC_FREE(&p->roles);
  VEC_FREE(&p->begins);
  VEC_FREE(&p->events);
  VEC_FREE(&p->late);
}

bool parts_is_late(const struct parts_plan *p, int region) {
  VEC_EACH(&p->late, r) if (*r == region) return true;
  return false;
}

bool parts_use_blas(const struct ir_program *ir, const struct parts_plan *p) {
  VEC_EACH(&p->roles, r)
  if ((r->feeds[0] || r->uses[0]) && ir->nodes.v[r->node].kind == IR_COMPUTE &&
      ir->nodes.v[r->node].u.compute.kind == IR_COMPUTE_CUBLAS)
    return true;
  return false;
}

/* ---- texts --------------------------------------------------------------------------------------- */

/* The end of the comment, string or character constant at S[I], or I when there is none. */
static size_t skip_opaque(const char *s, size_t i, size_t end) {
  if (s[i] == '/' && i + 1 < end && s[i + 1] == '/') {
    while (i < end && s[i] != '\n')
      i++;
  } else if (s[i] == '/' && i + 1 < end && s[i + 1] == '*') {
    for (i += 2; i + 1 < end && !(s[i] == '*' && s[i + 1] == '/');)
      i++;
    i = i + 2 < end ? i + 2 : end;
  } else if (s[i] == '"' || (s[i] == '\'' && (i == 0 || !isalnum((unsigned char)s[i - 1])))) {
    char quote = s[i++];
    while (i < end && s[i] != quote)
      i += s[i] == '\\' && i + 1 < end ? 2 : 1;
    i = i < end ? i + 1 : end;
  }
  return i;
}

struct replacement {
  const char *word, *with;
};

/* Appends S[BEGIN, END) with words replaced, except after a dot, an arrow or a colon. */
static void add_replaced(struct strbuf *out, const char *s, size_t begin, size_t end,
                         const struct replacement *r, size_t n) {
  for (size_t i = begin; i < end;) {
    size_t j = skip_opaque(s, i, end);
    if (j > i) {
      sb_addn(out, s + i, j - i);
      i = j;
      continue;
    }
    if (!is_word(s[i])) {
      sb_addc(out, s[i++]);
      continue;
    }
    for (j = i; j < end && is_word(s[j]);)
      j++;
    const char *with = NULL;
    bool member = i > begin && (s[i - 1] == '.' || s[i - 1] == '>' || s[i - 1] == ':') &&
                  !(s[i - 1] == '>' && (i < 2 || s[i - 2] != '-'));
    for (size_t k = 0; k < n && !member; k++)
      if (strlen(r[k].word) == j - i && strncmp(s + i, r[k].word, j - i) == 0)
        with = r[k].with;
    if (with)
      sb_add(out, with);
    else
      sb_addn(out, s + i, j - i);
    i = j;
  }
}

/* The bracket that closes the one at S[I]; END when there is none. */
static size_t matching(const char *s, size_t i, size_t end) {
  int depth = 0;
  while (i < end) {
    size_t j = skip_opaque(s, i, end);
    if (j > i) {
      i = j;
      continue;
    }
    depth += strchr("([{", s[i]) && s[i] ? 1 : strchr(")]}", s[i]) && s[i] ? -1 : 0;
    if (depth == 0)
      return i;
    i++;
  }
  return end;
}

/* ---- what a block touches -------------------------------------------------------------------------- */

/* Only parameters, template parameters and the launch's shape may be named. */
static bool is_closed(const struct ir_kernel *k, const char *text) {
  for (size_t i = 0; text[i];) {
    if (!is_word(text[i])) {
      i++;
      continue;
    }
    size_t j = i;
    while (is_word(text[j]))
      j++;
    bool ok = isdigit((unsigned char)text[i]) || (i > 0 && text[i - 1] == '.');
    static const char *const known[] = {"blockDim", "gridDim", "sizeof"};
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
      ok |= strlen(known[n]) == j - i && strncmp(text + i, known[n], j - i) == 0;
    VEC_EACH(&k->params, q)
    ok |= !q->pointer && strlen(q->name) == j - i && strncmp(text + i, q->name, j - i) == 0;
    VEC_EACH(&k->template_params, t) ok |= strlen(*t) == j - i && strncmp(text + i, *t, j - i) == 0;
    if (!ok)
      return false;
    i = j;
  }
  return true;
}

static bool is_usable(const struct ir_kernel *k, const struct ir_expr *e) {
  if (!ir_expr_known(e) || !e->affine)
    return false;
  VEC_EACH(&e->terms, t) if (!is_closed(k, t->symbol)) return false;
  return true;
}

/* SYMBOL, a product of names and of expressions in brackets, computed in 64 bits. */
static void add_product(struct strbuf *out, const char *symbol) {
  static const struct replacement shape[] = {{"blockDim", "cucocc_block"}, {"gridDim", "cucocc_grid"}};
  size_t n = strlen(symbol), from = 0;
  for (size_t i = 0; i <= n; i++) {
    if (i < n && strchr("([{", symbol[i]))
      i = matching(symbol, i, n);
    if (i < n && symbol[i] != '*')
      continue;
    sb_add(out, from ? " * (long long)(" : "(long long)(");
    add_replaced(out, symbol, from, i, shape, 2);
    sb_addc(out, ')');
    from = i + 1;
  }
}

static void add_expr(struct strbuf *out, const struct ir_expr *e) {
  if (e->constant || !e->terms.n)
    sb_addf(out, "%lldLL", (long long)e->constant);
  for (size_t i = 0; i < e->terms.n; i++) {
    sb_add(out, i || e->constant ? " + " : "");
    if (e->terms.v[i].coef != 1)
      sb_addf(out, "%lldLL * ", (long long)e->terms.v[i].coef);
    add_product(out, e->terms.v[i].symbol);
  }
}

static void add_touch(struct strbuf *out, const struct ir_kernel *k, const struct ir_kernel_param *q,
                      const struct ir_access *a, bool write) {
  if (a->kind == IR_ACCESS_NONE)
    return;
  bool known = (a->kind == IR_ACCESS_AFFINE || a->kind == IR_ACCESS_WHOLE) &&
               is_usable(k, &a->base) && is_usable(k, &a->extent);
  for (int d = 0; d < 3 && known; d++)
    known = is_usable(k, &a->block_coef[d]);
  sb_addf(out, "          {(const void *)%s, %s, %s, %s, {", q->name, write ? "false" : "true",
          write ? "true" : "false", known ? "true" : "false");
  for (int d = 0; d < 3; d++) {
    sb_add(out, d ? ", " : "");
    if (known)
      add_expr(out, &a->block_coef[d]);
    else
      sb_addc(out, '0');
  }
  sb_add(out, "}, ");
  if (known)
    add_expr(out, &a->base);
  else
    sb_addc(out, '0');
  sb_add(out, ", ");
  if (known)
    add_expr(out, &a->extent);
  else
    sb_addc(out, '0');
  sb_add(out, "},\n");
}

/* ---- generated functions --------------------------------------------------------------------------- */

static void add_template_args(struct strbuf *out, const struct ir_kernel *k) {
  for (size_t i = 0; i < k->template_params.n; i++)
    sb_addf(out, "%s%s", i ? ", " : "<", k->template_params.v[i]);
  if (k->template_params.n)
    sb_addc(out, '>');
}

static unsigned line_after(const char *text, size_t at) {
  unsigned line = 1;
  for (size_t i = 0; i < at; i++)
    line += text[i] == '\n';
  return line;
}

/* The variant of kernel K and the function that launches it in parts, to stand after K. */
static bool variant(const struct ir_kernel *k, const char *s, size_t size, const char *path,
                    struct strbuf *out) {
  size_t begin = k->range.begin, end = k->range.end, name_end = k->name_at + strlen(k->name);
  if (!(begin < k->name_at && name_end < k->body_at && k->body_at < end && end <= size) ||
      strncmp(s + k->name_at, k->name, strlen(k->name)) != 0 || s[k->body_at] != '{' ||
      s[end - 1] != '}')
    return false;
  size_t open = name_end;
  while (open < end && isspace((unsigned char)s[open]))
    open++;
  size_t close = matching(s, open, k->body_at);
  if (s[open] != '(' || close >= k->body_at)
    return false;
  size_t head_end = begin;
  if (k->is_template) { /* template < ... > */
    size_t i = begin + strlen("template");
    int depth = 0;
    for (; i < k->name_at; i++) {
      depth += s[i] == '<' ? 1 : s[i] == '>' ? -1 : 0;
      if (s[i] == '>' && depth == 0)
        break;
    }
    if (strncmp(s + begin, "template", 8) != 0 || i >= k->name_at)
      return false;
    head_end = i + 1;
  }
  const char *comma = k->params.n ? ", " : "";
  static const struct replacement position[] = {{"blockIdx", "cucocc_index"},
                                                {"gridDim", "cucocc_grid"}};
  sb_addf(out, "\n\n// cucocc: a part of the grid of %s\n", k->name);
  sb_addn(out, s + begin, k->name_at - begin);
  sb_addf(out, "cucocc_part_%s(const dim3 cucocc_grid, const uint3 cucocc_first%s", k->name, comma);
  sb_addn(out, s + open + 1, close - open - 1);
  sb_add(out, ")");
  sb_addn(out, s + close + 1, k->body_at - close - 1);
  sb_add(out, "{\n  [[maybe_unused]] const uint3 cucocc_index = {blockIdx.x + cucocc_first.x,\n"
              "      blockIdx.y + cucocc_first.y, blockIdx.z + cucocc_first.z};\n"
              "  (void)cucocc_grid;\n");
  add_replaced(out, s, k->body_at + 1, end, position, 2);
  sb_addf(out, "\n// cucocc: launches %s in parts that take turns with communication\n", k->name);
  sb_addn(out, s + begin, head_end - begin);
  sb_addf(out, "%s[[maybe_unused]] static void cucocc_parts_%s(const cucocc::Role &cucocc_role, "
               "dim3 cucocc_grid,\n    dim3 cucocc_block, size_t cucocc_shared, cudaStream_t "
               "cucocc_stream%s",
          k->is_template ? "\n" : "", k->name, comma);
  sb_addn(out, s + open + 1, close - open - 1);
  sb_addf(out, ") {\n  cucocc::same_attributes(%s", k->name);
  add_template_args(out, k);
  sb_addf(out, ", cucocc_part_%s", k->name);
  add_template_args(out, k);
  sb_add(out, ", cucocc_shared);\n  cucocc::launch_parts(\n      cucocc_role, cucocc_grid, "
              "cucocc_stream,\n      {\n          // pointer, reads, writes, known, bytes per "
              "block index, first byte, bytes of one block\n");
  VEC_EACH(&k->params, q) {
    if (!q->pointer)
      continue;
    add_touch(out, k, q, &q->read, false);
    add_touch(out, k, q, &q->write, true);
  }
  sb_addf(out, "      },\n      [&](dim3 cucocc_count, uint3 cucocc_first) {\n        cucocc_part_%s",
          k->name);
  add_template_args(out, k);
  sb_add(out, "<<<cucocc_count, cucocc_block, cucocc_shared, cucocc_stream>>>(cucocc_grid, "
              "cucocc_first");
  VEC_EACH(&k->params, q) sb_addf(out, ", %s", q->name);
  sb_addf(out, ");\n      });\n}\n#line %u \"%s\"\n", line_after(s, end), path);
  return true;
}

/* ---- edits --------------------------------------------------------------------------------------- */

static int top_level_parts(const char *s, size_t begin, size_t end) {
  int n = 1;
  for (size_t i = begin; i < end;) {
    size_t j = skip_opaque(s, i, end);
    if (j > i) {
      i = j;
      continue;
    }
    if (strchr("([{", s[i]) && s[i])
      i = matching(s, i, end);
    else
      n += s[i] == ',';
    i++;
  }
  return n;
}

static void add_regions(struct strbuf *b, const int *list) {
  for (int i = 0; i < PARTS_REGIONS; i++)
    sb_addf(b, "%s%d", i ? ", " : "{", list[i]);
  sb_addc(b, '}');
}

static void add_role(struct strbuf *b, const struct parts_role *r) {
  sb_add(b, "cucocc::Role{");
  add_regions(b, r->feeds);
  sb_add(b, ", ");
  add_regions(b, r->uses);
  sb_addf(b, ", %s, %d, %d}", r->first ? "true" : "false", r->parts, r->ctas);
}

/* f(x) becomes cucocc::f(FIRST, x). */
static bool edit_call(const struct ir_program *ir, ir_id node, const char *first,
                      struct rewriter *rw) {
  const struct ir_range *range = &ir->nodes.v[node].range;
  size_t len = 0;
  const char *name = new_name(ir, range, rw->text, &len);
  size_t open = range->begin + len;
  while (open < rw->size && isspace((unsigned char)rw->text[open]))
    open++;
  if (!name || open >= rw->size || rw->text[open] != '(')
    return false;
  char *with = xasprintf("(%s, ", first);
  bool ok = rw_replace(rw, range->begin, range->begin + len, name) &&
            rw_replace(rw, open, open + 1, with);
  free(with);
  return ok;
}

static bool edit_launch(const struct ir_program *ir, const struct parts_role *r,
                        struct rewriter *rw) {
  const struct ir_node *n = &ir->nodes.v[r->node];
  const struct ir_kernel *k = &ir->kernels.v[n->u.compute.kernel];
  const struct ir_range *l = &n->u.compute.launch;
  const char *s = rw->text;
  size_t len = strlen(k->name), name = n->range.begin;
  while (name + len <= l->begin && (strncmp(s + name, k->name, len) != 0 || is_word(s[name + len]) ||
                                    (name > 0 && is_word(s[name - 1]))))
    name++;
  size_t open = l->end;
  while (open < rw->size && isspace((unsigned char)s[open]))
    open++;
  if (name + len > l->begin || strncmp(s + l->begin, "<<<", 3) != 0 || s[open] != '(')
    return false;
  int config = top_level_parts(s, l->begin + 3, l->end - 3);
  if (config < 2 || config > 4)
    return false;
  bool no_args = open + 1 < rw->size && matching(s, open, rw->size) == open + 1;
  struct strbuf b = {0};
  sb_addf(&b, "cucocc_parts_%s", k->name);
  bool ok = rw_replace(rw, name, name + len, b.s);
  b.n = 0;
  sb_addc(&b, '(');
  add_role(&b, r);
  sb_add(&b, ", ");
  ok &= rw_replace(rw, l->begin, l->begin + 3, b.s);
  ok &= rw_replace(rw, l->end - 3, open + 1,
                   config == 2 ? no_args ? ", 0, 0" : ", 0, 0, "
                   : config == 3 ? no_args ? ", 0" : ", 0, "
                                 : no_args ? "" : ", ");
  sb_free(&b);
  return ok;
}

bool parts_edit(const struct ir_program *ir, const struct parts_plan *plan, const char *path,
                struct rewriter *rw) {
  bool ok = true, *done = xcalloc(ir->kernels.n + 1, sizeof *done);
  VEC_EACH(&plan->roles, r) {
    if (!r->feeds[0] && !r->uses[0])
      continue;
    if (!is_launch(&ir->nodes.v[r->node])) {
      struct strbuf b = {0};
      add_role(&b, r);
      ok &= edit_call(ir, r->node, b.s, rw);
      sb_free(&b);
      continue;
    }
    ir_id kernel = ir->nodes.v[r->node].u.compute.kernel;
    ok &= edit_launch(ir, r, rw);
    if (done[kernel])
      continue;
    done[kernel] = true;
    struct strbuf b = {0};
    ok &= variant(&ir->kernels.v[kernel], rw->text, rw->size, path, &b);
    if (b.n)
      ok &= rw_replace(rw, ir->kernels.v[kernel].range.end, ir->kernels.v[kernel].range.end, b.s);
    sb_free(&b);
  }
  VEC_EACH(&plan->events, e) {
    if (!e->regions[0])
      continue;
    struct strbuf b = {0};
    sb_add(&b, "cucocc::Regions{");
    add_regions(&b, e->regions);
    sb_addc(&b, '}');
    ok &= edit_call(ir, e->node, b.s, rw);
    sb_free(&b);
  }
  for (size_t i = 0; i < plan->begins.n; i++) { /* several at one place: one edit */
    struct strbuf b = {0};
    bool first = true;
    for (size_t j = 0; j < plan->begins.n; j++) {
      if (plan->begins.v[j].node != plan->begins.v[i].node)
        continue;
      first &= j >= i;
      sb_addf(&b, "cucocc::chain_begins(%d); ", plan->begins.v[j].region);
    }
    size_t at = ir->nodes.v[plan->begins.v[i].node].range.begin;
    if (first)
      ok &= rw_replace(rw, at, at, b.s);
    sb_free(&b);
  }
  free(done);
  return ok;
}
