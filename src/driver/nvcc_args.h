// SPDX-License-Identifier: Apache-2.0
/* nvcc's command line: which words belong together, and what they mean to a parser. */
#ifndef CUCOCC_DRIVER_NVCC_ARGS_H
#define CUCOCC_DRIVER_NVCC_ARGS_H

#include "driver/args.h"

enum nvcc_argument { NVCC_FLAG, NVCC_VALUE, NVCC_JOINED };

/* What an option means for parsing, or for the launcher form. */
enum nvcc_effect {
  NVCC_NONE,
  NVCC_INCLUDE, NVCC_SYSTEM, NVCC_DEFINE, NVCC_UNDEFINE, NVCC_PREINCLUDE, NVCC_STD,
  NVCC_HOST,                                      /* -Xcompiler */
  NVCC_RDC, NVCC_RELAXED, NVCC_LAMBDA, NVCC_STREAM, NVCC_DEVICE_DEBUG,
  NVCC_LANGUAGE, NVCC_OPTIONS, NVCC_OUTPUT, NVCC_OUTDIR,
  NVCC_OBJECT, NVCC_OBJECT_RDC, NVCC_DEPS, NVCC_DEPFILE,
  NVCC_NO_CODE                                    /* nothing is compiled: -M, -E, --version, ... */
};

struct nvcc_option {
  const char *long_name, *short_name; /* without dashes */
  enum nvcc_argument argument;
  enum nvcc_effect effect;
};

/* Matches the words at ARGV[0..ARGC) against nvcc's options. Returns how many words it takes (1 or 2) and
 * fills OPTION and VALUE ("" for flags); 0 when it is no option of nvcc; -1 when its value is missing. */
int nvcc_match(size_t argc, char *const *argv, const struct nvcc_option **option, const char **value);

/* Appends to CLANG what OPTION with VALUE means for clang's parser, in clang's spelling. */
void nvcc_to_clang(const struct nvcc_option *option, const char *value, struct arg_list *clang);

/* Is this a word that nvcc would hand to the host compiler, or that is harmless to pass over:
 * -fopenmp, -march=..., -pthread, -Wno-...? Appends what matters to CLANG. */
bool nvcc_host_option(const char *word, struct arg_list *clang);

/* A whole nvcc command, for the launcher form. */
struct nvcc_command {
  struct arg_list clang;     /* parsing options */
  struct arg_list words;     /* the command's words with option files expanded, without the program */
  VEC(size_t) inputs;        /* indices into words of CUDA sources */
  const char *output;        /* -o, NULL if none; points into words */
  const char *dep_file;      /* -MF */
  const char *output_dir;    /* -odir */
  bool object;               /* -c, -dc, -dw: one object for each input */
  bool deps;                 /* -MD, -MMD */
  bool no_code;              /* nothing to translate */
};

/* Reads the words after the program name. Returns true, or false with a sentence in WHY. */
bool nvcc_command_parse(struct nvcc_command *c, size_t argc, char *const *argv, char **why);
void nvcc_command_free(struct nvcc_command *c);

/* Does NAME (a path) look like nvcc: nvcc, nvcc-13.0, x86_64-linux-nvcc, nvcc_wrapper? */
bool nvcc_is_program(const char *name);
/* Is WORD the kind of warning that nvcc's own "-Werror KIND" takes? */
bool nvcc_is_werror_kind(const char *word);

#endif
