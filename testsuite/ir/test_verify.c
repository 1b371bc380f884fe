// SPDX-License-Identifier: Apache-2.0
/* The verifier finds each planted violation and nothing in sound programs. */
#include "lib/unit.h"

#include "ir/ir.h"
#include "random.h"
#include <string.h>

enum { BODY, LOOP, SEQ, KERNEL, GATHER, WAIT, CALLED };

static struct ir_program *sound(void) {
  struct ir_program *p = ir_new();
  ir_add_file(p, "in.cu", true);
  ir_add_function(p, "main");
  ir_add_function(p, "helper");
  ir_add_buffer(p, "x", "main");
  ir_add_buffer(p, "y", "main");
  ir_add_stream(p, "s", "main");
  ir_add_event(p, "e", "main");
  ir_add_comm(p, "c", "main");
  ir_add_call(p, IR_CALL_COLLECTIVE, "ncclAllGather");
  ir_add_call(p, IR_CALL_ALLOC, "cudaMalloc");
  ir_add_node(p, IR_SEQ, -1);
  ir_node(p, BODY)->function = 0;
  p->functions.v[0].body = BODY;
  ir_add_node(p, IR_LOOP, BODY);
  ir_add_node(p, IR_SEQ, LOOP);
  ir_add_node(p, IR_COMPUTE, SEQ);
  ir_add_node(p, IR_COLLECTIVE, SEQ);
  ir_add_node(p, IR_SYNC, BODY);
  ir_add_node(p, IR_CALL, BODY);
  ir_node(p, GATHER)->call = 0;
  ir_node(p, KERNEL)->stream = ir_node(p, GATHER)->stream = 0;
  ir_add_operand(p, KERNEL, 0, IR_WRITE);
  struct ir_operand *o = ir_add_operand(p, GATHER, 0, IR_READ);
  ir_expr_symbol(&o->size, "n");
  struct ir_expr m;
  ir_expr_init(&m);
  ir_expr_symbol(&m, "m");
  ir_expr_add(&o->size, &o->size, &m, 1);
  ir_expr_free(&m);
  ir_add_operand(p, GATHER, 1, IR_WRITE);
  VEC_PUSH(&p->buffers.v[0].allocs) = 1;
  ir_analyse(p);
  return p;
}

static void leaf_with_child(struct ir_program *p) {
  VEC_PUSH(&ir_node(p, KERNEL)->children) = GATHER;
}
static void wrong_id(struct ir_program *p) { ir_node(p, KERNEL)->id = GATHER; }
static void wrong_parent(struct ir_program *p) { ir_node(p, KERNEL)->parent = BODY; }
static void other_function(struct ir_program *p) { ir_node(p, KERNEL)->function = 1; }
static void two_bodies(struct ir_program *p) { VEC_PUSH(&ir_node(p, LOOP)->children) = WAIT; }
static void orphan(struct ir_program *p) { ir_node(p, BODY)->children.n--; }
static void root_elsewhere(struct ir_program *p) { p->functions.v[0].body = SEQ; }
static void shared_body(struct ir_program *p) { p->functions.v[1].body = BODY; }
static void cycle(struct ir_program *p) { VEC_PUSH(&ir_node(p, SEQ)->children) = LOOP; }
static void twice(struct ir_program *p) { VEC_PUSH(&ir_node(p, SEQ)->children) = KERNEL; }
static void no_stream(struct ir_program *p) { ir_node(p, KERNEL)->stream = 1; }
static void negative_stream(struct ir_program *p) { ir_node(p, KERNEL)->stream = -2; }
static void no_kernel(struct ir_program *p) { ir_node(p, KERNEL)->u.compute.kernel = 0; }
static void no_buffer(struct ir_program *p) { ir_node(p, KERNEL)->operands.v[0].buffer = 2; }
static void bad_mode(struct ir_program *p) {
  ir_node(p, KERNEL)->operands.v[0].mode = (enum ir_mode)4;
}
static void bad_enum(struct ir_program *p) {
  ir_node(p, WAIT)->u.sync.kind = (enum ir_sync_kind)99;
}
static void operand_at_loop(struct ir_program *p) { ir_add_operand(p, LOOP, 0, IR_READ); }
static void event_at_kernel(struct ir_program *p) { ir_node(p, KERNEL)->event = 0; }
static void end_at_kernel(struct ir_program *p) { ir_node(p, KERNEL)->call_end = 0; }
static void wrong_call(struct ir_program *p) { ir_node(p, GATHER)->call = 1; }
static void null_string(struct ir_program *p) {
  free(p->buffers.v[1].name);
  p->buffers.v[1].name = NULL;
}
static void backwards(struct ir_program *p) {
  ir_node(p, KERNEL)->range = (struct ir_range){0, 10, 5, 1, 1};
}
static void no_file(struct ir_program *p) {
  ir_node(p, KERNEL)->range = (struct ir_range){1, 1, 5, 1, 1};
}
static struct ir_expr *size(struct ir_program *p) {
  return &ir_node(p, GATHER)->operands.v[0].size;
}
static void unsorted(struct ir_program *p) {
  struct ir_term t = size(p)->terms.v[0];
  size(p)->terms.v[0] = size(p)->terms.v[1];
  size(p)->terms.v[1] = t;
}
static void zero_term(struct ir_program *p) { size(p)->terms.v[0].coef = 0; }
static void not_affine(struct ir_program *p) { size(p)->affine = false; }
static void no_text(struct ir_program *p) { ir_set(&size(p)->text, ""); }
static void alias_of_self(struct ir_program *p) {
  p->buffers.v[0].origin = p->buffers.v[1].origin = IR_ORIGIN_ALIAS;
  p->buffers.v[0].alias_of = 1;
  p->buffers.v[1].alias_of = 0;
}
static void alias_of_none(struct ir_program *p) { p->buffers.v[0].origin = IR_ORIGIN_ALIAS; }
static void own_alias(struct ir_program *p) { VEC_PUSH(&p->buffers.v[0].aliases) = 0; }
static void no_alloc(struct ir_program *p) { VEC_PUSH(&p->buffers.v[1].allocs) = 0; }
static void no_free(struct ir_program *p) { VEC_PUSH(&p->buffers.v[1].frees) = 1; }
static void no_create(struct ir_program *p) { VEC_PUSH(&p->comms.v[0].creates) = 1; }
static void edge_to_loop(struct ir_program *p) { p->deps.v[0].to = LOOP; }
static void edge_to_self(struct ir_program *p) {
  p->deps.v[0].from = p->deps.v[0].to;
  p->deps.v[0].carried = false;
  p->deps.v[0].loop = -1;
}
static void edge_without_loop(struct ir_program *p) {
  p->deps.v[0].carried = true;
  p->deps.v[0].loop = -1;
}
static void edge_of_seq(struct ir_program *p) {
  p->deps.v[0].carried = true;
  p->deps.v[0].loop = SEQ;
}
static void order_with_buffer(struct ir_program *p) {
  p->deps.v[0].kind = IR_DEP_HOST;
  p->deps.v[0].buffer = 0;
}
static void overlap_of_two_kernels(struct ir_program *p) {
  p->overlaps.v[0].a = p->overlaps.v[0].b = KERNEL;
  p->overlaps.v[0].carried = true;
}
static void second_main(struct ir_program *p) { ir_add_file(p, "b.cu", true); }
static void too_deep(struct ir_program *p) {
  ir_id at = BODY;
  for (int i = 0; i < 3000; i++)
    at = ir_add_node(p, IR_SEQ, at);
}

static void planted(void **state) {
  (void)state;
#define CASE(f)                                                                                    \
  { #f, f }
  static const struct {
    const char *name;
    void (*plant)(struct ir_program *);
  } cases[] = {CASE(leaf_with_child), CASE(wrong_id),          CASE(wrong_parent),
               CASE(other_function),  CASE(two_bodies),        CASE(orphan),
               CASE(root_elsewhere),  CASE(shared_body),       CASE(cycle),
               CASE(twice),           CASE(no_stream),         CASE(negative_stream),
               CASE(no_kernel),       CASE(no_buffer),         CASE(bad_mode),
               CASE(bad_enum),        CASE(operand_at_loop),   CASE(event_at_kernel),
               CASE(end_at_kernel),   CASE(wrong_call),        CASE(null_string),
               CASE(backwards),       CASE(no_file),           CASE(unsorted),
               CASE(zero_term),       CASE(not_affine),        CASE(no_text),
               CASE(alias_of_self),   CASE(alias_of_none),     CASE(own_alias),
               CASE(no_alloc),        CASE(no_free),           CASE(no_create),
               CASE(edge_to_loop),    CASE(edge_to_self),      CASE(edge_without_loop),
               CASE(edge_of_seq),     CASE(order_with_buffer), CASE(overlap_of_two_kernels),
               CASE(second_main),     CASE(too_deep)};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char why[300] = "";
    struct ir_program *p = sound();
    if (!ir_verify(p, why, sizeof why))
      fail_msg("the sound program: %s", why);
    assert_true(p->deps.n > 0 && p->overlaps.n > 0);
    cases[i].plant(p);
    if (ir_verify(p, why, sizeof why))
      fail_msg("%s was not found", cases[i].name);
    if (!strchr(why, ':') || strlen(why) < 10)
      fail_msg("%s: poor message: %s", cases[i].name, why);
    ir_free(p);
  }
}

static void small_buffer(void **state) {
  (void)state;
  char why[8];
  struct ir_program *p = sound();
  wrong_parent(p);
  assert_false(ir_verify(p, why, sizeof why));
  assert_true(strlen(why) < sizeof why);
  assert_false(ir_verify(p, NULL, 0));
  ir_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(planted), cmocka_unit_test(small_buffer)};
  return cmocka_run_group_tests_name("IR verifier", tests, NULL, NULL);
}
