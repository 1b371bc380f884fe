// SPDX-License-Identifier: Apache-2.0
/* Analyses on programs of the kinds that users write, where the right answer is known. */
#include "lib/unit.h"

#include "ir/ir.h"
#include "support/strbuf.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- building ------------------------------------------------------------------------------- */

static struct ir_program *p;
static ir_id seq; /* where the next node goes */

static ir_id function(const char *name) {
  ir_id f = ir_add_function(p, name), body = ir_add_node(p, IR_SEQ, -1);
  ir_node(p, body)->function = f;
  p->functions.v[f].body = body;
  seq = body;
  return f;
}

static int setup(void **state) {
  (void)state;
  p = ir_new();
  function("main");
  return 0;
}

static int teardown(void **state) {
  (void)state;
  ir_free(p);
  p = NULL;
  return 0;
}

static ir_id buffer(const char *name, enum ir_origin origin) {
  ir_id b = ir_add_buffer(p, name, p->functions.v[ir_node(p, seq)->function].name);
  p->buffers.v[b].origin = origin;
  return b;
}

static ir_id stream(const char *name) { return ir_add_stream(p, name, "main"); }

static ir_id leaf(enum ir_node_kind kind, ir_id s, const char *label) {
  ir_id n = ir_add_node(p, kind, seq);
  ir_node(p, n)->stream = s;
  ir_node(p, n)->async = kind != IR_SYNC && kind != IR_HOST;
  ir_set(&ir_node(p, n)->label, label);
  return n;
}

/* Reads READ and writes WRITE, if not -1; ranges unknown. */
static ir_id kernel(ir_id s, ir_id read, ir_id write) {
  ir_id n = leaf(IR_COMPUTE, s, "kernel");
  if (read >= 0)
    ir_add_operand(p, n, read, IR_READ);
  if (write >= 0)
    ir_add_operand(p, n, write, IR_WRITE);
  return n;
}

static ir_id collective(ir_id s, ir_id send, ir_id recv) {
  ir_id n = leaf(IR_COLLECTIVE, s, "ncclAllReduce");
  ir_id b[] = {send, recv};
  for (int i = 0; i < 2; i++) {
    struct ir_operand *o = ir_add_operand(p, n, b[i], i ? IR_WRITE : IR_READ);
    ir_expr_const(&o->offset, 0);
    ir_expr_symbol(&o->size, "bytes");
    o->exact = true;
  }
  return n;
}

static ir_id sync_with(enum ir_sync_kind kind, ir_id s, ir_id event) {
  ir_id n = leaf(IR_SYNC, s, "sync");
  ir_node(p, n)->u.sync.kind = kind;
  ir_node(p, n)->event = event;
  return n;
}

static ir_id open_loop(bool devices) {
  ir_id l = ir_add_node(p, IR_LOOP, seq);
  ir_node(p, l)->u.control.over_devices = devices;
  seq = ir_add_node(p, IR_SEQ, l);
  return l;
}

static void close_inner(void) { seq = ir_node(p, ir_node(p, seq)->parent)->parent; }

static void analyse(void) {
  char why[300];
  ir_analyse(p);
  if (!ir_verify(p, why, sizeof why))
    fail_msg("%s", why);
}

static const struct ir_dep *find(ir_id from, ir_id to, enum ir_dep_kind kind, bool carried) {
  VEC_EACH(&p->deps, d)
  if (d->from == from && d->to == to && d->kind == kind && d->carried == carried)
    return d;
  return NULL;
}

static bool any_data(ir_id from, ir_id to, bool carried) {
  return find(from, to, IR_DEP_RAW, carried) || find(from, to, IR_DEP_WAR, carried) ||
         find(from, to, IR_DEP_WAW, carried);
}

static const struct ir_overlap *pair(ir_id a, ir_id b, bool carried) {
  VEC_EACH(&p->overlaps, o) if (o->a == a && o->b == b && o->carried == carried) return o;
  return NULL;
}

static void is(ir_id a, ir_id b, bool carried, enum ir_overlap_kind kind, const char *why) {
  const struct ir_overlap *o = pair(a, b, carried);
  if (!o)
    fail_msg("no pair %d, %d", a, b);
  if (o->kind != kind || !strstr(o->why, why))
    fail_msg("%d, %d is \"%s\": %s", a, b, ir_overlap_name(o->kind), o->why);
}

/* ---- overlap -------------------------------------------------------------------------------- */

static void classes(void **state) {
  (void)state;
  ir_id s = stream("s"), t = stream("t"), x = buffer("x", IR_ORIGIN_CUDA),
        y = buffer("y", IR_ORIGIN_CUDA), z = buffer("z", IR_ORIGIN_CUDA);
  ir_id w = buffer("w", IR_ORIGIN_CUDA);
  ir_id produce = kernel(s, -1, x), gather = collective(s, x, y), other = kernel(s, z, z),
        racing = kernel(t, z, -1), elsewhere = kernel(t, w, w), use = kernel(s, y, z);
  analyse();
  is(produce, gather, false, IR_OVERLAP_DATA, "RAW on x");
  is(gather, other, false, IR_OVERLAP_ORDER_ONLY, "stream s");
  is(gather, racing, false, IR_OVERLAP_CONCURRENT, "streams s and t");
  is(gather, elsewhere, false, IR_OVERLAP_CONCURRENT, "streams s and t");
  is(gather, use, false, IR_OVERLAP_DATA, "RAW on y");
  assert_non_null(find(other, racing, IR_DEP_RAW, false)); /* a race, and a dependence */
  assert_true(find(produce, gather, IR_DEP_RAW, false)->may);
}

static void through_host(void **state) {
  (void)state;
  ir_id s = stream("s"), x = buffer("x", IR_ORIGIN_CUDA), r = buffer("r", IR_ORIGIN_CUDA),
        h = buffer("h", IR_ORIGIN_HOST), z = buffer("z", IR_ORIGIN_CUDA);
  ir_id reduce = collective(s, x, r);
  ir_id copy = leaf(IR_COPY, s, "copy");
  ir_node(p, copy)->u.copy.kind = IR_COPY_D2H;
  ir_add_operand(p, copy, r, IR_READ);
  ir_add_operand(p, copy, h, IR_WRITE);
  ir_id before = kernel(s, z, z), wait = sync_with(IR_SYNC_STREAM, s, -1), after = kernel(s, z, z);
  analyse();
  is(reduce, before, false, IR_OVERLAP_ORDER_ONLY, "stream s");
  is(reduce, after, false, IR_OVERLAP_DATA, "the host waits for its data");
  assert_non_null(find(before, wait, IR_DEP_HOST, false));
  assert_non_null(find(wait, after, IR_DEP_HOST, false));
}

static void host_order(void **state) {
  (void)state;
  ir_id s = stream("s"), t = stream("t"), x = buffer("x", IR_ORIGIN_CUDA),
        z = buffer("z", IR_ORIGIN_CUDA);
  ir_id reduce = collective(s, x, x), wait = sync_with(IR_SYNC_DEVICE, -1, -1),
        after = kernel(t, z, z);
  ir_set(&ir_node(p, wait)->label, "cudaDeviceSynchronize");
  analyse();
  is(reduce, after, false, IR_OVERLAP_ORDER_ONLY, "cudaDeviceSynchronize");
}

static void events(void **state) {
  (void)state;
  ir_id s = stream("s"), t = stream("t"), x = buffer("x", IR_ORIGIN_CUDA),
        z = buffer("z", IR_ORIGIN_CUDA), e = ir_add_event(p, "done", "main");
  ir_id reduce = collective(s, x, x), record = sync_with(IR_SYNC_EVENT_RECORD, s, e),
        free_one = kernel(t, z, z), wait = sync_with(IR_SYNC_EVENT_WAIT, t, e),
        bound = kernel(t, z, z);
  analyse();
  assert_non_null(find(reduce, record, IR_DEP_STREAM, false));
  assert_non_null(find(record, wait, IR_DEP_EVENT, false));
  is(reduce, free_one, false, IR_OVERLAP_CONCURRENT, "");
  is(reduce, bound, false, IR_OVERLAP_ORDER_ONLY, "event done");
}

/* A ring: the next iteration's kernel needs what is received now. */
static void carried(void **state) {
  (void)state;
  ir_id s = stream("s"), x = buffer("x", IR_ORIGIN_CUDA), y = buffer("y", IR_ORIGIN_CUDA),
        z = buffer("z", IR_ORIGIN_CUDA);
  ir_id loop = open_loop(false);
  ir_id compute = kernel(s, x, z), shift = collective(s, y, x), last = kernel(s, z, z);
  close_inner();
  analyse();
  const struct ir_dep *d = find(shift, compute, IR_DEP_RAW, true);
  assert_non_null(d);
  assert_int_equal(d->loop, loop);
  is(shift, compute, true, IR_OVERLAP_DATA, "RAW on x");
  is(shift, last, false, IR_OVERLAP_ORDER_ONLY, "stream s");
  is(last, shift, true, IR_OVERLAP_DATA, "WAW on z"); /* through the kernel on x */
}

/* ---- memory --------------------------------------------------------------------------------- */

static void ranges(void **state) {
  (void)state;
  ir_id x = buffer("x", IR_ORIGIN_CUDA);
  struct {
    const char *symbol;
    int offset, size;
  } in[] = {{"n", 0, 0}, {"n", 4, 0}, {NULL, 0, 16}, {NULL, 16, 4}, {NULL, 8, 4}};
  struct ir_operand o[5];
  for (int i = 0; i < 5; i++) {
    ir_id k = kernel(-1, x, -1);
    o[i] = ir_node(p, k)->operands.v[0];
    struct ir_operand *q = &ir_node(p, k)->operands.v[0];
    ir_expr_const(&q->offset, in[i].offset);
    if (in[i].symbol && i == 1) /* [n, n + 4) */
      ir_expr_symbol(&q->offset, "n");
    ir_expr_const(&q->size, in[i].offset ? 4 : in[i].size);
    if (i == 0)
      ir_expr_symbol(&q->size, "n"); /* [0, n) */
    q->exact = true;
    o[i] = *q;
  }
  assert_int_equal(ir_operands_overlap(p, &o[0], &o[0]), 2);
  assert_int_equal(ir_operands_overlap(p, &o[0], &o[1]), 0); /* the part behind it */
  assert_int_equal(ir_operands_overlap(p, &o[0], &o[2]), 2); /* same start */
  assert_int_equal(ir_operands_overlap(p, &o[0], &o[3]), 1);
  assert_int_equal(ir_operands_overlap(p, &o[1], &o[2]), 1);
  assert_int_equal(ir_operands_overlap(p, &o[2], &o[3]), 0);
  assert_int_equal(ir_operands_overlap(p, &o[2], &o[4]), 2);
  o[4].exact = false;
  assert_int_equal(ir_operands_overlap(p, &o[2], &o[4]), 1);
  o[4].buffer = buffer("other", IR_ORIGIN_CUDA);
  assert_int_equal(ir_operands_overlap(p, &o[2], &o[4]), 0);
  o[4].buffer = -1;
  assert_int_equal(ir_operands_overlap(p, &o[2], &o[4]), 1);
}

static void aliases(void **state) {
  (void)state;
  ir_id s = stream("s"), a = buffer("a", IR_ORIGIN_CUDA), b = buffer("b", IR_ORIGIN_CUDA),
        cur = buffer("cur", IR_ORIGIN_UNKNOWN), half = buffer("half", IR_ORIGIN_ALIAS),
        quarter = buffer("quarter", IR_ORIGIN_ALIAS), c = buffer("c", IR_ORIGIN_CUDA);
  p->buffers.v[cur].reassigned = true;
  VEC_PUSH(&p->buffers.v[cur].aliases) = a;
  VEC_PUSH(&p->buffers.v[cur].aliases) = b;
  p->buffers.v[half].alias_of = a;
  p->buffers.v[quarter].alias_of = half;
  ir_id wa = kernel(s, -1, a), rb = kernel(s, b, -1), rcur = kernel(s, cur, -1),
        rquarter = kernel(s, quarter, -1), rc = kernel(s, c, -1);
  analyse();
  assert_false(any_data(wa, rb, false));
  assert_true(find(wa, rcur, IR_DEP_RAW, false)->may);
  assert_true(find(wa, rquarter, IR_DEP_RAW, false)->may);
  assert_false(any_data(wa, rc, false));
}

static void unknown_memory(void **state) {
  (void)state;
  ir_id s = stream("s"), a = buffer("a", IR_ORIGIN_CUDA), u = buffer("u", IR_ORIGIN_UNKNOWN);
  ir_id wa = kernel(s, -1, a), any = kernel(s, -1, a), ru = kernel(s, u, -1);
  ir_node(p, any)->operands.v[0].buffer = -1;
  analyse();
  assert_true(find(wa, any, IR_DEP_WAW, false)->may);
  assert_true(any_data(wa, ru, false));
  assert_true(any_data(any, ru, false));
}

static void freed(void **state) {
  (void)state;
  ir_id s = stream("s"), t = stream("t"), a = buffer("a", IR_ORIGIN_CUDA),
        b = buffer("b", IR_ORIGIN_CUDA);
  ir_id use = kernel(s, a, -1), other = kernel(t, b, b);
  ir_id n = leaf(IR_HOST, -1, "cudaFree"), c = ir_add_call(p, IR_CALL_FREE, "cudaFree");
  p->calls.v[c].buffer = a;
  ir_node(p, n)->call = c;
  ir_id after = kernel(t, b, b);
  analyse();
  assert_non_null(find(use, n, IR_DEP_WAR, false));
  assert_non_null(find(other, n, IR_DEP_HOST, false)); /* cudaFree waits for the device */
  assert_non_null(find(n, after, IR_DEP_HOST, false));
}

static void device_globals(void **state) {
  (void)state;
  ir_id s = stream("s"), k1 = ir_add_kernel(p, "k1"), k2 = ir_add_kernel(p, "k2"),
        k3 = ir_add_kernel(p, "k3");
  VEC_PUSH(&p->kernels.v[k1].device_globals) = xstrdup("counter");
  VEC_PUSH(&p->kernels.v[k2].device_globals) = xstrdup("counter");
  VEC_PUSH(&p->kernels.v[k3].device_globals) = xstrdup("table");
  ir_id a = kernel(s, -1, -1), b = kernel(s, -1, -1), c = kernel(s, -1, -1);
  ir_node(p, a)->u.compute.kernel = k1;
  ir_node(p, b)->u.compute.kernel = k2;
  ir_node(p, c)->u.compute.kernel = k3;
  analyse();
  assert_true(any_data(a, b, false));
  assert_false(any_data(a, c, false));
  assert_false(any_data(b, c, false));
}

/* ---- shapes of programs --------------------------------------------------------------------- */

/* One process, n devices: launches and collectives in sibling loops. */
static void per_device(void **state) {
  (void)state;
  ir_id s = stream("s[]"), x = buffer("x[]", IR_ORIGIN_CUDA), y = buffer("y[]", IR_ORIGIN_CUDA),
        shared = buffer("shared", IR_ORIGIN_OTHER);
  p->streams.v[s].per_device = p->buffers.v[x].per_device = p->buffers.v[y].per_device = true;
  ir_id devices = open_loop(true);
  ir_id fill = kernel(s, -1, x), count = kernel(s, -1, shared);
  close_inner();
  ir_id group = ir_add_node(p, IR_GROUP, seq);
  seq = ir_add_node(p, IR_SEQ, group);
  open_loop(true);
  ir_id gather = collective(s, x, y);
  close_inner();
  close_inner();
  open_loop(true);
  ir_id use = kernel(s, y, -1);
  close_inner();
  analyse();
  assert_non_null(find(fill, gather, IR_DEP_RAW, false));
  assert_non_null(find(gather, use, IR_DEP_RAW, false));
  assert_null(find(fill, fill, IR_DEP_WAW, true)); /* each device has its own */
  assert_null(find(fill, fill, IR_DEP_STREAM, true));
  const struct ir_dep *d = find(count, count, IR_DEP_WAW, true);
  assert_non_null(d);
  assert_int_equal(d->loop, devices);
  assert_null(find(gather, gather, IR_DEP_WAW, true)); /* members of a group are unordered */
}

static void groups(void **state) {
  (void)state;
  ir_id s = stream("s"), x = buffer("x", IR_ORIGIN_CUDA), y = buffer("y", IR_ORIGIN_CUDA);
  ir_id produce = kernel(s, -1, x);
  ir_id group = ir_add_node(p, IR_GROUP, seq);
  seq = ir_add_node(p, IR_SEQ, group);
  ir_id send = collective(s, x, y), recv = collective(s, x, y);
  close_inner();
  ir_id consume = kernel(s, y, -1);
  analyse();
  assert_false(any_data(send, recv, false));
  assert_null(find(send, recv, IR_DEP_STREAM, false));
  assert_true(any_data(produce, send, false) && any_data(produce, recv, false));
  assert_true(any_data(send, consume, false) && any_data(recv, consume, false));
  assert_non_null(find(produce, send, IR_DEP_STREAM, false));
  assert_null(find(produce, recv, IR_DEP_STREAM, false)); /* the first speaks for both */
  assert_null(pair(send, recv, false));
}

static void branches(void **state) {
  (void)state;
  ir_id s = stream("s"), x = buffer("x", IR_ORIGIN_CUDA);
  ir_id before = kernel(s, -1, x), branch = ir_add_node(p, IR_BRANCH, seq), outer = seq;
  seq = ir_add_node(p, IR_SEQ, branch);
  ir_id yes = collective(s, x, x);
  seq = ir_add_node(p, IR_SEQ, branch);
  ir_id no = kernel(s, x, x);
  seq = outer;
  ir_id after = kernel(s, x, -1);
  analyse();
  assert_false(any_data(yes, no, false));
  assert_null(find(yes, no, IR_DEP_STREAM, false));
  assert_null(pair(yes, no, false));
  assert_true(any_data(before, yes, false) && any_data(before, no, false));
  assert_true(any_data(yes, after, false) && any_data(no, after, false));
  assert_true(any_data(before, after, false)); /* neither arm need be taken */
}

static void calls(void **state) {
  (void)state;
  ir_id s = stream("s"), x = buffer("x", IR_ORIGIN_CUDA), y = buffer("y", IR_ORIGIN_CUDA),
        z = buffer("z", IR_ORIGIN_CUDA), main_body = seq;
  ir_id f = function("exchange"); /* exchange(float *a, float *b): b from a */
  ir_id a = buffer("a", IR_ORIGIN_PARAM), b = buffer("b", IR_ORIGIN_PARAM),
        tmp = buffer("tmp", IR_ORIGIN_CUDA);
  p->buffers.v[a].param = 0;
  p->buffers.v[b].param = 1;
  VEC_PUSH(&p->buffers.v[a].aliases) = x;
  VEC_PUSH(&p->buffers.v[b].aliases) = y;
  ir_id inner = collective(s, a, b);
  kernel(s, b, tmp);
  sync_with(IR_SYNC_STREAM, s, -1);
  seq = main_body;
  ir_id write = kernel(s, -1, x), call = leaf(IR_CALL, -1, "exchange"), read_y = kernel(s, y, -1),
        read_z = kernel(s, z, -1);
  ir_node(p, call)->u.callee.callee = f;
  const char *args[] = {"x", "y"};
  for (int i = 0; i < 2; i++)
    VEC_PUSH(&ir_node(p, call)->u.callee.args) =
        (struct ir_arg){xstrdup(args[i]), {-1, 0, 0, 0, 0}};
  analyse();
  assert_true(find(write, call, IR_DEP_RAW, false)->may);
  assert_non_null(find(call, read_y, IR_DEP_RAW, false));
  assert_false(any_data(call, read_z, false));
  assert_non_null(find(call, read_z, IR_DEP_HOST, false) ? find(call, read_z, IR_DEP_HOST, false)
                                                         : find(call, read_y, IR_DEP_HOST, false));
  is(write, call, false, IR_OVERLAP_DATA, "RAW on x");
  is(call, read_z, false, IR_OVERLAP_ORDER_ONLY, "");
  assert_int_equal(ir_node(p, inner)->function, f);
}

static void recursion(void **state) {
  (void)state;
  ir_id s = stream("s"), x = buffer("x", IR_ORIGIN_CUDA), main_body = seq;
  ir_id f = function("f"), call_g = leaf(IR_CALL, -1, "g");
  ir_id g = function("g"), call_f = leaf(IR_CALL, -1, "f");
  kernel(s, -1, x);
  ir_node(p, call_g)->u.callee.callee = g;
  ir_node(p, call_f)->u.callee.callee = f;
  seq = main_body;
  ir_id call = leaf(IR_CALL, -1, "f"), read = kernel(s, x, -1);
  ir_node(p, call)->u.callee.callee = f;
  analyse();
  assert_true(any_data(call, read, false));
}

/* ---- size ----------------------------------------------------------------------------------- */

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Ten thousand leaves in SHAPE: 0 = long straight line with all kinds of ranges, 1 = everything on
 * one buffer with unknown ranges, 2 = reads of one buffer between writes of another that may be the
 * same, 3 = one loop, 4 = many small loops, 5 = unknown streams, 6 = wide groups, 7 = many constant
 * parts. */
static void big(void **state) {
  (void)state;
  for (int shape = 0; shape < 8; shape++) {
    ir_free(p);
    p = ir_new();
    function("main");
    ir_id s[4], b[64], root = seq;
    for (int i = 0; i < 4; i++)
      s[i] = stream("s");
    p->streams.v[s[0]].is_default = true;
    for (int i = 0; i < 64; i++)
      b[i] = buffer("b", IR_ORIGIN_CUDA);
    if (shape == 2) {
      p->buffers.v[b[1]].reassigned = true;
      VEC_PUSH(&p->buffers.v[b[1]].aliases) = b[0];
    }
    if (shape == 3)
      open_loop(false);
    for (int i = 0; i < 10000; i++) {
      ir_id st = shape == 5 ? -1 : s[i % 4];
      if (shape == 4 && i % 10 == 0) {
        seq = root;
        open_loop(false);
      }
      if (shape == 6 && i % 1000 == 0) {
        seq = ir_add_node(p, IR_SEQ, ir_add_node(p, IR_GROUP, root));
      }
      if (shape == 1)
        kernel(st, -1, b[0]);
      else if (shape == 2)
        kernel(st, i % 2 ? b[0] : -1, i % 2 ? -1 : b[1]);
      else if (shape == 7) {
        ir_id k = kernel(st, -1, b[0]);
        ir_expr_const(&ir_node(p, k)->operands.v[0].offset, i * 8);
        ir_expr_const(&ir_node(p, k)->operands.v[0].size, 8);
        ir_node(p, k)->operands.v[0].exact = true;
      } else if (i % 2 || shape == 6)
        collective(st, b[i % 64], b[(i + 1) % 64]);
      else
        kernel(st, b[i % 61], b[(i * 7) % 64]);
    }
    double start = seconds();
    ir_analyse(p);
    double used = seconds() - start;
    char why[300];
    if (!ir_verify(p, why, sizeof why))
      fail_msg("%s", why);
    print_message("# shape %d: %.2f s, %zu dependences, %zu pairs\n", shape, used, p->deps.n,
                  p->overlaps.n);
#if defined(__SANITIZE_ADDRESS__)
    assert_true(used < 20);
#else
    assert_true(used < 2);
#endif
  }
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(classes),  TEST(through_host),   TEST(host_order), TEST(events),
      TEST(carried),  TEST(ranges),         TEST(aliases),    TEST(unknown_memory),
      TEST(freed),    TEST(device_globals), TEST(per_device), TEST(groups),
      TEST(branches), TEST(calls),          TEST(recursion),  TEST(big)};
  return cmocka_run_group_tests_name("IR analysis", tests, NULL, NULL);
}
