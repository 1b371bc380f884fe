// SPDX-License-Identifier: Apache-2.0
/* The accesses that a walk through a program has seen and that later ones may depend on, in lists by
 * resource. An entry is hidden when a later access replaces it; leaving a branch arm or a loop, which may
 * not have been executed, brings back what was hidden there. */
#ifndef CUCOCC_IR_HISTORY_H
#define CUCOCC_IR_HISTORY_H

#include "ir/range.h"

struct history_entry {
  ir_id leaf;
  int list, next, prev; /* prev -1: first of its list */
  bool linked;
  enum ir_dep_kind order; /* of order resources */
  ir_id buffer;           /* of data resources; < -1: a __device__ variable */
  unsigned mode;
  bool may;
  const struct range *range;
  int replaced_by;        /* an entry that any access in conflict with this one conflicts with too */
};

struct history {
  VEC(struct history_entry) entries; /* never shrinks: indices are a sequence number */
  VEC(int) heads;
  VEC(int) undo;
};

struct history_scope {
  size_t entries, undo;
};

void history_init(struct history *h, size_t lists);
void history_free(struct history *h);
int history_add(struct history *h, int list, struct history_entry e);
void history_hide(struct history *h, int entry);
void history_show(struct history *h, int entry);

struct history_scope history_enter(const struct history *h);
/* Brings back the entries older than the scope that were hidden in it. */
void history_leave(struct history *h, struct history_scope s);
/* Unlinks all entries that were made since the scope began; appends those that were linked to PARKED
 * (if not NULL). */
void history_park(struct history *h, struct history_scope s, void *parked);

#endif
