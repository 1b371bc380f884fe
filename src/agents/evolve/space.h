// SPDX-License-Identifier: Apache-2.0
/* The directives of a program as a search space. Which values there are comes from the table of
 * directives, which of their combinations from dir_check(): a new lowering widens the space by itself. */
#ifndef CUCOCC_AGENTS_EVOLVE_SPACE_H
#define CUCOCC_AGENTS_EVOLVE_SPACE_H

#include "agents/cost_model.h"
#include "agents/directive.h"
#include "agents/evolve/search.h"

struct dir_space;

/* Everything is borrowed. FAST_PATH holds the regions and the fast path's directives. COST may be NULL: no
 * predictions. */
struct dir_space *dir_space_new(const struct ir_program *ir, const struct dir_set *fast_path,
                                const struct cost_model *cost);
void dir_space_free(struct dir_space *s);

/* The space for evo_new(); valid until S is freed. */
const struct evo_space *dir_space_search(const struct dir_space *s);
/* Writes one directive for each region to OUT. Their reasons are NULL. */
void dir_space_decode(const struct dir_space *s, const int *genome, struct dir_directive *out);
/* The genome of directives; a value that the space lacks becomes the nearest one. */
void dir_space_encode(const struct dir_space *s, const struct dir_directive *d, int *genome);
/* The fast path with every region that allows it at PLACEMENT, other dimensions by the first combination
 * that is legal. Returns the number of such regions; 0 leaves GENOME as the fast path. */
int dir_space_placement(const struct dir_space *s, enum dir_placement placement, int *genome);
/* Is there a legal directive for any region beside the host call and the fast path's? */
bool dir_space_choice(const struct dir_space *s);
/* Legal combinations of one region (index), counted up to MOST. */
size_t dir_space_size(const struct dir_space *s, size_t region, size_t most);
/* "lsa, split, ...; host": one line for people; free() it. */
char *dir_space_describe(const struct dir_space *s, const int *genome);
/* Feature cells, for the archive's heat map: rows are placements, columns are chunk and CTA classes. */
int dir_space_rows(void);
int dir_space_columns(void);
const char *dir_space_row_name(int row);
const char *dir_space_column_name(int column);

#endif
