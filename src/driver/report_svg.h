// SPDX-License-Identifier: Apache-2.0
/* The drawings of the search's report, as inline SVG. */
#ifndef CUCOCC_DRIVER_REPORT_SVG_H
#define CUCOCC_DRIVER_REPORT_SVG_H

#include "driver/evolve.h"

/* Appends S as text for HTML and SVG. */
void html_text(struct strbuf *out, const char *s);

void svg_scores(struct strbuf *out, const struct evolve *e);   /* score over generations */
void svg_lineage(struct strbuf *out, const struct evolve *e);  /* who comes from whom */
void svg_heat_map(struct strbuf *out, const struct evolve *e); /* the archive */
/* One iteration of the hottest loop with directives D. Times above SCALE are not drawn. */
void svg_timeline(struct strbuf *out, const struct cost_timeline *t, double scale);
/* The overlap graph with directives SET. */
void svg_graph(struct strbuf *out, const struct evolve *e, const struct dir_set *set);

#endif
