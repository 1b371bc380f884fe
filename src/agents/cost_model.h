// SPDX-License-Identifier: Apache-2.0
/* How long would the program take with these directives? A prediction from the IR, a machine description
 * and numbers for the program's names: good enough to order candidates, and never called a measurement.
 * docs/search.md has the formulas. Times are microseconds. */
#ifndef CUCOCC_AGENTS_COST_MODEL_H
#define CUCOCC_AGENTS_COST_MODEL_H

#include "agents/directive.h"
#include "agents/estimate.h"
#include "agents/hardware.h"

struct cost_model;

/* What does not depend on directives. */
struct cost_facts {
  double compute, communication, other; /* whole program, one after the other; communication by the host */
  double transfer;                      /* of it, what the links need */
  double ideal;                         /* max(compute, transfer) + other: nothing is faster */
  double limit;                         /* (compute + communication) / max(compute, transfer) */
};

/* One region of communication, one execution. */
struct cost_region {
  double bytes;          /* that one rank sends or loads */
  double host, transfer; /* the host call; the transfer alone by all CTAs that help */
  double producer, consumer, independent, concurrent; /* compute that it could hide behind */
  double times;          /* executions in the program */
};

/* One bar of a timeline: of the hottest loop, one iteration. */
struct cost_bar {
  bool communication;
  double begin, end;
  char *label;
};
struct cost_timeline {
  VEC(struct cost_bar) bars;
  double total;
};

/* Everything is borrowed and must outlive the model. NAMES gets defaults for what it does not know. */
struct cost_model *cost_new(const struct ir_program *ir, const struct dir_set *set,
                            const struct hardware *machine, struct estimate *names);
void cost_free(struct cost_model *m);

void cost_facts(const struct cost_model *m, struct cost_facts *out);
/* REGION is an index into set->regions. */
const struct cost_region *cost_of_region(const struct cost_model *m, size_t region);

/* The predicted time of the program with the directives D, one for each region. */
double cost_predict(const struct cost_model *m, const struct dir_directive *d);
/* The same, drawn; free it by cost_timeline_free(). */
void cost_draw(const struct cost_model *m, const struct dir_directive *d, struct cost_timeline *out);
void cost_timeline_free(struct cost_timeline *t);

#endif
