// SPDX-License-Identifier: Apache-2.0
#include "agents/cost_model.h"
#include "agents/cost_leaf.h"
#include "support/strbuf.h"
#include <math.h>
#include <string.h>

enum { MOST_ENTRIES = 4096, MOST_CALLS = 4, DEFAULT_CTAS = 32, NEAR = 16 };

/* A leaf in a block, or a region (then LEAF is its first). */
struct entry {
  ir_id leaf;
  int region;             /* index, -1 = computation or copy */
  bool compute;
  double weight, time, blocks;
  VEC(int) producers, consumers, independent, concurrent; /* entries of the same block */
};

/* Leaves that follow each other in one loop body or function. */
struct block {
  double trips;
  VEC(struct entry) entries;
};

struct cost_model {
  struct cost_context c;
  const struct dir_set *set;
  VEC(struct block) blocks;
  VEC(struct cost_region) regions;
  int entries, calls;
  double *hide;           /* scratch: what is left to hide behind, per entry of a block */
  size_t hide_size;
};

static double max(double a, double b) { return a > b ? a : b; }
static double min(double a, double b) { return a < b ? a : b; }

/* ---- the program as blocks ----------------------------------------------------------------------- */

static void walk(struct cost_model *m, ir_id node, size_t block, double weight);

static int region_of(const struct cost_model *m, ir_id node) {
  for (size_t i = 0; i < m->set->regions.n; i++)
    if (m->set->regions.v[i].node == node)
      return (int)i;
  return -1;
}

static struct entry *add_entry(struct cost_model *m, size_t block, ir_id node, double weight) {
  if (m->entries++ >= MOST_ENTRIES)
    return NULL;
  struct entry *e = &VEC_PUSH(&m->blocks.v[block].entries);
  *e = (struct entry){.leaf = node, .region = -1, .weight = weight};
  return e;
}

/* Bytes of the sends and receives below NODE, loops multiplied. */
static double group_bytes(const struct cost_model *m, ir_id node) {
  const struct ir_node *n = &m->c.ir->nodes.v[node];
  if (n->kind == IR_COLLECTIVE)
    return cost_leaf_bytes(&m->c, n);
  double bytes = 0;
  VEC_EACH(&n->children, child) bytes += group_bytes(m, *child);
  return n->kind == IR_LOOP ? bytes * max(1, cost_trips(&m->c, n) - n->u.control.over_peers) : bytes;
}

static void add_region(struct cost_model *m, int region, size_t block, ir_id node, double weight) {
  struct entry *e = add_entry(m, block, node, weight);
  if (!e)
    return;
  e->region = region;
  m->regions.v[region].bytes = group_bytes(m, node);
  m->regions.v[region].times += weight * m->blocks.v[block].trips;
}

static void walk_branch(struct cost_model *m, const struct ir_node *n, size_t block, double weight) {
  double x;
  size_t arms = n->children.n;
  cost_scope(&m->c, n->id);
  if (arms && arms <= 2 && estimate_known(m->c.names, n->u.control.condition, &x)) {
    size_t arm = x ? 0 : 1;
    if (arm < arms)
      walk(m, n->children.v[arm], block, weight);
    return;
  }
  for (size_t i = 0; i < arms; i++)
    walk(m, n->children.v[i], block, weight / (double)arms);
}

static void walk(struct cost_model *m, ir_id node, size_t block, double weight) {
  const struct ir_node *n = &m->c.ir->nodes.v[node];
  int region = region_of(m, node);
  if (region >= 0) {
    add_region(m, region, block, node, weight);
    return;
  }
  switch (n->kind) {
  case IR_SEQ:
  case IR_GROUP:
    for (size_t i = 0; i < n->children.n; i++)
      walk(m, n->children.v[i], block, weight);
    break;
  case IR_LOOP: {
    double trips = cost_trips(&m->c, n);
    if (trips <= 0 || n->children.n == 0)
      break;
    if (trips == 1) { /* over the process's devices: nothing repeats */
      walk(m, n->children.v[0], block, weight);
      break;
    }
    double outer = m->blocks.v[block].trips;
    struct block *inner = &VEC_PUSH(&m->blocks);
    inner->trips = outer * trips * weight;
    walk(m, n->children.v[0], m->blocks.n - 1, 1);
    break;
  }
  case IR_BRANCH:
    walk_branch(m, n, block, weight);
    break;
  case IR_COMPUTE:
  case IR_COPY: {
    struct entry *e = add_entry(m, block, node, weight);
    if (!e)
      break;
    cost_scope(&m->c, node);
    e->compute = n->kind == IR_COMPUTE;
    e->time = cost_leaf_time(&m->c, n, &e->blocks);
    break;
  }
  case IR_CALL: {
    ir_id callee = n->u.callee.callee;
    if (callee < 0 || m->calls >= MOST_CALLS || m->c.ir->functions.v[callee].body < 0)
      break;
    m->calls++;
    walk(m, m->c.ir->functions.v[callee].body, block, weight);
    m->calls--;
    break;
  }
  default:
    break;
  }
}

/* Functions that nothing reaches from main still count, once. */
static void walk_program(struct cost_model *m) {
  const struct ir_program *ir = m->c.ir;
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < ir->functions.n; i++) {
      const struct ir_function *f = &ir->functions.v[i];
      if (f->body < 0 || f->is_main != (pass == 0))
        continue;
      bool missing = pass == 0;
      for (size_t r = 0; r < m->set->regions.n && !missing; r++)
        missing = ir->nodes.v[m->set->regions.v[r].node].function == (ir_id)i &&
                  m->regions.v[r].times == 0;
      if (!missing)
        continue;
      struct block *b = &VEC_PUSH(&m->blocks);
      b->trips = 1;
      walk(m, f->body, m->blocks.n - 1, 1);
    }
}

/* ---- who can hide behind whom -------------------------------------------------------------------- */

static bool below(const struct ir_program *ir, ir_id leaf, ir_id node) {
  for (; leaf >= 0; leaf = ir->nodes.v[leaf].parent)
    if (leaf == node)
      return true;
  return false;
}

static void push_once(int **v, size_t *n, size_t *cap, int x) {
  for (size_t i = 0; i < *n; i++)
    if ((*v)[i] == x)
      return;
  *(int *)vec_grow((void **)v, n, cap, sizeof(int)) = x;
}
#define PUSH_ONCE(vec, x) push_once(&(vec)->v, &(vec)->n, &(vec)->cap, x)

/* Is there a direct flow of data from A to B? */
static bool flows(const struct ir_program *ir, ir_id a, ir_id b) {
  VEC_EACH(&ir->deps, d)
    if (d->kind == IR_DEP_RAW && below(ir, d->from, a) && below(ir, d->to, b))
      return true;
  return false;
}

/* How the region (A or B of the pair) and the computation relate, for the worst of the region's leaves:
 * -1 unknown, else an overlap kind. */
static int relation(const struct ir_program *ir, ir_id region, ir_id compute) {
  int worst = -1;
  VEC_EACH(&ir->overlaps, o) {
    bool fits = (below(ir, o->a, region) && o->b == compute) ||
                (below(ir, o->b, region) && o->a == compute);
    if (fits && !o->carried && (worst < 0 || (int)o->kind < worst))
      worst = (int)o->kind;
  }
  return worst;
}

static void relate(struct cost_model *m, struct block *b, int r) {
  struct entry *e = &b->entries.v[r];
  int low = r > NEAR ? r - NEAR : 0, n = (int)b->entries.n, high = r + NEAR < n ? r + NEAR + 1 : n;
  struct cost_region *region = &m->regions.v[e->region];
  double producer = 0, consumer = 0, independent = 0, concurrent = 0;
  for (int i = low; i < high; i++) {
    const struct entry *other = &b->entries.v[i];
    if (!other->compute)
      continue;
    double t = other->time * other->weight / max(e->weight, 1e-9);
    if (i < r && flows(m->c.ir, other->leaf, e->leaf)) {
      PUSH_ONCE(&e->producers, i);
      producer += t;
    } else if (i > r && flows(m->c.ir, e->leaf, other->leaf)) {
      PUSH_ONCE(&e->consumers, i);
      consumer += t;
    } else {
      int how = relation(m->c.ir, e->leaf, other->leaf);
      if (how == IR_OVERLAP_ORDER_ONLY) {
        PUSH_ONCE(&e->independent, i);
        independent += t;
      } else if (how == IR_OVERLAP_CONCURRENT) {
        PUSH_ONCE(&e->concurrent, i);
        concurrent += t;
      }
    }
  }
  region->producer = max(region->producer, producer);
  region->consumer = max(region->consumer, consumer);
  region->independent = max(region->independent, independent);
  region->concurrent = max(region->concurrent, concurrent);
}

/* ---- communication ------------------------------------------------------------------------------- */

static double link_rate(const struct cost_model *m) { /* bytes per microsecond */
  return m->c.machine->link_gbps * m->c.machine->link_efficiency * 1e3;
}

static int ctas_of(const struct dir_directive *d) { return d->ctas ? d->ctas : DEFAULT_CTAS; }

/* What the CTAs that communicate move, bytes per microsecond. */
static double rate(const struct cost_model *m, const struct dir_directive *d, double ctas) {
  const struct hardware *h = m->c.machine;
  double each = h->sm_link_gbps * 1e3;
  each *= d->vector_bytes == 16 ? 1 : d->vector_bytes == 8 ? 0.75 : 0.45;
  if (d->placement != DIR_placement_fused) /* there every thread stores what it has computed */
    each *= d->issuer == DIR_issuer_cta ? 1 : d->issuer == DIR_issuer_warp ? 0.12 : 0.01;
  double side = d->transfer == DIR_transfer_pull        ? h->pull_efficiency
                : d->transfer == DIR_transfer_automatic ? (1 + h->pull_efficiency) / 2
                                                        : 1;
  return min(link_rate(m), ctas * each * side);
}

static double barrier(const struct cost_model *m, const struct dir_directive *d) {
  const struct hardware *h = m->c.machine;
  switch (d->sync) {
  case DIR_sync_world_barrier:
    return h->world_barrier_us;
  case DIR_sync_team_barrier:
    return h->barrier_us;
  default:
    return h->flag_us;
  }
}

static double chunks_of(const struct dir_directive *d, double bytes, double blocks) {
  double n = 1;
  if (d->chunk_bytes == DIR_CHUNK_TILE)
    n = blocks > 0 ? min(blocks, 4096) : 64;
  else if (d->chunk_bytes > 0)
    n = ceil(bytes / (double)d->chunk_bytes);
  return max(1, min(n, 65536));
}

static double host_time(const struct cost_model *m, const struct cost_region *r, bool p2p) {
  const struct hardware *h = m->c.machine;
  return (p2p ? h->host_p2p_us : h->host_collective_us) + r->bytes / link_rate(m);
}

/* Slicing a computation of BLOCKS into PARTS launches leaves multiprocessors without work at the end of each. SMS
 * are left for it. */
static double quantisation(const struct cost_model *m, double blocks, double parts, double sms) {
  if (blocks <= 0)
    return 1 + 0.02 * (parts - 1);
  double all = m->c.machine->sms, before = max(1, ceil(blocks / all));
  return max(1, ceil(blocks / parts / sms) * parts / before * (sms / all));
}

/* What a block's computations offer, and what a region adds to their time. */
struct offer {
  double producer, consumer, independent, concurrent, blocks; /* BLOCKS of the largest producer */
};

static double hide(double time, double behind, double slowdown) {
  double hidden = min(time, behind / (1 + slowdown));
  return time - hidden + slowdown * hidden;
}

static double exposed(const struct cost_model *m, const struct dir_directive *d,
                      const struct cost_region *r, bool p2p, const struct offer *o) {
  const struct hardware *h = m->c.machine;
  double slow = h->overlap_slowdown, c = ctas_of(d);
  if (d->backend == DIR_backend_host)
    return hide(host_time(m, r, p2p), o->concurrent, slow);
  double s = h->sms, chunks = chunks_of(d, r->bytes, o->blocks), share = c / max(s - c, 1);
  double rounds = d->chunk_bytes > 0 ? chunks : 1; /* of a copy that is synchronised by chunks */
  double transfer = h->link_latency_us + r->bytes / rate(m, d, c);
  switch (d->placement) {
  case DIR_placement_split:
    return hide(transfer, o->concurrent + o->independent, slow + share) + h->launch_us +
           (1 + rounds) * barrier(m, d) + h->event_us * (o->independent > 0);
  case DIR_placement_pipelined: {
    double parts = max(1, d->depth);
    double slice = o->producer * quantisation(m, o->blocks, parts, s - c) + o->consumer;
    double per = h->launch_us + h->event_us + (1 + ceil(rounds / parts)) * barrier(m, d);
    double stage = max((slice * (1 + slow + share)) / parts, transfer / parts + per);
    double total = (slice + transfer) / parts + (parts - 1) * stage + per;
    return total - o->producer - o->consumer + 2 * h->event_us;
  }
  case DIR_placement_fused: {
    double flags = chunks / s * h->flag_us; /* set by different CTAs, side by side */
    /* scattered stores: less of the link, and issue slots of the producer */
    double store = r->bytes / (rate(m, d, s) * 0.85);
    double body = max(o->producer * (1 + slow) + 0.25 * r->bytes / (s * h->sm_link_gbps * 1e3) + flags, store);
    return body - o->producer + h->link_latency_us + h->flag_us + transfer / chunks * (chunks < 2 ? 0.2 : 0.05);
  }
  case DIR_placement_specialized: {
    double compute = (o->producer + o->consumer) * s / max(s - c, 1);
    double per = h->flag_us / c;
    double stage = max(compute / chunks, transfer / chunks + per);
    double total = (compute + transfer) / chunks + (chunks - 1) * stage;
    return total - o->producer - o->consumer + 2 * h->flag_us - h->launch_us * (o->consumer > 0);
  }
  default:
    return hide(transfer + (1 + rounds) * barrier(m, d) + h->launch_us, o->concurrent, slow + share);
  }
}

/* ---- whole programs ------------------------------------------------------------------------------ */

/* Takes what is left of the computations LIST to hide behind. */
static double offered(const struct cost_model *m, const struct block *b, const int *list, size_t n,
                      double weight, bool use) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    const struct entry *e = &b->entries.v[list[i]];
    sum += m->hide[list[i]] * min(1, e->weight / max(weight, 1e-9));
    if (use)
      m->hide[list[i]] = 0;
  }
  return sum;
}

/* What entry R adds to the time of the computations of its block. */
static double region_time(const struct cost_model *m, const struct block *b, size_t r,
                          const struct dir_directive *d) {
  const struct entry *e = &b->entries.v[r];
  bool host = d->backend == DIR_backend_host, overlap = !host && d->placement != DIR_placement_deferred;
  bool slices = overlap && d->placement != DIR_placement_split;
  struct offer o = {0};
  o.producer = offered(m, b, e->producers.v, e->producers.n, e->weight, slices);
  bool takes_consumer = slices && d->placement != DIR_placement_fused;
  o.consumer = offered(m, b, e->consumers.v, e->consumers.n, e->weight, takes_consumer);
  o.independent = offered(m, b, e->independent.v, e->independent.n, e->weight,
                          d->placement == DIR_placement_split && !host);
  o.concurrent = offered(m, b, e->concurrent.v, e->concurrent.n, e->weight, true);
  if (!takes_consumer)
    o.consumer = 0;
  for (size_t i = 0; i < e->producers.n; i++)
    o.blocks = max(o.blocks, b->entries.v[e->producers.v[i]].blocks);
  bool p2p = dir_is_p2p(m->c.ir, &m->set->regions.v[e->region]);
  return exposed(m, d, &m->regions.v[e->region], p2p, &o);
}

static double block_time(const struct cost_model *m, const struct block *b,
                         const struct dir_directive *d) {
  double total = 0;
  for (size_t i = 0; i < b->entries.n; i++) {
    const struct entry *e = &b->entries.v[i];
    m->hide[i] = e->compute ? e->time : 0;
    total += e->time * e->weight;
  }
  for (size_t i = 0; i < b->entries.n; i++) {
    const struct entry *e = &b->entries.v[i];
    if (e->region >= 0)
      total += e->weight * region_time(m, b, i, &d[e->region]);
  }
  return total;
}

double cost_predict(const struct cost_model *m, const struct dir_directive *d) {
  double total = 0;
  VEC_EACH(&m->blocks, b) total += b->trips * block_time(m, b, d);
  return total;
}

void cost_facts(const struct cost_model *m, struct cost_facts *out) {
  *out = (struct cost_facts){0};
  VEC_EACH(&m->blocks, b)
    VEC_EACH(&b->entries, e) {
      double t = b->trips * e->weight;
      if (e->region >= 0) {
        out->communication += t * m->regions.v[e->region].host;
        out->transfer += t * m->regions.v[e->region].transfer;
      } else if (e->compute)
        out->compute += t * e->time;
      else
        out->other += t * e->time;
    }
  double most = max(out->compute, out->transfer);
  out->ideal = most + out->other;
  out->limit = most > 0 ? (out->compute + out->communication) / most : 1;
}

const struct cost_region *cost_of_region(const struct cost_model *m, size_t region) {
  return &m->regions.v[region];
}

/* ---- life ---------------------------------------------------------------------------------------- */

struct cost_model *cost_new(const struct ir_program *ir, const struct dir_set *set,
                            const struct hardware *machine, struct estimate *names) {
  static const char *const rank_names[] = {"nranks", "nRanks", "nranks_", "num_ranks", "world_size",
                                           "nprocs", "size",   "nDev",    "ndev",      "ngpus"};
  struct cost_model *m = xcalloc(1, sizeof *m);
  m->c = (struct cost_context){ir, machine, names, machine->ranks};
  m->set = set;
  for (size_t i = 0; i < sizeof rank_names / sizeof *rank_names; i++) {
    double given;
    if (!estimate_given(names, rank_names[i], &given))
      estimate_set(names, rank_names[i], machine->ranks, ESTIMATE_MACHINE);
    else if (i == 0)
      m->c.ranks = max(1, given);
  }
  double rank;
  if (!estimate_given(names, "rank", &rank))
    estimate_set(names, "rank", 0, ESTIMATE_MACHINE);
  for (size_t i = 0; i < set->regions.n; i++)
    VEC_PUSH(&m->regions) = (struct cost_region){0};
  walk_program(m);
  VEC_EACH(&m->blocks, b) {
    m->hide_size = b->entries.n > m->hide_size ? b->entries.n : m->hide_size;
    for (size_t i = 0; i < b->entries.n; i++)
      if (b->entries.v[i].region >= 0)
        relate(m, b, (int)i);
  }
  m->hide = xcalloc(m->hide_size + 1, sizeof *m->hide);
  for (size_t i = 0; i < m->regions.n; i++) {
    struct cost_region *r = &m->regions.v[i];
    r->host = host_time(m, r, dir_is_p2p(ir, &set->regions.v[i]));
    r->transfer = machine->link_latency_us + r->bytes / link_rate(m);
  }
  return m;
}

void cost_free(struct cost_model *m) {
  if (!m)
    return;
  VEC_EACH(&m->blocks, b) {
    VEC_EACH(&b->entries, e) {
      VEC_FREE(&e->producers);
      VEC_FREE(&e->consumers);
      VEC_FREE(&e->independent);
      VEC_FREE(&e->concurrent);
    }
    VEC_FREE(&b->entries);
  }
  VEC_FREE(&m->blocks);
  VEC_FREE(&m->regions);
  free(m->hide);
  free(m);
}

/* ---- drawing ------------------------------------------------------------------------------------- */

static void bar(struct cost_timeline *t, bool communication, double begin, double length,
                const char *label) {
  if (length <= 0)
    return;
  struct cost_bar *b = &VEC_PUSH(&t->bars);
  *b = (struct cost_bar){communication, begin, begin + length, xstrdup(label)};
}

static double communication_time(const struct cost_model *m, const struct entry *e,
                                 const struct dir_directive *d) {
  const struct cost_region *r = &m->regions.v[e->region];
  if (d->backend == DIR_backend_host)
    return r->host;
  double sms = d->placement == DIR_placement_fused ? m->c.machine->sms : ctas_of(d);
  return m->c.machine->link_latency_us + r->bytes / rate(m, d, sms) + barrier(m, d);
}

/* Each region ends where the time that it adds ends, and reaches back over what it hides behind. */
void cost_draw(const struct cost_model *m, const struct dir_directive *d, struct cost_timeline *out) {
  memset(out, 0, sizeof *out);
  const struct block *hot = NULL;
  double most = -1;
  VEC_EACH(&m->blocks, b) {
    double t = b->trips * block_time(m, b, d);
    bool any = false;
    VEC_EACH(&b->entries, e) any |= e->region >= 0;
    if (any && t > most) {
      most = t;
      hot = b;
    }
  }
  if (!hot)
    return;
  double now = 0;
  for (size_t i = 0; i < hot->entries.n; i++)
    m->hide[i] = hot->entries.v[i].compute ? hot->entries.v[i].time : 0;
  for (size_t i = 0; i < hot->entries.n; i++) {
    const struct entry *e = &hot->entries.v[i];
    const char *label = m->c.ir->nodes.v[e->leaf].label;
    if (e->region < 0) {
      bar(out, false, now, e->time * e->weight, label);
      now += e->time * e->weight;
      continue;
    }
    const struct dir_directive *dir = &d[e->region];
    double adds = e->weight * region_time(m, hot, i, dir);
    double length = max(e->weight * communication_time(m, e, dir), adds);
    const char *call = m->c.ir->calls.v[m->set->regions.v[e->region].calls.v[0]].callee;
    char *text = xasprintf("%s: %s", call,
                           dir->backend == DIR_backend_host
                               ? "host"
                               : dir_value_name(DIR_DIM_placement, (int)dir->placement));
    double end = max(now + adds, 0), begin = max(0, end - length);
    bar(out, true, begin, end - begin, text);
    free(text);
    now = end;
  }
  out->total = now;
}

void cost_timeline_free(struct cost_timeline *t) {
  VEC_EACH(&t->bars, b) free(b->label);
  VEC_FREE(&t->bars);
}
