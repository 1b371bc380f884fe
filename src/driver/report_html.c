// SPDX-License-Identifier: Apache-2.0
/* The page about a search: one file, no scripts, nothing from elsewhere. */
#include "driver/evolve.h"
#include "driver/process.h"
#include "driver/report_svg.h"
#include "support/io.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1d2733;--soft:#66727f;--line:#d5dbe1;--back:#fff;--panel:#f5f7f9}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e3e8ee;--soft:#97a3af;--line:#39434e;--back:#161b21;--panel:#1f262e}}"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:1000px;margin:0 auto;"
    "padding:1.5rem}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid var(--line)}"
    "table{border-collapse:collapse;margin:.6rem 0}th,td{padding:.25rem .8rem;text-align:left;border-bottom:1px solid "
    "var(--line);vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.verdict{background:"
    "var(--panel);border-left:4px solid #2a7de1;padding:.7rem 1rem}.soft{color:var(--soft)}pre{background:var(--panel);"
    "padding:.7rem;overflow-x:auto;font-size:12.5px;line-height:1.4}details{margin:.3rem 0;border:1px solid var(--line);"
    "border-radius:4px;padding:.3rem .7rem}summary{cursor:pointer}.scroll{overflow-x:auto}.graph{background:#fff;"
    "overflow-x:auto}.graph svg{max-width:none}svg text{font:12px system-ui,sans-serif;fill:var(--ink)}.graph svg text{"
    "fill:revert-layer}svg text.cell{fill:#10161d;font-size:11px}.axis{fill:none;stroke:var(--soft)}.grid{stroke:"
    "var(--line)}.best{fill:none;stroke:#d9480f;stroke-width:2}.edge{fill:none;stroke:var(--line)}.ancestor{fill:none;"
    "stroke:#d9480f;stroke-width:2}.empty{fill:var(--panel)}circle{opacity:.85}circle.no{opacity:.35}circle.yes{stroke:"
    "var(--ink);stroke-width:1.5}.p0{fill:#868e96}.p1{fill:#1c7ed6}.p2{fill:#2f9e44}.p3{fill:#e8590c}.p4{fill:#ae3ec9}"
    ".p5{fill:#f59f00}.compute{fill:#8fbf9f}.communication{fill:#e9a178}.add{color:#2b8a3e}.del{color:#c92a2a}.ok{color:"
    "#2b8a3e}.failed{color:#c92a2a}"
    "@media(prefers-color-scheme:dark){.add,.ok{color:#69db7c}.del,.failed{color:#ff8787}}";

static const char *how(const struct evolve *e) { return e->measured ? "measured" : "predicted"; }

static double score_of(const struct evolve *e, int serial) {
  const struct evo_candidate *c = evo_get(e->search, serial);
  return e->measured ? c->score : c->predicted;
}

static void cell(struct strbuf *b, const char *class, const char *text) {
  sb_addf(b, "<td class=\"%s\">", class);
  html_text(b, text);
  sb_add(b, "</td>");
}

/* ---- tables -------------------------------------------------------------------------------------- */

static void speed_up_row(struct strbuf *b, const struct evolve *e, const char *name, int serial) {
  double original = score_of(e, SERIAL_HOST), fast = score_of(e, SERIAL_FAST_PATH), score = score_of(e, serial);
  char *time = evolve_time(e, score), *what = dir_space_describe(e->space, evo_get(e->search, serial)->genome);
  const struct trial *t = (size_t)serial < e->trials.n ? &e->trials.v[serial] : NULL;
  sb_add(b, "<tr>");
  cell(b, "", name);
  cell(b, "n", time);
  sb_addf(b, "<td class=\"n\">%.3f</td><td class=\"n\">%.3f</td>", original / score, fast / score);
  cell(b, "", serial == SERIAL_HOST ? "the original" : t && t->verified ? "verified" : "not verified");
  cell(b, "", what);
  sb_add(b, "</tr>\n");
  free(time);
  free(what);
}

static void speed_up_table(struct strbuf *b, const struct evolve *e) {
  sb_addf(b, "<h2>Speed-up, %s</h2>\n<table><tr><th></th><th class=\"n\">time</th><th class=\"n\">against the original"
             "</th><th class=\"n\">against the fast path</th><th>verification</th><th>directives</th></tr>\n",
          how(e));
  speed_up_row(b, e, "original", SERIAL_HOST);
  speed_up_row(b, e, "fast path", SERIAL_FAST_PATH);
  if (e->result != SERIAL_HOST && e->result != SERIAL_FAST_PATH)
    speed_up_row(b, e, "written", e->result);
  int leader = evo_best(e->search);
  if (leader >= 0 && leader != e->result && leader > SERIAL_FAST_PATH)
    speed_up_row(b, e, "best score, not written", leader);
  sb_addf(b, "</table>\n<p>Limit of any overlap: %.3f. Compute %.1f us, communication by the host %.1f us, copies %.1f "
             "us; nothing can be below %.1f us. These four numbers are predicted.</p>\n",
          e->facts.limit, e->facts.compute, e->facts.communication, e->facts.other, e->facts.ideal);
}

static void region_table(struct strbuf *b, const struct evolve *e) {
  sb_add(b, "<h2>Regions of communication</h2>\n<table><tr><th></th><th>call</th><th class=\"n\">bytes per rank</th><th "
            "class=\"n\">host call</th><th class=\"n\">transfer alone</th><th class=\"n\">producer</th><th class=\"n\">"
            "consumer</th><th class=\"n\">independent</th><th>result</th></tr>\n");
  for (size_t i = 0; i < e->p->set.regions.n; i++) {
    const struct ir_call *c = &e->p->parsed.ir->calls.v[e->p->set.regions.v[i].calls.v[0]];
    const struct cost_region *r = cost_of_region(e->cost, i);
    char *what = dir_describe(&e->p->set.directives.v[i]);
    sb_addf(b, "<tr><td>%d</td><td>", e->p->set.regions.v[i].id);
    html_text(b, c->callee);
    sb_addf(b, ", line %u</td><td class=\"n\">%.0f</td><td class=\"n\">%.1f us</td><td class=\"n\">%.1f us</td><td "
               "class=\"n\">%.1f us</td><td class=\"n\">%.1f us</td><td class=\"n\">%.1f us</td>",
            c->name.line, r->bytes, r->host, r->transfer, r->producer, r->consumer, r->independent);
    cell(b, "", what);
    sb_add(b, "</tr>\n");
    free(what);
  }
  sb_add(b, "</table>\n<p class=\"soft\">Times of one execution, predicted; compute that the communication could hide "
            "behind.</p>\n");
}

static void assumption_table(struct strbuf *b, const struct evolve *e) {
  sb_add(b, "<h2>What the predictions assume</h2>\n<p>Machine: ");
  html_text(b, e->machine.name);
  sb_add(b, ", ");
  html_text(b, e->machine.summary);
  sb_addf(b, "; %g ranks.</p>\n<table><tr><th>name</th><th class=\"n\">value</th><th>from</th></tr>\n", e->machine.ranks);
  VEC_EACH(&e->names.values, v) {
    if (!v->used)
      continue;
    sb_add(b, "<tr>");
    cell(b, "", v->name);
    sb_addf(b, "<td class=\"n\">%g</td>", v->value);
    cell(b, "", estimate_source_name(v->source));
    sb_add(b, "</tr>\n");
  }
  sb_add(b, "</table>\n");
}

/* ---- candidates ---------------------------------------------------------------------------------- */

/* Lines of a unified diff, coloured. */
static void coloured(struct strbuf *b, char *diff) {
  enum { MOST = 60000 };
  bool cut = strlen(diff) > MOST;
  if (cut)
    diff[MOST] = '\0';
  sb_add(b, "<pre>");
  for (char *line = diff; line && *line;) {
    char *end = strchr(line, '\n');
    if (end)
      *end = '\0';
    const char *class = *line == '+' ? "add" : *line == '-' ? "del" : NULL;
    if (class)
      sb_addf(b, "<span class=\"%s\">", class);
    html_text(b, line);
    sb_add(b, class ? "</span>\n" : "\n");
    line = end ? end + 1 : NULL;
  }
  sb_add(b, cut ? "...</pre>\n" : "</pre>\n");
}

/* What a candidate changes, with the runtime included instead of written out. */
static void diff(struct strbuf *b, const struct evolve *e, const struct dir_directive *d) {
  struct strbuf code = {0};
  char *why, *path = xasprintf("%s/diff.cu", e->work_dir);
  sb_addn(&code, "", 0);
  if (evolve_lower(e->p, d, LOWER_RUNTIME_INCLUDE, &code, &why) && io_write_file(path, code.s, code.n) == 0) {
    struct arg_list words = {0};
    const char *const command[] = {"diff", "-U2", "--label", "original", "--label", "candidate", e->original_path, path};
    for (size_t i = 0; i < sizeof command / sizeof *command; i++)
      args_add(&words, command[i]);
    struct process p;
    if (process_complete(&p, &(struct process_spec){.words = &words, .timeout = 30}) && p.status <= 1)
      coloured(b, p.output.s);
    process_free(&p);
    args_free(&words);
  }
  free(why);
  unlink(path);
  free(path);
  sb_free(&code);
}

static void outcomes(struct strbuf *b, const struct trial *t) {
  for (int s = 0; s < CASCADE_STAGES; s++) {
    if (t->outcome[s] == CASCADE_NOT_RUN)
      continue;
    const char *name = cascade_outcome_name(t->outcome[s]);
    sb_addf(b, " %s <span class=\"%s\">%s</span>", cascade_stage_name((enum cascade_stage)s),
            t->outcome[s] == CASCADE_OK ? "ok" : t->outcome[s] == CASCADE_UNAVAILABLE ? "soft" : "failed", name);
  }
  if (t->repaired)
    sb_add(b, " <span class=\"failed\">repaired</span>");
}

static void candidate_details(struct strbuf *b, const struct evolve *e, int serial) {
  const struct evo_candidate *c = evo_get(e->search, serial);
  const struct trial *t = &e->trials.v[serial];
  char *time = evolve_time(e, isfinite(c->score) ? c->score : c->predicted), *what = dir_space_describe(e->space, c->genome);
  sb_addf(b, "<details%s><summary>%d", serial == e->result ? " open" : "", serial);
  sb_addf(b, ": %s, generation %d, island %d, %s, ", time, c->generation, c->island, evo_origin_name(c->origin));
  html_text(b, what);
  outcomes(b, t);
  sb_add(b, serial == e->result ? " <strong>written</strong></summary>\n" : "</summary>\n");
  if (isfinite(t->milliseconds) && isfinite(t->original_milliseconds))
    sb_addf(b, "<p>Measured: %.4f ms, the original beside it %.4f ms (medians, maximum over the ranks).</p>\n",
            t->milliseconds, t->original_milliseconds);
  if (t->diagnostics && *t->diagnostics) {
    sb_add(b, "<pre>");
    html_text(b, t->diagnostics);
    sb_add(b, "</pre>\n");
  }
  if (t->directives)
    diff(b, e, t->directives);
  sb_add(b, "</details>\n");
  free(time);
  free(what);
}

static void candidates(struct strbuf *b, const struct evolve *e) {
  sb_add(b, "<h2>Candidates that were compiled or verified</h2>\n");
  for (size_t i = 0; i < e->trials.n && i < evo_count(e->search); i++)
    if (e->trials.v[i].tried || e->trials.v[i].diagnostics)
      candidate_details(b, e, (int)i);
}

/* ---- drawings ------------------------------------------------------------------------------------ */

static void timelines(struct strbuf *b, const struct evolve *e) {
  const int serials[] = {SERIAL_HOST, SERIAL_FAST_PATH, e->result};
  static const char *const names[] = {"Original", "Fast path", "Written"};
  struct cost_timeline t[3];
  double scale = 0;
  int n = e->result > SERIAL_FAST_PATH ? 3 : 2;
  struct dir_directive *d = xcalloc(e->fast_path.regions.n + 1, sizeof *d);
  for (int i = 0; i < n; i++) {
    dir_space_decode(e->space, evo_get(e->search, serials[i])->genome, d);
    cost_draw(e->cost, d, &t[i]);
    scale = fmax(scale, t[i].total);
  }
  free(d);
  sb_add(b, "<h2>Timeline, predicted</h2>\n<p class=\"soft\">One iteration of the loop that takes longest.</p>\n");
  for (int i = 0; i < n; i++) {
    sb_addf(b, "<h3>%s</h3>\n<div class=\"scroll\">", names[i]);
    svg_timeline(b, &t[i], scale > 0 ? scale : 1);
    sb_add(b, "</div>\n");
    cost_timeline_free(&t[i]);
  }
}

static void legend(struct strbuf *b) {
  sb_add(b, "<p class=\"soft\">");
  for (int r = 0; r < dir_space_rows(); r++)
    sb_addf(b, "<svg width=\"12\" height=\"12\" aria-hidden=\"true\"><circle class=\"p%d\" cx=\"6\" cy=\"6\" r=\"5\"/></svg> "
               "%s &nbsp; ",
            r, dir_space_row_name(r));
  sb_add(b, "outlined: verified; pale: failed.</p>\n");
}

static void graphs(struct strbuf *b, const struct evolve *e) {
  struct dir_set before = e->fast_path;
  before.directives.v = xcalloc(before.regions.n + 1, sizeof *before.directives.v);
  dir_space_decode(e->space, evo_get(e->search, SERIAL_HOST)->genome, before.directives.v);
  for (size_t i = 0; i < before.regions.n; i++)
    before.directives.v[i].reason = (char *)"";
  sb_add(b, "<h2>Overlap graph</h2>\n<details><summary>Before</summary><div class=\"graph\">\n");
  svg_graph(b, e, &before);
  sb_add(b, "</div></details>\n<details><summary>After</summary><div class=\"graph\">\n");
  svg_graph(b, e, &e->p->set);
  sb_add(b, "</div></details>\n");
  free(before.directives.v);
}

int evolve_report(const struct evolve *e, const char *path) {
  struct strbuf b = {0};
  sb_add(&b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
             "content=\"width=device-width\"><title>cucocc: search on ");
  html_text(&b, e->p->name);
  sb_addf(&b, "</title>\n<style>%s</style></head><body>\n<h1>Search on ", style);
  html_text(&b, e->p->name);
  sb_add(&b, "</h1>\n<p class=\"verdict\">");
  html_text(&b, e->verdict);
  sb_addf(&b, "</p>\n<p>%zu candidates in %zu generations, %d evaluated, %d verified; seed %llu, %d islands of %d%s%s. All "
              "times are %s%s.</p>\n",
          evo_count(e->search), e->marks.n, e->evaluations, e->verified, (unsigned long long)e->options.seed,
          e->options.islands, e->options.population, e->stopped ? "; stopped: " : "", e->stopped ? e->stopped : "", how(e),
          e->measured ? "" : ", not measured");
  speed_up_table(&b, e);
  region_table(&b, e);
  timelines(&b, e);
  sb_add(&b, "<h2>Score over generations</h2>\n<div class=\"scroll\">");
  svg_scores(&b, e);
  sb_add(&b, "</div>\n");
  legend(&b);
  sb_add(&b, "<h2>Directives: the best of each kind</h2>\n<p class=\"soft\">Placement of the region that communicates most, "
             "by its chunks and CTAs.</p>\n<div class=\"scroll\">");
  svg_heat_map(&b, e);
  sb_add(&b, "</div>\n<h2>Lineage</h2>\n<p class=\"soft\">One column for each generation; the ancestors of what was "
             "written are marked.</p>\n<div class=\"scroll\">");
  svg_lineage(&b, e);
  sb_add(&b, "</div>\n");
  graphs(&b, e);
  candidates(&b, e);
  assumption_table(&b, e);
  sb_add(&b, "</body></html>\n");
  int error = io_write_file(path, b.s, b.n);
  sb_free(&b);
  return error;
}
