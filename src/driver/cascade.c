// SPDX-License-Identifier: Apache-2.0
#include "driver/cascade.h"
#include "driver/process.h"
#include "driver/sandbox.h"
#include "driver/timing.h"
#include "support/io.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* What an item is doing. */
struct work {
  struct process process;
  struct arg_list words;
  char *dir, *source, *timed, *exe, *object;
  enum cascade_stage stage;
  int part;               /* of the stage: rank counts of verify, runs of the benchmark */
  int attempt;
  bool running, done;
  double unix_started;
};

struct cascade {
  const struct cascade_options *o;
  const struct cascade_hooks *hooks;
  struct cascade_item *items;
  size_t n;
};

const char *cascade_stage_name(enum cascade_stage s) {
  static const char *const names[] = {"compile", "verify", "benchmark"};
  return names[s];
}

const char *cascade_outcome_name(enum cascade_outcome o) {
  static const char *const names[] = {"not run", "ok", "failed", "timeout", "unavailable"};
  return names[o];
}

void cascade_expand(struct arg_list *out, const struct arg_list *template, const char *const *names,
                    const char *const *values, size_t n) {
  for (size_t i = 0; i < template->n; i++) {
    struct strbuf b = {0};
    sb_addn(&b, "", 0);
    for (const char *s = template->v[i]; *s;) {
      size_t k = 0, length = 0;
      for (; *s == '{' && k < n; k++) {
        length = strlen(names[k]);
        if (strncmp(s + 1, names[k], length) == 0 && s[length + 1] == '}')
          break;
      }
      if (*s == '{' && k < n) {
        sb_add(&b, values[k]);
        s += length + 2;
      } else {
        sb_addc(&b, *s++);
      }
    }
    args_add(out, b.s);
    sb_free(&b);
  }
}

/* ---- commands ------------------------------------------------------------------------------------ */

static void compile_command(const struct cascade_options *o, struct arg_list *out, const char *source,
                            const char *target, bool link) {
  bool arch = false;
  args_add(out, o->nvcc);
  for (size_t i = 0; i < o->nvcc_args->n; i++)
    arch |= strstr(o->nvcc_args->v[i], "-arch") || strstr(o->nvcc_args->v[i], "-gencode") ||
            strstr(o->nvcc_args->v[i], "-generate-code");
  args_append(out, o->nvcc_args);
  if (!arch)
    args_add(out, "-arch=sm_90");
  args_add(out, source);
  if (link) {
    args_add(out, "-lnccl");
  } else {
    args_add(out, "-c");
  }
  args_add(out, "-o");
  args_add(out, target);
}

static void verify_command(const struct cascade_options *o, struct arg_list *out, const char *candidate,
                           int ranks) {
  static const char *const names[] = {"candidate", "original", "np"};
  char np[16];
  snprintf(np, sizeof np, "%d", ranks);
  const char *const values[] = {candidate, o->original, np};
  cascade_expand(out, &o->verifier, names, values, 3);
  args_append(out, o->verify_args);
}

static void launch_command(const struct cascade_options *o, struct arg_list *out, const char *exe) {
  static const char *const names[] = {"np", "exe"};
  char np[16];
  snprintf(np, sizeof np, "%d", o->benchmark_ranks);
  const char *const values[] = {np, exe};
  cascade_expand(out, &o->launcher, names, values, 2);
}

/* ---- one item ------------------------------------------------------------------------------------ */

static char *below(const char *dir, const char *name) { return xasprintf("%s/%s", dir, name); }

static bool write_code(const char *path, const char *text) {
  return text && io_write_file(path, text, strlen(text)) == 0;
}

static void set_up(const struct cascade *c, struct cascade_item *item) {
  struct work *w = item->internal = xcalloc(1, sizeof *w);
  w->process.fd = -1;
  w->dir = xasprintf("%s/c%d", c->o->dir, item->serial);
  w->source = below(w->dir, "candidate.cu");
  w->timed = below(w->dir, "timed.cu");
  w->object = below(w->dir, "candidate.o");
  w->exe = below(w->dir, "timed");
  mkdir(w->dir, 0700);
  w->attempt = 1;
  w->stage = item->verified ? CASCADE_BENCHMARK : item->compiled ? CASCADE_VERIFY : CASCADE_COMPILE;
  if (!write_code(w->source, item->code))
    w->done = true;
}

static void tear_down(struct cascade_item *item) {
  struct work *w = item->internal;
  process_free(&w->process);
  args_free(&w->words);
  free(w->dir), free(w->source), free(w->timed), free(w->object), free(w->exe);
  free(w);
  item->internal = NULL;
}

static void report(const struct cascade *c, struct cascade_item *item, enum cascade_outcome outcome,
                   const char *diagnostics) {
  struct work *w = item->internal;
  struct strbuf command = {0};
  sb_addn(&command, "", 0);
  args_quote(&command, &w->words);
  struct cascade_step step = {.stage = w->stage,
                              .outcome = outcome,
                              .attempt = w->attempt,
                              .exit_status = w->process.status,
                              .started = w->unix_started,
                              .seconds = w->process.seconds,
                              .command = command.s,
                              .diagnostics = xstrdup(diagnostics)};
  item->outcome[w->stage] = outcome;
  c->hooks->step(c->hooks->ctx, item, &step);
  free(step.diagnostics);
  sb_free(&command);
}

/* The parts of the benchmark: 0 builds the original (once), 1 the candidate, then both run in turn. */
static int benchmark_parts(const struct cascade_options *o) { return 2 + 2 * o->repetitions; }

static bool benchmark_wanted(const struct cascade_options *o, const struct cascade_item *item) {
  return o->launcher.n && o->timed_original && item->timed_code && o->nvcc;
}

/* Makes the command of the stage's current part. False: there is nothing to do. */
static bool command(const struct cascade *c, struct cascade_item *item, double *timeout, bool *network) {
  const struct cascade_options *o = c->o;
  struct work *w = item->internal;
  args_free(&w->words);
  *network = false;
  switch (w->stage) {
  case CASCADE_COMPILE:
    if (!o->nvcc)
      return false;
    compile_command(o, &w->words, w->source, w->object, false);
    *timeout = o->compile_timeout;
    return true;
  case CASCADE_VERIFY:
    verify_command(o, &w->words, w->source, o->ranks[w->part]);
    *timeout = o->verify_timeout;
    return o->verifier.n > 0;
  default:
    break;
  }
  if (!benchmark_wanted(o, item))
    return false;
  char *original = below(o->dir, "original");
  if (w->part == 0)
    compile_command(o, &w->words, o->timed_original, original, true);
  else if (w->part == 1)
    compile_command(o, &w->words, w->timed, w->exe, true);
  else
    launch_command(o, &w->words, w->part % 2 == 0 ? original : w->exe);
  struct stat st;
  bool built = w->part == 0 && stat(original, &st) == 0;
  free(original);
  if (w->part == 1 && !write_code(w->timed, item->timed_code))
    return false;
  *timeout = w->part < 2 ? o->compile_timeout : o->benchmark_timeout;
  *network = w->part >= 2;
  if (built) {
    w->part = 1;
    return command(c, item, timeout, network);
  }
  return true;
}

static void start(const struct cascade *c, struct cascade_item *item) {
  struct work *w = item->internal;
  double timeout = 60;
  bool network;
  while (!command(c, item, &timeout, &network)) {
    item->outcome[w->stage] = CASCADE_UNAVAILABLE;
    /* a candidate that cannot be verified goes no further */
    if (w->stage == CASCADE_VERIFY || w->stage == CASCADE_BENCHMARK) {
      w->done = true;
      return;
    }
    w->stage++;
  }
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (w->part == 0 || w->stage != CASCADE_BENCHMARK)
    w->unix_started = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  struct arg_list words = {0};
  /* everything of this run may be written by a compiler or a program in it */
  sandbox_wrap(&words, &w->words, c->o->dir, w->dir, network);
  if (w->stage == CASCADE_BENCHMARK && w->part >= 2)
    timing_prepare(w->dir);
  struct process_spec spec = {.words = &words, .dir = w->dir, .scratch = w->dir, .timeout = timeout, .limited = true};
  process_free(&w->process);
  if (process_start(&w->process, &spec)) {
    w->running = true;
  } else {
    w->process.status = 127;
    char *why = xasprintf("cannot run '%s': %s", words.v[0], strerror(errno));
    report(c, item, CASCADE_UNAVAILABLE, why);
    free(why);
    w->done = true;
  }
  args_free(&words);
}

static bool mentions(const struct strbuf *text, const char *what) {
  return text->n && memmem(text->s, text->n, what, strlen(what));
}

/* The verifier's exit status: 0 the same program, 1 another one, else it cannot say. */
static enum cascade_outcome judge(const struct work *w) {
  const struct process *p = &w->process;
  if (p->timed_out)
    return CASCADE_TIMEOUT;
  if (p->status == 0)
    return CASCADE_OK;
  if (w->stage == CASCADE_VERIFY &&
      (p->status == 2 || p->status == 3 || p->status == 126 || p->status == 127 ||
       mentions(&p->output, "[CU0702]")))
    return CASCADE_UNAVAILABLE;
  return CASCADE_FAILED;
}

double cascade_quantile(const double *v, size_t n, double q) {
  if (n == 0)
    return NAN;
  double *sorted = xmalloc(n * sizeof *sorted);
  for (size_t i = 0; i < n; i++) {
    size_t k = i;
    for (; k > 0 && v[i] < sorted[k - 1]; k--)
      sorted[k] = sorted[k - 1];
    sorted[k] = v[i];
  }
  double at = q * (double)(n - 1);
  size_t low = (size_t)at;
  double x = low + 1 < n ? sorted[low] + (at - (double)low) * (sorted[low + 1] - sorted[low]) : sorted[n - 1];
  free(sorted);
  return x;
}

/* A run of the benchmark is over: takes its time. */
static bool take_timing(struct cascade_item *item) {
  struct work *w = item->internal;
  double ms;
  if (w->part < 2)
    return true;
  if (!timing_collect(w->dir, &ms))
    return false;
  VEC_PUSH(&item->timings[w->part % 2]) = ms;
  return true;
}

/* What follows on a part that went well. */
static void advance(const struct cascade *c, struct cascade_item *item) {
  struct work *w = item->internal;
  int parts = w->stage == CASCADE_VERIFY      ? c->o->n_ranks
              : w->stage == CASCADE_BENCHMARK ? benchmark_parts(c->o)
                                              : 1;
  if (w->stage == CASCADE_BENCHMARK && !take_timing(item)) {
    report(c, item, CASCADE_UNAVAILABLE, "the program wrote no times");
    w->done = true;
    return;
  }
  if (++w->part < parts)
    return;
  if (w->stage == CASCADE_BENCHMARK) {
    item->original_milliseconds = cascade_quantile(item->timings[0].v, item->timings[0].n, 0.5);
    item->milliseconds = cascade_quantile(item->timings[1].v, item->timings[1].n, 0.5);
  }
  report(c, item, CASCADE_OK, w->process.output.s ? w->process.output.s : "");
  w->part = 0;
  w->done = w->stage == CASCADE_BENCHMARK;
  w->stage += !w->done;
}

static void finish(const struct cascade *c, struct cascade_item *item) {
  struct work *w = item->internal;
  w->running = false;
  enum cascade_outcome outcome = judge(w);
  const char *text = w->process.output.s ? w->process.output.s : "";
  if (outcome == CASCADE_OK) {
    advance(c, item);
    return;
  }
  report(c, item, outcome, outcome == CASCADE_TIMEOUT && !*text ? "it ran out of time" : text);
  if (w->stage == CASCADE_COMPILE && w->attempt == 1 && outcome == CASCADE_FAILED && c->hooks->repair) {
    char *diagnostics = xstrdup(text);
    bool again = c->hooks->repair(c->hooks->ctx, item, diagnostics);
    free(diagnostics);
    if (again && write_code(w->source, item->code)) {
      item->repaired = true;
      w->attempt = 2;
      return;
    }
  }
  w->done = true;
}

/* ---- all of them --------------------------------------------------------------------------------- */

static bool stopped(const struct cascade *c) { return c->o->stop && *c->o->stop; }

/* May ITEM start what comes next? A benchmark wants to be alone. */
static bool may_start(const struct cascade *c, const struct cascade_item *item, int running) {
  const struct work *w = item->internal;
  if (w->done || w->running)
    return false;
  for (size_t i = 0; i < c->n; i++) {
    const struct work *other = c->items[i].internal;
    if (other && other->running && other->stage == CASCADE_BENCHMARK)
      return false;
  }
  if (w->stage == CASCADE_BENCHMARK && benchmark_wanted(c->o, item))
    return running == 0;
  return running < c->o->jobs;
}

void cascade_run(const struct cascade_options *o, const struct cascade_hooks *hooks,
                 struct cascade_item *items, size_t n) {
  struct cascade c = {o, hooks, items, n};
  struct process **list = xcalloc(n + 1, sizeof *list);
  for (size_t i = 0; i < n; i++)
    set_up(&c, &items[i]);
  for (;;) {
    int running = 0;
    for (size_t i = 0; i < n; i++)
      running += ((struct work *)items[i].internal)->running;
    for (size_t i = 0; i < n && !stopped(&c); i++)
      if (may_start(&c, &items[i], running)) {
        start(&c, &items[i]);
        running += ((struct work *)items[i].internal)->running;
      }
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
      struct work *w = items[i].internal;
      if (w->running)
        list[k++] = &w->process;
    }
    if (k == 0 || stopped(&c))
      break;
    process_wait(list, k, 250);
    for (size_t i = 0; i < n; i++) {
      struct work *w = items[i].internal;
      if (w->running && !w->process.pid)
        finish(&c, &items[i]);
    }
    if (hooks->tick)
      hooks->tick(hooks->ctx);
  }
  for (size_t i = 0; i < n; i++)
    tear_down(&items[i]);
  free(list);
}

void cascade_item_free(struct cascade_item *item) {
  free(item->code);
  free(item->timed_code);
  VEC_FREE(&item->timings[0]);
  VEC_FREE(&item->timings[1]);
}
