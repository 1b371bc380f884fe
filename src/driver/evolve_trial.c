// SPDX-License-Identifier: Apache-2.0
/* Candidates on their way through the cascade, with what the database knows of them. */
#include "driver/evolve.h"
#include "driver/process.h"
#include "driver/progress.h"
#include <math.h>
#include <string.h>
#include <time.h>

struct trial *evolve_trial(struct evolve *e, int serial) {
  while (e->trials.n <= (size_t)serial) {
    struct trial *t = &VEC_PUSH(&e->trials);
    t->milliseconds = t->original_milliseconds = NAN;
  }
  return &e->trials.v[serial];
}

const char *evolve_stop_reason(const struct evolve *e) {
  if (*e->cascade.stop)
    return *e->cascade.stop == 1 ? "interrupted" : "out of time";
  if (e->deadline > 0 && process_now() >= e->deadline)
    return "out of time";
  if (e->o->max_evals && e->evaluations >= e->o->max_evals)
    return "out of evaluations";
  return evo_db_error(e->db) ? "the database cannot be written" : NULL;
}

/* ---- lowering ------------------------------------------------------------------------------------ */

bool evolve_lower(const struct pipeline *p, const struct dir_directive *d, enum lower_runtime runtime,
                  struct strbuf *out, char **why) {
  size_t n = p->set.regions.n;
  struct dir_set set = p->set;
  set.directives.v = xcalloc(n + 1, sizeof *set.directives.v);
  for (size_t i = 0; i < n; i++) {
    set.directives.v[i] = d[i];
    set.directives.v[i].reason = (char *)"";
  }
  char *text = NULL;
  size_t size = 0;
  FILE *log = open_memstream(&text, &size);
  bool ok = log != NULL;
  if (ok) {
    struct diag_engine *diag = diag_new(log);
    struct lower_options lower = {.runtime = runtime, .input = p->name, .text = p->text.s, .size = p->text.n};
    struct lower_report report;
    diag_set_color(diag, DIAG_COLOR_NEVER);
    ok = lower_program(p->parsed.ir, &set, &lower, diag, out, &report) == 0;
    diag_free(diag);
    fclose(log);
  }
  free(set.directives.v);
  *why = ok ? NULL : xstrdup(text ? text : "out of memory");
  free(text);
  return ok;
}

char *evolve_directives_json(const struct evolve *e, const struct dir_directive *d) {
  struct dir_set set = e->fast_path;
  set.directives.v = xcalloc(e->fast_path.regions.n + 1, sizeof *set.directives.v);
  for (size_t i = 0; i < e->fast_path.regions.n; i++) {
    set.directives.v[i] = d[i];
    set.directives.v[i].reason = (char *)"";
  }
  char *text = dir_to_json(e->p->parsed.ir, &set);
  free(set.directives.v);
  return text;
}

static void record(struct evolve *e, int serial, const char *stage, const char *outcome,
                   const char *diagnostics) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  evo_db_evaluation(e->db, e->run, serial,
                    &(struct evo_db_evaluation){.stage = stage,
                                                .outcome = outcome,
                                                .attempt = 1,
                                                .started = (double)now.tv_sec,
                                                .diagnostics = diagnostics,
                                                .value = NAN});
}

static void keep_diagnostics(struct trial *t, const char *text) {
  free(t->diagnostics);
  t->diagnostics = xstrdup(text);
}

/* Makes the code of a candidate. */
static bool make_code(struct evolve *e, int serial) {
  struct trial *t = evolve_trial(e, serial);
  if (t->code)
    return true;
  size_t n = e->fast_path.regions.n;
  t->directives = xcalloc(n + 1, sizeof *t->directives);
  dir_space_decode(e->space, evo_get(e->search, serial)->genome, t->directives);
  struct strbuf code = {0};
  char *why;
  sb_addn(&code, "", 0);
  if (!evolve_lower(e->p, t->directives, e->o->include_runtime ? LOWER_RUNTIME_INCLUDE : LOWER_RUNTIME_EMBED, &code,
                    &why)) {
    record(e, serial, "lower", "failed", why);
    keep_diagnostics(t, why);
    free(why);
    sb_free(&code);
    return false;
  }
  evo_hash(code.s, code.n, t->hash);
  t->code = sb_take(&code);
  evo_db_code(e->db, e->run, serial, t->hash, t->code);
  return true;
}

/* An earlier trial with the same text: its result is this one's too. */
static const struct trial *same_text(struct evolve *e, int serial) {
  const struct trial *t = evolve_trial(e, serial);
  for (int i = 0; i < (int)e->trials.n; i++) {
    const struct trial *other = &e->trials.v[i];
    if (i != serial && other->tried && other->code && strcmp(other->hash, t->hash) == 0)
      return other;
  }
  return NULL;
}

/* ---- what is known already ----------------------------------------------------------------------- */

static enum cascade_outcome outcome_by_name(const char *name) {
  for (int i = 0; i <= CASCADE_UNAVAILABLE; i++)
    if (strcmp(cascade_outcome_name((enum cascade_outcome)i), name) == 0)
      return (enum cascade_outcome)i;
  return CASCADE_NOT_RUN;
}

/* Fills ITEM and T with what the database has about candidate SERIAL. True: nothing is left to be done. */
static bool remembered(struct evolve *e, int serial, struct trial *t, struct cascade_item *item) {
  bool over = false;
  char *outcome, *diagnostics;
  double value;
  for (int s = 0; s < CASCADE_STAGES && !over; s++) {
    if (evo_db_find_evaluation(e->db, e->run, serial, cascade_stage_name((enum cascade_stage)s), &outcome,
                               &diagnostics, &value) != 1)
      break;
    enum cascade_outcome was = outcome_by_name(outcome);
    if (was == CASCADE_OK || was == CASCADE_FAILED || was == CASCADE_TIMEOUT) {
      t->outcome[s] = item->outcome[s] = was;
      over = was != CASCADE_OK;
      if (over)
        keep_diagnostics(t, diagnostics);
      item->compiled |= s == CASCADE_COMPILE && was == CASCADE_OK;
      item->verified |= s == CASCADE_VERIFY && was == CASCADE_OK;
      if (s == CASCADE_BENCHMARK && was == CASCADE_OK) {
        evo_db_read_timings(e->db, e->run, serial, "original", &item->timings[0].v, &item->timings[0].n,
                            &item->timings[0].cap);
        evo_db_read_timings(e->db, e->run, serial, "candidate", &item->timings[1].v, &item->timings[1].n,
                            &item->timings[1].cap);
        item->original_milliseconds = cascade_quantile(item->timings[0].v, item->timings[0].n, 0.5);
        item->milliseconds = value;
      }
    }
    free(outcome);
    free(diagnostics);
  }
  return over || (item->verified && (!e->measured || t->outcome[CASCADE_BENCHMARK] == CASCADE_OK));
}

/* ---- hooks --------------------------------------------------------------------------------------- */

static void on_step(void *ctx, struct cascade_item *item, const struct cascade_step *s) {
  struct evolve *e = ctx;
  struct trial *t = evolve_trial(e, item->serial);
  t->outcome[s->stage] = s->outcome;
  if (s->outcome != CASCADE_OK)
    keep_diagnostics(t, s->diagnostics);
  bool timed = s->stage == CASCADE_BENCHMARK && s->outcome == CASCADE_OK;
  struct evo_db_evaluation row = {.stage = cascade_stage_name(s->stage),
                                  .outcome = cascade_outcome_name(s->outcome),
                                  .attempt = s->attempt,
                                  .started = s->started,
                                  .seconds = s->seconds,
                                  .command = s->command,
                                  .exit_status = s->exit_status,
                                  .diagnostics = s->diagnostics,
                                  .value = timed ? item->milliseconds : NAN};
  if (timed)
    evo_db_begin(e->db);
  int64_t id = evo_db_evaluation(e->db, e->run, item->serial, &row);
  if (!timed)
    return;
  static const char *const programs[] = {"original", "candidate"};
  for (int p = 0; p < 2; p++)
    for (size_t i = 0; i < item->timings[p].n; i++)
      evo_db_timing(e->db, id, programs[p], (int)i, item->timings[p].v[i]);
  evo_db_commit(e->db);
}

/* The region whose code the compiler complains about, by the name of its namespace; -1 if it names none. */
static int blamed_region(const struct evolve *e, const char *diagnostics) {
  const char *s = strstr(diagnostics, "region_");
  int id = s ? atoi(s + 7) : 0;
  for (size_t i = 0; i < e->fast_path.regions.n; i++)
    if (e->fast_path.regions.v[i].id == id)
      return (int)i;
  return -1;
}

/* One repair: the region that does not compile gets the fast path's directive; without a name, every region that
 * has another one. If all have it already, the compiler is asked once more (it may have run out of memory). */
static bool on_repair(void *ctx, struct cascade_item *item, const char *diagnostics) {
  struct evolve *e = ctx;
  struct trial *t = evolve_trial(e, item->serial);
  int blamed = blamed_region(e, diagnostics);
  for (size_t i = 0; i < e->fast_path.regions.n; i++)
    if (blamed < 0 || blamed == (int)i) {
      t->directives[i] = e->fast_path.directives.v[i];
      t->directives[i].reason = NULL;
    }
  struct strbuf code = {0};
  char *why;
  sb_addn(&code, "", 0);
  if (!evolve_lower(e->p, t->directives, e->o->include_runtime ? LOWER_RUNTIME_INCLUDE : LOWER_RUNTIME_EMBED, &code,
                    &why)) {
    free(why);
    sb_free(&code);
    return false;
  }
  free(item->code);
  free(t->code);
  evo_hash(code.s, code.n, t->hash);
  t->code = sb_take(&code);
  item->code = xstrdup(t->code);
  t->repaired = true;
  evo_db_code(e->db, e->run, item->serial, t->hash, t->code);
  return true;
}

static void on_tick(void *ctx) {
  struct evolve *e = ctx;
  const char *time = progress_duration(process_now() - e->started);
  char left[64] = "";
  if (e->deadline > 0)
    snprintf(left, sizeof left, ", %.0f s left", fmax(0, e->deadline - process_now()));
  progress_draw("generation %d/%d: %zu candidates, %d evaluated, %d verified, %s%s", evo_generation(e->search),
                e->options.generations, evo_count(e->search), e->evaluations, e->verified, time, left);
  if (e->deadline > 0 && process_now() >= e->deadline)
    *e->cascade.stop = 2;
}

/* ---- trying -------------------------------------------------------------------------------------- */

static void conclude(struct evolve *e, int serial, const struct cascade_item *item) {
  struct trial *t = evolve_trial(e, serial);
  memcpy(t->outcome, item->outcome, sizeof t->outcome);
  t->verified = item->outcome[CASCADE_VERIFY] == CASCADE_OK;
  t->tried = t->verified || item->outcome[CASCADE_COMPILE] == CASCADE_FAILED ||
             item->outcome[CASCADE_COMPILE] == CASCADE_TIMEOUT || item->outcome[CASCADE_VERIFY] != CASCADE_NOT_RUN;
  t->milliseconds = item->milliseconds;
  t->original_milliseconds = item->original_milliseconds;
  t->separate = cascade_quantile(item->timings[1].v, item->timings[1].n, 0.75) <
                cascade_quantile(item->timings[0].v, item->timings[0].n, 0.25);
  e->verified += t->verified;
  if (t->verified && !e->measured)
    t->outcome[CASCADE_BENCHMARK] = CASCADE_NOT_RUN;
}

void evolve_try(struct evolve *e, const int *serials, size_t n) {
  struct cascade_item *items = xcalloc(n + 1, sizeof *items);
  size_t count = 0;
  for (size_t i = 0; i < n; i++) {
    struct trial *t = evolve_trial(e, serials[i]);
    if (t->tried)
      continue;
    e->evaluations++;
    if (!make_code(e, serials[i])) {
      t->tried = true;
      continue;
    }
    const struct trial *twin = same_text(e, serials[i]);
    t = evolve_trial(e, serials[i]);
    if (twin && !e->measured) {
      memcpy(t->outcome, twin->outcome, sizeof t->outcome);
      t->tried = true;
      t->verified = twin->verified && !twin->repaired;
      continue;
    }
    struct cascade_item *item = &items[count];
    *item = (struct cascade_item){.serial = serials[i], .milliseconds = NAN, .original_milliseconds = NAN};
    if (remembered(e, serials[i], t, item)) {
      conclude(e, serials[i], item);
      cascade_item_free(item);
      continue;
    }
    item->code = xstrdup(t->code);
    if (e->measured) {
      struct strbuf timed = {0};
      char *why = NULL;
      if (evolve_lower(&e->timed, t->directives, LOWER_RUNTIME_EMBED, &timed, &why))
        item->timed_code = sb_take(&timed);
      free(why);
      sb_free(&timed);
    }
    count++;
  }
  struct cascade_hooks hooks = {.ctx = e, .step = on_step, .repair = on_repair, .tick = on_tick};
  cascade_run(&e->cascade, &hooks, items, count);
  for (size_t i = 0; i < count; i++) {
    conclude(e, items[i].serial, &items[i]);
    cascade_item_free(&items[i]);
  }
  free(items);
}

bool evolve_verify_again(struct evolve *e, int serial) {
  struct trial *t = evolve_trial(e, serial);
  struct cascade_item item = {.serial = serial, .code = xstrdup(t->code ? t->code : ""), .compiled = true};
  struct cascade_hooks hooks = {.ctx = e, .step = on_step, .tick = on_tick};
  enum cascade_outcome benchmark = t->outcome[CASCADE_BENCHMARK];
  cascade_run(&e->cascade, &hooks, &item, 1);
  t = evolve_trial(e, serial);
  t->outcome[CASCADE_BENCHMARK] = benchmark;
  bool verified = item.outcome[CASCADE_VERIFY] == CASCADE_OK;
  /* an interruption is no refutation: it was verified before */
  if (item.outcome[CASCADE_VERIFY] != CASCADE_NOT_RUN)
    t->verified = verified;
  cascade_item_free(&item);
  return t->verified;
}
