// SPDX-License-Identifier: Apache-2.0
#include "driver/launcher.h"
#include "driver/depfile.h"
#include "driver/nvcc_args.h"
#include "driver/pipeline.h"
#include "driver/process.h"
#include "support/io.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One translated input. */
struct unit {
  size_t word;         /* index into nvcc_command.words */
  char *input, *temp;  /* the user's file and ours */
};

struct launch {
  const struct options *options;
  struct nvcc_command command;
  VEC(struct unit) units;
};

static bool mentions_nccl(const struct strbuf *text) {
  return memmem(text->s, text->n, "nccl", 4) != NULL;
}

/* Writes the translated text to a file of the same name in a folder of its own, so that objects, which
 * nvcc names after their source, get the names that they would have had. */
static int write_unit(struct launch *l, size_t word, const struct strbuf *text,
                      struct diag_engine *diag) {
  const char *input = l->command.words.v[word];
  const char *dir = io_temp_dir();
  char *sub = dir ? xasprintf("%s/%zu", dir, l->units.n) : NULL;
  char *base = io_basename(input);
  char *temp = sub ? xasprintf("%s/%s", sub, base) : NULL;
  int error = !sub || mkdir(sub, 0700) != 0 ? errno : io_write_file(temp, text->s, text->n);
  free(sub);
  free(base);
  if (error) {
    diag_report(diag, DIAG_cannot_write, NULL, "cannot write a temporary file: %s", strerror(error));
    free(temp);
    return DRIVER_ENVIRONMENT;
  }
  struct unit *u = &VEC_PUSH(&l->units);
  u->word = word;
  u->input = xstrdup(input);
  u->temp = temp;
  return DRIVER_OK;
}

/* Translates one input if it has NCCL calls. P stays allocated: the diagnostics borrow its text. */
static int translate(struct launch *l, size_t word, struct pipeline *p, struct diag_engine *diag) {
  const struct options *o = l->options;
  struct arg_list clang = {0};
  args_append(&clang, &o->clang_args);
  args_append(&clang, &l->command.clang);
  struct pipeline_options po = {.input = l->command.words.v[word],
                                .clang_args = &clang,
                                .cuda_path = o->cuda_path,
                                .nccl_include = o->nccl_include,
                                .directives = o->directives,
                                .runtime = LOWER_RUNTIME_EMBED,
                                .lower = true,
                                .verbose = o->verbose};
  int status = DRIVER_OK;
  int error = io_read_file(po.input, &p->text);
  if (!error && mentions_nccl(&p->text)) {
    sb_free(&p->text);
    status = pipeline_read(p, po.input, diag);
    if (status == DRIVER_OK)
      status = pipeline_run(p, &po, diag);
    bool changed = status == DRIVER_OK &&
                   (p->output.n != p->text.n || memcmp(p->output.s, p->text.s, p->text.n) != 0);
    if (changed)
      status = write_unit(l, word, &p->output, diag);
  }
  args_free(&clang);
  return status;
}

/* The command with our files in the place of the inputs. Headers that an input includes by a relative name
 * are still found: its folder is searched for quoted names, and for those only when gcc's -iquote can say so. */
static void build_command(const struct launch *l, struct arg_list *out) {
  args_add(out, l->options->words.v[l->options->launcher]);
  VEC_EACH(&l->units, u) {
    char *dir = io_dirname(u->input);
    if (strpbrk(dir, ", \t'\"\\"))
      args_addf(out, "-I%s", dir);
    else
      args_addf(out, "-Xcompiler=-iquote,%s", dir);
    free(dir);
  }
  size_t next = 0;
  for (size_t i = 0; i < l->command.words.n; i++) {
    bool ours = next < l->units.n && l->units.v[next].word == i;
    args_add(out, ours ? l->units.v[next++].temp : l->command.words.v[i]);
  }
}

/* The file that nvcc's -MD wrote for unit U: -MF, or the output's or source's name with .d. */
static char *dep_path(const struct nvcc_command *c, const struct unit *u) {
  if (c->dep_file)
    return xstrdup(c->dep_file);
  char *base = io_basename(c->output ? c->output : u->input);
  char *dot = strrchr(base, '.');
  if (dot)
    *dot = '\0';
  char *dir = c->output ? io_dirname(c->output) : xstrdup(c->output_dir ? c->output_dir : ".");
  char *path = xasprintf("%s/%s.d", dir, base);
  free(dir);
  free(base);
  return path;
}

/* Puts the user's names back where nvcc wrote those of our temporary files. */
static void restore_names(const struct launch *l) {
  VEC_EACH(&l->units, u) {
    char *path = dep_path(&l->command, u);
    struct strbuf text = {0}, fixed = {0};
    if (io_read_file(path, &text) == 0 && text.n) {
      depfile_replace(&fixed, text.s, u->temp, u->input);
      if (fixed.n != text.n || memcmp(fixed.s, text.s, text.n) != 0)
        io_write_file(path, fixed.s, fixed.n);
    }
    sb_free(&text);
    sb_free(&fixed);
    free(path);
  }
}

static int run(const struct launch *l, struct diag_engine *diag) {
  struct arg_list words = {0};
  build_command(l, &words);
  struct strbuf shown = {0};
  args_quote(&shown, &words);
  int status = 0;
  if (l->options->verbose || l->options->dry_run)
    fprintf(stderr, "%s\n", shown.s);
  if (!l->options->dry_run) {
    status = process_run(&words);
    if (status < 0) {
      diag_report(diag, DIAG_tool_failed, NULL, "cannot run '%s': %s", words.v[0], strerror(errno));
      status = DRIVER_ENVIRONMENT;
    } else if (l->command.deps) {
      restore_names(l);
    }
  }
  sb_free(&shown);
  args_free(&words);
  return status;
}

int launcher_run(const struct options *o, struct diag_engine *diag) {
  struct launch l = {.options = o};
  char *why = NULL;
  size_t first = o->launcher + 1;
  int status = DRIVER_OK;
  size_t n = 0;
  struct pipeline *pipelines = NULL;
  if (!nvcc_command_parse(&l.command, o->words.n - first, o->words.v + first, &why)) {
    diag_report(diag, DIAG_usage, NULL, "%s", why);
    free(why);
    status = DRIVER_USAGE;
  } else if (!l.command.no_code) {
    n = l.command.inputs.n;
    pipelines = xcalloc(n, sizeof *pipelines);
    for (size_t i = 0; i < n && status == DRIVER_OK; i++)
      status = translate(&l, l.command.inputs.v[i], &pipelines[i], diag);
  }
  if (status == DRIVER_OK)
    status = run(&l, diag);
  diag_forget_sources(diag);
  for (size_t i = 0; i < n; i++)
    pipeline_free(&pipelines[i]);
  free(pipelines);
  VEC_EACH(&l.units, u) {
    free(u->input);
    free(u->temp);
  }
  VEC_FREE(&l.units);
  nvcc_command_free(&l.command);
  return status;
}
