// SPDX-License-Identifier: Apache-2.0
#include "driver/report_svg.h"
#include "backend/graph.h"
#include "support/diag_text.h"
#include "support/io.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

void html_text(struct strbuf *out, const char *s) {
  struct strbuf clean = {0};
  sb_addn(&clean, "", 0);
  diag_text_utf8(&clean, s, strlen(s));
  for (const char *c = clean.s; *c; c++)
    switch (*c) {
    case '<':
      sb_add(out, "&lt;");
      break;
    case '>':
      sb_add(out, "&gt;");
      break;
    case '&':
      sb_add(out, "&amp;");
      break;
    case '"':
      sb_add(out, "&quot;");
      break;
    case '\n':
    case '\t':
      sb_addc(out, *c);
      break;
    default:
      if ((unsigned char)*c >= ' ') /* other control characters are not allowed in HTML */
        sb_addc(out, *c);
    }
  sb_free(&clean);
}

static void text_at(struct strbuf *out, double x, double y, const char *anchor, const char *text) {
  sb_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
  html_text(out, text);
  sb_add(out, "</text>\n");
}

static void begin(struct strbuf *out, double width, double height, const char *label) {
  sb_addf(out, "<svg viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"", width,
          height, width, height);
  html_text(out, label);
  sb_add(out, "\">\n");
}

/* Colour class of a candidate: its row in the archive, the placement. */
static int row_of(const struct evo_candidate *c) { return c->cell / dir_space_columns(); }

static void title(struct strbuf *out, const struct evolve *e, const struct evo_candidate *c) {
  char *what = dir_space_describe(e->space, c->genome), *time = evolve_time(e, c->score);
  sb_addf(out, "<title>%d: %s, %s, ", c->serial, evo_origin_name(c->origin), time);
  html_text(out, what);
  sb_add(out, "</title>");
  free(what);
  free(time);
}

/* ---- scores -------------------------------------------------------------------------------------- */

struct plot {
  double left, right, top, bottom, least, most;
  int generations;
};

static double plot_x(const struct plot *p, double generation) {
  return p->left + (p->right - p->left) * (generation + 0.5) / (p->generations ? p->generations : 1);
}

static double plot_y(const struct plot *p, double score) {
  double share = p->most > p->least ? (score - p->least) / (p->most - p->least) : 0.5;
  return p->bottom - (p->bottom - p->top) * (share > 1 ? 1 : share);
}

/* Slow candidates would squeeze the rest: the scale ends a little above the original. */
static void plot_scale(struct plot *p, const struct evolve *e) {
  double original = evo_get(e->search, SERIAL_HOST)->score;
  p->least = INFINITY;
  p->most = 0;
  for (size_t i = 0; i < evo_count(e->search); i++) {
    const struct evo_candidate *c = evo_get(e->search, (int)i);
    if (c->state != EVO_SCORED)
      continue;
    p->least = fmin(p->least, c->score);
    p->most = fmax(p->most, c->score);
  }
  if (!isfinite(p->least))
    p->least = p->most = 0;
  if (isfinite(original) && p->most > 1.3 * original)
    p->most = 1.3 * original;
  double margin = (p->most - p->least) * 0.06 + p->least * 1e-3;
  p->least -= margin;
  p->most += margin;
}

void svg_scores(struct strbuf *out, const struct evolve *e) {
  struct plot p = {80, 880, 20, 280, 0, 0, (int)e->marks.n};
  plot_scale(&p, e);
  begin(out, 900, 320, "score over generations");
  sb_addf(out, "<path class=\"axis\" d=\"M%.0f %.0fV%.0fH%.0f\"/>\n", p.left, p.top, p.bottom, p.right);
  for (int i = 0; i <= 4; i++) {
    double score = p.least + (p.most - p.least) * i / 4;
    char *label = evolve_time(e, score);
    text_at(out, p.left - 6, plot_y(&p, score) + 4, "end", label);
    sb_addf(out, "<path class=\"grid\" d=\"M%.0f %.1fH%.0f\"/>\n", p.left, plot_y(&p, score), p.right);
    free(label);
  }
  int step = p.generations > 20 ? p.generations / 10 : p.generations > 10 ? 2 : 1;
  for (int g = 0; g < p.generations; g += step) {
    char label[16];
    snprintf(label, sizeof label, "%d", g);
    text_at(out, plot_x(&p, g), p.bottom + 16, "middle", label);
  }
  text_at(out, (p.left + p.right) / 2, p.bottom + 34, "middle", "generation");
  for (size_t i = 0; i < evo_count(e->search); i++) {
    const struct evo_candidate *c = evo_get(e->search, (int)i);
    bool verified = i < e->trials.n && e->trials.v[i].verified;
    double score = c->state == EVO_SCORED ? c->score : c->predicted;
    if (!isfinite(score) || c->generation >= p.generations)
      continue;
    double jitter = (c->serial * 37 % 100 / 100.0 - 0.5) * 0.6;
    sb_addf(out, "<circle class=\"p%d%s%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\">", row_of(c), verified ? " yes" : "",
            c->state == EVO_FAILED ? " no" : "", plot_x(&p, c->generation + jitter), plot_y(&p, score),
            verified ? "4.5" : "2.5");
    title(out, e, c);
    sb_add(out, "</circle>\n");
  }
  sb_add(out, "<polyline class=\"best\" points=\"");
  for (int g = 0; g < p.generations; g++)
    if (isfinite(e->marks.v[g].best))
      sb_addf(out, "%.1f,%.1f ", plot_x(&p, g), plot_y(&p, e->marks.v[g].best));
  sb_add(out, "\"/>\n</svg>\n");
}

/* ---- lineage ------------------------------------------------------------------------------------- */

/* Ancestors of the result. */
static bool *ancestors(const struct evolve *e) {
  bool *on = xcalloc(evo_count(e->search) + 1, sizeof *on);
  on[e->result] = true;
  for (int i = (int)evo_count(e->search) - 1; i >= 0; i--)
    for (int k = 0; k < 2 && on[i]; k++)
      if (evo_get(e->search, i)->parents[k] >= 0)
        on[evo_get(e->search, i)->parents[k]] = true;
  return on;
}

void svg_lineage(struct strbuf *out, const struct evolve *e) {
  size_t n = evo_count(e->search);
  int generations = (int)e->marks.n;
  int *used = xcalloc((size_t)generations + 1, sizeof *used), *place = xcalloc(n + 1, sizeof *place), tallest = 1;
  for (size_t i = 0; i < n; i++) {
    int g = evo_get(e->search, (int)i)->generation;
    if (g < generations) {
      place[i] = used[g]++;
      tallest = used[g] > tallest ? used[g] : tallest;
    }
  }
  double dx = generations > 1 ? fmax(36, 860.0 / generations) : 200, dy = tallest > 40 ? 8 : 12;
  double width = 40 + dx * generations, height = 40 + dy * tallest;
  bool *on = ancestors(e);
  begin(out, width, height, "lineage of the candidates");
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < n; i++) {
      const struct evo_candidate *c = evo_get(e->search, (int)i);
      if (c->generation >= generations || on[i] != (pass == 1))
        continue;
      double x = 20 + dx * c->generation, y = 24 + dy * place[i];
      for (int k = 0; k < 2; k++)
        if (c->parents[k] >= 0) {
          const struct evo_candidate *parent = evo_get(e->search, c->parents[k]);
          double px = 20 + dx * parent->generation, py = 24 + dy * place[c->parents[k]], mid = (x + px) / 2;
          sb_addf(out, "<path class=\"%s\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n",
                  pass ? "ancestor" : "edge", px, py, mid, py, mid, y, x, y);
        }
    }
  for (size_t i = 0; i < n; i++) {
    const struct evo_candidate *c = evo_get(e->search, (int)i);
    if (c->generation >= generations)
      continue;
    bool verified = i < e->trials.n && e->trials.v[i].verified;
    sb_addf(out, "<circle class=\"p%d%s%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\">", row_of(c), verified ? " yes" : "",
            c->state == EVO_FAILED ? " no" : "", 20 + dx * c->generation, 24 + dy * place[i],
            (int)i == e->result ? "6" : "3");
    title(out, e, c);
    sb_add(out, "</circle>\n");
  }
  for (int g = 0; g < generations; g++) {
    char label[16];
    snprintf(label, sizeof label, "%d", g);
    text_at(out, 20 + dx * g, 12, "middle", label);
  }
  sb_add(out, "</svg>\n");
  free(on);
  free(used);
  free(place);
}

/* ---- heat map ------------------------------------------------------------------------------------ */

void svg_heat_map(struct strbuf *out, const struct evolve *e) {
  int rows = dir_space_rows(), columns = dir_space_columns();
  double w = 86, h = 34, left = 90, top = 20, least = INFINITY, most = 0;
  for (int cell = 0; cell < rows * columns; cell++) {
    int elite = evo_elite(e->search, cell);
    if (elite < 0)
      continue;
    least = fmin(least, evo_get(e->search, elite)->score);
    most = fmax(most, evo_get(e->search, elite)->score);
  }
  begin(out, left + w * columns + 10, top + h * rows + 120, "best candidate of each kind");
  for (int r = 0; r < rows; r++) {
    text_at(out, left - 8, top + h * r + h / 2 + 4, "end", dir_space_row_name(r));
    for (int k = 0; k < columns; k++) {
      int elite = evo_elite(e->search, r * columns + k);
      double x = left + w * k, y = top + h * r;
      if (elite < 0) {
        sb_addf(out, "<rect class=\"empty\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\"/>\n", x, y, w - 2,
                h - 2);
        continue;
      }
      const struct evo_candidate *c = evo_get(e->search, elite);
      double share = most > least ? (c->score - least) / (most - least) : 0;
      char *time = evolve_time(e, c->score);
      /* the worst of all would make everything else look alike */
      sb_addf(out,
              "<g><rect style=\"fill:hsl(%.0f 62%% 62%%)\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\"/>",
              150 * (1 - sqrt(share)), x, y, w - 2, h - 2);
      title(out, e, c);
      sb_addf(out, "<text class=\"cell\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text></g>\n", x + w / 2 - 1,
              y + h / 2 + 4, time);
      free(time);
    }
  }
  for (int k = 0; k < columns; k++) {
    double x = left + w * k + w / 2, y = top + h * rows + 12;
    sb_addf(out, "<text transform=\"translate(%.0f %.0f) rotate(28)\">", x - 20, y);
    html_text(out, dir_space_column_name(k));
    sb_add(out, "</text>\n");
  }
  sb_add(out, "</svg>\n");
}

/* ---- timeline ------------------------------------------------------------------------------------ */

void svg_timeline(struct strbuf *out, const struct cost_timeline *t, double scale) {
  double left = 110, width = 760, row = 26;
  begin(out, left + width + 20, 2 * row + 34, "timeline");
  text_at(out, left - 8, row / 2 + 8, "end", "compute, copies");
  text_at(out, left - 8, row * 1.5 + 8, "end", "communication");
  VEC_EACH(&t->bars, b) {
    double x = left + width * b->begin / scale, w = width * (b->end - b->begin) / scale,
           y = b->communication ? row + 4 : 4;
    w = w < 1 ? 1 : w;
    sb_addf(out, "<g><rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/><title>",
            b->communication ? "communication" : "compute", x, y, w, row - 6);
    html_text(out, b->label);
    sb_addf(out, ": %.1f to %.1f us</title>", b->begin, b->end);
    if (w > 7.0 * (double)strlen(b->label) + 8)
      sb_addf(out, "<text class=\"cell\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", x + w / 2, y + row / 2 + 1),
          html_text(out, b->label), sb_add(out, "</text>");
    sb_add(out, "</g>\n");
  }
  for (int i = 0; i <= 4; i++) {
    char label[32];
    snprintf(label, sizeof label, "%.1f us", scale * i / 4);
    text_at(out, left + width * i / 4, 2 * row + 24, i == 4 ? "end" : "middle", label);
  }
  sb_add(out, "</svg>\n");
}

/* ---- graph --------------------------------------------------------------------------------------- */

void svg_graph(struct strbuf *out, const struct evolve *e, const struct dir_set *set) {
  char *path = xasprintf("%s/graph.svg", e->work_dir), why[256] = "";
  struct strbuf text = {0};
  int error = graph_write(e->p->parsed.ir, set, path, why, sizeof why);
  const char *svg = !error && io_read_file(path, &text) == 0 ? strstr(text.s, "<svg") : NULL;
  if (svg)
    sb_add(out, svg);
  else {
    sb_add(out, "<p>The graph could not be drawn: ");
    html_text(out, why);
    sb_add(out, "</p>\n");
  }
  unlink(path);
  free(path);
  sb_free(&text);
}
