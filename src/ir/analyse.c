// SPDX-License-Identifier: Apache-2.0
#include "ir/analyse.h"

void ir_analyse(struct ir_program *p) {
  p->deps.n = 0;
  VEC_EACH(&p->overlaps, o) free(o->why);
  p->overlaps.n = 0;
  struct tree tree;
  tree_init(&tree, p);
  struct effects_table *effects = effects_table_new(p);
  depend(p, &tree, effects);
  overlap(p, &tree, effects);
  effects_table_free(effects);
  tree_free(&tree);
}
