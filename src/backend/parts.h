// SPDX-License-Identifier: Apache-2.0
/* Launches that take turns with communication: a variant of the kernel that runs a part of its grid, a
 * host function with the launch's arguments that launches the parts, and the edit of the launch. */
#ifndef CUCOCC_BACKEND_PARTS_H
#define CUCOCC_BACKEND_PARTS_H

#include "agents/directive.h"
#include "backend/rewriter.h"
#include "ir/ir.h"

enum { PARTS_REGIONS = 4 }; /* regions that one launch may feed, and use */

struct parts_role { /* what a launch, GEMM call or memset is to the regions around it: Role of the prelude */
  ir_id node;
  int feeds[PARTS_REGIONS], uses[PARTS_REGIONS]; /* region ids, 0 = none */
  bool first;                                    /* it begins the chains that it feeds */
  int parts, ctas;
};
struct parts_begin { /* a chain of REGION begins before NODE, a branch or a loop */
  ir_id node;
  int region;
};
struct parts_event { /* the record of an event, or a stream's wait for one, inside chains */
  ir_id node;
  int regions[PARTS_REGIONS];
};
struct parts_plan {
  VEC(struct parts_role) roles;
  VEC(struct parts_begin) begins;
  VEC(struct parts_event) events;
  VEC(int) late; /* regions whose pieces the launch after them waits for */
};

/* What the split and pipelined regions of SET ask for; free it. Regions too many for one launch are left
 * to their stream, which is slower and still right. TEXT: the input. */
void parts_plan(const struct ir_program *ir, const struct dir_set *set, const char *text,
                struct parts_plan *out);
void parts_plan_free(struct parts_plan *p);
bool parts_is_late(const struct parts_plan *p, int region);
bool parts_use_blas(const struct ir_program *ir, const struct parts_plan *p);

/* Adds the edits of PLAN to RW. PATH is for #line. Returns false when a text is not as the IR says. */
bool parts_edit(const struct ir_program *ir, const struct parts_plan *plan, const char *path,
                struct rewriter *rw);

#endif
