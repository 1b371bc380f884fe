// SPDX-License-Identifier: Apache-2.0
/* What a leaf does, as far as the order of a program is concerned: uses of memory, streams, events,
 * communicators and the host's waiting. A call has the effects of the called function. */
#ifndef CUCOCC_IR_EFFECTS_H
#define CUCOCC_IR_EFFECTS_H

#include "ir/ir.h"

/* A use of memory. OP is NULL when the range is not known. */
struct effect_use {
  ir_id buffer; /* -1 unknown memory; -2 - k: the k-th __device__ variable of the program */
  unsigned mode;
  const struct ir_operand *op;
  bool may;
};

/* A touch of an order resource. */
/* A stream, as work on it is ordered (stream 0 takes part in the order of others), and as the host waits for
 * it (its own work only). */
enum effect_resource { EFFECT_STREAM, EFFECT_OWN_WORK, EFFECT_ALL_STREAMS, EFFECT_EVENT, EFFECT_COMM };
struct effect_touch {
  enum effect_resource resource;
  ir_id id;
  enum ir_dep_kind kind;
  bool reads; /* comes after what was there, but later ones need not come after it (event record) */
  bool only;  /* touches nothing but make later ones come after it (an event's record) */
  bool may;
};

struct effects {
  VEC(struct effect_use) uses;
  VEC(struct effect_touch) touches;
  bool blocks;    /* the host waits until it is done */
  bool to_host;   /* the host can read what it writes, once it has waited for it */
  bool computes, communicates;
};

/* The effects of every function, once for a program. */
struct effects_table;
struct effects_table *effects_table_new(const struct ir_program *p);
void effects_table_free(struct effects_table *t);
size_t effects_device_globals(const struct effects_table *t);

/* Appends the effects of leaf N to OUT (zeroed at first). */
void effects_of(const struct effects_table *t, const struct ir_node *n, struct effects *out);
void effects_free(struct effects *e);

#endif
