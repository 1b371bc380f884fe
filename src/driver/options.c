// SPDX-License-Identifier: Apache-2.0
#include "driver/options.h"
#include "driver/nvcc_args.h"
#include <errno.h>
#include <string.h>

enum option_kind { FLAG, VALUE, JOINED, OPTIONAL };

struct option_info {
  const char *spelling;
  enum option_kind kind;
};

static const struct option_info table[OPTION_COUNT] = {
#define GROUP(title)
#define OPTION(id, spelling, kind, metavar, help) {spelling, kind},
#include "options.def"
#undef GROUP
#undef OPTION
};

static const char *after(const char *s, const char *prefix) {
  size_t n = strlen(prefix);
  return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

/* ---- matching ------------------------------------------------------------------------------------------ */

/* Does WORD spell option ID? Returns how many words it takes with its value: 0 no, -1 value missing. */
static int match(enum option_id id, const char *word, const char *next, const char **value) {
  const char *rest = after(word, table[id].spelling);
  *value = "";
  if (!rest)
    return 0;
  switch (table[id].kind) {
  case FLAG:
    return *rest == '\0';
  case JOINED:
    *value = rest;
    return *rest != '\0';
  case OPTIONAL:
    *value = *rest == '=' ? rest + 1 : "";
    return *rest == '\0' || *rest == '=';
  case VALUE:
    break;
  }
  if (*rest == '\0') {
    *value = next;
    return next ? 2 : -1;
  }
  *value = *rest == '=' ? rest + 1 : rest;
  bool one_letter = strlen(table[id].spelling) == 2;
  return *rest == '=' || one_letter;
}

/* The option of ours that WORD spells; the longest spelling wins (-Werror=x before -Wx). */
static int find(const char *word, const char *next, enum option_id *id, const char **value) {
  size_t best = 0;
  int taken = 0;
  for (int i = 0; i < OPTION_COUNT; i++) {
    const char *v;
    int n = match(i, word, next, &v);
    if (n == 0 || strlen(table[i].spelling) <= best)
      continue;
    best = strlen(table[i].spelling);
    taken = n;
    *id = i;
    *value = v;
  }
  return taken;
}

/* Edit distance, for "did you mean"; words longer than the table's are far away. */
static unsigned distance(const char *a, const char *b) {
  enum { MAX = 40 };
  size_t n = strlen(a), m = strlen(b);
  if (n >= MAX || m >= MAX)
    return MAX;
  unsigned row[MAX];
  for (size_t j = 0; j <= m; j++)
    row[j] = (unsigned)j;
  for (size_t i = 1; i <= n; i++) {
    unsigned diagonal = row[0];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= m; j++) {
      unsigned best = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
      row[j] = row[j] + 1 < best ? row[j] + 1 : best;
    }
  }
  return row[m];
}

static void unknown_option(struct diag_engine *diag, const char *word) {
  char *name = xstrndup(word, strcspn(word, "="));
  const char *best = NULL;
  unsigned least = 4;
  for (int i = 0; i < OPTION_COUNT; i++) {
    unsigned d = distance(name, table[i].spelling);
    if (d < least && d < strlen(name) / 2) {
      least = d;
      best = table[i].spelling;
    }
  }
  if (best)
    diag_report(diag, DIAG_usage, NULL, "unknown option '%s'; did you mean '%s'?", word, best);
  else
    diag_report(diag, DIAG_usage, NULL, "unknown option '%s'; 'cucocc --help' lists them", word);
  free(name);
}

/* ---- applying ------------------------------------------------------------------------------------------ */

static bool number(struct diag_engine *diag, const char *option, const char *text, uint64_t least,
                   uint64_t most, uint64_t *out) {
  char *end;
  errno = 0;
  unsigned long long v = strtoull(text, &end, 0);
  if (errno == 0 && *text >= '0' && *text <= '9' && !*end && v >= least && v <= most) {
    *out = v;
    return true;
  }
  diag_report(diag, DIAG_usage, NULL, "'%s' needs a number from %llu to %llu, not '%s'", option,
              (unsigned long long)least, (unsigned long long)most, text);
  return false;
}

static bool small_number(struct diag_engine *diag, const char *option, const char *text, int most,
                         int *out) {
  uint64_t v;
  if (!number(diag, option, text, 1, (uint64_t)most, &v))
    return false;
  *out = (int)v;
  return true;
}

static bool bad_value(struct diag_engine *diag, const char *option, const char *value,
                      const char *allowed) {
  diag_report(diag, DIAG_usage, NULL, "'%s' takes %s, not '%s'", option, allowed, value);
  return false;
}

static bool set_format(struct diag_engine *diag, const char *value) {
  if (strcmp(value, "json") == 0)
    diag_set_format(diag, DIAG_FORMAT_JSON);
  else if (strcmp(value, "clang") == 0)
    diag_set_format(diag, DIAG_FORMAT_CLANG);
  else
    return bad_value(diag, "-fdiagnostics-format=", value, "clang or json");
  return true;
}

static bool set_color(struct diag_engine *diag, const char *value) {
  if (!*value || strcmp(value, "always") == 0)
    diag_set_color(diag, DIAG_COLOR_ALWAYS);
  else if (strcmp(value, "never") == 0)
    diag_set_color(diag, DIAG_COLOR_NEVER);
  else if (strcmp(value, "auto") == 0)
    diag_set_color(diag, DIAG_COLOR_AUTO);
  else
    return bad_value(diag, "-fdiagnostics-color", value, "auto, always or never");
  return true;
}

/* Is -WVALUE meant for nvcc or the linker? */
static bool others_warning(const char *value) {
  char *word = xasprintf("-W%s", value);
  const struct nvcc_option *option;
  const char *ignored;
  bool yes = nvcc_match(1, &word, &option, &ignored) > 0 || after(value, "l,") || after(value, "p,");
  free(word);
  return yes;
}

static bool set_warning(struct diag_engine *diag, const char *value) {
  if (diag_set_warning(diag, value) || others_warning(value))
    return true;
  diag_report(diag, DIAG_unused_argument, NULL, "'-W%s' is no warning of cucocc; passed over", value);
  return true;
}

/* -O evolve is ours, other levels are nvcc's. */
static bool set_optimize(struct options *o, const char *value) {
  if (strcmp(value, "evolve") == 0)
    o->evolve = true;
  else
    args_addf(&o->nvcc_args, "-O%s", value);
  return true;
}

/* 90s, 5m, 1h; seconds without a unit. */
static bool set_time(struct options *o, struct diag_engine *diag, const char *value) {
  char *end;
  double t = strtod(value, &end);
  double unit = strcmp(end, "h") == 0 ? 3600 : strcmp(end, "m") == 0 ? 60 : strcmp(end, "s") == 0 || !*end ? 1 : 0;
  if (end == value || !unit || !(t > 0) || t * unit > 1e9)
    return bad_value(diag, "--max-time", value, "a time such as 90s, 5m or 1h");
  o->max_time = t * unit;
  return true;
}

static bool set_assumption(struct options *o, struct diag_engine *diag, const char *value) {
  const char *equals = strchr(value, '=');
  if (!equals || equals == value || !equals[1])
    return bad_value(diag, "--assume", value, "NAME=VALUE");
  args_add(&o->assumptions, value);
  return true;
}

static bool set_runtime(struct options *o, struct diag_engine *diag, const char *value) {
  o->include_runtime = strcmp(value, "include") == 0;
  return o->include_runtime || strcmp(value, "embed") == 0 ||
         bad_value(diag, "--emit-runtime", value, "embed or include");
}

/* Applies option ID. Returns OPTIONS_RUN to go on. */
static enum options_result apply(struct options *o, enum option_id id, const char *value,
                                 struct diag_engine *diag) {
  bool ok = true;
  switch (id) {
  case OPTION_fast_path: o->fast_path = true; break;
  case OPTION_optimize: ok = set_optimize(o, value); break;
  case OPTION_output: o->output = value; break;
  case OPTION_graph: o->graph = value; break;
  case OPTION_emit_ir: o->emit_ir = value; break;
  case OPTION_emit_directives: o->emit_directives = value; break;
  case OPTION_directives: o->directives = value; break;
  case OPTION_emit_runtime: ok = set_runtime(o, diag, value); break;
  case OPTION_report: o->report = value; break;
  case OPTION_generations: ok = o->generations_set = small_number(diag, "--generations", value, 1000000, &o->generations); break;
  case OPTION_population: ok = o->population_set = small_number(diag, "--population", value, 10000, &o->population); break;
  case OPTION_islands: ok = o->islands_set = small_number(diag, "--islands", value, 1000, &o->islands); break;
  case OPTION_max_evals: ok = small_number(diag, "--max-evals", value, 1000000000, &o->max_evals); break;
  case OPTION_max_time: ok = set_time(o, diag, value); break;
  case OPTION_jobs: ok = small_number(diag, "--jobs", value, 1024, &o->jobs); break;
  case OPTION_launcher: o->launcher_template = value; break;
  case OPTION_verifier: o->verifier = value; break;
  case OPTION_hardware: o->hardware = value; break;
  case OPTION_assume: ok = set_assumption(o, diag, value); break;
  case OPTION_db: o->db = value; break;
  case OPTION_resume: o->resume = true; break;
  case OPTION_emulate: o->emulate = true; break;
  case OPTION_ranks: ok = o->ranks_set = small_number(diag, "-np", value, 1024, &o->ranks); break;
  case OPTION_emulate_only_check: o->emulate_only_check = true; break;
  case OPTION_seed: ok = o->seed_set = number(diag, "--seed", value, 0, UINT64_MAX, &o->seed); break;
  case OPTION_schedules: ok = small_number(diag, "--schedules", value, 1000000, &o->schedules); break;
  case OPTION_verify: o->verify = value; break;
  case OPTION_against: o->against = value; break;
  case OPTION_cuda_path: o->cuda_path = value; break;
  case OPTION_nccl_include: o->nccl_include = value; break;
  case OPTION_verbose: o->verbose = true; break;
  case OPTION_dry_run: o->dry_run = true; break;
  case OPTION_no_warnings: diag_set_warning(diag, "no-all"); break;
  case OPTION_werror: diag_set_warning(diag, "error"); break;
  case OPTION_werror_name: {
    char *name = xasprintf("error=%s", value);
    ok = set_warning(diag, name);
    free(name);
    break;
  }
  case OPTION_warning: ok = set_warning(diag, value); break;
  case OPTION_diag_format:
  case OPTION_diag_color:
  case OPTION_diag_no_color: break; /* done before all others */
  case OPTION_md: o->md = true; break;
  case OPTION_mmd: o->mmd = true; break;
  case OPTION_mf: o->dep_file = value; break;
  case OPTION_mt: args_add(&o->dep_targets, value); break;
  case OPTION_mp: o->mp = true; break;
  case OPTION_help: options_print_help(stdout); return OPTIONS_DONE;
  case OPTION_help_diagnostics: options_print_diagnostics(stdout); return OPTIONS_DONE;
  case OPTION_help_directives: options_print_directives(stdout); return OPTIONS_DONE;
  case OPTION_version: options_print_version(stdout); return OPTIONS_DONE;
  case OPTION_completion:
    ok = strcmp(value, "bash") == 0 || bad_value(diag, "--completion", value, "bash");
    if (ok)
      options_print_completion(stdout);
    return ok ? OPTIONS_DONE : OPTIONS_ERROR;
  case OPTION_COUNT: break;
  }
  return ok ? OPTIONS_RUN : OPTIONS_ERROR;
}

/* The look of diagnostics must be known before the first one is reported. */
static bool apply_look(const struct arg_list *words, struct diag_engine *diag) {
  bool ok = true;
  for (size_t i = 1; i < words->n && strcmp(words->v[i], "--") != 0; i++) {
    const char *value;
    if (words->v[i][0] != '-' && nvcc_is_program(words->v[i]))
      break;
    if (match(OPTION_diag_format, words->v[i], NULL, &value) > 0)
      ok &= set_format(diag, value);
    else if (match(OPTION_diag_color, words->v[i], NULL, &value) > 0)
      ok &= set_color(diag, value);
    else if (match(OPTION_diag_no_color, words->v[i], NULL, &value) > 0)
      diag_set_color(diag, DIAG_COLOR_NEVER);
  }
  return ok;
}

/* Takes the words at W (LEFT of them) that are one option or operand. Returns how many were taken, or 0
 * with *RESULT set. */
static size_t take(struct options *o, char *const *w, size_t left, struct diag_engine *diag,
                   enum options_result *result) {
  const char *word = w[0], *next = left > 1 ? w[1] : NULL, *value;
  if (word[0] != '-' || !word[1]) {
    args_add(&o->inputs, word);
    return 1;
  }
  /* nvcc's "-Werror KIND" is two words */
  if (strcmp(word, "-Werror") == 0 && next && nvcc_is_werror_kind(next))
    return 2;
  if (strcmp(word, "-h") == 0 || strcmp(word, "-V") == 0)
    word = word[1] == 'h' ? "--help" : "--version";
  enum option_id id;
  int n = find(word, next, &id, &value);
  if (n > 0) {
    *result = apply(o, id, value, diag);
    return *result == OPTIONS_RUN ? (size_t)n : 0;
  }
  const struct nvcc_option *nvcc = NULL;
  if (n == 0)
    n = nvcc_match(left, w, &nvcc, &value);
  if (n > 0) {
    nvcc_to_clang(nvcc, value, &o->clang_args);
    for (int i = 0; i < n && nvcc->effect <= NVCC_LANGUAGE; i++)
      args_add(&o->nvcc_args, w[i]);
    return (size_t)n;
  }
  if (n == 0 && nvcc_host_option(word, &o->clang_args)) {
    args_add(&o->nvcc_args, word);
    return 1;
  }
  if (n < 0)
    diag_report(diag, DIAG_usage, NULL, "'%s' needs a value", word);
  else
    unknown_option(diag, word);
  *result = OPTIONS_ERROR;
  return 0;
}

/* What cannot be asked for together. */
static bool consistent(const struct options *o, struct diag_engine *diag) {
  const char *wrong = NULL;
  if (o->launcher && (o->output || o->inputs.n))
    wrong = "before 'nvcc' there can be options about diagnostics and where CUDA is, but no files";
  else if (!o->verify != !o->against)
    wrong = "'--verify' and '--against' go together: --verify candidate.cu --against original.cu";
  else if (o->verify && o->inputs.n)
    wrong = "'--verify' names the program itself; there can be no other input";
  else if (!o->launcher && !o->verify && o->inputs.n == 0)
    wrong = "no input; 'cucocc --help' shows the usage";
  else if (o->inputs.n > 1)
    wrong = "only one input at a time";
  else if (o->evolve && (o->launcher || o->emulate || o->verify))
    wrong = "'-O evolve' searches for one input; it goes with neither 'nvcc', '--emulate' nor '--verify'";
  else if (o->evolve && (o->fast_path || o->directives))
    wrong = "'-O evolve' chooses the directives itself; leave '--fast-path' and '--directives' out";
  else if (o->resume && !o->db)
    wrong = "'--resume' needs the '--db' that the search was started with";
  else if (o->program_args.n && !o->emulate && !o->verify && !o->evolve)
    wrong = "arguments after '--' are for '--emulate', '--verify' and '-O evolve'";
  else if ((o->md || o->mmd) && !o->dep_file && (!o->output || strcmp(o->output, "-") == 0))
    wrong = "'-MD' needs '-o FILE' or '-MF FILE'";
  if (wrong)
    diag_report(diag, DIAG_usage, NULL, "%s", wrong);
  return !wrong;
}

/* Options of the search without a search. */
static void warn_unused(const struct options *o, struct diag_engine *diag) {
  if (o->evolve)
    return;
  const char *unused = o->db                  ? "--db"
                       : o->resume            ? "--resume"
                       : o->launcher_template ? "--launcher"
                       : o->verifier          ? "--verifier"
                       : o->hardware          ? "--hardware"
                       : o->assumptions.n     ? "--assume"
                       : o->max_evals         ? "--max-evals"
                       : o->max_time > 0      ? "--max-time"
                       : o->jobs              ? "--jobs"
                       : o->generations_set   ? "--generations"
                       : o->population_set    ? "--population"
                       : o->islands_set       ? "--islands"
                                              : NULL;
  if (unused)
    diag_report(diag, DIAG_unused_argument, NULL, "'%s' is for '-O evolve'; passed over", unused);
}

enum options_result options_parse(struct options *o, int argc, char *const *argv,
                                  struct diag_engine *diag) {
  o->ranks = 2;
  o->schedules = 1;
  o->seed = 1;
  o->generations = 20;
  o->population = 8;
  o->islands = 4;
  char *why = NULL;
  if (!args_expand(&o->words, argc, argv, &why)) {
    diag_report(diag, DIAG_usage, NULL, "%s", why);
    free(why);
    return OPTIONS_ERROR;
  }
  if (!apply_look(&o->words, diag))
    return OPTIONS_ERROR;
  enum options_result result = OPTIONS_RUN;
  for (size_t i = 1; i < o->words.n;) {
    const char *word = o->words.v[i];
    if (strcmp(word, "--") == 0) {
      bool run = o->emulate || o->verify || o->evolve;
      for (i++; i < o->words.n; i++)
        args_add(run || o->inputs.n ? &o->program_args : &o->inputs, o->words.v[i]);
      break;
    }
    if (word[0] != '-' && o->inputs.n == 0 && nvcc_is_program(word)) {
      o->launcher = i;
      break;
    }
    size_t n = take(o, o->words.v + i, o->words.n - i, diag, &result);
    if (n == 0)
      return result;
    i += n;
  }
  if (!consistent(o, diag))
    return OPTIONS_ERROR;
  const char *dot = o->report ? strrchr(o->report, '.') : NULL;
  o->evolve_page = o->evolve && dot && strcmp(dot, ".html") == 0;
  warn_unused(o, diag);
  return OPTIONS_RUN;
}

void options_free(struct options *o) {
  args_free(&o->words);
  args_free(&o->inputs);
  args_free(&o->clang_args);
  args_free(&o->program_args);
  args_free(&o->dep_targets);
  args_free(&o->nvcc_args);
  args_free(&o->assumptions);
}
