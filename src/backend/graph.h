// SPDX-License-Identifier: Apache-2.0
/* The dependency and overlap graph of a program, drawn through libcgraph and libgvc: regions as nodes,
 * streams as clusters, buffers with their ranges on the edges, hazard kinds, and the pairs that are
 * ordered only by the program's own stream or host order (overlap opportunities) marked. */
#ifndef CUCOCC_BACKEND_GRAPH_H
#define CUCOCC_BACKEND_GRAPH_H

#include "agents/directive.h"
#include "ir/ir.h"

/* Renders to PATH by its extension: .dot .gv (source), .svg .png .pdf .json; "-" = DOT on standard
 * output. SET may be NULL; otherwise each region shows its directive. Written atomically. Returns 0, or
 * -1 with a message in WHY (unknown extension, no renderer, cannot write). */
int graph_write(const struct ir_program *ir, const struct dir_set *set, const char *path, char *why,
                size_t why_size);

#endif
