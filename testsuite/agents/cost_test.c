// SPDX-License-Identifier: Apache-2.0
/* Estimates, machine descriptions, the cost model and the space of directives. */
#include "lib/unit.h"
#include "agents/cost_model.h"
#include "agents/evolve/space.h"
#include "backend/embed.h"
#include "support/strbuf.h"
#include <math.h>
#include <string.h>

/* ---- expressions --------------------------------------------------------------------------------- */

static void expressions(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double value;
  } good[] = {{"1+2*3", 7},           {"(8 + 16 - 1) / 16", 1},      {"(size_t)rows * n", 12 * 40},
              {"std::min(rows, 5)", 5}, {"max(1, rows)", 12},        {"1 << 10", 1024},
              {"n > 3 ? 10 : 20", 10}, {"sizeof(float) * 2", 8},     {"c.tokens % 7", 64 % 7},
              {"-3 + +5", 2},          {"static_cast<int>(n) / 7", 5}, {"7.5 / 2", 3.75},
              {"!0 && 1", 1},          {"0x10u", 16},                {"sizeof(double *)", 8},
              {"grid.x * grid.y", 6},  {"part", 480},                {"n <= 40 && n >= 40 && n != 41", 1},
              {"host.size()", 999},    {"loop", 999}};
  static const char *const bad[] = {"", "1 +", "(1", "1 / 0", "f(1", "a ? b", "1 2", "[](){}", "\"x\""};
  static const char program[] =
      "#define TILE 16 // comment = 3\n#define TWICE(x) (2 * (x))\n"
      "struct Config { int tokens = 64, hidden = 32; };\n"
      "/* n = 5; */ int f() { const char *s = \"n = 6;\"; int n = 40, m; size_t part = (size_t)rows * n;\n"
      "  dim3 grid((n + TILE - 1) / TILE, 2), block(TILE, TILE);\n"
      "  int loop = loop + 1; if (n == 7) n = atoi(s); }\n";
  struct estimate e;
  estimate_init(&e, 999);
  estimate_scan(&e, program, sizeof program - 1);
  estimate_set(&e, "rows", 12, ESTIMATE_GIVEN);
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    double x = -1;
    if (!estimate_eval(&e, good[i].text, &x) || x != good[i].value)
      fail_msg("%s gave %g, not %g", good[i].text, x, good[i].value);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    double x;
    if (estimate_eval(&e, bad[i], &x))
      fail_msg("'%s' was accepted", bad[i]);
  }
  double x;
  assert_false(estimate_known(&e, "nothing", &x));
  assert_true(estimate_known(&e, "block.y", &x) && x == 16);
  assert_true(estimate_known(&e, "block.z", &x) && x == 1);
  estimate_free(&e);
}

static void numbers(void **state) {
  (void)state;
  double x;
  assert_true(estimate_number("850us", &x) && x == 850);
  assert_true(estimate_number("1.5ms", &x) && x == 1500);
  assert_true(estimate_number("4k", &x) && x == 4096);
  assert_true(estimate_number("8192", &x) && x == 8192);
  assert_false(estimate_number("", &x));
  assert_false(estimate_number("4kk", &x));
  assert_false(estimate_number("nan", &x));
}

static void random_text_is_harmless(void **state) {
  (void)state;
  static const char bytes[] = "abn01+-*/%()<>=?:,;.&|![]{}\"'# \n\\sizeof(dim3 min#define ";
  struct evo_random r;
  evo_random_seed(&r, 5, 5);
  for (int i = 0; i < 3000; i++) {
    char text[80];
    int n = evo_random_below(&r, 79);
    for (int k = 0; k < n; k++)
      text[k] = bytes[evo_random_below(&r, sizeof bytes - 1)];
    text[n] = '\0';
    struct estimate e;
    estimate_init(&e, 3);
    estimate_scan(&e, text, (size_t)n);
    double x;
    estimate_eval(&e, text, &x);
    estimate_eval(&e, "a + b * n", &x);
    estimate_free(&e);
  }
}

/* ---- machines ------------------------------------------------------------------------------------ */

static void machines(void **state) {
  (void)state;
  static const char *const files[] = {"generic.json", "h200.json", "h200x2.json", "h200x8.json"};
  char why[256];
  struct hardware h;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const char *text = embed_file(files[i], NULL);
    assert_non_null(text);
    if (!hardware_parse(&h, text, why, sizeof why))
      fail_msg("%s: %s", files[i], why);
    assert_memory_equal(h.name, files[i], strlen(h.name));
  }
  assert_false(hardware_parse(&h, "{", why, sizeof why));
  assert_false(hardware_parse(&h, "{\"version\": 1, \"name\": \"x\", \"summary\": \"y\"}", why, sizeof why));
  assert_non_null(strstr(why, "ranks"));
}

/* ---- a program: producer, all-gather, consumer, and something independent --------------------------- */

struct program {
  struct ir_program *ir;
  struct dir_set set;
  struct hardware machine;
  struct estimate names;
  struct cost_model *cost;
  FILE *log;
  char *text;
  size_t size;
  struct diag_engine *diag;
};

static ir_id launch(struct ir_program *ir, ir_id parent, ir_id kernel, const char *name) {
  ir_id n = ir_add_node(ir, IR_COMPUTE, parent);
  ir->nodes.v[n].u.compute.kernel = kernel;
  ir->nodes.v[n].stream = 0;
  ir->nodes.v[n].async = true;
  ir->nodes.v[n].function = 0;
  ir_set(&ir->nodes.v[n].label, name);
  ir_set(&ir->nodes.v[n].u.compute.grid, "8192");
  ir_set(&ir->nodes.v[n].u.compute.block, "256");
  return n;
}

static void uses(struct ir_program *ir, ir_id node, ir_id buffer, enum ir_mode mode, const char *size, int arg) {
  struct ir_operand *o = ir_add_operand(ir, node, buffer, mode);
  ir_expr_const(&o->offset, 0);
  ir_expr_symbol(&o->size, size);
  o->exact = true;
  o->arg = arg;
}

static int build(void **state) {
  struct program *p = xcalloc(1, sizeof *p);
  struct ir_program *ir = p->ir = ir_new();
  p->log = open_memstream(&p->text, &p->size);
  p->diag = diag_new(p->log);
  ir_add_file(ir, "in.cu", true);
  ir->nccl_version = 22809;
  ir_id f = ir_add_function(ir, "main"), body = ir_add_node(ir, IR_SEQ, -1), comm = ir_add_comm(ir, "comm", "main");
  ir->functions.v[f].body = body;
  ir->functions.v[f].is_main = true;
  ir->nodes.v[body].function = f;
  ir_add_stream(ir, "s", "main");
  ir_id create = ir_add_call(ir, IR_CALL_COMM_CREATE, "ncclCommInitRank");
  ir->calls.v[create].in_main_file = true;
  VEC_PUSH(&ir->comms.v[comm].creates) = create;
  ir_id a = ir_add_buffer(ir, "a", "main"), b = ir_add_buffer(ir, "b", "main"), c = ir_add_buffer(ir, "c", "main"),
        d = ir_add_buffer(ir, "d", "main");
  for (size_t i = 0; i < ir->buffers.n; i++)
    ir->buffers.v[i].origin = IR_ORIGIN_CUDA;
  ir_id produce = launch(ir, body, -1, "produce");
  uses(ir, produce, a, IR_WRITE, "bytes", 0);
  ir_id n = ir_add_node(ir, IR_COLLECTIVE, body), call = ir_add_call(ir, IR_CALL_COLLECTIVE, "ncclAllGather");
  ir->calls.v[call].in_main_file = true;
  ir->calls.v[call].uniform = true;
  ir->calls.v[call].comm = comm;
  ir->calls.v[call].name = (struct ir_range){0, 100, 113, 10, 3};
  ir->nodes.v[n].call = call;
  ir->nodes.v[n].stream = 0;
  ir->nodes.v[n].async = true;
  ir->nodes.v[n].function = f;
  ir->nodes.v[n].u.coll.op = IR_COLL_all_gather;
  ir->nodes.v[n].u.coll.comm = comm;
  ir_set(&ir->nodes.v[n].u.coll.type, "ncclFloat");
  ir_set(&ir->nodes.v[n].label, "ncclAllGather");
  ir_expr_symbol(&ir->nodes.v[n].u.coll.count, "count");
  uses(ir, n, a, IR_READ, "bytes", 0);
  uses(ir, n, b, IR_WRITE, "all_bytes", 1);
  ir_id other = launch(ir, body, -1, "independent");
  uses(ir, other, c, IR_WRITE, "bytes", 0);
  ir_id consume = launch(ir, body, -1, "consume");
  uses(ir, consume, b, IR_READ, "all_bytes", 0);
  uses(ir, consume, d, IR_WRITE, "bytes", 1);
  ir_analyse(ir);
  dir_find_regions(ir, &p->set);
  fast_path_choose(ir, &p->set, p->diag);
  char why[256];
  assert_true(hardware_parse(&p->machine, embed_file("h200x2.json", NULL), why, sizeof why));
  estimate_init(&p->names, 1000);
  estimate_set(&p->names, "count", 4 << 20, ESTIMATE_GIVEN);
  estimate_set(&p->names, "bytes", 16 << 20, ESTIMATE_GIVEN);
  estimate_set(&p->names, "all_bytes", 32 << 20, ESTIMATE_GIVEN);
  estimate_set(&p->names, "produce", 100, ESTIMATE_GIVEN);
  estimate_set(&p->names, "independent", 80, ESTIMATE_GIVEN);
  estimate_set(&p->names, "consume", 60, ESTIMATE_GIVEN);
  p->cost = cost_new(ir, &p->set, &p->machine, &p->names);
  *state = p;
  return 0;
}

static int destroy(void **state) {
  struct program *p = *state;
  cost_free(p->cost);
  dir_set_free(&p->set);
  ir_free(p->ir);
  estimate_free(&p->names);
  diag_free(p->diag);
  fclose(p->log);
  free(p->text);
  free(p);
  return 0;
}

static double with(struct program *p, struct dir_directive d) { return cost_predict(p->cost, &d); }

static void predictions(void **state) {
  struct program *p = *state;
  assert_int_equal(p->set.regions.n, 1);
  struct cost_facts f;
  cost_facts(p->cost, &f);
  assert_true(f.compute == 240); /* what was given */
  const struct cost_region *r = cost_of_region(p->cost, 0);
  assert_true(r->bytes == 16 << 20);
  if (r->producer != 100 || r->consumer != 60 || r->independent != 80)
    fail_msg("%g %g %g", r->producer, r->consumer, r->independent);
  assert_true(f.communication == r->host && f.transfer == r->transfer && f.limit > 1.1 && f.limit < 2);
  assert_true(f.ideal == 240);

  struct dir_directive d = p->set.directives.v[0], host = d, split = d, fused = d, pipelined = d, special = d;
  host.backend = DIR_backend_host;
  split.placement = DIR_placement_split;
  fused.placement = DIR_placement_fused;
  fused.chunk_bytes = DIR_CHUNK_TILE;
  pipelined.placement = DIR_placement_pipelined;
  pipelined.depth = 4;
  pipelined.ctas = 16;
  special = pipelined;
  special.chunk_bytes = 1 << 20;
  special.placement = DIR_placement_specialized;
  double ideal = f.compute; /* everything hidden */
  double serial = f.compute + f.communication;
  assert_true(fabs(with(p, host) - serial) < 1e-9);
  assert_true(with(p, d) < with(p, host));       /* no host call any more */
  const struct dir_directive all[] = {d, host, split, fused, pipelined, special};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    assert_true(with(p, all[i]) > ideal * 0.97); /* never beyond what is possible */
  assert_true(with(p, split) < with(p, d));      /* there is independent work */
  assert_true(with(p, fused) < with(p, d));
  assert_true(with(p, special) < with(p, d));
  /* chunks that are too small cost more than they hide; one thread moves little */
  struct dir_directive tiny = pipelined, thread = d, narrow = d;
  tiny.chunk_bytes = 16 << 10;
  thread.issuer = DIR_issuer_thread;
  narrow.ctas = 1;
  assert_true(with(p, pipelined) < with(p, d));
  assert_true(with(p, tiny) > with(p, pipelined));
  assert_true(with(p, thread) > with(p, d));
  assert_true(with(p, narrow) > with(p, d));
}

static void timeline(void **state) {
  struct program *p = *state;
  struct cost_timeline t;
  cost_draw(p->cost, p->set.directives.v, &t);
  assert_int_equal(t.bars.n, 4);
  int communication = 0;
  VEC_EACH(&t.bars, b) {
    communication += b->communication;
    assert_true(b->end > b->begin && b->begin >= 0 && b->end <= t.total + 1e-9);
  }
  assert_int_equal(communication, 1);
  cost_timeline_free(&t);
}

static void space(void **state) {
  struct program *p = *state;
  struct dir_space *s = dir_space_new(p->ir, &p->set, p->cost);
  const struct evo_space *e = dir_space_search(s);
  assert_int_equal(e->groups, 1);
  assert_true(dir_space_choice(s));
  size_t n = dir_space_size(s, 0, 1000000);
  assert_true(n > 10);
  assert_int_equal(dir_space_size(s, 0, 5), 5);
  int *g = xcalloc((size_t)e->genes, sizeof *g);
  dir_space_encode(s, p->set.directives.v, g);
  assert_true(e->legal(e->ctx, g));
  struct dir_directive d;
  dir_space_decode(s, g, &d);
  char *a = dir_describe(&d), *b = dir_describe(&p->set.directives.v[0]);
  assert_string_equal(a, b);
  free(a), free(b);
  /* whatever is legal here is legal for the lowering, and planned values are never there */
  struct evo_random r;
  evo_random_seed(&r, 1, 1);
  int legal = 0;
  for (int i = 0; i < 5000; i++) {
    for (int k = 0; k < e->genes; k++)
      g[k] = evo_random_below(&r, e->sizes[k]);
    e->canonical(e->ctx, g);
    bool ok = e->legal(e->ctx, g);
    legal += ok;
    dir_space_decode(s, g, &d);
    assert_int_equal(ok, dir_check(p->ir, &p->set.regions.v[0], &d, NULL));
    for (int k = 0; k < dir_dimension_count(); k++)
      assert_true(d.backend == DIR_backend_host || dir_value_implemented(k, dir_value_get(&d, k)));
    int cell = e->cell(e->ctx, g);
    assert_in_range(cell, 0, e->cells - 1);
    assert_int_equal(e->cells, dir_space_rows() * dir_space_columns());
  }
  assert_true(legal > 0);
  for (int k = 0; k < DIR_placement_COUNT; k++)
    if (dir_space_placement(s, (enum dir_placement)k, g)) {
      dir_space_decode(s, g, &d);
      assert_int_equal(d.placement, k);
      assert_true(e->legal(e->ctx, g));
    }
  free(g);
  dir_space_free(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(expressions),
      cmocka_unit_test(numbers),
      cmocka_unit_test(random_text_is_harmless),
      cmocka_unit_test(machines),
      cmocka_unit_test_setup_teardown(predictions, build, destroy),
      cmocka_unit_test_setup_teardown(timeline, build, destroy),
      cmocka_unit_test_setup_teardown(space, build, destroy)};
  return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
