// SPDX-License-Identifier: Apache-2.0
/* The graph of a program: every format is well-formed, and shows what it should. */
#include "lib/unit.h"

#include "backend/graph.h"
#include "ir/random.h"
#include "support/io.h"
#include <graphviz/cgraph.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/cucocc-graph-XXXXXX";

static ir_id seq;

static ir_id leaf(struct ir_program *p, enum ir_node_kind kind, ir_id stream, const char *label,
                  unsigned line) {
  ir_id id = ir_add_node(p, kind, seq);
  struct ir_node *n = ir_node(p, id);
  n->stream = stream;
  n->async = kind != IR_SYNC;
  n->range.file = 0;
  n->range.line = line;
  ir_set(&n->label, label);
  return id;
}

static void operand(struct ir_program *p, ir_id n, ir_id b, enum ir_mode mode, const char *size) {
  struct ir_operand *o = ir_add_operand(p, n, b, mode);
  struct ir_expr four;
  ir_expr_init(&four);
  if (size) {
    ir_expr_const(&four, 4);
    ir_expr_symbol(&o->size, size);
    ir_expr_mul(&o->size, &o->size, &four);
    ir_expr_const(&o->offset, 0);
    o->exact = true;
  }
  ir_expr_free(&four);
}

/* for (...) { gemm -> c; all-gather c -> all; other; event from another stream; use(all) } sync */
static struct ir_program *example(void) {
  struct ir_program *p = ir_new();
  ir_add_file(p, "in.cu", true);
  ir_id f = ir_add_function(p, "main"), s = ir_add_stream(p, "work", "main"),
        t = ir_add_stream(p, "side", "main"), e = ir_add_event(p, "done", "main"),
        c = ir_add_buffer(p, "d_c", "main"), all = ir_add_buffer(p, "d_all", "main"),
        z = ir_add_buffer(p, "d_z", "main"), comm = ir_add_comm(p, "comm", "main");
  for (int i = 0; i < 3; i++)
    p->buffers.v[i].origin = IR_ORIGIN_CUDA;
  seq = ir_add_node(p, IR_SEQ, -1);
  ir_id body = seq;
  ir_node(p, seq)->function = f;
  p->functions.v[f].body = seq;
  ir_id loop = ir_add_node(p, IR_LOOP, seq);
  ir_set(&ir_node(p, loop)->u.control.condition, "i < n");
  seq = ir_add_node(p, IR_SEQ, loop);
  ir_id gemm = leaf(p, IR_COMPUTE, s, "gemm", 10);
  operand(p, gemm, c, IR_WRITE, NULL);
  ir_id gather = leaf(p, IR_COLLECTIVE, s, "ncclAllGather", 11);
  operand(p, gather, c, IR_READ, "count");
  operand(p, gather, all, IR_WRITE, "total");
  ir_node(p, gather)->u.coll.op = IR_COLL_all_gather;
  ir_node(p, gather)->u.coll.comm = comm;
  ir_expr_symbol(&ir_node(p, gather)->u.coll.count, "count");
  ir_set(&ir_node(p, gather)->u.coll.type, "ncclFloat");
  operand(p, leaf(p, IR_COMPUTE, s, "other", 12), z, IR_READ_WRITE, NULL);
  ir_id record = leaf(p, IR_SYNC, s, "cudaEventRecord", 13);
  ir_node(p, record)->u.sync.kind = IR_SYNC_EVENT_RECORD;
  ir_id wait = leaf(p, IR_SYNC, t, "cudaStreamWaitEvent", 14);
  ir_node(p, wait)->u.sync.kind = IR_SYNC_EVENT_WAIT;
  ir_node(p, record)->event = ir_node(p, wait)->event = e;
  operand(p, leaf(p, IR_COMPUTE, t, "use", 15), all, IR_READ, NULL);
  seq = body;
  leaf(p, IR_SYNC, -1, "cudaDeviceSynchronize", 20);
  ir_analyse(p);
  return p;
}

static char *path_of(const char *name) { return xasprintf("%s/%s", dir, name); }

/* Writes P as NAME and reads the file. */
static void draw(const struct ir_program *p, const struct dir_set *set, const char *name,
                 struct strbuf *out) {
  char why[400] = "", *path = path_of(name);
  if (graph_write(p, set, path, why, sizeof why) != 0)
    fail_msg("%s: %s", name, why);
  assert_int_equal(io_read_file(path, out), 0);
  unlink(path);
  free(path);
}

static const char *attribute(void *object, const char *name) {
  const char *s = agget(object, (char *)name);
  return s ? s : "";
}

static Agedge_t *find_edge(Agraph_t *g, const char *from, const char *to, const char *label) {
  for (Agnode_t *n = agfstnode(g); n; n = agnxtnode(g, n))
    for (Agedge_t *e = agfstout(g, n); e; e = agnxtout(g, e))
      if (strstr(attribute(n, "label"), from) && strstr(attribute(aghead(e), "label"), to) &&
          strstr(attribute(e, "label"), label))
        return e;
  return NULL;
}

static Agraph_t *find_cluster(Agraph_t *g, const char *label) {
  for (Agraph_t *s = agfstsubg(g); s; s = agnxtsubg(s)) {
    Agraph_t *in = find_cluster(s, label);
    if (strncmp(agnameof(s), "cluster", 7) == 0 && strstr(attribute(s, "label"), label))
      return s;
    if (in)
      return in;
  }
  return NULL;
}

static Agnode_t *find_node(Agraph_t *g, const char *label) {
  for (Agnode_t *n = agfstnode(g); n; n = agnxtnode(g, n))
    if (strstr(attribute(n, "label"), label))
      return n;
  return NULL;
}

static void content(void **state) {
  (void)state;
  struct ir_program *p = example();
  struct dir_set set = {0};
  struct strbuf dot = {0};
  VEC_PUSH(&set.regions) = (struct dir_region){.id = 1, .node = 4};
  assert_int_equal(ir_node(p, 4)->kind, IR_COLLECTIVE);
  VEC_PUSH(&set.directives) =
      (struct dir_directive){.region = 1, .backend = DIR_backend_lsa, .reason = xstrdup("")};
  draw(p, &set, "a.dot", &dot);
  Agraph_t *g = agmemread(dot.s);
  assert_non_null(g);
  Agnode_t *gather = find_node(g, "ncclAllGather :11");
  assert_non_null(gather);
  assert_non_null(strstr(attribute(gather, "label"), "count x ncclFloat"));
  assert_non_null(strstr(attribute(gather, "label"), "[1: lsa"));
  assert_string_not_equal(attribute(gather, "fillcolor"),
                          attribute(find_node(g, "gemm"), "fillcolor"));
  assert_non_null(find_edge(g, "gemm", "ncclAllGather", "RAW? d_c [0, 4*count)"));
  assert_non_null(find_edge(g, "ncclAllGather", "use", "RAW? d_all whole"));
  assert_non_null(find_edge(g, "cudaEventRecord", "cudaStreamWaitEvent", "done"));
  Agedge_t *may = find_edge(g, "ncclAllGather", "other", "may overlap");
  assert_non_null(may);
  assert_string_equal(attribute(may, "style"), "dashed");
  Agedge_t *reuse = find_edge(g, "ncclAllGather", "gemm", "WAR? d_c");
  assert_non_null(reuse);
  assert_string_equal(attribute(reuse, "constraint"), "false");
  Agraph_t *work = find_cluster(g, "stream work"), *side = find_cluster(g, "stream side");
  assert_non_null(work);
  assert_non_null(side);
  assert_non_null(find_node(work, "gemm"));
  assert_null(find_node(work, "use"));
  assert_non_null(find_node(side, "use"));
  assert_non_null(find_cluster(work, "loop i < n"));
  assert_non_null(find_cluster(g, "main()"));
  assert_non_null(find_node(find_cluster(g, "host"), "cudaDeviceSynchronize"));
  assert_non_null(find_node(g, "may overlap: no common data")); /* the legend */
  agclose(g);
  sb_free(&dot);
  dir_set_free(&set);
  ir_free(p);
}

static void formats(void **state) {
  (void)state;
  struct ir_program *p = example();
  struct strbuf b = {0};
  draw(p, NULL, "a.svg", &b);
  assert_non_null(strstr(b.s, "<svg"));
  assert_non_null(strstr(b.s, "</svg>"));
  assert_non_null(strstr(b.s, "ncclAllGather"));
  sb_free(&b);
  draw(p, NULL, "a.png", &b);
  assert_memory_equal(b.s, "\x89PNG\r\n\x1a\n", 8);
  assert_memory_equal(b.s + b.n - 8, "IEND", 4);
  sb_free(&b);
  draw(p, NULL, "a.pdf", &b);
  assert_memory_equal(b.s, "%PDF-", 5);
  sb_free(&b);
  draw(p, NULL, "a.json", &b);
  json_t *j = json_loadb(b.s, b.n, 0, NULL);
  assert_non_null(j);
  assert_true(json_array_size(json_object_get(j, "edges")) > 5);
  json_decref(j);
  sb_free(&b);
  draw(p, NULL, "a.gv", &b);
  assert_memory_equal(b.s, "digraph", 7);
  sb_free(&b);
  ir_free(p);
}

static void refused(void **state) {
  (void)state;
  struct ir_program *p = example();
  char why[400], *path = path_of("a.xyz");
  assert_int_equal(graph_write(p, NULL, path, why, sizeof why), -1);
  assert_non_null(strstr(why, ".svg"));
  assert_int_equal(access(path, F_OK), -1);
  free(path);
  path = path_of("nowhere/a.dot");
  assert_int_equal(graph_write(p, NULL, path, why, sizeof why), -1);
  assert_non_null(strstr(why, "nowhere"));
  free(path);
  path = path_of("plain");
  assert_int_equal(graph_write(p, NULL, path, why, sizeof why), -1);
  free(path);
  ir_free(p);
}

/* Odd names and texts, empty programs: still well-formed. */
static void any_program(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    struct ir_program *p = random_ir(seed);
    struct dir_set set = {0};
    struct strbuf dot = {0};
    dir_find_regions(p, &set);
    draw(p, &set, "r.dot", &dot);
    Agraph_t *g = agmemread(dot.s);
    if (!g)
      fail_msg("seed %d:\n%s", (int)seed, dot.s);
    agclose(g);
    sb_free(&dot);
    if (seed % 12 == 0) {
      draw(p, &set, "r.svg", &dot);
      assert_non_null(strstr(dot.s, "</svg>"));
      sb_free(&dot);
    }
    dir_set_free(&set);
    ir_free(p);
  }
  struct ir_program *p = ir_new();
  struct strbuf dot = {0};
  draw(p, NULL, "e.svg", &dot);
  sb_free(&dot);
  ir_free(p);
}

int main(void) {
  if (!mkdtemp(dir))
    return 99;
  const struct CMUnitTest tests[] = {cmocka_unit_test(content), cmocka_unit_test(formats),
                                     cmocka_unit_test(refused), cmocka_unit_test(any_program)};
  int result = cmocka_run_group_tests_name("graph", tests, NULL, NULL);
  rmdir(dir);
  return result;
}
