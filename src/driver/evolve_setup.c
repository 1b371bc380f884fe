// SPDX-License-Identifier: Apache-2.0
/* What a search starts from: machine, names, model, space, database, tools. */
#include "config.h"
#include "backend/embed.h"
#include "driver/evolve.h"
#include "driver/process.h"
#include "driver/progress.h"
#include "driver/sandbox.h"
#include "driver/timing.h"
#include "support/io.h"
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_SYMBOL = 1024 };

static double seconds_or(double x, double usual) { return x > 0 ? x : usual; }

/* ---- machine and names --------------------------------------------------------------------------- */

/* The text of --hardware: a name of spec/hardware, or a file. */
static bool machine_text(const char *name, struct strbuf *out) {
  char *file = xasprintf("%s.json", name);
  const char *known = strchr(name, '/') ? NULL : embed_file(file, NULL);
  free(file);
  if (known)
    sb_add(out, known);
  return known || io_read_file(name, out) == 0;
}

static enum driver_status read_machine(struct evolve *e, const char *text) {
  char why[256];
  const char *name = e->o->hardware ? e->o->hardware : "h200x2";
  struct strbuf b = {0};
  enum driver_status status = DRIVER_OK;
  if (!text && !machine_text(name, &b)) {
    diag_report(e->diag, DIAG_usage, NULL,
                "'--hardware' takes h200, h200x2, h200x8, generic or a file, and there is no '%s'", name);
    status = DRIVER_USAGE;
  } else if (!hardware_parse(&e->machine, text ? text : b.s, why, sizeof why)) {
    diag_report(e->diag, DIAG_usage, NULL, "'%s' is no description of a machine: %s", name, why);
    status = DRIVER_USAGE;
  }
  sb_free(&b);
  if (e->o->ranks_set)
    e->machine.ranks = e->o->ranks;
  return status;
}

static enum driver_status read_names(struct evolve *e) {
  estimate_init(&e->names, DEFAULT_SYMBOL);
  estimate_scan(&e->names, e->p->text.s, e->p->text.n);
  for (size_t i = 0; i < e->o->assumptions.n; i++) {
    const char *text = e->o->assumptions.v[i], *equals = strchr(text, '=');
    double value;
    if (!estimate_number(equals + 1, &value)) {
      diag_report(e->diag, DIAG_usage, NULL, "'--assume' needs a number or a time after '=', not '%s'",
                  equals + 1);
      return DRIVER_USAGE;
    }
    char *name = xstrndup(text, (size_t)(equals - text));
    estimate_set(&e->names, name, value, ESTIMATE_GIVEN);
    free(name);
  }
  if (e->o->ranks_set)
    estimate_set(&e->names, "nranks", e->o->ranks, ESTIMATE_GIVEN);
  return DRIVER_OK;
}

/* ---- settings ------------------------------------------------------------------------------------ */

static json_t *machine_json(const struct hardware *h) {
  json_t *o = json_pack("{s:i, s:s, s:s}", "version", 1, "name", h->name, "summary", h->summary);
#define FIELD(key, least, most, meaning) json_object_set_new(o, #key, json_real(h->key));
  HARDWARE_FIELDS
#undef FIELD
  return o;
}

static char *dump(json_t *root) {
  char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
  json_decref(root);
  return text ? text : xstrdup("{}");
}

/* Everything that decides about the candidates. */
static char *settings_json(const struct evolve *e) {
  json_t *list = json_array();
  for (size_t i = 0; i < e->o->assumptions.n; i++)
    json_array_append_new(list, json_string(e->o->assumptions.v[i]));
  char seed[32];
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)e->options.seed);
  return dump(json_pack("{s:s, s:i, s:i, s:i, s:f, s:i, s:i, s:b, s:o, s:o}", "seed", seed, "islands",
                        e->options.islands, "population", e->options.population, "generations",
                        e->options.generations, "explore", e->options.explore, "migration",
                        e->options.migration, "oversample", e->options.oversample, "measured",
                        e->measured, "assume", list, "machine", machine_json(&e->machine)));
}

static int integer(json_t *root, const char *key) {
  return (int)json_integer_value(json_object_get(root, key));
}

/* A run that is resumed has the settings that it was started with, except for what limits it. */
static enum driver_status apply_settings(struct evolve *e, const char *text) {
  json_t *root = json_loads(text, 0, NULL), *v;
  size_t i;
  const char *seed = json_string_value(json_object_get(root, "seed"));
  if (!root || !seed) {
    json_decref(root);
    diag_report(e->diag, DIAG_database, NULL, "the settings of the search cannot be read");
    return DRIVER_ENVIRONMENT;
  }
  struct evo_options *o = &e->options;
  double explore_until = json_number_value(json_object_get(root, "explore")) * integer(root, "generations");
  o->seed = strtoull(seed, NULL, 10);
  o->islands = integer(root, "islands");
  o->population = integer(root, "population");
  o->migration = integer(root, "migration");
  o->oversample = integer(root, "oversample");
  if (!e->o->generations_set)
    o->generations = integer(root, "generations");
  o->explore = explore_until / o->generations;
  struct estimate *names = &e->names;
  json_array_foreach(json_object_get(root, "assume"), i, v) {
    const char *s = json_string_value(v), *equals = s ? strchr(s, '=') : NULL;
    double value;
    if (equals && estimate_number(equals + 1, &value)) {
      char *name = xstrndup(s, (size_t)(equals - s));
      estimate_set(names, name, value, ESTIMATE_GIVEN);
      free(name);
    }
  }
  char *machine = json_dumps(json_object_get(root, "machine"), 0);
  enum driver_status status = machine ? read_machine(e, machine) : DRIVER_ENVIRONMENT;
  bool measured = json_is_true(json_object_get(root, "measured"));
  if (status == DRIVER_OK && measured && !e->measured) {
    diag_report(e->diag, DIAG_usage, NULL,
                "the search measured times on a GPU; it cannot go on without '--launcher' and one");
    status = DRIVER_USAGE;
  }
  e->measured &= measured;
  free(machine);
  json_decref(root);
  return status;
}

/* ---- database ------------------------------------------------------------------------------------ */

static char *first_lines(const char *const *words, size_t n) {
  struct arg_list list = {0};
  for (size_t i = 0; i < n; i++)
    args_add(&list, words[i]);
  struct process p;
  bool ok = process_complete(&p, &(struct process_spec){.words = &list, .timeout = 20}) && p.status == 0;
  char *text = xstrndup(ok ? p.output.s : "", ok ? (p.output.n < 2000 ? p.output.n : 2000) : 0);
  process_free(&p);
  args_free(&list);
  return text;
}

static char *environment_json(const struct evolve *e) {
  const char *const gpu[] = {"nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"};
  const char *const nvcc[] = {e->nvcc ? e->nvcc : "nvcc", "--version"};
  char *gpus = first_lines(gpu, 3), *compiler = first_lines(nvcc, 2);
  struct strbuf flags = {0};
  sb_addn(&flags, "", 0);
  args_quote(&flags, &e->o->nvcc_args);
  json_t *root = json_pack("{s:s, s:s, s:i, s:s, s:b}", "gpu", gpus, "nvcc", compiler, "nccl",
                           e->p->parsed.ir->nccl_version, "flags", flags.s, "sandbox", sandbox_available());
  free(gpus);
  free(compiler);
  sb_free(&flags);
  return dump(root ? root : json_object());
}

static char *assumptions_json(const struct evolve *e) {
  json_t *root = json_object();
  VEC_EACH(&e->names.values, v)
    if (v->used)
      json_object_set_new(root, v->name,
                          json_pack("{s:f, s:s}", "value", v->value, "from", estimate_source_name(v->source)));
  return dump(root);
}

/* The hash of what the search is about. */
static char *program_hash(const struct evolve *e) {
  struct strbuf b = {0};
  sb_addn(&b, e->p->text.s, e->p->text.n);
  for (size_t i = 0; i < e->o->clang_args.n; i++)
    sb_addf(&b, "\n%s", e->o->clang_args.v[i]);
  char hash[EVO_HASH];
  evo_hash(b.s, b.n, hash);
  sb_free(&b);
  return xstrdup(hash);
}

static enum driver_status database_error(struct evolve *e, const char *why) {
  diag_report(e->diag, DIAG_database, &(struct diag_loc){.file = e->o->db}, "the database cannot be used: %s", why);
  return DRIVER_ENVIRONMENT;
}

static enum driver_status open_database(struct evolve *e, char **settings) {
  char why[256];
  *settings = NULL;
  e->db = evo_db_open(e->o->db ? e->o->db : ":memory:", why, sizeof why);
  if (!e->db)
    return database_error(e, why);
  if (!e->o->resume)
    return DRIVER_OK;
  char *hash = program_hash(e);
  e->run = evo_db_resume_run(e->db, hash, settings);
  free(hash);
  if (e->run < 0)
    return database_error(e, evo_db_error(e->db));
  if (e->run == 0)
    progress_line("cucocc: nothing to resume for this program in '%s'; a new search begins", e->o->db);
  return DRIVER_OK;
}

static enum driver_status begin_run(struct evolve *e) {
  if (e->run > 0)
    return DRIVER_OK;
  char *hash = program_hash(e), *settings = settings_json(e), *machine = dump(machine_json(&e->machine)),
       *environment = environment_json(e), *assumptions = assumptions_json(e);
  struct evo_db_run r = {.version = PACKAGE_VERSION,
                         .input = e->p->name,
                         .program = hash,
                         .settings = settings,
                         .machine = machine,
                         .environment = environment,
                         .assumptions = assumptions};
  e->run = evo_db_begin_run(e->db, &r);
  free(hash), free(settings), free(machine), free(environment), free(assumptions);
  return e->run > 0 ? DRIVER_OK : database_error(e, evo_db_error(e->db));
}

void evolve_predict_instead(struct evolve *e, const char *why) {
  e->measured = false;
  e->cascade.timed_original = NULL;
  char *settings = settings_json(e);
  evo_db_change_settings(e->db, e->run, settings);
  free(settings);
  progress_line("cucocc: the fast path's program cannot be timed, so times are predicted: %.*s",
                (int)strcspn(why, "\n"), why);
}

/* ---- tools --------------------------------------------------------------------------------------- */

static bool gpu_present(void) { return access("/dev/nvidia0", R_OK) == 0 || getenv("CUCOCC_ASSUME_GPU"); }

/* $NVCC, or that of the toolkit in use. */
static char *find_nvcc(const struct options *o) {
  const char *given = getenv("NVCC");
  if (given && *given)
    return strcmp(given, "no") == 0 ? NULL : xstrdup(given);
  char *cuda = fe_find_cuda(o->cuda_path);
  char *path = cuda ? xasprintf("%s/bin/nvcc", cuda) : NULL;
  free(cuda);
  if (path && access(path, X_OK) == 0)
    return path;
  free(path);
  return NULL;
}

static void default_verifier(const struct evolve *e, struct arg_list *out) {
  char exe[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (n <= 0)
    return;
  exe[n] = '\0';
  args_add(out, exe);
  if (e->o->cuda_path)
    args_addf(out, "--cuda-path=%s", e->o->cuda_path);
  if (e->o->nccl_include)
    args_addf(out, "--nccl-include=%s", e->o->nccl_include);
  args_add(out, "--verify={candidate}");
  args_add(out, "--against={original}");
  args_add(out, "-np");
  args_add(out, "{np}");
}

/* The program with time stamps, parsed like the original. */
static bool make_timed(struct evolve *e) {
  struct strbuf text = {0};
  if (!timing_instrument(e->p->parsed.ir, &e->fast_path, e->p->text.s, e->p->text.n, e->p->name, &text)) {
    sb_free(&text);
    return false;
  }
  FILE *null = fopen("/dev/null", "w");
  if (!null) {
    sb_free(&text);
    return false;
  }
  struct diag_engine *quiet = diag_new(null);
  e->timed.name = e->p->name;
  e->timed.text = text;
  struct pipeline_options po = {.input = e->p->name,
                                .clang_args = &e->o->clang_args,
                                .cuda_path = e->o->cuda_path,
                                .nccl_include = e->o->nccl_include};
  bool ok = pipeline_run(&e->timed, &po, quiet) == DRIVER_OK &&
            e->timed.set.regions.n == e->fast_path.regions.n;
  diag_free(quiet);
  fclose(null);
  return ok && io_write_file(e->timed_path, text.s, text.n) == 0;
}

enum driver_status evolve_set_up_cascade(struct evolve *e, volatile sig_atomic_t *stop) {
  struct cascade_options *c = &e->cascade;
  const struct options *o = e->o;
  const char *dir = io_temp_dir();
  e->work_dir = dir ? xasprintf("%s/search", dir) : NULL;
  e->original_path = dir ? xasprintf("%s/original.cu", e->work_dir) : NULL;
  e->timed_path = dir ? xasprintf("%s/original_timed.cu", e->work_dir) : NULL;
  int error = !dir || mkdir(e->work_dir, 0700) != 0 ? errno : 0;
  error = error ? error : io_write_file(e->original_path, e->p->text.s, e->p->text.n);
  if (error) {
    diag_report(e->diag, DIAG_cannot_write, NULL, "cannot write a temporary file: %s", strerror(error));
    return DRIVER_ENVIRONMENT;
  }
  e->nvcc = find_nvcc(o);
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  *c = (struct cascade_options){.nvcc = e->nvcc,
                                .nvcc_args = &o->nvcc_args,
                                .verify_args = &e->verify_args,
                                .original = e->original_path,
                                .benchmark_ranks = (int)e->machine.ranks,
                                .repetitions = 5,
                                .compile_timeout = seconds_or(0, 300),
                                .verify_timeout = seconds_or(0, 600),
                                .benchmark_timeout = seconds_or(0, 300),
                                .jobs = o->jobs ? o->jobs : processors > 0 ? (int)processors : 1,
                                .dir = e->work_dir,
                                .stop = stop};
  c->ranks[0] = o->ranks_set ? o->ranks : 2;
  c->ranks[1] = 4;
  c->n_ranks = o->ranks_set ? 1 : 2;
  if (o->verifier) {
    args_split(&c->verifier, o->verifier);
    if (!strstr(o->verifier, "{candidate}"))
      args_add(&c->verifier, "{candidate}"), args_add(&c->verifier, "{original}"), args_add(&c->verifier, "{np}");
  } else {
    default_verifier(e, &c->verifier);
    args_append(&e->verify_args, &o->nvcc_args);
    if (o->program_args.n)
      args_add(&e->verify_args, "--");
  }
  args_append(&e->verify_args, &o->program_args);
  if (o->launcher_template) {
    args_split(&c->launcher, o->launcher_template);
    e->measured = gpu_present() && e->nvcc && make_timed(e);
    if (e->measured)
      c->timed_original = e->timed_path;
    else
      progress_line("cucocc: %s; times are predicted",
                    !gpu_present() ? "there is no GPU here"
                    : !e->nvcc     ? "there is no nvcc here"
                                   : "there is no place for time stamps in the program");
  }
  if (!e->nvcc)
    progress_line("cucocc: no nvcc was found; candidates are not compiled");
  if (!sandbox_available())
    diag_report(e->diag, DIAG_sandbox, NULL,
                "candidates run without bubblewrap here: with limits of time and memory, but with this user's "
                "files and network");
  return DRIVER_OK;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

enum driver_status evolve_set_up(struct evolve *e) {
  char *settings;
  enum driver_status status = read_machine(e, NULL);
  if (status == DRIVER_OK)
    status = read_names(e);
  if (status != DRIVER_OK)
    return status;
  evo_defaults(&e->options, e->o->seed);
  e->options.islands = e->o->islands;
  e->options.population = e->o->population;
  e->options.generations = e->o->generations;
  status = open_database(e, &settings);
  if (status == DRIVER_OK && settings)
    status = apply_settings(e, settings);
  free(settings);
  if (status != DRIVER_OK)
    return status;
  e->cost = cost_new(e->p->parsed.ir, &e->fast_path, &e->machine, &e->names);
  cost_facts(e->cost, &e->facts);
  e->space = dir_space_new(e->p->parsed.ir, &e->fast_path, e->cost);
  e->search = evo_new(dir_space_search(e->space), &e->options);
  return begin_run(e);
}

void evolve_tear_down(struct evolve *e) {
  VEC_EACH(&e->trials, t) {
    free(t->code);
    free(t->diagnostics);
    free(t->directives);
  }
  VEC_FREE(&e->trials);
  VEC_FREE(&e->marks);
  VEC_EACH(&e->fast_path.directives, d) free(d->reason);
  VEC_FREE(&e->fast_path.directives);
  evo_free(e->search);
  dir_space_free(e->space);
  cost_free(e->cost);
  estimate_free(&e->names);
  evo_db_close(e->db);
  args_free(&e->cascade.verifier);
  args_free(&e->cascade.launcher);
  args_free(&e->verify_args);
  free(e->nvcc), free(e->original_path), free(e->timed_path), free(e->work_dir), free(e->verdict);
  pipeline_free(&e->timed);
}
