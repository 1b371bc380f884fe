// SPDX-License-Identifier: Apache-2.0
/* The launches next to a communication region that may take turns with it: those before it that write
 * what it sends (or use what it receives into), and the one after it that uses what it received. */
#ifndef CUCOCC_AGENTS_CHAIN_H
#define CUCOCC_AGENTS_CHAIN_H

#include "agents/directive.h"

struct dir_chain {
  VEC(ir_id) producers; /* launches, GEMM calls and memsets in source order; nothing else that
                         * conflicts with the region lies between the first of them and the region */
  VEC(ir_id) events;    /* records of events, and waits of streams for events, in between */
  ir_id begin;          /* the branch or loop before which the chain begins; -1: at the first producer,
                         * which every execution of the region has passed */
  ir_id consumer;       /* the next launch that uses the region's data, on every path; -1 = none */
  const char *why;      /* when there is neither: what stands in the way (static text) */
};

/* Finds the chain of REGION; free it. */
void dir_chain_find(const struct ir_program *ir, const struct dir_region *region,
                    struct dir_chain *out);
void dir_chain_free(struct dir_chain *c);

/* May the launch, GEMM call or memset NODE be cut into parts? NULL, or why not (owned by IR). */
const char *dir_stays_whole(const struct ir_program *ir, const struct ir_node *node);

#endif
