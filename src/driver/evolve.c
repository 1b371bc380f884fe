// SPDX-License-Identifier: Apache-2.0
#include "driver/evolve.h"
#include "driver/process.h"
#include "driver/progress.h"
#include <math.h>
#include <signal.h>
#include <string.h>

enum {
  PER_GENERATION = 2,  /* candidates that a generation may send into the cascade, when times are predicted */
  MOST_LAST = 16       /* attempts at the end to verify the best */
};
static const double WORTH = 0.995; /* a candidate must be so much better to be tried instead */

/* ---- signals ------------------------------------------------------------------------------------- */

static volatile sig_atomic_t stop_requested;
static struct sigaction previous[3];
static const int signals[3] = {SIGINT, SIGTERM, SIGHUP};

/* The first one ends the search in good order, the second one the program. */
static void on_signal(int sig) {
  stop_requested = 1;
  for (int i = 0; i < 3; i++)
    if (signals[i] == sig)
      sigaction(sig, &previous[i], NULL);
}

static void catch_signals(bool on) {
  struct sigaction action = {.sa_handler = on_signal};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 3; i++)
    if (on) {
      sigaction(signals[i], NULL, &previous[i]);
      if (previous[i].sa_handler != SIG_IGN)
        sigaction(signals[i], &action, NULL);
    } else {
      sigaction(signals[i], &previous[i], NULL);
    }
}

/* ---- scores -------------------------------------------------------------------------------------- */

char *evolve_time(const struct evolve *e, double score) {
  double us = e->measured ? score * 1e3 : score;
  if (!isfinite(us))
    return xstrdup("-");
  return us >= 1e6 ? xasprintf("%.3f s", us / 1e6) : us >= 1e3 ? xasprintf("%.3f ms", us / 1e3) : xasprintf("%.1f us", us);
}

static const struct evo_candidate *candidate(const struct evolve *e, int serial) {
  return evo_get(e->search, serial);
}

/* What the original takes: what was measured beside the candidates, or the prediction. */
static double original_score(const struct evolve *e) {
  if (e->measured)
    VEC_EACH(&e->trials, t) if (isfinite(t->original_milliseconds)) return t->original_milliseconds;
  return candidate(e, SERIAL_HOST)->predicted;
}

/* No overlap and no latency of the host explains more. */
static bool plausible(const struct trial *t) {
  return !(t->milliseconds * 5 < t->original_milliseconds);
}

/* ---- a generation -------------------------------------------------------------------------------- */

static bool record_candidates(struct evolve *e, int first, size_t n) {
  struct dir_directive *d = xcalloc(e->fast_path.regions.n + 1, sizeof *d);
  bool ok = evo_db_begin(e->db);
  for (size_t i = 0; i < n && ok; i++) {
    const struct evo_candidate *c = candidate(e, first + (int)i);
    dir_space_decode(e->space, c->genome, d);
    char *json = evolve_directives_json(e, d);
    ok = evo_db_candidate(e->db, e->run, dir_space_search(e->space), c, json);
    free(json);
  }
  ok &= evo_db_commit(e->db);
  free(d);
  return ok;
}

/* The score of what was measured: in the time of the original, so that a machine that becomes slower or faster
 * meanwhile does not matter. */
static void tell_measured(struct evolve *e, int serial) {
  const struct trial *t = evolve_trial(e, serial);
  bool good = t->verified && isfinite(t->milliseconds) && t->original_milliseconds > 0 && plausible(t);
  evo_tell(e->search, serial, good ? t->milliseconds / t->original_milliseconds * original_score(e) : NAN);
}

/* Tries SERIALS; what fails is no candidate any more. */
static void try_predicted(struct evolve *e, const int *serials, size_t n) {
  evolve_try(e, serials, n);
  for (size_t i = 0; i < n; i++) {
    const struct trial *t = evolve_trial(e, serials[i]);
    /* what was repaired is not what was predicted: the fast path's directives are candidates themselves */
    if (t->tried && (!t->verified || t->repaired) && candidate(e, serials[i])->state == EVO_SCORED)
      evo_reject(e->search, serials[i]);
  }
}

/* The least score of what was verified; the original counts. */
static double best_verified(const struct evolve *e, int *serial) {
  double best = original_score(e);
  int at = SERIAL_HOST;
  for (size_t i = 0; i < e->trials.n; i++) {
    const struct evo_candidate *c = candidate(e, (int)i);
    if (!e->trials.v[i].verified || e->trials.v[i].repaired || c->state != EVO_SCORED || !(c->score < best) ||
        (e->measured && !e->trials.v[i].separate)) /* no gain inside the noise */
      continue;
    best = c->score;
    at = (int)i;
  }
  if (serial)
    *serial = at;
  return best;
}

/* The best candidates that nobody tried and that would be a gain. */
static size_t promising(struct evolve *e, int *out, size_t most) {
  double than = best_verified(e, NULL) * WORTH;
  size_t n = 0;
  for (int i = 0; i < (int)evo_count(e->search); i++) {
    const struct evo_candidate *c = candidate(e, i);
    if (i == SERIAL_HOST || c->state != EVO_SCORED || !(c->score < than) || evolve_trial(e, i)->tried)
      continue;
    if (n == most && !(c->score < candidate(e, out[n - 1])->score))
      continue;
    size_t k = n < most ? n++ : most - 1;
    out[k] = i;
    for (; k > 0 && candidate(e, out[k])->score < candidate(e, out[k - 1])->score; k--) {
      int t = out[k];
      out[k] = out[k - 1];
      out[k - 1] = t;
    }
  }
  return n;
}

static void try_generation(struct evolve *e, int first, size_t n) {
  if (e->measured) {
    int *order = xmalloc((n + 1) * sizeof *order);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
      if (first + (int)i != SERIAL_HOST)
        order[count++] = first + (int)i;
    if (e->o->max_evals && e->evaluations + (int)count > e->o->max_evals)
      count = e->o->max_evals > e->evaluations ? (size_t)(e->o->max_evals - e->evaluations) : 0;
    evolve_try(e, order, count);
    for (size_t i = 0; i < n; i++) {
      int serial = first + (int)i;
      if (serial != SERIAL_HOST && evolve_trial(e, serial)->tried)
        tell_measured(e, serial);
    }
    if (first == 0)
      evo_tell(e->search, SERIAL_HOST, original_score(e));
    free(order);
    return;
  }
  for (size_t i = 0; i < n; i++)
    evo_tell(e->search, first + (int)i, candidate(e, first + (int)i)->predicted);
  if (e->verifier_missing)
    return;
  int serials[PER_GENERATION];
  size_t count = promising(e, serials, PER_GENERATION);
  if (e->o->max_evals && e->evaluations + (int)count > e->o->max_evals)
    count = e->o->max_evals > e->evaluations ? (size_t)(e->o->max_evals - e->evaluations) : 0;
  try_predicted(e, serials, count);
}

/* When nothing at all can be verified, it makes no sense to go on compiling; nor to wait for times that never come. */
static void look_at_fast_path(struct evolve *e) {
  const struct trial *t = evolve_trial(e, SERIAL_FAST_PATH);
  if (e->measured && t->tried && !isfinite(t->milliseconds))
    evolve_predict_instead(e, t->diagnostics ? t->diagnostics : "it was not verified");
  if (t->outcome[CASCADE_VERIFY] == CASCADE_UNAVAILABLE) {
    e->verifier_missing = true;
    const char *text = t->diagnostics ? t->diagnostics : "";
    progress_line("cucocc: nothing can be verified here%s%.*s", *text ? ": " : "", (int)strcspn(text, "\n"), text);
  }
}

static void end_generation(struct evolve *e, double seconds) {
  int best;
  double score = best_verified(e, &best);
  int leader = evo_best(e->search), g = evo_generation(e->search);
  char *state = evo_random_state(e->search), *recorded = evo_db_random_state(e->db, e->run, g);
  evo_db_begin(e->db);
  for (size_t i = 0; i < evo_count(e->search); i++)
    if (candidate(e, (int)i)->state != EVO_PROPOSED && (candidate(e, (int)i)->generation == g ||
                                                       evolve_trial(e, (int)i)->tried))
      evo_db_score(e->db, e->run, candidate(e, (int)i));
  const struct evo_migration *list;
  size_t n = evo_migrations(e->search, &list);
  for (size_t i = 0; i < n; i++)
    evo_db_migration(e->db, e->run, &list[i]);
  evo_db_generation(e->db, e->run, g, evo_count(e->search), leader, leader >= 0 ? candidate(e, leader)->score : NAN,
                    evo_filled(e->search), state, seconds);
  evo_db_commit(e->db);
  bool again = recorded != NULL;
  free(state);
  free(recorded);
  VEC_PUSH(&e->marks) = (struct generation_mark){leader >= 0 ? candidate(e, leader)->score : NAN,
                                                 process_now() - e->started, evo_count(e->search)};
  char *lead = evolve_time(e, leader >= 0 ? candidate(e, leader)->score : NAN), *good = evolve_time(e, score);
  if (!again || e->o->verbose)
    progress_line("generation %d: %zu candidates, %d cells, %d evaluated, %d verified; best %s, verified %s (%.2fx)", g,
                  evo_count(e->search), evo_filled(e->search), e->evaluations, e->verified, lead, good,
                  original_score(e) / score);
  free(lead);
  free(good);
}

/* ---- the whole search ---------------------------------------------------------------------------- */

static void seed(struct evolve *e) {
  const struct evo_space *space = dir_space_search(e->space);
  int *g = xcalloc((size_t)space->genes + 1, sizeof *g);
  struct dir_directive *host = xcalloc(e->fast_path.regions.n + 1, sizeof *host);
  for (size_t i = 0; i < e->fast_path.regions.n; i++) {
    host[i] = e->fast_path.directives.v[i];
    host[i].backend = DIR_backend_host;
  }
  dir_space_encode(e->space, host, g);
  space->canonical(space->ctx, g);
  evo_seed(e->search, g, 0);
  dir_space_encode(e->space, e->fast_path.directives.v, g);
  space->canonical(space->ctx, g);
  evo_seed(e->search, g, 0);
  for (int p = 0, island = 1; p < DIR_placement_COUNT; p++)
    if (dir_space_placement(e->space, (enum dir_placement)p, g) && evo_seed(e->search, g, island) >= 0)
      island++;
  free(host);
  free(g);
}

/* Is there anything to win? Says why not. */
static const char *hopeless(const struct evolve *e) {
  if (!dir_space_choice(e->space))
    return "there is no choice: no region has more than one legal directive";
  if (!e->measured && candidate(e, SERIAL_FAST_PATH)->predicted <= 1.01 * e->facts.ideal)
    return "there is nothing to win: the fast path is predicted within 1 % of the limit of any overlap";
  return NULL;
}

static void search(struct evolve *e) {
  int first;
  for (size_t n; !e->stopped && (n = evo_ask(e->search, &first));) {
    double begun = process_now();
    if (!record_candidates(e, first, n)) {
      e->stopped = strcmp(evo_db_error(e->db), "differs") == 0
                       ? "the database is of another version of the search; nothing of it was changed"
                       : "the database cannot be written";
      break;
    }
    if (first == 0) {
      int fast_path = SERIAL_FAST_PATH;
      evolve_try(e, &fast_path, 1);
      look_at_fast_path(e);
    }
    e->stopped = evolve_stop_reason(e);
    if (!e->stopped || !e->measured)
      try_generation(e, first, n);
    if (first == 0 && !e->measured && evolve_trial(e, SERIAL_FAST_PATH)->tried &&
        !evolve_trial(e, SERIAL_FAST_PATH)->verified && !e->verifier_missing)
      evo_reject(e->search, SERIAL_FAST_PATH);
    end_generation(e, process_now() - begun);
    e->stopped = e->stopped ? e->stopped : evolve_stop_reason(e);
    const char *why = first == 0 ? hopeless(e) : NULL;
    if (why && !e->stopped) {
      progress_line("cucocc: %s", why);
      e->stopped = why;
    }
  }
}

/* The best must have been tried: until it has, or nothing is left. What was timed is verified once more. */
static void settle(struct evolve *e) {
  for (int i = 0; i < MOST_LAST && e->measured; i++) {
    int best;
    best_verified(e, &best);
    if (best == SERIAL_HOST || evolve_verify_again(e, best))
      break;
    evo_reject(e->search, best);
  }
  for (int i = 0; i < MOST_LAST && !e->measured && !e->verifier_missing && !evolve_stop_reason(e); i++) {
    int serial;
    if (promising(e, &serial, 1) == 0)
      break;
    try_predicted(e, &serial, 1);
  }
}

/* ---- the result ---------------------------------------------------------------------------------- */

/* Serial of what is written. Only what was verified can win; the fast path needs no proof here that it does not
 * need without a search, unless it was refuted. */
static int choose(struct evolve *e) {
  int best;
  double score = best_verified(e, &best), original = original_score(e);
  const struct trial *fast = evolve_trial(e, SERIAL_FAST_PATH);
  double fast_score = candidate(e, SERIAL_FAST_PATH)->predicted;
  if (best != SERIAL_HOST && score < original)
    return best;
  bool refuted = fast->tried && !fast->verified && fast->outcome[CASCADE_VERIFY] != CASCADE_UNAVAILABLE;
  if (!refuted && !e->measured && fast_score < original)
    return SERIAL_FAST_PATH;
  return SERIAL_HOST;
}

static void judge(struct evolve *e) {
  double original = original_score(e);
  const struct trial *t = evolve_trial(e, e->result);
  const struct evo_candidate *c = candidate(e, e->result);
  double score = e->measured ? c->score : c->predicted;
  const char *how = e->measured ? "measured" : "predicted";
  char *before = evolve_time(e, original), *after = evolve_time(e, score);
  if (e->result == SERIAL_HOST)
    e->verdict = xasprintf("no win: the original (%s %s) is written as it is", before, how);
  else if (e->result == SERIAL_FAST_PATH && !t->verified)
    e->verdict = xasprintf("the fast path's result is written, not verified: %s against %s of the original, %s",
                           after, before, how);
  else if (e->result == SERIAL_FAST_PATH)
    e->verdict = xasprintf("no win over the fast path: its verified result is written, %s against %s of the original "
                           "(%.2fx), %s",
                           after, before, original / score, how);
  else {
    double fast = e->measured ? candidate(e, SERIAL_FAST_PATH)->score : candidate(e, SERIAL_FAST_PATH)->predicted;
    e->verdict = xasprintf("candidate %d is written: verified, %s against %s of the original (%.2fx) and %.2fx the "
                           "fast path, %s",
                           e->result, after, before, original / score, fast / score, how);
  }
  progress_line("cucocc: %s", e->verdict);
  progress_line("cucocc: limit of any overlap here: %.2fx (compute and communication one after the other, against the "
                "longer of compute and transfer)",
                e->facts.limit);
  free(before);
  free(after);
  if (e->result == SERIAL_FAST_PATH && !t->verified)
    diag_report(e->diag, DIAG_not_verified, NULL,
                "no candidate could be verified, so the fast path's result was written; see --verifier");
}

/* Puts the result where the other outputs come from. */
static enum driver_status hand_over(struct evolve *e) {
  struct pipeline *p = e->p;
  size_t n = p->set.regions.n;
  struct dir_directive *d = xcalloc(n + 1, sizeof *d);
  const struct trial *t = evolve_trial(e, e->result);
  if (t->directives)
    memcpy(d, t->directives, n * sizeof *d);
  else
    dir_space_decode(e->space, candidate(e, e->result)->genome, d);
  for (size_t i = 0; i < n; i++) {
    bool same = e->result == SERIAL_FAST_PATH || dir_host_reason(p->parsed.ir, &p->set.regions.v[i]);
    char *reason = same ? xstrdup(p->set.directives.v[i].reason)
                        : xasprintf("search: candidate %d of run %lld", e->result, (long long)e->run);
    free(p->set.directives.v[i].reason);
    p->set.directives.v[i] = d[i];
    p->set.directives.v[i].reason = reason;
  }
  free(d);
  p->output.n = 0;
  p->report = (struct lower_report){0};
  struct lower_options lower = {.runtime = e->o->include_runtime ? LOWER_RUNTIME_INCLUDE : LOWER_RUNTIME_EMBED,
                                .input = p->name,
                                .text = p->text.s,
                                .size = p->text.n};
  sb_free(&p->output);
  return lower_program(p->parsed.ir, &p->set, &lower, e->diag, &p->output, &p->report) == 0 ? DRIVER_OK : DRIVER_INPUT;
}

static void state_assumptions(const struct evolve *e) {
  struct strbuf guessed = {0}, used = {0};
  VEC_EACH(&e->names.values, v)
    if (v->used)
      sb_addf(v->source == ESTIMATE_DEFAULT ? &guessed : &used, " %s=%g", v->name, v->value);
  if (used.n && e->o->verbose)
    progress_line("cucocc: predicted with%s", used.s);
  if (guessed.n)
    progress_line("cucocc: predicted without knowing%s; see --assume", guessed.s);
  sb_free(&guessed);
  sb_free(&used);
}

static enum driver_status run(struct evolve *e) {
  enum driver_status status = evolve_set_up_cascade(e, &stop_requested);
  if (status == DRIVER_OK)
    status = evolve_set_up(e);
  if (status != DRIVER_OK)
    return status;
  state_assumptions(e);
  seed(e);
  search(e);
  settle(e);
  e->result = choose(e);
  judge(e);
  for (size_t i = 0; i < evo_count(e->search); i++)
    if (evolve_trial(e, (int)i)->tried)
      evo_db_score(e->db, e->run, candidate(e, (int)i));
  bool interrupted = evolve_stop_reason(e) != NULL;
  evo_db_end_run(e->db, e->run, interrupted ? "interrupted" : "finished", e->result, e->verdict);
  if (evo_db_error(e->db) && strcmp(evo_db_error(e->db), "differs") == 0) {
    diag_report(e->diag, DIAG_database, &(struct diag_loc){.file = e->o->db},
                "the database was written by another version of the search; start a new one without '--resume'");
    return DRIVER_ENVIRONMENT;
  }
  if (evo_db_error(e->db))
    diag_report(e->diag, DIAG_database, &(struct diag_loc){.file = e->o->db}, "the database cannot be written: %s",
                evo_db_error(e->db));
  status = hand_over(e);
  int error = e->o->evolve_page && status == DRIVER_OK ? evolve_report(e, e->o->report) : 0;
  if (error) {
    diag_report(e->diag, DIAG_cannot_write, &(struct diag_loc){.file = e->o->report}, "cannot write '%s': %s",
                e->o->report, strerror(error));
    return DRIVER_ENVIRONMENT;
  }
  return evo_db_error(e->db) ? DRIVER_ENVIRONMENT : status;
}

enum driver_status evolve_run(const struct options *o, struct pipeline *p, struct diag_engine *diag) {
  if (p->report.translated == 0) {
    progress_line("cucocc: nothing to search: no communication of this program can be taken off the host");
    return DRIVER_OK;
  }
  struct evolve e = {.o = o, .p = p, .diag = diag, .started = process_now(), .result = SERIAL_HOST};
  e.deadline = o->max_time > 0 ? e.started + o->max_time : 0;
  e.fast_path.regions.v = p->set.regions.v;
  e.fast_path.regions.n = p->set.regions.n;
  VEC_EACH(&p->set.directives, d) {
    struct dir_directive *copy = &VEC_PUSH(&e.fast_path.directives);
    *copy = *d;
    copy->reason = xstrdup(d->reason);
  }
  stop_requested = 0;
  catch_signals(true);
  enum driver_status status = run(&e);
  catch_signals(false);
  progress_clear();
  evolve_tear_down(&e);
  return status;
}
