// SPDX-License-Identifier: Apache-2.0
#include "driver/nvcc_args.h"
#include "support/io.h"
#include <string.h>

static const struct nvcc_option options[] = {
#define NVCC(long_name, short_name, argument, effect)                                              \
  {long_name, short_name, NVCC_##argument, NVCC_##effect},
#include "nvcc_options.def"
#undef NVCC
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static bool starts(const char *s, const char *prefix) {
  return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Does WORD (no dashes) name option O exactly, or with '=' and a value? Returns the rest: "" or the value
 * with its '='; NULL if not. */
static const char *exact(const struct nvcc_option *o, const char *word) {
  const char *const names[] = {o->long_name, o->short_name};
  for (int i = 0; i < 2; i++) {
    size_t n = strlen(names[i]);
    if (strncmp(word, names[i], n) == 0 && (word[n] == '\0' || word[n] == '='))
      return word + n;
  }
  return NULL;
}

int nvcc_match(size_t argc, char *const *argv, const struct nvcc_option **option,
               const char **value) {
  const char *word = argv[0];
  if (word[0] != '-' || !word[1])
    return 0;
  word += word[1] == '-' ? 2 : 1;
  for (int i = 0; i < N_OPTIONS; i++) {
    const char *rest = exact(&options[i], word);
    if (!rest || (*rest && options[i].argument == NVCC_FLAG))
      continue;
    *option = &options[i];
    *value = "";
    if (options[i].argument == NVCC_FLAG)
      return 1;
    if (*rest == '=') {
      *value = rest + 1;
      return 1;
    }
    if (argc < 2)
      return -1;
    *value = argv[1];
    return 2;
  }
  for (int i = 0; i < N_OPTIONS; i++) {
    if (options[i].argument != NVCC_JOINED || argv[0][1] == '-' ||
        word[0] != options[i].short_name[0])
      continue;
    *option = &options[i];
    *value = word + 1;
    return 1;
  }
  return 0;
}

/* Appends PREFIX with each part of VALUE, which commas separate; "\," is a comma. */
static void each_part(struct arg_list *out, const char *prefix, bool joined, const char *value) {
  struct strbuf part = {0};
  for (const char *p = value;; p++) {
    if (*p && *p != ',') {
      if (*p == '\\' && p[1] == ',')
        p++;
      sb_addc(&part, *p);
      continue;
    }
    if (part.n && joined) {
      args_addf(out, "%s%s", prefix, part.s);
    } else if (part.n) {
      args_add(out, prefix);
      args_add(out, part.s);
    }
    sb_free(&part);
    if (!*p)
      return;
  }
}

bool nvcc_host_option(const char *word, struct arg_list *clang) {
  static const char *const language[] = {
      "-fopenmp",        "-fms-extensions", "-fno-exceptions", "-fexceptions",   "-fno-rtti",
      "-frtti",          "-fsigned-char",   "-funsigned-char", "-fpermissive",   "-fchar8_t",
      "-fno-char8_t",    "-fshort-enums",   "-fno-builtin",    "-ffreestanding", "-pthread"};
  for (size_t i = 0; i < sizeof language / sizeof *language; i++)
    if (strcmp(word, language[i]) == 0) {
      args_add(clang, word);
      return true;
    }
  static const char *const passed[] = {"-D", "-U", "-I", "-std="};
  for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
    if (starts(word, passed[i])) {
      args_add(clang, word);
      return true;
    }
  static const char *const over[] = {"-f", "-m", "-W", "-p", "-g", "-O", "-static", "-rdynamic",
                                     "-nostd", "-no-pie", "-B", "-H"};
  for (size_t i = 0; i < sizeof over / sizeof *over; i++)
    if (starts(word, over[i]) && word[1] != '-')
      return true;
  return false;
}

/* -Xcompiler -Wall,-fopenmp,-isystem,dir: only what changes the parse is kept. */
static void host_options(struct arg_list *clang, const char *value) {
  static const char *const two_words[] = {"-I", "-D", "-U", "-isystem", "-iquote", "-idirafter",
                                          "-include"};
  struct arg_list parts = {0}, words = {0};
  each_part(&parts, "", true, value);
  for (size_t i = 0; i < parts.n; i++)
    args_split(&words, parts.v[i]);
  for (size_t i = 0; i < words.n; i++) {
    bool two = false;
    for (size_t k = 0; k < sizeof two_words / sizeof *two_words; k++)
      two |= strcmp(words.v[i], two_words[k]) == 0;
    if (two && i + 1 < words.n) {
      args_add(clang, words.v[i]);
      args_add(clang, words.v[++i]);
    } else if (starts(words.v[i], "-isystem") || starts(words.v[i], "-iquote")) {
      args_add(clang, words.v[i]);
    } else {
      nvcc_host_option(words.v[i], clang);
    }
  }
  args_free(&parts);
  args_free(&words);
}

void nvcc_to_clang(const struct nvcc_option *option, const char *value, struct arg_list *clang) {
  switch (option->effect) {
  case NVCC_INCLUDE:
    each_part(clang, "-I", true, value);
    break;
  case NVCC_SYSTEM:
    each_part(clang, "-isystem", false, value);
    break;
  case NVCC_DEFINE: /* a comma may be part of a macro's value */
    args_addf(clang, "-D%s", value);
    break;
  case NVCC_UNDEFINE:
    each_part(clang, "-U", true, value);
    break;
  case NVCC_PREINCLUDE:
    each_part(clang, "-include", false, value);
    break;
  case NVCC_STD:
    args_addf(clang, "-std=%s", value);
    break;
  case NVCC_HOST:
    host_options(clang, value);
    break;
  case NVCC_RDC:
    if (strcmp(value, "true") == 0)
      args_add(clang, "-D__CUDACC_RDC__");
    break;
  case NVCC_OBJECT_RDC:
    if (strcmp(option->short_name, "dc") == 0)
      args_add(clang, "-D__CUDACC_RDC__");
    break;
  case NVCC_RELAXED:
    args_add(clang, "-D__CUDACC_RELAXED_CONSTEXPR__");
    break;
  case NVCC_LAMBDA:
    args_add(clang, "-D__CUDACC_EXTENDED_LAMBDA__");
    break;
  case NVCC_STREAM:
    if (strcmp(value, "per-thread") == 0)
      args_add(clang, "-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1");
    break;
  case NVCC_DEVICE_DEBUG:
    args_add(clang, "-D__CUDACC_DEBUG__");
    break;
  default:
    break;
  }
}

/* ---- a whole command ----------------------------------------------------------------------------------- */

/* Copies words to c->words, with --options-file read in. */
static bool expand_options(struct nvcc_command *c, size_t argc, char *const *argv, int depth,
                           char **why) {
  for (size_t i = 0; i < argc;) {
    const struct nvcc_option *o;
    const char *value;
    int n = nvcc_match(argc - i, argv + i, &o, &value);
    if (n <= 0 || o->effect != NVCC_OPTIONS) {
      n = n < 1 ? 1 : n;
      for (int k = 0; k < n; k++)
        args_add(&c->words, argv[i + (size_t)k]);
      i += (size_t)n;
      continue;
    }
    struct arg_list files = {0}, words = {0};
    each_part(&files, "", true, value);
    bool ok = depth < 16;
    for (size_t k = 0; ok && k < files.n; k++) {
      struct strbuf text = {0};
      int error = io_read_file(files.v[k], &text);
      if (error)
        *why = xasprintf("cannot read options file '%s': %s", files.v[k], strerror(error));
      else
        args_split(&words, text.s);
      ok = !error;
      sb_free(&text);
    }
    if (ok)
      ok = expand_options(c, words.n, words.v, depth + 1, why);
    else if (!*why)
      *why = xstrdup("options files include each other without end");
    args_free(&files);
    args_free(&words);
    if (!ok)
      return false;
    i += (size_t)n;
  }
  return true;
}

static bool has_suffix(const char *s, const char *suffix) {
  size_t n = strlen(s), k = strlen(suffix);
  return n > k && strcmp(s + n - k, suffix) == 0;
}

bool nvcc_command_parse(struct nvcc_command *c, size_t argc, char *const *argv, char **why) {
  *why = NULL;
  if (!expand_options(c, argc, argv, 0, why))
    return false;
  bool as_cuda = false;
  for (size_t i = 0; i < c->words.n;) {
    const struct nvcc_option *o = NULL;
    const char *value = "";
    int n = nvcc_match(c->words.n - i, c->words.v + i, &o, &value);
    if (n <= 0) {
      const char *word = c->words.v[i];
      if (word[0] == '-' && word[1])
        nvcc_host_option(word, &c->clang);
      else if (has_suffix(word, ".cu") || (as_cuda && !has_suffix(word, ".o")))
        VEC_PUSH(&c->inputs) = i;
      i++;
      continue;
    }
    nvcc_to_clang(o, value, &c->clang);
    c->object |= o->effect == NVCC_OBJECT || o->effect == NVCC_OBJECT_RDC;
    c->deps |= o->effect == NVCC_DEPS;
    c->no_code |= o->effect == NVCC_NO_CODE;
    if (o->effect == NVCC_LANGUAGE)
      as_cuda = strcmp(value, "cu") == 0;
    else if (o->effect == NVCC_OUTPUT)
      c->output = value;
    else if (o->effect == NVCC_DEPFILE)
      c->dep_file = value;
    else if (o->effect == NVCC_OUTDIR)
      c->output_dir = value;
    i += (size_t)n;
  }
  return true;
}

void nvcc_command_free(struct nvcc_command *c) {
  args_free(&c->clang);
  args_free(&c->words);
  VEC_FREE(&c->inputs);
}

bool nvcc_is_program(const char *name) {
  char *base = io_basename(name);
  const char *at = strstr(base, "nvcc");
  bool yes = at && (at == base || at[-1] == '-') && (!at[4] || at[4] == '-' || at[4] == '_') &&
             !has_suffix(base, ".cu");
  free(base);
  return yes;
}

bool nvcc_is_werror_kind(const char *word) {
  static const char *const kinds[] = {"all-warnings", "cross-execution-space-call", "reorder",
                                      "default-stream-launch", "missing-launch-bounds",
                                      "ext-lambda-captures-this", "deprecated-declarations"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (starts(word, kinds[i]) && strchr(",", word[strlen(kinds[i])]))
      return true;
  return false;
}
