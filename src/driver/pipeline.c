// SPDX-License-Identifier: Apache-2.0
#include "config.h"
#include "driver/pipeline.h"
#include "driver/resources.h"
#include "support/io.h"
#include <string.h>

static void cannot_read(struct diag_engine *diag, const char *name, int error) {
  diag_report(diag, DIAG_cannot_read, &(struct diag_loc){.file = name}, "cannot read '%s': %s", name,
              strerror(error));
}

/* Says why the text cannot be a program, before clang stumbles over every byte of it. */
static const char *not_text(const struct strbuf *text) {
  if (strspn(text->s, " \t\r\n\f\v") == text->n)
    return "the file is empty";
  if (memchr(text->s, '\0', text->n))
    return "this is a binary file, not a CUDA program";
  return NULL;
}

enum driver_status pipeline_read(struct pipeline *p, const char *input, struct diag_engine *diag) {
  p->name = strcmp(input, "-") == 0 ? "<stdin>" : input;
  int error = io_read_file(input, &p->text);
  if (error) {
    cannot_read(diag, p->name, error);
    return DRIVER_INPUT;
  }
  diag_add_source(diag, p->name, p->text.s, p->text.n);
  const char *why = not_text(&p->text);
  if (why)
    diag_report(diag, DIAG_not_cuda, &(struct diag_loc){.file = p->name}, "%s", why);
  return why ? DRIVER_INPUT : DRIVER_OK;
}

/* The verifier runs after every pass in debug builds. */
static bool verified(const struct ir_program *ir, const char *pass, struct diag_engine *diag) {
#ifdef CUCOCC_DEBUG
  char why[512];
  if (!ir_verify(ir, why, sizeof why)) {
    diag_report(diag, DIAG_ir_invalid, NULL, "the IR is not valid after %s: %s", pass, why);
    return false;
  }
#else
  (void)ir;
  (void)pass;
  (void)diag;
#endif
  return true;
}

static enum driver_status parse(struct pipeline *p, const struct pipeline_options *o,
                                struct diag_engine *diag) {
  char *resources = resources_find("frontend/include");
  struct fe_options fe = {.input = p->name,
                          .text = p->text.s,
                          .size = p->text.n,
                          .clang_args = (const char *const *)o->clang_args->v,
                          .n_clang_args = o->clang_args->n,
                          .cuda_path = o->cuda_path,
                          .nccl_include = o->nccl_include,
                          .resource_dir = resources,
                          .verbose = o->verbose};
  int status = fe_parse(&fe, diag, &p->parsed);
  free(resources);
  if (o->verbose && p->parsed.clang_command.n)
    fprintf(stderr, "%s\n", p->parsed.clang_command.s);
  return status;
}

static enum driver_status choose(struct pipeline *p, const struct pipeline_options *o,
                                 struct diag_engine *diag) {
  if (p->parsed.ir->translated) { /* no regions: translating again changes nothing */
    diag_report(diag, DIAG_nothing_to_do, &(struct diag_loc){.file = p->name},
                "this is an output of cucocc; it stays as it is");
    return DRIVER_OK;
  }
  dir_find_regions(p->parsed.ir, &p->set);
  fast_path_choose(p->parsed.ir, &p->set, diag);
  if (p->set.regions.n == 0)
    diag_report(diag, DIAG_nothing_to_do, &(struct diag_loc){.file = p->name},
                "no NCCL communication was found; the program stays as it is");
  if (o->directives) {
    struct strbuf text = {0};
    int error = io_read_file(o->directives, &text);
    bool ok = !error;
    if (error)
      cannot_read(diag, o->directives, error);
    else
      ok = dir_from_json(p->parsed.ir, &p->set, o->directives, text.s, diag);
    sb_free(&text);
    if (!ok)
      return DRIVER_INPUT;
  }
  bool legal = true;
  for (size_t i = 0; i < p->set.regions.n && i < p->set.directives.n; i++)
    legal &= dir_check(p->parsed.ir, &p->set.regions.v[i], &p->set.directives.v[i], diag);
  return legal ? DRIVER_OK : DRIVER_INPUT;
}

enum driver_status pipeline_run(struct pipeline *p, const struct pipeline_options *o,
                                struct diag_engine *diag) {
  enum driver_status status = parse(p, o, diag);
  if (status != DRIVER_OK)
    return status;
  if (!verified(p->parsed.ir, "the front end", diag))
    return DRIVER_INPUT;
  ir_analyse(p->parsed.ir);
  if (!verified(p->parsed.ir, "the analysis", diag))
    return DRIVER_INPUT;
  status = choose(p, o, diag);
  if (status != DRIVER_OK || diag_errors(diag) || !o->lower)
    return diag_errors(diag) ? DRIVER_INPUT : status;
  struct lower_options lower = {.runtime = o->runtime,
                                .input = p->name,
                                .text = p->text.s,
                                .size = p->text.n};
  if (lower_program(p->parsed.ir, &p->set, &lower, diag, &p->output, &p->report) != 0)
    return DRIVER_INPUT;
  return verified(p->parsed.ir, "the lowering", diag) && !diag_errors(diag) ? DRIVER_OK : DRIVER_INPUT;
}

void pipeline_free(struct pipeline *p) {
  ir_free(p->parsed.ir);
  p->parsed.ir = NULL;
  fe_result_free(&p->parsed);
  dir_set_free(&p->set);
  sb_free(&p->text);
  sb_free(&p->output);
}
