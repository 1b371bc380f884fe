// SPDX-License-Identifier: Apache-2.0
/* Construction, JSON in both directions, schema file. */
#include "lib/unit.h"

#include "ir/ir.h"
#include "random.h"
#include "support/io.h"
#include <string.h>

static void constructors(void **state) {
  (void)state;
  struct ir_program *p = ir_new();
  ir_id f = ir_add_function(p, "main"), b = ir_add_buffer(p, "d_x", "main");
  ir_id body = ir_add_node(p, IR_SEQ, -1), loop = ir_add_node(p, IR_LOOP, body);
  ir_id in = ir_add_node(p, IR_SEQ, loop), c = ir_add_node(p, IR_COLLECTIVE, in);
  p->functions.v[f].body = body;
  for (ir_id i = 0; i < 4; i++)
    ir_node(p, i)->function = f;
  assert_string_equal(p->buffers.v[b].elem_type, "");
  assert_int_equal(p->buffers.v[b].alias_of, -1);
  assert_int_equal(p->buffers.v[b].param, -1);
  assert_int_equal(ir_node(p, c)->parent, in);
  assert_int_equal(ir_node(p, in)->children.v[0], c);
  assert_int_equal(ir_node(p, c)->u.coll.comm, -1);
  assert_string_equal(ir_node(p, c)->u.coll.redop, "");
  assert_false(ir_expr_known(&ir_node(p, c)->u.coll.count));
  assert_true(ir_node_is_leaf(ir_node(p, c)));
  assert_false(ir_node_is_leaf(ir_node(p, loop)));
  struct ir_operand *o = ir_add_operand(p, c, b, IR_READ);
  assert_int_equal(o->arg, -1);
  ir_set(&o->text, "d_x + 1");
  ir_set(&o->text, o->text + 4); /* part of the old text */
  assert_string_equal(o->text, "+ 1");
  assert_string_equal(ir_collective_name(IR_COLL_all_gather), "all_gather");
  assert_string_equal(ir_collective_nccl(IR_COLL_all_gather), "ncclAllGather");
  assert_string_equal(ir_dep_name(IR_DEP_RAW), "RAW");
  assert_string_equal(ir_overlap_name(IR_OVERLAP_ORDER_ONLY), "order_only");
  assert_string_equal(ir_pattern_name(IR_PATTERN_RING_SHIFT), "ring_shift");
  assert_string_equal(ir_copy_name(IR_COPY_D2H), "device_to_host");
  assert_string_equal(ir_sync_name(IR_SYNC_EVENT_WAIT), "event_wait");
  assert_string_equal(ir_node_kind_name(IR_LOOP), "loop");
  char why[300];
  assert_true(ir_verify(p, why, sizeof why));
  ir_free(p);
  ir_free(NULL);
}

static void round_trip(void **state) {
  (void)state;
  char why[600];
  for (uint64_t seed = 1; seed <= 400; seed++) {
    struct ir_program *p = random_ir(seed);
    if (!ir_verify(p, why, sizeof why))
      fail_msg("seed %d: %s", (int)seed, why);
    char *text = ir_to_json(p);
    struct ir_program *q = ir_from_json(text, why, sizeof why);
    if (!q)
      fail_msg("seed %d: %s\n%s", (int)seed, why, text);
    char *again = ir_to_json(q);
    if (strcmp(text, again) != 0)
      fail_msg("seed %d: differs\n%s\n%s", (int)seed, text, again);
    /* Every string survived, odd bytes included. */
    for (size_t i = 0; i < p->buffers.n; i++)
      assert_string_equal(p->buffers.v[i].name, q->buffers.v[i].name);
    for (size_t i = 0; i < p->nodes.n; i++)
      assert_string_equal(p->nodes.v[i].label, q->nodes.v[i].label);
    free(text);
    free(again);
    ir_free(p);
    ir_free(q);
  }
}

static void refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "line 1"},
      {"[]", "expected an object, found an array"},
      {"{\"version\": 1", "line 1"},
      {"{\"model\": \"mpi\"}", "\"version\" (an integer) is missing"},
      {"{\"version\": 2, \"model\": \"mpi\"}", "version 2"},
      {"{\"version\": 1}", "\"model\" is missing"},
      {"{\"version\": 1, \"model\": \"cloud\"}", "/model: \"cloud\" is not a process model"},
      {"{\"version\": 1, \"model\": \"mpi\", \"model\": \"mpi\"}", "line 1"},
      {"{\"version\": 1, \"model\": \"mpi\", \"buffer\": []}", "no member \"buffer\""},
      {"{\"version\": 1, \"model\": \"mpi\", \"buffers\": {}}", "/buffers: expected an array"},
      {"{\"version\": 1, \"model\": \"mpi\", \"buffers\": [{\"name\": 1, \"origin\": \"cuda\"}]}",
       "/buffers/0/name: expected a string, found an integer"},
      {"{\"version\": 1, \"model\": \"mpi\", \"buffers\": [{\"origin\": \"cuda\"}]}",
       "/buffers/0: member \"name\" is missing"},
      {"{\"version\": 1, \"model\": \"mpi\", \"streams\": [{\"name\": \"s\", \"param\": 1e3}]}",
       "/streams/0/param: expected an integer, found a number"},
      {"{\"version\": 1, \"model\": \"mpi\", \"streams\": [{\"name\": \"s\", \"param\": "
       "4294967296}]}",
       "/streams/0/param: 4294967296 is out of range"},
      {"{\"version\": 1, \"model\": \"mpi\", \"nodes\": [{\"id\": 0, \"kind\": \"sync\", \"sync\": "
       "\"device\", \"kernel\": 0}]}",
       "/nodes/0: a node of kind \"sync\" has no member \"kernel\""},
      {"{\"version\": 1, \"model\": \"mpi\", \"nodes\": [{\"id\": 0, \"kind\": \"sync\"}]}",
       "/nodes/0: member \"sync\" is missing"},
      {"{\"version\": 1, \"model\": \"mpi\", \"nodes\": [{\"id\": 0, \"kind\": \"loop\", "
       "\"varying\": [true]}]}",
       "/nodes/0/varying/0: expected a string, found true"},
      {"{\"version\": 1, \"model\": \"mpi\", \"nodes\": [{\"id\": 0, \"kind\": \"sequence\"}]}",
       "belongs to no function"},
      {"{\"version\": 1, \"model\": \"mpi\", \"kernels\": [{\"name\": \"k\", \"params\": "
       "[{\"read\": {\"kind\": \"whole\", \"block_coef\": [{}]}}]}]}",
       "/kernels/0/params/0/read/block_coef: expected 3 elements, found 1"},
      {"{\"version\": 1, \"model\": \"mpi\", \"files\": [{\"path\": \"a\\u0000b\"}]}", "line 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char why[400] = "";
    struct ir_program *p = ir_from_json(cases[i].text, why, sizeof why);
    if (p || !strstr(why, cases[i].message))
      fail_msg("%s\ngave: %s\nnot: %s", cases[i].text, p ? "a program" : why, cases[i].message);
  }
}

/* Damaged text never crashes the reader, and what it accepts is a valid program. */
static void damaged(void **state) {
  (void)state;
  struct rnd r = {3};
  char why[400];
  struct ir_program *p = random_ir(17);
  char *text = ir_to_json(p);
  size_t n = strlen(text);
  ir_free(p);
  for (int i = 0; i < 1500; i++) {
    char *copy = xstrdup(text);
    for (int k = 1 + rnd_below(&r, 3); k > 0; k--)
      copy[rnd_next(&r) % n] = "0123456789{}[]\",:truefalsnx-"[rnd_below(&r, 27)];
    if (rnd_chance(&r, 10))
      copy[rnd_next(&r) % n] = '\0';
    struct ir_program *q = ir_from_json(copy, why, sizeof why);
    if (q)
      assert_true(ir_verify(q, why, sizeof why));
    ir_free(q);
    free(copy);
  }
  free(text);
}

static void schema_file(void **state) {
  (void)state;
  const char *top = getenv("top_srcdir");
  if (!top)
    top = ".";
  char *path = xasprintf("%s/spec/ir.schema.json", top), *schema = ir_schema_json();
  struct strbuf file = {0};
  assert_int_equal(io_read_file(path, &file), 0);
  if (strcmp(file.s, schema) != 0)
    fail_msg("%s is not what the table in src/ir/record_table.c gives", path);
  sb_free(&file);
  free(schema);
  free(path);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--schema") == 0) { /* to renew spec/ir.schema.json */
    char *s = ir_schema_json();
    fputs(s, stdout);
    free(s);
    return 0;
  }
  if (argc == 3 && strcmp(argv[1], "--random") == 0) { /* for schema.test */
    struct ir_program *p = random_ir(strtoull(argv[2], NULL, 10));
    char *s = ir_to_json(p);
    fputs(s, stdout);
    free(s);
    ir_free(p);
    return 0;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(constructors), cmocka_unit_test(round_trip),
                                     cmocka_unit_test(refused), cmocka_unit_test(damaged),
                                     cmocka_unit_test(schema_file)};
  return cmocka_run_group_tests_name("IR as JSON", tests, NULL, NULL);
}
