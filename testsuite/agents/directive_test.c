// SPDX-License-Identifier: Apache-2.0
/* Regions, the fast-path agent, legality, and directives as JSON, on a small IR built by hand. */
#include "agents/directive.h"
#include "support/io.h"
#include "support/strbuf.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
// cmocka needs the four headers above first
#include <cmocka.h>

struct fixture {
  struct ir_program *ir;
  struct dir_set set;
  struct diag_engine *diag;
  FILE *log;
  char *text;
  size_t size;
  ir_id gather, send, recv, group, comm;
};

static ir_id add_coll(struct ir_program *ir, ir_id parent, const char *callee, enum ir_collective op,
                      ir_id comm, unsigned line) {
  ir_id c = ir_add_call(ir, IR_CALL_COLLECTIVE, callee), n = ir_add_node(ir, IR_COLLECTIVE, parent);
  ir->calls.v[c].name = (struct ir_range){0, line * 100, line * 100 + strlen(callee), line, 3};
  ir->calls.v[c].range = ir->calls.v[c].name;
  ir->calls.v[c].in_main_file = true;
  ir->calls.v[c].uniform = true;
  ir->calls.v[c].comm = comm;
  ir->nodes.v[n].call = c;
  ir->nodes.v[n].range = ir->calls.v[c].name;
  ir->nodes.v[n].u.coll.op = op;
  ir->nodes.v[n].u.coll.comm = comm;
  ir_set(&ir->nodes.v[n].u.coll.redop, op == IR_COLL_all_reduce ? "ncclSum" : "");
  ir->nodes.v[n].u.coll.redop_static = true;
  return c;
}

static int setup(void **state) {
  struct fixture *f = xcalloc(1, sizeof *f);
  f->log = open_memstream(&f->text, &f->size);
  f->diag = diag_new(f->log);
  f->ir = ir_new();
  ir_add_file(f->ir, "in.cu", true);
  f->comm = ir_add_comm(f->ir, "comm", "main");
  ir_id create = ir_add_call(f->ir, IR_CALL_COMM_CREATE, "ncclCommInitRank");
  f->ir->calls.v[create].in_main_file = true;
  f->ir->calls.v[create].comm = f->comm;
  VEC_PUSH(&f->ir->comms.v[f->comm].creates) = create;
  ir_id fn = ir_add_function(f->ir, "main"), body = ir_add_node(f->ir, IR_SEQ, -1);
  f->ir->functions.v[fn].body = body;
  /* the send and receive come first in the tree but later in the source */
  f->group = ir_add_node(f->ir, IR_GROUP, body);
  ir_id seq = ir_add_node(f->ir, IR_SEQ, f->group);
  f->send = add_coll(f->ir, seq, "ncclSend", IR_COLL_send, f->comm, 20);
  f->recv = add_coll(f->ir, seq, "ncclRecv", IR_COLL_recv, f->comm, 21);
  f->gather = add_coll(f->ir, body, "ncclAllGather", IR_COLL_all_gather, f->comm, 10);
  dir_find_regions(f->ir, &f->set);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  dir_set_free(&f->set);
  ir_free(f->ir);
  diag_free(f->diag);
  fclose(f->log);
  free(f->text);
  free(f);
  return 0;
}

static const char *said(struct fixture *f) {
  fflush(f->log);
  return f->text ? f->text : "";
}

static void regions_are_in_source_order(void **state) {
  struct fixture *f = *state;
  assert_int_equal(f->set.regions.n, 2);
  assert_int_equal(f->set.regions.v[0].calls.v[0], f->gather);
  assert_int_equal(f->set.regions.v[1].node, f->group);
  assert_int_equal(f->set.regions.v[1].calls.n, 2);
  assert_int_equal(f->set.regions.v[1].calls.v[0], f->send);
  assert_int_equal(f->set.regions.v[1].calls.v[1], f->recv);
}

static void fast_path_is_legal(void **state) {
  struct fixture *f = *state;
  fast_path_choose(f->ir, &f->set, f->diag);
  for (size_t i = 0; i < f->set.regions.n; i++) {
    assert_int_equal(f->set.directives.v[i].backend, DIR_backend_lsa);
    assert_true(dir_check(f->ir, &f->set.regions.v[i], &f->set.directives.v[i], f->diag));
  }
  assert_int_equal(diag_errors(f->diag) + diag_warnings(f->diag), 0);
}

/* Each way in which a region must stay on the host, and a word of its reason. */
static void host_reasons(void **state) {
  struct fixture *f = *state;
  struct ir_call *gather = &f->ir->calls.v[f->gather], *send = &f->ir->calls.v[f->send];
  assert_null(dir_host_reason(f->ir, &f->set.regions.v[0]));
  gather->in_main_file = false;
  assert_non_null(strstr(dir_host_reason(f->ir, &f->set.regions.v[0]), "header"));
  gather->in_main_file = true;
  gather->spelling = IR_SPELLED_MACRO_BODY;
  assert_non_null(strstr(dir_host_reason(f->ir, &f->set.regions.v[0]), "macro"));
  gather->spelling = IR_SPELLED_MACRO_ARG;
  gather->function_has_errors = true;
  assert_non_null(strstr(dir_host_reason(f->ir, &f->set.regions.v[0]), "errors"));
  gather->function_has_errors = false;
  gather->captured = true;
  assert_non_null(strstr(dir_host_reason(f->ir, &f->set.regions.v[0]), "captured"));
  gather->captured = false;
  f->ir->nccl_version = 22700;
  assert_non_null(strstr(dir_host_reason(f->ir, &f->set.regions.v[0]), "2.28.7"));
  f->ir->nccl_version = 22809;
  send->comm = -1;
  assert_non_null(strstr(dir_host_reason(f->ir, &f->set.regions.v[1]), "communicator"));
  send->comm = f->comm;
  f->ir->comms.v[f->comm].creates.n = 0;
  assert_non_null(strstr(dir_host_reason(f->ir, &f->set.regions.v[1]), "elsewhere"));
  assert_null(dir_host_reason(f->ir, &f->set.regions.v[0])); /* a collective attaches by itself */
  f->ir->comms.v[f->comm].creates.n = 1;
  ir_id start = ir_add_call(f->ir, IR_CALL_GROUP_START, "ncclGroupStart");
  f->ir->calls.v[start].in_main_file = true;
  f->ir->calls.v[start].spelling = IR_SPELLED_MACRO_BODY;
  assert_non_null(strstr(dir_host_reason(f->ir, &f->set.regions.v[0]), "ncclGroupStart"));
}

static void custom_reduction_stays(void **state) {
  struct fixture *f = *state;
  ir_id c = add_coll(f->ir, f->ir->functions.v[0].body, "ncclAllReduce", IR_COLL_all_reduce, f->comm,
                     30);
  struct dir_set set;
  dir_find_regions(f->ir, &set);
  assert_int_equal(set.regions.n, 3);
  assert_int_equal(set.regions.v[2].calls.v[0], c);
  struct ir_node *n = &f->ir->nodes.v[set.regions.v[2].node];
  ir_set(&n->u.coll.redop, "my_op");
  n->u.coll.redop_static = false;
  assert_null(dir_host_reason(f->ir, &set.regions.v[2])); /* one of the five, decided at run time */
  ir_add_call(f->ir, IR_CALL_OTHER, "ncclRedOpCreatePreMulSum");
  assert_non_null(strstr(dir_host_reason(f->ir, &set.regions.v[2]), "PreMulSum"));
  fast_path_choose(f->ir, &set, f->diag);
  assert_int_equal(set.directives.v[2].backend, DIR_backend_host);
  assert_non_null(strstr(said(f), "ncclAllReduce stays a host call"));
  assert_non_null(strstr(said(f), "in.cu:30:3"));
  dir_set_free(&set);
}

static void json_round_trip(void **state) {
  struct fixture *f = *state;
  fast_path_choose(f->ir, &f->set, f->diag);
  f->set.directives.v[0].chunk_bytes = 65536;
  f->set.directives.v[0].ctas = 8;
  f->set.directives.v[1].chunk_bytes = DIR_CHUNK_TILE;
  char *a = dir_to_json(f->ir, &f->set);
  struct dir_set back;
  dir_find_regions(f->ir, &back);
  assert_true(dir_from_json(f->ir, &back, "d.json", a, f->diag));
  char *b = dir_to_json(f->ir, &back);
  assert_string_equal(a, b);
  free(a);
  free(b);
  dir_set_free(&back);
}

#define REGION "\"region\":{\"id\":1}"
#define REST                                                                                       \
  ",\"placement\":\"deferred\",\"sync\":\"team_barrier\",\"issuer\":\"cta\",\"chunk_bytes\":\"whole\""
#define WRAP(x) "{\"version\":1,\"directives\":[{" x "}]}"

static void bad_json_is_refused(void **state) {
  struct fixture *f = *state;
  static const char *const cases[][2] = {
      {"{", "not JSON"},
      {"[]", "must be an object"},
      {"{\"version\":2,\"directives\":[]}", "\"version\": 1"},
      {"{\"version\":1,\"directives\":[],\"x\":1}", "unknown key 'x'"},
      {"{\"version\":1,\"directives\":[3]}", "directives[0] must be an object"},
      {WRAP("\"backend\":\"lsa\"" REST), "region.id"},
      {WRAP("\"region\":{\"id\":9},\"backend\":\"lsa\"" REST), "has 2 communication regions"},
      {WRAP("\"region\":{\"id\":1,\"call\":\"ncclSend\"},\"backend\":\"lsa\"" REST),
       "region 1 is ncclAllGather"},
      {WRAP("\"region\":{\"id\":1,\"line\":11},\"backend\":\"lsa\"" REST), "is at line 10"},
      {WRAP(REGION REST), "lacks the key 'backend'"},
      {WRAP(REGION ",\"backend\":\"nvlink\"" REST), "must be one of: host, lsa, gin, hybrid"},
      {WRAP(REGION ",\"backend\":\"lsa\",\"speed\":1" REST), "unknown key 'speed'"},
      {WRAP(REGION ",\"backend\":\"lsa\",\"ctas\":65" REST), "from 0 to 64"},
      {WRAP(REGION ",\"backend\":\"lsa\",\"vector_bytes\":7" REST), "4, 8 or 16"},
      {WRAP(REGION ",\"backend\":\"lsa\",\"depth\":\"2\"" REST), "from 1 to 16"},
      {"{\"version\":1,\"directives\":[{" REGION ",\"backend\":\"lsa\"" REST "},{" REGION
       ",\"backend\":\"lsa\"" REST "}]}",
       "a second time"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t before = strlen(said(f));
    assert_false(dir_from_json(f->ir, &f->set, "d.json", cases[i][0], f->diag));
    if (!strstr(said(f) + before, cases[i][1]))
      fail_msg("case %zu: wanted '%s' in: %s", i, cases[i][1], said(f) + before);
    assert_non_null(strstr(said(f) + before, "CU0501"));
  }
}

static void rules_have_reasons(void **state) {
  struct fixture *f = *state;
  fast_path_choose(f->ir, &f->set, f->diag);
  static const struct {
    int region;
    struct dir_directive d;
    const char *why;
  } cases[] = {
      {1, {.backend = DIR_backend_gin}, "'gin' of region 1 has no lowering yet"},
      {1, {.backend = DIR_backend_lsa, .placement = DIR_placement_fused}, "'fused'"},
      {1, {.backend = DIR_backend_lsa, .sync = DIR_sync_chunk_signal}, "'chunk_signal'"},
      {1, {.backend = DIR_backend_lsa, .sync = DIR_sync_peer_signal}, "sync-fits-pattern"},
      {2, {.backend = DIR_backend_lsa, .sync = DIR_sync_team_barrier}, "sync-fits-pattern"},
      {1, {.backend = DIR_backend_lsa, .sync = DIR_sync_team_barrier, .chunk_bytes = DIR_CHUNK_TILE},
       "tile-needs-kernel"},
      {1, {.backend = DIR_backend_lsa, .sync = DIR_sync_team_barrier, .chunk_bytes = 1025},
       "chunk-aligned"},
      {2, {.backend = DIR_backend_lsa, .sync = DIR_sync_peer_signal, .transfer = DIR_transfer_pull},
       "pull-needs-reader"},
      {2, {.backend = DIR_backend_lsa, .sync = DIR_sync_peer_signal, .ctas = 4}, "channels-fixed"},
      {1, {.backend = DIR_backend_lsa, .sync = DIR_sync_team_barrier, .vector_bytes = 4},
       "width-is-chosen"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct dir_directive d = cases[i].d;
    d.issuer = DIR_issuer_cta;
    if (!d.vector_bytes)
      d.vector_bytes = 16;
    size_t before = strlen(said(f));
    assert_false(dir_check(f->ir, &f->set.regions.v[cases[i].region - 1], &d, f->diag));
    if (!strstr(said(f) + before, cases[i].why))
      fail_msg("case %zu: wanted '%s' in: %s", i, cases[i].why, said(f) + before);
  }
}

static void schema_file_is_current(void **state) {
  (void)state;
  const char *top = getenv("top_srcdir");
  char *path = xasprintf("%s/spec/directive.schema.json", top ? top : "."), *want = dir_schema_json();
  struct strbuf have = {0};
  assert_int_equal(io_read_file(path, &have), 0);
  assert_string_equal(have.s, want);
  sb_free(&have);
  free(path);
  free(want);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--print-schema") == 0) { /* how the file is made anew */
    char *s = dir_schema_json();
    fputs(s, stdout);
    free(s);
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(regions_are_in_source_order, setup, teardown),
      cmocka_unit_test_setup_teardown(fast_path_is_legal, setup, teardown),
      cmocka_unit_test_setup_teardown(host_reasons, setup, teardown),
      cmocka_unit_test_setup_teardown(custom_reduction_stays, setup, teardown),
      cmocka_unit_test_setup_teardown(json_round_trip, setup, teardown),
      cmocka_unit_test_setup_teardown(bad_json_is_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(rules_have_reasons, setup, teardown),
      cmocka_unit_test(schema_file_is_current),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
