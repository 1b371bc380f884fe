// SPDX-License-Identifier: Apache-2.0
/* The picture of a program as a libcgraph graph, before layout. */
#ifndef CUCOCC_BACKEND_GRAPH_DRAW_H
#define CUCOCC_BACKEND_GRAPH_DRAW_H

#include "agents/directive.h"
#include <graphviz/cgraph.h>

/* The caller closes it with agclose(). SET may be NULL. */
Agraph_t *graph_draw(const struct ir_program *ir, const struct dir_set *set);

#endif
