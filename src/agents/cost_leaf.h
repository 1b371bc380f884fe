// SPDX-License-Identifier: Apache-2.0
/* The cost model's view of single leaves: how long a computation or copy takes, how much a region moves. */
#ifndef CUCOCC_AGENTS_COST_LEAF_H
#define CUCOCC_AGENTS_COST_LEAF_H

#include "agents/directive.h"
#include "agents/estimate.h"
#include "agents/hardware.h"

struct cost_context {
  const struct ir_program *ir;
  const struct hardware *machine;
  struct estimate *names;
  double ranks;
};

/* Looks at the function that NODE is in when names are evaluated. */
void cost_scope(const struct cost_context *c, ir_id node);
/* Microseconds of a COMPUTE or COPY leaf with its launch; the number of thread blocks in *BLOCKS (0 = not
 * known). */
double cost_leaf_time(const struct cost_context *c, const struct ir_node *n, double *blocks);
/* Bytes that a rank sends (or loads) in one execution of a collective leaf. */
double cost_leaf_bytes(const struct cost_context *c, const struct ir_node *n);
/* Iterations of a loop. */
double cost_trips(const struct cost_context *c, const struct ir_node *loop);

#endif
