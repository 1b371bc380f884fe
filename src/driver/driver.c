// SPDX-License-Identifier: Apache-2.0
#include "driver/driver.h"
#include "backend/graph.h"
#include "driver/depfile.h"
#include "driver/evolve.h"
#include "driver/launcher.h"
#include "driver/options.h"
#include "driver/pipeline.h"
#include "driver/report.h"
#include "support/io.h"
#include <string.h>
#include <sys/stat.h>

/* ---- files that must not be written over -------------------------------------------------------------- */

static bool same_file(const char *a, const char *b) {
  if (!a || !b || strcmp(a, "-") == 0 || strcmp(b, "-") == 0)
    return false;
  struct stat x, y;
  if (stat(a, &x) == 0 && stat(b, &y) == 0)
    return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
  return strcmp(a, b) == 0;
}

/* No output may be an input or another output, except that several may go to a pipe or a device. */
static bool outputs_distinct(const struct options *o, struct diag_engine *diag) {
  const char *const in[] = {o->inputs.n ? o->inputs.v[0] : NULL, o->directives, o->verify, o->against};
  const char *const out[] = {o->output, o->graph,  o->emit_ir, o->emit_directives,
                             o->report, o->dep_file};
  enum { N_IN = sizeof in / sizeof *in, N_OUT = sizeof out / sizeof *out };
  for (int i = 0; i < N_OUT; i++) {
    for (int k = 0; k < N_IN; k++)
      if (same_file(out[i], in[k])) {
        diag_report(diag, DIAG_usage, NULL, "'%s' is both read and written; give the output another name",
                    out[i]);
        return false;
      }
    for (int k = 0; k < i; k++)
      if (same_file(out[i], out[k])) {
        diag_report(diag, DIAG_usage, NULL, "two outputs have the name '%s'", out[i]);
        return false;
      }
  }
  return true;
}

/* ---- outputs --------------------------------------------------------------------------------------------- */

static bool write_text(const char *path, const char *text, size_t n, struct diag_engine *diag) {
  int error = io_write_file(path, text, n);
  if (error)
    diag_report(diag, DIAG_cannot_write, &(struct diag_loc){.file = path}, "cannot write '%s': %s", path,
                strerror(error));
  return !error;
}

static bool write_and_free(const char *path, char *text, struct diag_engine *diag) {
  bool ok = write_text(path, text, strlen(text), diag);
  free(text);
  return ok;
}

static bool write_graph(const struct options *o, const struct pipeline *p, struct diag_engine *diag) {
  char why[512] = "";
  if (graph_write(p->parsed.ir, &p->set, o->graph, why, sizeof why) == 0)
    return true;
  diag_report(diag, DIAG_cannot_write, &(struct diag_loc){.file = o->graph}, "cannot draw '%s': %s",
              o->graph, why);
  return false;
}

static bool write_deps(const struct options *o, const struct pipeline *p, struct diag_engine *diag) {
  struct arg_list targets = {0};
  args_append(&targets, &o->dep_targets);
  if (targets.n == 0)
    args_add(&targets, o->output ? o->output : "out");
  char *cuda = fe_find_cuda(o->cuda_path), *nccl = fe_find_nccl(o->nccl_include, cuda);
  const char *const system_dirs[] = {cuda ? cuda : nccl, cuda ? nccl : NULL, NULL};
  struct depfile d = {.targets = &targets,
                      .input = p->name,
                      .headers = p->parsed.headers.v,
                      .n_headers = p->parsed.headers.n,
                      .skip_system = o->mmd,
                      .system_dirs = system_dirs,
                      .phony = o->mp};
  char *path = o->dep_file ? xstrdup(o->dep_file) : NULL;
  if (!path) {
    size_t n = strlen(o->output);
    const char *dot = strrchr(o->output, '.');
    if (dot && !strchr(dot, '/'))
      n = (size_t)(dot - o->output);
    path = xasprintf("%.*s.d", (int)n, o->output);
  }
  struct strbuf text = {0};
  depfile_format(&text, &d);
  bool ok = write_text(path, text.s, text.n, diag);
  sb_free(&text);
  free(path);
  free(cuda);
  free(nccl);
  args_free(&targets);
  return ok;
}

/* Where the translated program goes: -o, or standard output when nothing else was asked for. */
static const char *program_output(const struct options *o) {
  if (o->output)
    return o->output;
  bool other = o->graph || o->emit_ir || o->emit_directives || o->report;
  return !other || o->fast_path || o->evolve ? "-" : NULL;
}

/* Writes everything; the program itself last, so that it is only there when all is. */
static bool write_all(const struct options *o, const struct pipeline *p, struct diag_engine *diag) {
  const struct ir_program *ir = p->parsed.ir;
  bool ok = true;
  if (o->emit_ir)
    ok = write_and_free(o->emit_ir, ir_to_json(ir), diag);
  if (ok && o->emit_directives)
    ok = write_and_free(o->emit_directives, dir_to_json(ir, &p->set), diag);
  if (ok && o->graph)
    ok = write_graph(o, p, diag);
  if (ok && o->report && !o->evolve_page)
    ok = write_and_free(o->report, report_json(p, diag), diag);
  if (ok && (o->md || o->mmd))
    ok = write_deps(o, p, diag);
  const char *program = program_output(o);
  if (ok && program)
    ok = write_text(program, p->output.s ? p->output.s : "", p->output.n, diag);
  return ok;
}

/* ---- modes ----------------------------------------------------------------------------------------------- */

/* -###: what would be parsed, and how. */
static void print_parse(const struct options *o) {
  struct arg_list words = {0};
  char *cuda = fe_find_cuda(o->cuda_path), *nccl = fe_find_nccl(o->nccl_include, cuda);
  static const char *const fixed[] = {"clang", "-x", "cuda", "--cuda-host-only", "-fsyntax-only"};
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    args_add(&words, fixed[i]);
  if (cuda)
    args_addf(&words, "--cuda-path=%s", cuda);
  if (nccl)
    args_addf(&words, "-I%s", nccl);
  args_append(&words, &o->clang_args);
  args_append(&words, &o->inputs);
  struct strbuf line = {0};
  args_quote(&line, &words);
  fprintf(stderr, "%s\n", line.s);
  sb_free(&line);
  args_free(&words);
  free(cuda);
  free(nccl);
}

static int translate(const struct options *o, struct pipeline *p, struct diag_engine *diag) {
  int status = pipeline_read(p, o->inputs.v[0], diag);
  if (status != DRIVER_OK)
    return status;
  struct pipeline_options po = {.input = o->inputs.v[0],
                                .clang_args = &o->clang_args,
                                .cuda_path = o->cuda_path,
                                .nccl_include = o->nccl_include,
                                .directives = o->directives,
                                .runtime = o->include_runtime ? LOWER_RUNTIME_INCLUDE
                                                              : LOWER_RUNTIME_EMBED,
                                .lower = program_output(o) || o->report,
                                .verbose = o->verbose};
  diag_set_warning(diag, "nothing-to-do"); /* a remark that the user of a translator wants to see */
  po.lower |= o->evolve;
  status = pipeline_run(p, &po, diag);
  if (status == DRIVER_OK && o->evolve)
    status = evolve_run(o, p, diag);
  if (status == DRIVER_OK && !write_all(o, p, diag))
    status = DRIVER_ENVIRONMENT;
  return status;
}

static int run(struct options *o, struct pipeline *p, struct diag_engine *diag) {
  if (o->launcher)
    return launcher_run(o, diag);
  if (!outputs_distinct(o, diag))
    return DRIVER_USAGE;
  if (o->dry_run) {
    print_parse(o);
    return DRIVER_OK;
  }
  if (o->emulate || o->emulate_only_check || o->verify) {
    diag_report(diag, DIAG_usage, NULL, "'%s' is not built yet",
                o->verify ? "--verify" : o->emulate ? "--emulate" : "--emulate-only-check");
    return DRIVER_USAGE;
  }
  return translate(o, p, diag);
}

int driver_main(int argc, char **argv) {
  io_install_signal_handlers();
  struct diag_engine *diag = diag_new(stderr);
  struct options o = {0};
  struct pipeline p = {0};
  int status;
  switch (options_parse(&o, argc, argv, diag)) {
  case OPTIONS_RUN:
    status = run(&o, &p, diag);
    break;
  case OPTIONS_DONE:
    status = DRIVER_OK;
    break;
  default:
    status = DRIVER_USAGE;
  }
  if (fflush(stdout) != 0 && status == DRIVER_OK) {
    diag_report(diag, DIAG_cannot_write, NULL, "cannot write to standard output");
    status = DRIVER_ENVIRONMENT;
  }
  diag_free(diag);
  pipeline_free(&p);
  options_free(&o);
  return status;
}
