// SPDX-License-Identifier: Apache-2.0
/* What is drawn, and how.
 *
 * Nodes are the regions; allocations, communicator set-up and events that nobody waits for are left
 * out, and order that runs through them is joined up. Each function is a box; in it each stream; in
 * that loops, branch arms and groups. Of the order edges only those are drawn that other edges do
 * not imply. */
#include "backend/graph_draw.h"
#include "ir/text.h"
#include "support/strbuf.h"
#include <string.h>

typedef VEC(ir_id) ids;

struct link { /* everything drawn between two nodes in one direction */
  ir_id from, to;
  bool carried, data, sure;
  enum ir_dep_kind order; /* when not data */
  struct strbuf label;
};

struct draw {
  const struct ir_program *ir;
  const struct dir_set *set;
  Agraph_t *g;
  Agnode_t **nodes; /* by IR node; NULL = not drawn */
  int *position;    /* of leaves in program order */
  VEC(struct link) links;
  int clusters;
};

enum {
  MANY_NODES = 300,    /* beyond: cheaper layout */
  MOST_REDUCED = 1500, /* nodes for which implied edges are looked for */
  MOST_TEXT = 48       /* bytes of a condition or expression that are shown */
};

/* ---- text ----------------------------------------------------------------------------------- */

/* Appends S with what DOT escapes in labels, cut to MOST bytes (0 = all). */
static void add_text(struct strbuf *b, const char *text, size_t most) {
  char *s = ir_text_to_utf8(text); /* renderers want UTF-8 */
  size_t n = strlen(s), end = most && n > most ? most : n;
  while (end < n && end && ((unsigned char)s[end] & 0xC0) == 0x80)
    end--; /* not inside a character */
  for (size_t i = 0; i < end; i++) {
    if (s[i] == '\\')
      sb_add(b, "\\\\");
    else if ((unsigned char)s[i] < 0x20 || s[i] == 0x7F)
      sb_addc(b, ' ');
    else
      sb_addc(b, s[i]);
  }
  if (end < n)
    sb_add(b, "...");
  free(s);
}

static void set_attr(void *object, const char *name, const char *value) {
  agsafeset(object, (char *)name, (char *)value, (char *)"");
}

static void set_label(void *object, struct strbuf *b) {
  char *s = sb_take(b);
  set_attr(object, "label", s);
  free(s);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static bool event_matters(const struct draw *d, const struct ir_node *n) {
  VEC_EACH(&d->ir->deps, e) if (e->from == n->id && e->kind == IR_DEP_EVENT) return true;
  return false;
}

static bool is_drawn(const struct draw *d, const struct ir_node *n) {
  switch (n->kind) {
  case IR_COMPUTE:
  case IR_COLLECTIVE:
  case IR_COPY:
  case IR_CALL:
    return true;
  case IR_SYNC:
    return n->u.sync.kind != IR_SYNC_QUERY && n->u.sync.kind != IR_SYNC_MPI &&
           n->u.sync.kind != IR_SYNC_THREAD &&
           (n->u.sync.kind != IR_SYNC_EVENT_RECORD || event_matters(d, n));
  default:
    return false;
  }
}

static const struct dir_directive *directive_of(const struct draw *d, ir_id node) {
  if (!d->set)
    return NULL;
  for (ir_id n = node; n >= 0; n = d->ir->nodes.v[n].parent)
    for (size_t i = 0; i < d->set->regions.n && i < d->set->directives.n; i++)
      if (d->set->regions.v[i].node == n)
        return &d->set->directives.v[i];
  return NULL;
}

static void add_directive(struct strbuf *b, const struct dir_directive *r) {
  char *s = dir_describe(r);
  sb_addf(b, "\\n[%d: ", r->region);
  add_text(b, r->backend == DIR_backend_host ? "host" : s, 0);
  if (r->backend == DIR_backend_host && r->reason && *r->reason) {
    sb_add(b, ": ");
    add_text(b, r->reason, MOST_TEXT);
  }
  sb_add(b, "]");
  free(s);
}

static void collective_label(const struct draw *d, struct strbuf *b, const struct ir_node *n) {
  if (ir_expr_known(&n->u.coll.count)) {
    sb_add(b, "\\n");
    add_text(b, n->u.coll.count.text, MOST_TEXT);
    sb_add(b, " x ");
    add_text(b, n->u.coll.type, MOST_TEXT);
  }
  if (*n->u.coll.redop) {
    sb_add(b, ", ");
    add_text(b, n->u.coll.redop, MOST_TEXT);
  }
  if (*n->u.coll.root_or_peer) {
    sb_add(b, n->u.coll.op == IR_COLL_send   ? ", to "
              : n->u.coll.op == IR_COLL_recv ? ", from "
                                             : ", root ");
    add_text(b, n->u.coll.root_or_peer, MOST_TEXT);
  }
  const struct dir_directive *r = directive_of(d, n->id);
  if (r)
    add_directive(b, r);
}

static void copy_label(const struct draw *d, struct strbuf *b, const struct ir_node *n) {
  bool first = true;
  VEC_EACH(&n->operands, o) {
    sb_add(b, first ? "\\n" : " to ");
    if (*o->text)
      add_text(b, o->text, MOST_TEXT);
    else
      add_text(b, o->buffer >= 0 ? d->ir->buffers.v[o->buffer].name : "?", MOST_TEXT);
    first = false;
  }
}

static void style_node(const struct draw *d, Agnode_t *v, const struct ir_node *n) {
  static const struct {
    const char *shape, *fill, *style;
  } styles[] = {
      [IR_COMPUTE] = {"box", "#d5ecd4", "filled,rounded"},
      [IR_COLLECTIVE] = {"box", "#bcd6f5", "filled,bold"},
      [IR_COPY] = {"cds", "#fdf0c4", "filled"},
      [IR_SYNC] = {"hexagon", "#e4e4e4", "filled"},
      [IR_CALL] = {"component", "#ecdff3", "filled"},
  };
  struct strbuf b = {0};
  set_attr(v, "shape", styles[n->kind].shape);
  set_attr(v, "fillcolor", styles[n->kind].fill);
  set_attr(v, "style", styles[n->kind].style);
  add_text(&b, *n->label ? n->label : ir_node_kind_name(n->kind), MOST_TEXT);
  if (n->range.line)
    sb_addf(&b, " :%u", n->range.line);
  if (n->kind == IR_COLLECTIVE)
    collective_label(d, &b, n);
  if (n->kind == IR_COPY)
    copy_label(d, &b, n);
  if (n->kind == IR_SYNC && n->event >= 0) {
    sb_add(&b, "\\n");
    add_text(&b, d->ir->events.v[n->event].name, MOST_TEXT);
  }
  if (n->kind == IR_SYNC)
    set_attr(v, "fontsize", "9");
  set_label(v, &b);
}

/* ---- boxes ---------------------------------------------------------------------------------- */

static Agraph_t *box(struct draw *d, Agraph_t *in, struct strbuf *label, const char *border,
                     const char *fill, const char *style) {
  char *name = xasprintf("cluster_%d", d->clusters++);
  Agraph_t *c = agsubg(in, name, 1);
  free(name);
  set_label(c, label);
  set_attr(c, "color", border);
  set_attr(c, "fillcolor", fill);
  set_attr(c, "style", style);
  return c;
}

static void describe_box(const struct draw *d, struct strbuf *b, const struct ir_node *n,
                         ir_id child) {
  const struct ir_node *p = n;
  switch (p->kind) {
  case IR_LOOP:
    sb_add(b, p->u.control.over_devices ? "for each device "
              : p->u.control.over_peers ? "for each peer "
                                        : "loop ");
    break;
  case IR_GROUP:
    sb_add(b, "group");
    break;
  default:
    sb_add(b, strcmp(p->label, "switch") == 0 ? "case of "
              : !*p->u.control.condition      ? "perhaps"
              : child == p->children.v[0]     ? "if "
                                              : "else of ");
    break;
  }
  if (p->kind != IR_GROUP)
    add_text(b, p->u.control.condition, MOST_TEXT);
  unsigned line = p->range.line;
  if (strcmp(p->label, "switch") == 0) /* the case's own */
    line = d->ir->nodes.v[child].range.line;
  if (line)
    sb_addf(b, " :%u", line);
}

struct boxes { /* the boxes of one stream, by the node (loop, group, branch arm) they stand for */
  Agraph_t *outer;
  Agraph_t **inner;
};

/* The box for what is directly inside node N, within a stream's box. */
static Agraph_t *box_for(struct draw *d, struct boxes *s, ir_id n) {
  const struct ir_program *p = d->ir;
  ir_id up = p->nodes.v[n].parent;
  if (up < 0)
    return s->outer;
  const struct ir_node *parent = &p->nodes.v[up];
  bool boxed = parent->kind == IR_LOOP || parent->kind == IR_GROUP || parent->kind == IR_BRANCH;
  if (!boxed)
    return box_for(d, s, up);
  if (!s->inner[n]) {
    struct strbuf b = {0};
    Agraph_t *in = box_for(d, s, up);
    describe_box(d, &b, parent, n);
    s->inner[n] = parent->kind == IR_GROUP  ? box(d, in, &b, "#5b7fae", "#eef4fc", "filled,rounded")
                  : parent->kind == IR_LOOP ? box(d, in, &b, "#808080", "#ffffff", "filled,rounded")
                                            : box(d, in, &b, "#a0a0a0", "#fafafa", "filled,dotted");
  }
  return s->inner[n];
}

static void draw_stream(struct draw *d, Agraph_t *in, ir_id function, ir_id stream, bool host) {
  const struct ir_program *p = d->ir;
  struct boxes s = {0};
  s.inner = xcalloc(p->nodes.n + 1, sizeof *s.inner);
  VEC_EACH(&p->nodes, n) {
    bool on_host = n->stream < 0 && (n->kind == IR_SYNC || n->kind == IR_CALL);
    if (n->function != function || !ir_node_is_leaf(n) || !is_drawn(d, n) || on_host != host ||
        (!host && n->stream != stream))
      continue;
    if (!s.outer) {
      struct strbuf b = {0};
      if (host)
        sb_add(&b, "host");
      else if (stream < 0)
        sb_add(&b, "stream not known");
      else {
        sb_add(&b, "stream ");
        add_text(&b, p->streams.v[stream].name, MOST_TEXT);
      }
      s.outer = box(d, in, &b, "#c0c0c0", host ? "#f7f7f7" : "#f4f8f4", "filled");
    }
    char *name = xasprintf("n%d", n->id);
    d->nodes[n->id] = agnode(box_for(d, &s, n->id), name, 1);
    free(name);
    style_node(d, d->nodes[n->id], n);
  }
  free(s.inner);
}

static void draw_function(struct draw *d, ir_id f) {
  const struct ir_function *fn = &d->ir->functions.v[f];
  bool any = false;
  VEC_EACH(&d->ir->nodes, n)
  any = any || (n->function == f && ir_node_is_leaf(n) && is_drawn(d, n));
  if (!any)
    return;
  struct strbuf b = {0};
  add_text(&b, fn->name, 0);
  sb_add(&b, "()");
  Agraph_t *c = box(d, d->g, &b, "#404040", "#ffffff", "filled");
  for (ir_id s = -1; s < (ir_id)d->ir->streams.n; s++)
    draw_stream(d, c, f, s, false);
  draw_stream(d, c, f, -1, true);
}

/* ---- edges ---------------------------------------------------------------------------------- */

static struct link *link_of(struct draw *d, ir_id from, ir_id to, bool carried) {
  for (size_t i = d->links.n; i-- > 0;) {
    struct link *l = &d->links.v[i];
    if (l->from == from && l->to == to && l->carried == carried)
      return l;
    if (l->from != from && d->links.n - i > 4096)
      break;
  }
  struct link *l = &VEC_PUSH(&d->links);
  *l = (struct link){.from = from, .to = to, .carried = carried, .order = IR_DEP_STREAM};
  return l;
}

/* The operand of N that uses BUFFER in the way that dependence KIND needs at this end. */
static const struct ir_operand *operand(const struct ir_node *n, ir_id buffer, unsigned mode) {
  VEC_EACH(&n->operands, o) if (o->buffer == buffer && (o->mode & mode)) return o;
  return NULL;
}

static void add_range(struct strbuf *b, const struct ir_operand *o) {
  if (!o || !ir_expr_known(&o->offset) || !ir_expr_known(&o->size)) {
    sb_add(b, " whole");
    return;
  }
  struct ir_expr end;
  ir_expr_init(&end);
  ir_expr_add(&end, &o->offset, &o->size, 1);
  sb_add(b, " [");
  add_text(b, o->offset.text, MOST_TEXT);
  sb_add(b, ", ");
  add_text(b, end.text, MOST_TEXT);
  sb_add(b, ")");
  ir_expr_free(&end);
}

static void add_data(struct draw *d, const struct ir_dep *e) {
  const struct ir_program *p = d->ir;
  struct link *l = link_of(d, e->from, e->to, e->carried);
  l->sure = l->sure || !e->may;
  l->data = true;
  if (l->label.n)
    sb_add(&l->label, "\\n");
  sb_addf(&l->label, "%s%s ", ir_dep_name(e->kind), e->may ? "?" : "");
  if (e->buffer < 0) {
    sb_add(&l->label, "unknown memory");
    return;
  }
  add_text(&l->label, p->buffers.v[e->buffer].name, MOST_TEXT);
  if (!e->carried)
    add_range(&l->label,
              operand(&p->nodes.v[e->to], e->buffer, e->kind == IR_DEP_RAW ? IR_READ : IR_WRITE));
}

static void add_order(struct draw *d, ir_id from, ir_id to, enum ir_dep_kind kind) {
  struct link *l = link_of(d, from, to, false);
  if (l->data)
    return;
  l->order = kind;
  l->sure = true;
  if (kind == IR_DEP_EVENT && !l->label.n && d->ir->nodes.v[to].event >= 0)
    add_text(&l->label, d->ir->events.v[d->ir->nodes.v[to].event].name, MOST_TEXT);
}

/* Order edges, through nodes that are not drawn. */
static void collect_order(struct draw *d) {
  const struct ir_program *p = d->ir;
  int *out = xcalloc(p->nodes.n + 2, sizeof *out);
  unsigned *stamp = xcalloc(p->nodes.n + 1, sizeof *stamp);
  ids work = {0};
  VEC_EACH(&p->deps, e) out[e->from + 1]++;
  for (size_t i = 0; i < p->nodes.n; i++)
    out[i + 1] += out[i];
  int *index = xcalloc(p->deps.n + 1, sizeof *index), *fill = xcalloc(p->nodes.n + 1, sizeof *fill);
  for (size_t i = 0; i < p->deps.n; i++) {
    ir_id f = p->deps.v[i].from;
    index[out[f] + fill[f]++] = (int)i;
  }
  for (size_t i = 0; i < p->nodes.n; i++) {
    if (!d->nodes[i])
      continue;
    VEC_PUSH(&work) = (ir_id)i;
    while (work.n) {
      ir_id n = work.v[--work.n];
      for (int k = out[n]; k < out[n + 1]; k++) {
        const struct ir_dep *e = &p->deps.v[index[k]];
        if (e->carried || (e->kind <= IR_DEP_WAW && n != (ir_id)i))
          continue;
        if (d->nodes[e->to]) {
          if (e->kind > IR_DEP_WAW)
            add_order(d, (ir_id)i, e->to, n == (ir_id)i ? e->kind : IR_DEP_HOST);
        } else if (stamp[e->to] != i + 1 && e->kind > IR_DEP_WAW) {
          stamp[e->to] = (unsigned)i + 1;
          VEC_PUSH(&work) = e->to;
        }
      }
    }
  }
  VEC_FREE(&work);
  free(index);
  free(fill);
  free(stamp);
  free(out);
}

static int by_from(const void *a, const void *b) {
  const struct link *x = a, *y = b;
  if (x->from != y->from)
    return x->from < y->from ? -1 : 1;
  return x->to < y->to ? -1 : x->to > y->to;
}

/* Drops order links that other links imply. */
static void reduce(struct draw *d) {
  size_t n = d->ir->nodes.n, kept = 0;
  if (d->links.n == 0)
    return;
  qsort(d->links.v, d->links.n, sizeof *d->links.v, by_from);
  int *first = xcalloc(n + 2, sizeof *first);
  unsigned *stamp = xcalloc(n + 1, sizeof *stamp), now = 0;
  ids work = {0};
  VEC_EACH(&d->links, l) first[l->from + 1]++;
  for (size_t i = 0; i < n; i++)
    first[i + 1] += first[i];
  bool *drop = xcalloc(d->links.n, 1);
  for (size_t i = 0; i < d->links.n && n <= MOST_REDUCED; i++) {
    const struct link *l = &d->links.v[i];
    if (l->data || l->carried)
      continue;
    now++;
    VEC_PUSH(&work) = l->from;
    while (work.n && !drop[i]) {
      ir_id x = work.v[--work.n];
      for (int k = first[x]; k < first[x + 1]; k++) {
        const struct link *m = &d->links.v[k];
        if ((size_t)k == i || m->carried || drop[k] || stamp[m->to] == now ||
            d->position[m->to] > d->position[l->to])
          continue;
        stamp[m->to] = now;
        drop[i] = drop[i] || m->to == l->to;
        VEC_PUSH(&work) = m->to;
      }
    }
    work.n = 0;
  }
  for (size_t i = 0; i < d->links.n; i++) {
    if (drop[i])
      sb_free(&d->links.v[i].label);
    else
      d->links.v[kept++] = d->links.v[i];
  }
  d->links.n = kept;
  VEC_FREE(&work);
  free(drop);
  free(first);
  free(stamp);
}

static Agedge_t *edge(struct draw *d, ir_id from, ir_id to) {
  return agedge(d->g, d->nodes[from], d->nodes[to], NULL, 1);
}

static void draw_link(struct draw *d, struct link *l) {
  Agedge_t *e = edge(d, l->from, l->to);
  if (l->label.n)
    set_label(e, &l->label);
  if (l->carried) {
    set_attr(e, "constraint", "false");
    set_attr(e, "style", "dashed");
    set_attr(e, "color", "#8a5fb0");
    set_attr(e, "fontcolor", "#8a5fb0");
  } else if (l->data) {
    set_attr(e, "color", l->sure ? "#1f3f7f" : "#5f7fbf");
    set_attr(e, "fontcolor", "#1f3f7f");
    set_attr(e, "penwidth", "1.4");
    set_attr(e, "weight", "3");
  } else {
    set_attr(e, "color", "#9a9a9a");
    set_attr(e, "fontcolor", "#707070");
    set_attr(e, "arrowsize", "0.6");
    set_attr(e, "style", l->order == IR_DEP_HOST ? "dotted" : "solid");
  }
}

/* Carried hazards: flow of data always; reuse of a buffer where it keeps communication from
 * starting early. */
static bool shows_carried(const struct draw *d, const struct ir_dep *e) {
  return e->from != e->to &&
         (e->kind == IR_DEP_RAW ||
          (e->kind == IR_DEP_WAR && (d->ir->nodes.v[e->from].kind == IR_COLLECTIVE ||
                                     d->ir->nodes.v[e->to].kind == IR_COLLECTIVE)));
}

static bool names(const struct ir_buffer *b, ir_id other) {
  VEC_EACH(&b->aliases, a)
  if (*a == other)
    return true;
  return b->alias_of == other;
}

static bool same_memory(const struct draw *d, ir_id x, ir_id y) {
  const struct ir_buffer *b = d->ir->buffers.v;
  return x == y || (x >= 0 && y >= 0 && (names(&b[x], y) || names(&b[y], x)));
}

/* Does an access of the same memory stand between the ends of E, so that the picture shows it
 * anyway? A carried edge is also shown by an edge between its ends in one iteration. */
static bool passes_on(const struct draw *d, const struct ir_dep *e, const int *first) {
  const struct ir_program *p = d->ir;
  for (int i = first[e->from]; i < first[e->from + 1]; i++) {
    const struct ir_dep *m = &p->deps.v[i];
    if (m->kind > IR_DEP_WAW || !same_memory(d, m->buffer, e->buffer) || !d->nodes[m->to] ||
        m->to == e->from || (m->carried && (!e->carried || m->loop != e->loop)))
      continue;
    if (m->to == e->to) {
      if (e->carried && !m->carried)
        return true;
      continue;
    }
    for (int k = first[m->to]; k < first[m->to + 1]; k++) {
      const struct ir_dep *l = &p->deps.v[k];
      if (l->to == e->to && l->kind <= IR_DEP_WAW && same_memory(d, l->buffer, e->buffer) &&
          l->carried == (e->carried && !m->carried) && (!l->carried || l->loop == e->loop))
        return true;
    }
  }
  return false;
}

static void draw_dependences(struct draw *d) {
  int *first = xcalloc(d->ir->nodes.n + 2, sizeof *first); /* dependences are sorted by FROM */
  bool sorted = true;
  for (size_t i = 0; i < d->ir->deps.n; i++) {
    first[d->ir->deps.v[i].from + 1]++;
    sorted = sorted && (!i || d->ir->deps.v[i - 1].from <= d->ir->deps.v[i].from);
  }
  for (size_t i = 0; i < d->ir->nodes.n; i++)
    first[i + 1] += first[i];
  VEC_EACH(&d->ir->deps, e)
  if (d->nodes[e->from] && d->nodes[e->to] &&
      (e->carried ? shows_carried(d, e) : e->kind <= IR_DEP_WAW) &&
      !(sorted && passes_on(d, e, first)))
    add_data(d, e);
  free(first);
  collect_order(d);
  reduce(d);
  VEC_EACH(&d->links, l) draw_link(d, l);
  VEC_EACH(&d->links, l) sb_free(&l->label);
  VEC_FREE(&d->links);
}

/* ---- overlap -------------------------------------------------------------------------------- */

/* Opportunities at one communication: the nearest computation before it, and the nearest after it
 * (in the next iteration, if there is none in the same). */
static void draw_opportunities(struct draw *d) {
  const struct ir_program *p = d->ir;
  enum { BEFORE, AFTER, NEXT, KINDS };
  const struct ir_overlap *(*best)[KINDS] = xcalloc(p->nodes.n + 1, sizeof *best);
  VEC_EACH(&p->overlaps, o) {
    bool a_comm = p->nodes.v[o->a].kind == IR_COLLECTIVE;
    ir_id comm = a_comm ? o->a : o->b;
    if (o->kind != IR_OVERLAP_ORDER_ONLY || p->nodes.v[comm].kind != IR_COLLECTIVE ||
        (o->carried && !a_comm))
      continue;
    const struct ir_overlap **slot = &best[comm][!a_comm ? BEFORE : o->carried ? NEXT : AFTER];
    if (!*slot || (!a_comm && d->position[o->a] > d->position[(*slot)->a]))
      *slot = o;
  }
  for (size_t i = 0; i < p->nodes.n; i++)
    for (int k = 0; k < KINDS; k++) {
      const struct ir_overlap *o = best[i][k];
      if (!o || !d->nodes[o->a] || !d->nodes[o->b] || (k == NEXT && best[i][AFTER]))
        continue;
      Agedge_t *e = edge(d, o->a, o->b);
      set_attr(e, "label", o->carried ? "may overlap (next iteration)" : "may overlap");
      set_attr(e, "tooltip", o->why);
      set_attr(e, "style", "dashed");
      set_attr(e, "color", "#e07000");
      set_attr(e, "fontcolor", "#c05000");
      set_attr(e, "penwidth", "2");
      set_attr(e, "dir", "none");
      set_attr(e, "constraint", "false");
    }
  free(best);
}

/* ---- the whole ------------------------------------------------------------------------------ */

#define ROW(color, style, text)                                                                    \
  "<TR><TD ALIGN=\"LEFT\"><FONT COLOR=\"" color "\"><B>" style                                     \
  "</B></FONT></TD><TD ALIGN=\"LEFT\">" text "</TD></TR>"
#define SWATCH(color, text)                                                                        \
  "<TR><TD BGCOLOR=\"" color "\"> </TD><TD ALIGN=\"LEFT\">" text "</TD></TR>"

static void draw_legend(struct draw *d) {
  char *html = agstrdup_html(
      d->g,
      (char *)"<TABLE BORDER=\"1\" CELLBORDER=\"0\" CELLSPACING=\"2\" COLOR=\"#c0c0c0\">" SWATCH(
          "#bcd6f5", "collective [region: directive]") SWATCH("#d5ecd4", "computation")
          SWATCH("#fdf0c4", "copy, memset") SWATCH("#e4e4e4", "synchronisation")
              SWATCH("#ecdff3", "call of a function of the program")
                  ROW("#1f3f7f", "&#8594;", "data: hazard, buffer [bytes); ? = possible")
                      ROW("#8a5fb0", "- - &#8594;", "data, to the next iteration") ROW(
                          "#9a9a9a", "&#8594;", "order of a stream, event or communicator")
                          ROW("#9a9a9a", "&#183; &#183; &#8594;", "the host waits") ROW(
                              "#e07000", "- - -",
                              "may overlap: no common data, only the program's order") "</TABLE>");
  Agnode_t *v = agnode(d->g, (char *)"legend", 1);
  set_attr(v, "shape", "plain");
  agsafeset(v, (char *)"label", html, (char *)"");
  agstrfree(d->g, html);
}

static void set_defaults(struct draw *d, size_t drawn) {
  agattr(d->g, AGRAPH, (char *)"fontname", (char *)"Helvetica");
  agattr(d->g, AGRAPH, (char *)"fontsize", (char *)"11");
  agattr(d->g, AGRAPH, (char *)"newrank", (char *)"true");
  agattr(d->g, AGRAPH, (char *)"rankdir", (char *)"TB");
  agattr(d->g, AGRAPH, (char *)"labelloc", (char *)"t");
  agattr(d->g, AGRAPH, (char *)"labeljust", (char *)"l");
  agattr(d->g, AGRAPH, (char *)"nodesep", (char *)"0.3");
  agattr(d->g, AGRAPH, (char *)"ranksep", (char *)"0.35");
  if (drawn > MANY_NODES) {
    agattr(d->g, AGRAPH, (char *)"nslimit", (char *)"1");
    agattr(d->g, AGRAPH, (char *)"nslimit1", (char *)"1");
    agattr(d->g, AGRAPH, (char *)"mclimit", (char *)"0.2");
    agattr(d->g, AGRAPH, (char *)"splines", (char *)"line");
  }
  agattr(d->g, AGNODE, (char *)"fontname", (char *)"Helvetica");
  agattr(d->g, AGNODE, (char *)"fontsize", (char *)"10");
  agattr(d->g, AGNODE, (char *)"margin", (char *)"0.1,0.05");
  agattr(d->g, AGEDGE, (char *)"fontname", (char *)"Helvetica");
  agattr(d->g, AGEDGE, (char *)"fontsize", (char *)"8");
}

static void number(const struct ir_program *p, ir_id id, int *position, int *next) {
  position[id] = (*next)++;
  for (size_t i = 0; i < p->nodes.v[id].children.n; i++)
    number(p, p->nodes.v[id].children.v[i], position, next);
}

Agraph_t *graph_draw(const struct ir_program *ir, const struct dir_set *set) {
  struct draw d = {.ir = ir, .set = set};
  d.g = agopen((char *)"program", Agdirected, NULL);
  d.nodes = xcalloc(ir->nodes.n + 1, sizeof *d.nodes);
  d.position = xcalloc(ir->nodes.n + 1, sizeof *d.position);
  int next = 0;
  size_t drawn = 0;
  VEC_EACH(&ir->functions, f) if (f->body >= 0) number(ir, f->body, d.position, &next);
  VEC_EACH(&ir->nodes, n) drawn += ir_node_is_leaf(n);
  set_defaults(&d, drawn);
  struct strbuf title = {0};
  VEC_EACH(&ir->files, f) if (f->main_file) add_text(&title, f->path, 0);
  set_label(d.g, &title);
  for (size_t i = 0; i < ir->functions.n; i++)
    draw_function(&d, (ir_id)i);
  draw_dependences(&d);
  draw_opportunities(&d);
  draw_legend(&d);
  free(d.nodes);
  free(d.position);
  return d.g;
}
