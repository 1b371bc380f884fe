// SPDX-License-Identifier: Apache-2.0
/* The IR that the front end builds from programs as users write them. A comment //@tag in a test
 * input names the line that a check is about. */
#include "frontend/frontend.h"
#include "lib/unit.h"
#include "support/io.h"
#include <stdlib.h>
#include <string.h>

static char *dir; /* folder of the inputs */
static struct strbuf text;
static char *path;
static struct fe_result result;
static struct ir_program *ir;
static FILE *messages;
static char *message_text;
static size_t message_size;

static int parse_text(const char *name, const char *s, size_t n, const char *const *args,
                      size_t n_args) {
  messages = open_memstream(&message_text, &message_size);
  struct diag_engine *diag = diag_new(messages);
  struct fe_options o = {
      .input = name, .text = s, .size = n, .clang_args = args, .n_clang_args = n_args};
  diag_add_source(diag, name, s, n);
  int status = fe_parse(&o, diag, &result);
  diag_free(diag);
  fclose(messages);
  ir = result.ir;
  if (ir) {
    char why[300] = "";
    if (!ir_verify(ir, why, sizeof why))
      fail_msg("%s: the IR does not verify: %s", name, why);
  }
  return status;
}

static int parse(const char *name) {
  path = xasprintf("%s/%s", dir, name);
  assert_int_equal(io_read_file(path, &text), 0);
  return parse_text(path, text.s, text.n, NULL, 0);
}

static void done(void) {
  ir_free(ir);
  fe_result_free(&result);
  free(message_text);
  message_text = NULL;
  sb_free(&text);
  text = (struct strbuf){0};
  free(path);
  path = NULL;
  ir = NULL;
}

static void load(const char *name) {
  if (parse(name) != 0)
    fail_msg("%s: %s", name, message_text);
}

static unsigned line_of(const char *tag) {
  char *mark = xasprintf("//@%s\n", tag);
  const char *at = strstr(text.s, mark);
  if (!at)
    fail_msg("no line is tagged %s", tag);
  unsigned line = 1;
  for (const char *p = text.s; p < at; p++)
    line += *p == '\n';
  free(mark);
  return line;
}

static const struct ir_call *call_at(const char *tag) {
  unsigned line = line_of(tag);
  VEC_EACH(&ir->calls, c)
  if (c->in_main_file && c->name.line == line)
    return c;
  fail_msg("no call at %s", tag);
  return NULL;
}

static const struct ir_node *node_at(const char *tag, enum ir_node_kind kind) {
  unsigned line = line_of(tag);
  VEC_EACH(&ir->nodes, n)
  if (n->kind == kind && n->range.line == line)
    return n;
  fail_msg("no %s at %s", ir_node_kind_name(kind), tag);
  return NULL;
}

static const struct ir_buffer *buffer(const char *name, const char *function) {
  VEC_EACH(&ir->buffers, b)
  if (!strcmp(b->name, name) && !strcmp(b->function, function))
    return b;
  fail_msg("no buffer %s in '%s'", name, function);
  return NULL;
}

static bool may_be(const struct ir_buffer *b, const struct ir_buffer *other) {
  VEC_EACH(&b->aliases, a)
  if (&ir->buffers.v[*a] == other)
    return true;
  return false;
}

/* The callee's token is where the IR says, and the arguments have the texts WANT (NULL at the end).
 */
static void check_call(const struct ir_call *c, const char *callee, const char *const *want) {
  assert_string_equal(c->callee, callee);
  assert_int_equal(c->name.end - c->name.begin, strlen(callee));
  assert_memory_equal(text.s + c->name.begin, callee, strlen(callee));
  assert_int_equal(text.s[c->range.end - 1], ')');
  for (size_t i = 0; want[i]; i++) {
    assert_true(i < c->args.n);
    assert_string_equal(c->args.v[i].text, want[i]);
  }
}
#define CHECK_CALL(tag, callee, ...)                                                               \
  check_call(call_at(tag), callee, (const char *const[]){__VA_ARGS__, NULL})

static void check_operand(const struct ir_node *n, size_t i, const char *buf, enum ir_mode mode,
                          const char *offset, const char *size) {
  assert_true(i < n->operands.n);
  const struct ir_operand *o = &n->operands.v[i];
  assert_true(o->buffer >= 0);
  assert_string_equal(ir->buffers.v[o->buffer].name, buf);
  assert_int_equal(o->mode, mode);
  assert_string_equal(o->offset.text, offset);
  assert_string_equal(o->size.text, size);
}

static const char *stream(const struct ir_node *n) {
  return n->stream < 0 ? "" : ir->streams.v[n->stream].name;
}

/* ---- spellings
 * ----------------------------------------------------------------------------------- */

static void spellings(void **state) {
  (void)state;
  load("spelling.cu");
  static const struct {
    const char *tag, *callee;
    enum ir_spelling spelling;
  } rows[] = {{" do", "ncclAllReduce", IR_SPELLED_MACRO_ARG},
              {" block", "ncclAllReduce", IR_SPELLED_MACRO_ARG},
              {" if", "ncclAllReduce", IR_SPELLED_MACRO_ARG},
              {" fn", "ncclAllReduce", IR_SPELLED_MACRO_ARG},
              {" twice", "ncclAllReduce", IR_SPELLED_MACRO_ARG},
              {" outer", "ncclReduceScatter", IR_SPELLED_MACRO_ARG},
              {" body", "ncclAllReduce", IR_SPELLED_MACRO_BODY},
              {" name", "ncclAllReduce", IR_SPELLED_MACRO_BODY},
              {" bare", "ncclBroadcast", IR_SPELLED_PLAIN},
              {" captured", "ncclAllReduce", IR_SPELLED_MACRO_ARG}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *mark = xasprintf("//%s\n", rows[i].tag);
    const char *at = strstr(text.s, mark);
    assert_non_null(at);
    unsigned line = 1, found = 0;
    for (const char *p = text.s; p < at; p++)
      line += *p == '\n';
    VEC_EACH(&ir->calls, c) {
      if (c->name.line != line)
        continue;
      found++;
      assert_string_equal(c->callee, rows[i].callee);
      assert_int_equal(c->spelling, rows[i].spelling);
      assert_int_equal(c->captured, !strcmp(rows[i].tag, " captured"));
      if (c->spelling != IR_SPELLED_MACRO_BODY) {
        assert_memory_equal(text.s + c->name.begin, c->callee, strlen(c->callee));
        assert_int_equal(text.s[c->name.end], '(');
      }
    }
    assert_int_equal(found, 1); /* the macro that evaluates twice included */
    free(mark);
  }
  /* A lambda, a member, a template and a helper that allocates. */
  const char *functions[] = {"lambda", "exchange", "reduce", "allocate"};
  for (size_t i = 0; i < 4; i++) {
    bool seen = false;
    VEC_EACH(&ir->calls, c) seen |= !strcmp(c->function, functions[i]);
    assert_true(seen);
  }
  assert_true(may_be(buffer("a", "main"), buffer("b", "main"))); /* std::swap */
  assert_true(may_be(buffer("a", "main"), buffer("p", "allocate")));
  assert_int_equal(buffer("view", "main")->origin, IR_ORIGIN_ALIAS);
  assert_true(may_be(buffer("p", "main"), buffer("parts[]", "main")));
  VEC_EACH(&ir->kernels, k) {
    assert_string_equal(k->name, "scale");
    assert_true(k->is_template);
  }
  done();
}

/* ---- idioms
 * -------------------------------------------------------------------------------------- */

static void straight_line(void **state) {
  (void)state;
  load("idioms/1_straight_line.cu");
  assert_int_equal(ir->model, IR_MODEL_MPI);
  assert_true(ir->nccl_version >= 22800);
  CHECK_CALL("reduce", "ncclAllReduce", "send", "recv", "n", "ncclFloat", "ncclSum", "comm", "s");
  CHECK_CALL("init", "ncclCommInitRank", "&comm", "size", "id", "rank");
  CHECK_CALL("alloc", "cudaMalloc", "&send", "n * sizeof(float)");
  assert_true(call_at("alloc")->uniform);
  assert_true(call_at("reduce")->uniform);
  assert_false(call_at("only")->uniform);
  assert_non_null(strstr(call_at("only")->uniform_why, "MPI_Comm_rank"));
  assert_int_equal(call_at("free")->buffer, call_at("alloc")->buffer);
  assert_int_equal(call_at("destroy")->comm, call_at("init")->comm);
  assert_int_equal(ir->comms.v[0].origin, IR_COMM_INIT_RANK);
  const struct ir_node *n = node_at("reduce", IR_COLLECTIVE);
  assert_int_equal(n->u.coll.op, IR_COLL_all_reduce);
  assert_string_equal(n->u.coll.type, "ncclFloat");
  assert_true(n->u.coll.type_static && n->u.coll.redop_static && !n->u.coll.in_place);
  check_operand(n, 0, "send", IR_READ, "0", "4*n");
  check_operand(n, 1, "recv", IR_WRITE, "0", "4*n");
  assert_string_equal(stream(n), "s");
  n = node_at("fill", IR_COMPUTE);
  assert_string_equal(n->label, "fill");
  assert_string_equal(n->u.compute.grid, "(n + 255) / 256");
  assert_string_equal(n->u.compute.block, "256");
  assert_memory_equal(text.s + n->u.compute.launch.begin, "<<<", 3);
  assert_memory_equal(text.s + n->u.compute.launch.end - 3, ">>>", 3);
  assert_int_equal(n->u.compute.args.n, 3);
  assert_string_equal(n->u.compute.args.v[2].text, "rank + 1.0f");
  n = node_at("back", IR_COPY);
  assert_int_equal(n->u.copy.kind, IR_COPY_D2H);
  assert_false(n->async);
  assert_true(ir->streams.v[n->stream].is_default);
  done();
}

static void devices(void **state) {
  (void)state;
  load("idioms/2_devices.cu");
  assert_int_equal(ir->model, IR_MODEL_SINGLE_PROCESS);
  assert_int_equal(ir->comms.v[0].origin, IR_COMM_INIT_ALL);
  assert_true(ir->comms.v[0].per_device);
  const char *in_loop[] = {"alloc_send", "alloc_recv", "reduce", "destroy"};
  for (size_t i = 0; i < 4; i++) {
    assert_true(call_at(in_loop[i])->in_device_loop);
    assert_false(call_at(in_loop[i])->in_loop);
    assert_true(call_at(in_loop[i])->uniform);
  }
  assert_true(buffer("send[]", "main")->per_device);
  assert_int_equal(buffer("send[]", "main")->allocs.n, 1);
  const struct ir_node *n = node_at("reduce", IR_COLLECTIVE);
  check_operand(n, 0, "send[]", IR_READ, "0", "4*n");
  const struct ir_node *seq = &ir->nodes.v[n->parent], *loop = &ir->nodes.v[seq->parent];
  assert_int_equal(loop->kind, IR_LOOP);
  assert_true(loop->u.control.over_devices && !loop->u.control.rank_dependent);
  const struct ir_node *group = &ir->nodes.v[ir->nodes.v[loop->parent].parent];
  assert_int_equal(group->kind, IR_GROUP);
  assert_ptr_equal(&ir->calls.v[group->call], call_at("start"));
  assert_ptr_equal(&ir->calls.v[group->call_end], call_at("end"));
  assert_int_equal(node_at("scale", IR_COMPUTE)->stream, n->stream);
  done();
}

static void all_to_all_v(void **state) {
  (void)state;
  load("idioms/3_all_to_all_v.cu");
  const struct ir_node *n = node_at("send", IR_COLLECTIVE);
  assert_int_equal(n->u.coll.pattern, IR_PATTERN_ALL_TO_ALL_V);
  assert_string_equal(n->u.coll.root_or_peer, "p");
  assert_string_equal(n->u.coll.count.text, "scount[p]");
  assert_true(node_at("loop", IR_LOOP)->u.control.over_peers);
  n = node_at("send_same", IR_COLLECTIVE);
  assert_int_equal(n->u.coll.pattern, IR_PATTERN_ALL_TO_ALL);
  check_operand(n, 0, "sbuf", IR_READ, "64*(p:1)", "64");
  assert_true(call_at("data_dependent")->uniform);
  assert_false(call_at("conditional")->uniform); /* total > 0 may differ */
  done();
}

static void halo(void **state) {
  (void)state;
  load("idioms/4_halo.cu");
  const struct ir_node *n = node_at("recv_down", IR_COLLECTIVE);
  assert_int_equal(n->u.coll.pattern, IR_PATTERN_HALO);
  check_operand(n, 0, "a", IR_WRITE, "8*nx + 8*nx*rows", "8*nx");
  check_operand(node_at("send_up", IR_COLLECTIVE), 0, "a", IR_READ, "8*nx", "8*nx");
  assert_true(ir->nodes.v[ir->nodes.v[n->parent].parent].u.control.rank_dependent);
  assert_true(may_be(buffer("a", "main"), buffer("a_new", "main")));
  assert_true(buffer("a", "main")->reassigned);
  assert_true(call_at("alloc")->uniform);
  n = node_at("norm", IR_COLLECTIVE);
  assert_true(n->u.coll.in_place);
  n = node_at("stencil", IR_COMPUTE); /* only declared: everything may happen */
  assert_true(ir->kernels.v[n->u.compute.kernel].opaque);
  assert_int_equal(n->operands.n, 3);
  assert_int_equal(n->operands.v[0].mode, IR_READ_WRITE);
  assert_int_equal(n->operands.v[1].mode, IR_READ); /* const */
  done();
}

static void ring(void **state) {
  (void)state;
  load("idioms/5_ring.cu");
  const struct ir_node *n = node_at("send", IR_COLLECTIVE);
  assert_int_equal(n->u.coll.pattern, IR_PATTERN_RING_SHIFT);
  assert_string_equal(stream(n), "copy"); /* the parameter, bound to what main passes */
  assert_true(ir->streams.v[n->stream].non_blocking);
  assert_int_equal(ir->comms.n, 1);
  assert_true(call_at("send")->in_loop); /* its caller's loop */
  assert_true(call_at("send")->uniform);
  check_operand(n, 0, "st.current", IR_READ, "0", "4*n");
  assert_true(may_be(buffer("st.current", ""), buffer("st.next", "")));
  n = node_at("call", IR_CALL);
  assert_string_equal(ir->functions.v[n->u.callee.callee].name, "step");
  assert_string_equal(n->u.callee.args.v[2].text, "(rank + 1) % size");
  done();
}

static void chunks(void **state) {
  (void)state;
  load("idioms/6_chunks.cu");
  const struct ir_node *n = node_at("gemm", IR_COMPUTE);
  assert_int_equal(n->u.compute.kind, IR_COMPUTE_CUBLAS);
  assert_string_equal(stream(n), "compute"); /* from cublasSetStream */
  assert_int_equal(n->operands.n, 3);
  assert_string_equal(ir->buffers.v[n->operands.v[2].buffer].name, "C");
  assert_int_equal(n->operands.v[2].mode, IR_READ_WRITE);
  n = node_at("reduce", IR_COLLECTIVE);
  assert_string_equal(stream(n), "comms");
  check_operand(n, 1, "C", IR_WRITE, "4*c*n*rows", "4*n*rows");
  assert_int_equal(node_at("record", IR_SYNC)->u.sync.kind, IR_SYNC_EVENT_RECORD);
  assert_int_equal(node_at("wait", IR_SYNC)->u.sync.kind, IR_SYNC_EVENT_WAIT);
  assert_int_equal(node_at("wait", IR_SYNC)->event, node_at("record", IR_SYNC)->event);
  /* An array, but of one process with one GPU. */
  assert_false(ir->events.v[node_at("record", IR_SYNC)->event].per_device);
  assert_string_equal(stream(node_at("wait", IR_SYNC)), "comms");
  done();
}

static void softmax(void **state) {
  (void)state;
  load("idioms/7_softmax.cu");
  assert_string_equal(node_at("max", IR_COLLECTIVE)->u.coll.redop, "ncclMax");
  const struct ir_node *n = node_at("generic", IR_COLLECTIVE);
  assert_false(n->u.coll.type_static);
  assert_false(n->u.coll.redop_static);
  assert_string_equal(n->u.coll.type, "TypeOf<T>::value");
  assert_int_equal(call_at("generic")->comm, call_at("init")->comm);
  assert_int_equal(call_at("destroy")->comm, call_at("init")->comm);
  assert_true(may_be(buffer("m", "main"), buffer("p[]", "main"))); /* cudaMalloc through T ** */
  assert_int_equal(buffer("p[]", "main")->origin, IR_ORIGIN_CUDA);
  n = node_at("rescale", IR_COMPUTE);
  assert_int_equal(n->operands.v[0].mode, IR_READ);
  done();
}

static void gradients(void **state) {
  (void)state;
  load("idioms/8_gradients.cu");
  const struct ir_node *n = node_at("bucket", IR_COLLECTIVE);
  assert_string_equal(n->u.coll.redop, "ncclAvg");
  assert_string_equal(n->u.coll.count.text, "1000"); /* constexpr */
  assert_int_equal(ir->comms.n, 1);                  /* the member is what the constructor got */
  assert_string_equal(stream(n), "s");
  assert_true(may_be(buffer("grads_[]", ""), buffer("p", "Trainer")));
  assert_true(may_be(buffer("weights_", ""), buffer("arena_", "")));
  assert_string_equal(buffer("arena_", "")->size.text, "32000");
  done();
}

static void warm_up(void **state) {
  (void)state;
  load("idioms/9_warm_up.cu");
  const struct ir_node *n = node_at("helper", IR_COLLECTIVE);
  assert_int_equal(n->u.coll.op, IR_COLL_all_gather);
  assert_int_equal(n->operands.v[0].buffer >= 0, 1);
  assert_true(may_be(&ir->buffers.v[n->operands.v[0].buffer], buffer("in", "main")));
  unsigned line[] = {line_of("warm"), line_of("timed")};
  for (int i = 0; i < 2; i++) {
    bool seen = false;
    VEC_EACH(&ir->nodes, c) seen |= c->kind == IR_CALL && c->range.line == line[i];
    assert_true(seen);
  }
  assert_true(call_at("captured")->captured);
  assert_false(call_at("half")->captured);
  assert_int_equal(ir->comms.v[call_at("half")->comm].origin, IR_COMM_SPLIT);
  assert_true(ir->streams.v[node_at("half", IR_COLLECTIVE)->stream].is_default);
  done();
  /* The other side of the #ifdef. */
  static const char *const args[] = {"-DUSE_MPI_ONLY"};
  path = xasprintf("%s/idioms/9_warm_up.cu", dir);
  assert_int_equal(io_read_file(path, &text), 0);
  assert_int_equal(parse_text(path, text.s, text.n, args, 1), 0);
  VEC_EACH(&ir->calls, c) assert_string_not_equal(c->callee, "ncclAllGather");
  done();
}

/* ---- switch
 * -------------------------------------------------------------------------------------- */

/* Is there a path of edges within one execution? */
static bool ordered(const struct ir_node *a, const struct ir_node *b) {
  bool *seen = calloc(ir->nodes.n, sizeof *seen);
  seen[a->id] = true;
  for (bool grew = true; grew;) {
    grew = false;
    VEC_EACH(&ir->deps, d)
    if (!d->carried && seen[d->from] && !seen[d->to])
      seen[d->to] = grew = true;
  }
  bool r = seen[b->id];
  free(seen);
  return r;
}

static bool reads_from(const struct ir_node *a, const struct ir_node *b) {
  VEC_EACH(&ir->deps, d)
  if (d->from == a->id && d->to == b->id && d->kind == IR_DEP_RAW && !d->carried)
    return true;
  return false;
}

static void cases(void **state) {
  (void)state;
  load("switch.cu");
  ir_analyse(ir);
  const struct ir_node *before = node_at("before", IR_COMPUTE),
                       *zero = node_at("zero", IR_COLLECTIVE), *one = node_at("one", IR_COLLECTIVE),
                       *two = node_at("two", IR_COMPUTE), *three = node_at("three", IR_COMPUTE),
                       *other = node_at("other", IR_COLLECTIVE),
                       *after = node_at("after", IR_COMPUTE);
  const struct ir_node *arms[] = {zero, one, two, other};
  for (size_t i = 0; i < 4; i++) {
    assert_true(ordered(before, arms[i]));
    assert_true(ordered(arms[i], after));
    for (size_t j = 0; j < 4; j++)
      assert_true(i == j || !ordered(arms[i], arms[j]));
  }
  assert_false(ordered(three, other));
  assert_true(reads_from(two, three));    /* by falling through */
  assert_true(reads_from(before, three)); /* by entering there */
  assert_true(reads_from(before, after) && reads_from(zero, after) && reads_from(one, after));
  const struct ir_node *even = node_at("even", IR_COMPUTE), *odd = node_at("odd", IR_COMPUTE);
  assert_true(reads_from(even, odd));
  assert_int_equal(ir_node(ir, ir_node(ir, odd->parent)->parent)->kind, IR_BRANCH);
  assert_int_equal(buffer("x", "run")->param, 1);
  assert_int_equal(buffer("y", "odd")->param, 2);
  assert_int_equal(buffer("x", "main")->param, -1);
  assert_false(call_at("skipped")->uniform);
  assert_true(call_at("joined")->uniform);
  done();
}

static void launches(void **state) {
  (void)state;
  load("launches.cu");
  const struct ir_node *n = node_at("scale", IR_COMPUTE);
  check_operand(n, 0, "y", IR_WRITE, "40", "4*n - 40");
  check_operand(n, 1, "x", IR_READ, "0", "4*n - 40");
  assert_false(n->operands.v[0].exact); /* at most these bytes */
  check_operand(node_at("all", IR_COMPUTE), 0, "y", IR_WRITE, "0", "1024*(n / 256)");
  check_operand(node_at("grid", IR_COMPUTE), 0, "y", IR_WRITE, "0", "256*grid.x");
  check_operand(node_at("changed", IR_COMPUTE), 0, "y", IR_WRITE, "0", "256*(grid@1.x)");
  check_operand(node_at("first", IR_COMPUTE), 0, "d", IR_WRITE, "0", "64");
  n = node_at("gemm", IR_COMPUTE);
  check_operand(n, 0, "y", IR_WRITE, "0", "4*n*rows");
  check_operand(n, 1, "x", IR_READ, "0", "4*argc*rows");
  check_operand(n, 2, "x", IR_READ, "4*n*rows", "4*argc*n");
  n = node_at("shift", IR_COMPUTE); /* reads one half, writes the other */
  check_operand(n, 0, "x", IR_READ, "4*n", "4*n");
  check_operand(n, 1, "x", IR_WRITE, "0", "4*n");
  n = node_at("opaque", IR_COMPUTE);
  check_operand(n, 0, "x", IR_READ, "", "");
  n = node_at("pick", IR_COMPUTE);
  check_operand(n, 1, "x", IR_READ, "", "");
  check_operand(n, 2, "index", IR_READ, "0", "4");
  check_operand(node_at("unconst", IR_COMPUTE), 0, "x", IR_WRITE, "0", "4");
  check_operand(node_at("pack", IR_COMPUTE), 0, "y", IR_READ_WRITE, "", "");
  n = node_at("api", IR_COMPUTE);
  check_operand(n, 0, "y", IR_WRITE, "0", "4*half");
  check_operand(n, 1, "x", IR_READ, "0", "4*half");
  check_operand(node_at("later", IR_COMPUTE), 0, "y", IR_WRITE, "0", "1024*(n@1 / 256)");
  check_operand(node_at("rounded", IR_COMPUTE), 0, "y", IR_WRITE, "0", "256*(n@1 * 0.5 + 1)");
  n = node_at("loop", IR_COMPUTE);
  check_operand(n, 0, "y", IR_WRITE, "0", "256*(grid@2.x)");
  const struct ir_node *loop = ir_node(ir, ir_node(ir, n->parent)->parent);
  assert_int_equal(loop->kind, IR_LOOP);
  bool varies = false;
  VEC_EACH(&loop->u.control.varying, v) varies |= !strcmp(*v, "grid");
  assert_true(varies); /* what the symbol grid@2.x mentions */
  const struct ir_operand *low = &node_at("low", IR_COMPUTE)->operands.v[0];
  const struct ir_operand *high = &node_at("high", IR_COMPUTE)->operands.v[0];
  assert_int_equal(ir_operands_overlap(ir, low, high), 0);
  assert_int_equal(ir_operands_overlap(ir, low, low), 1);
  done();
}

static void device_events(void **state) {
  (void)state;
  static const char program[] =
      "#include <nccl.h>\n"
      "int main() {\n"
      "  ncclComm_t comms[2]; cudaEvent_t done[2]; cudaStream_t s[2]; float *x[2];\n"
      "  ncclCommInitAll(comms, 2, nullptr);\n"
      "  for (int i = 0; i < 2; i++) { cudaSetDevice(i); cudaMalloc(&x[i], 4); }\n"
      "  for (int i = 0; i < 2; i++) {\n"
      "    cudaSetDevice(i);\n"
      "    ncclAllReduce(x[i], x[i], 1, ncclFloat, ncclSum, comms[i], s[i]);\n"
      "    cudaEventRecord(done[i], s[i]);\n"
      "  }\n"
      "}\n";
  assert_int_equal(parse_text("input.cu", program, sizeof program - 1, NULL, 0), 0);
  assert_int_equal(ir->events.n, 1);
  assert_true(ir->events.v[0].per_device && ir->streams.v[0].per_device);
  done();
}

static void custom_ops(void **state) {
  (void)state;
  load("custom_op.cu");
  assert_string_equal(call_at("make")->callee, "ncclRedOpCreatePreMulSum");
  assert_string_equal(call_at("unmake")->callee, "ncclRedOpDestroy");
  const char *tags[] = {"member", "copy", "variable", "plain"};
  for (int i = 0; i < 4; i++)
    assert_int_equal(node_at(tags[i], IR_COLLECTIVE)->u.coll.redop_static, i == 3);
  assert_string_equal(node_at("member", IR_COLLECTIVE)->u.coll.redop, "a.op");
  done();
}

/* ---- input that is not as it should be
 * ----------------------------------------------------------- */

#define PARSE(s) parse_text("input.cu", s, strlen(s), NULL, 0)

static void degraded(void **state) {
  (void)state;
  static const char head[] = "#include \"no/such/header.h\"\n#include <nccl.h>\n";
  static const char body[] =
      "int main() { ncclComm_t c; cudaStream_t s = 0; float *d; cudaMalloc(&d, 4);\n"
      "  ncclAllReduce(d, d, 1, ncclFloat, ncclSum, c, s); }\n";
  char *other = xasprintf("%svoid other(Missing *m) { m->go(); }\n%s", head, body);
  assert_int_equal(PARSE(other), 0); /* the error is elsewhere */
  assert_non_null(strstr(message_text, "CU0304"));
  assert_non_null(strstr(message_text, "CU0303"));
  assert_int_equal(ir->calls.n, 2);
  VEC_EACH(&ir->calls, c) assert_false(c->function_has_errors);
  VEC_EACH(&ir->functions, f) assert_int_equal(f->has_errors, !strcmp(f->name, "other"));
  done();
  free(other);
  char *reached = xasprintf("%sint main() { ncclComm_t c; Missing m; float *d;\n"
                            "  ncclAllReduce(d, d, 1, ncclFloat, ncclSum, c, m.s); }\n",
                            head);
  assert_int_equal(PARSE(reached), 1);
  assert_null(ir);
  assert_non_null(strstr(message_text, "CU0302"));
  assert_non_null(strstr(message_text, "unknown type name 'Missing'"));
  done();
  free(reached);
  /* The tree has lost the call, the text has not. */
  assert_int_equal(PARSE("#include <nccl.h>\nint main() { ncclAllReduce( }\n"), 1);
  done();
}

static void malformed(void **state) {
  (void)state;
  assert_int_equal(PARSE(""), 1);
  assert_non_null(strstr(message_text, "CU0301"));
  done();
  assert_int_equal(PARSE(" \n\t\n"), 1);
  done();
  assert_int_equal(PARSE("this is prose, not a program.\n"), 1);
  assert_non_null(strstr(message_text, "CU0301"));
  done();
  static const char nul[] = "int main() { return 0; }\0\n";
  assert_int_equal(parse_text("input.cu", nul, sizeof nul - 1, NULL, 0), 1);
  assert_non_null(strstr(message_text, "NUL byte at offset 24"));
  done();
  /* Nesting beyond any program. */
  size_t n = 2000000;
  struct strbuf deep = {0};
  sb_add(&deep, "int x = ");
  for (size_t i = 0; i < n; i++)
    sb_addc(&deep, '(');
  assert_int_equal(parse_text("input.cu", deep.s, deep.n, NULL, 0), 1);
  done();
  sb_free(&deep);
  sb_add(&deep, "int f(int x) { return x");
  for (size_t i = 0; i < 20000; i++)
    sb_add(&deep, "+x");
  sb_add(&deep, "; }\n");
  assert_int_equal(parse_text("input.cu", deep.s, deep.n, NULL, 0), 0);
  done();
  sb_free(&deep);
  /* A program without communication is fine, and so is one that cucocc wrote. */
  assert_int_equal(
      PARSE("// cucocc-output\n__global__ void k() {}\nint main() { k<<<1, 1>>>(); }\n"), 0);
  assert_true(ir->translated);
  done();
}

/* Every prefix of a program parses or is refused; nothing crashes or leaks. */
static void truncated(void **state) {
  (void)state;
  struct strbuf all = {0};
  char *p = xasprintf("%s/spelling.cu", dir);
  assert_int_equal(io_read_file(p, &all), 0);
  for (int i = 1; i <= 8; i++) {
    size_t n = all.n * (size_t)i / 9;
    int status = parse_text("input.cu", all.s, n, NULL, 0);
    assert_true(status == 0 || status == 1);
    done();
  }
  sb_free(&all);
  free(p);
}

static void no_toolkit(void **state) {
  (void)state;
  messages = open_memstream(&message_text, &message_size);
  struct diag_engine *diag = diag_new(messages);
  static const char s[] = "int main() {}\n";
  struct fe_options o = {
      .input = "input.cu", .text = s, .size = sizeof s - 1, .cuda_path = "/nonexistent"};
  assert_int_equal(fe_parse(&o, diag, &result), 3);
  diag_free(diag);
  fclose(messages);
  assert_non_null(strstr(message_text, "CU0203"));
  ir = NULL;
  done();
}

int main(void) {
  const char *top = getenv("top_srcdir");
  dir = xasprintf("%s/testsuite/frontend", top ? top : ".");
  char *cuda = fe_find_cuda(NULL);
  if (!cuda) {
    printf("1..0 # SKIP no CUDA toolkit\n");
    return 0;
  }
  free(cuda);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spellings),     cmocka_unit_test(straight_line),
      cmocka_unit_test(devices),       cmocka_unit_test(all_to_all_v),
      cmocka_unit_test(halo),          cmocka_unit_test(ring),
      cmocka_unit_test(chunks),        cmocka_unit_test(softmax),
      cmocka_unit_test(gradients),     cmocka_unit_test(warm_up),
      cmocka_unit_test(cases),         cmocka_unit_test(custom_ops),
      cmocka_unit_test(device_events), cmocka_unit_test(launches),
      cmocka_unit_test(degraded),      cmocka_unit_test(malformed),
      cmocka_unit_test(truncated),     cmocka_unit_test(no_toolkit)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  free(dir);
  return failed;
}
