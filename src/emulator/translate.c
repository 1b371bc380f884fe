// SPDX-License-Identifier: Apache-2.0
#include "emulator/translate.h"
#include "emulator/translate_internal.h"
#include "support/io.h"
#include <string.h>

const char *const emu_defines[] = {"-D__CUDACC__=1",
                                   "-D__NVCC__=1",
                                   "-D__CUDACC_VER_MAJOR__=13",
                                   "-D__CUDACC_VER_MINOR__=0",
                                   "-D__CUDACC_VER_BUILD__=88",
                                   "-DCUCOCC_EMULATED=1",
                                   NULL};

typedef VEC(char *) strings;

struct job {
  const struct emu_translate_options *o;
  struct diag_engine *diag;
  tr_files files; /* to be translated, the input first */
  strings others; /* further headers, but the system's */
  strings args;
};

static bool starts(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

/* ---- files ------------------------------------------------------------------------------------------------ */

static struct tr_file *find_file(struct job *j, const char *path) {
  VEC_EACH(&j->files, f)
  if (!strcmp(f->path, path))
    return f;
  return NULL;
}

/* Reads PATH as a further file of the program. Returns 0 or an errno value. */
static int add_file(struct job *j, const char *path) {
  if (find_file(j, path))
    return 0;
  struct tr_file f = {.path = xstrdup(path)};
  int error = io_read_file(path, &f.text);
  if (error) {
    free(f.path);
    return error;
  }
  if (!f.text.s)
    sb_add(&f.text, "");
  char *base = io_basename(path);
  f.target = j->files.n ? xasprintf("%zu_%s", j->files.n, base) : xasprintf("%s.cc", base);
  free(base);
  VEC_PUSH(&j->files) = f;
  return 0;
}

/* Is there anything to translate in a header? */
static bool has_device_code(const char *text, size_t n) {
  static const char *const words[] = {"<<<",         "__shared__",  "__device__", "__constant__",
                                      "__managed__", "__global__", "asm"};
  for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
    if (memmem(text, n, words[i], strlen(words[i])))
      return true;
  return false;
}

struct inclusions {
  struct job *j;
  CXTranslationUnit tu;
};

static void on_inclusion(CXFile file, CXSourceLocation *stack, unsigned depth, CXClientData data) {
  struct inclusions *in = data;
  struct job *j = in->j;
  if (!depth)
    return;
  CXSourceLocation at = clang_getLocationForOffset(in->tu, file, 0);
  char *path = tr_take(clang_getFileName(file));
  bool own = starts(path, j->o->include_dir);
  if (clang_Location_isInSystemHeader(at) || (!own && starts(path, "/usr/"))) {
    free(path);
    return;
  }
  size_t n = 0;
  const char *text = own ? NULL : clang_getFileContents(in->tu, file, &n);
  if (has_device_code(text, n)) {
    add_file(j, path);
    for (unsigned i = 0; i < depth; i++) { /* and what includes it */
      CXFile from = NULL;
      clang_getFileLocation(stack[i], &from, NULL, NULL, NULL);
      char *name = from ? tr_take(clang_getFileName(from)) : NULL;
      if (name)
        add_file(j, name);
      free(name);
    }
    free(path);
  } else
    VEC_PUSH(&j->others) = path;
}

/* ---- parsing ------------------------------------------------------------------------------------------------ */

static void arguments(struct job *j) {
  bool has_std = false;
  static const char *const fixed[] = {"-x", "c++", "-w", "-ferror-limit=100", "-DCUCOCC_TRANSLATING=1", NULL};
  for (const char *const *a = fixed; *a; a++)
    VEC_PUSH(&j->args) = xstrdup(*a);
  for (const char *const *a = emu_defines; *a; a++)
    VEC_PUSH(&j->args) = xstrdup(*a);
  VEC_PUSH(&j->args) = xasprintf("-I%s", j->o->include_dir);
  VEC_PUSH(&j->args) = xstrdup("-include");
  VEC_PUSH(&j->args) = xasprintf("%s/cuda_runtime.h", j->o->include_dir);
  for (size_t i = 0; i < j->o->n_clang_args; i++) {
    has_std |= starts(j->o->clang_args[i], "-std");
    VEC_PUSH(&j->args) = xstrdup(j->o->clang_args[i]);
  }
  if (!has_std)
    VEC_PUSH(&j->args) = xstrdup("-std=c++17");
}

static CXTranslationUnit parse(struct job *j, CXIndex index) {
  VEC(struct CXUnsavedFile) unsaved = {0};
  VEC_EACH(&j->files, f)
  VEC_PUSH(&unsaved) = (struct CXUnsavedFile){f->path, f->text.s, (unsigned long)f->text.n};
  CXTranslationUnit tu = NULL;
  clang_parseTranslationUnit2(index, j->o->input, (const char *const *)j->args.v, (int)j->args.n,
                              unsaved.v, (unsigned)unsaved.n,
                              CXTranslationUnit_DetailedPreprocessingRecord | CXTranslationUnit_KeepGoing,
                              &tu);
  VEC_FREE(&unsaved);
  return tu;
}

/* A header that is nowhere: of CUDA's, then the emulator has none. Other errors are the compiler's to
 * report. */
static bool headers_found(struct job *j, CXTranslationUnit tu) {
  bool ok = true;
  for (unsigned i = 0; i < clang_getNumDiagnostics(tu); i++) {
    CXDiagnostic d = clang_getDiagnostic(tu, i);
    char *text = tr_take(clang_getDiagnosticSpelling(d));
    if (clang_getDiagnosticSeverity(d) == CXDiagnostic_Fatal && strstr(text, "file not found")) {
      CXFile file = NULL;
      unsigned line, col;
      clang_getFileLocation(clang_getDiagnosticLocation(d), &file, &line, &col, NULL);
      char *path = file ? tr_take(clang_getFileName(file)) : xstrdup(j->o->input);
      struct diag_loc at = {path, line, col, 0};
      diag_report(j->diag, DIAG_emulation_unsupported, &at,
                  "%s; if it is a part of CUDA, the emulator does not model it", text);
      free(path);
      ok = false;
    }
    free(text);
    clang_disposeDiagnostic(d);
  }
  return ok;
}

/* ---- the result ------------------------------------------------------------------------------------------------ */

/* Two different 64-bit FNV-like hashes, of each text with its length. */
static void digest_add(uint64_t digest[2], const char *s, size_t n) {
  for (size_t i = 0; i < n + sizeof n; i++) {
    unsigned char c = i < n ? (unsigned char)s[i] : (unsigned char)(n >> 8 * (i - n));
    digest[0] = (digest[0] ^ c) * 0x100000001b3u;
    digest[1] = (digest[1] + c) * 0x9e3779b97f4a7c15u;
    digest[1] ^= digest[1] >> 29;
  }
}

static int write_file(struct job *j, const struct tr_file *f, uint64_t digest[2]) {
  struct strbuf s = {0};
  sb_add(&s, "#line 1 \"");
  for (const char *c = f->path; *c; c++) {
    if (*c == '"' || *c == '\\')
      sb_addc(&s, '\\');
    sb_addc(&s, *c);
  }
  sb_add(&s, "\"\n");
  sb_addn(&s, f->text.s, f->text.n);
  digest_add(digest, s.s, s.n);
  char *path = xasprintf("%s/%s", j->o->out_dir, f->target);
  int error = io_write_file(path, s.s, s.n);
  if (error)
    diag_report(j->diag, DIAG_cannot_write, NULL, "cannot write '%s': %s", path, strerror(error));
  free(path);
  sb_free(&s);
  return error;
}

static int write_all(struct job *j, struct emu_translated *out) {
  out->digest[0] = 0xcbf29ce484222325u;
  out->digest[1] = 0x2545f4914f6cdd1du;
  VEC_EACH(&j->files, f) {
    if (write_file(j, f, out->digest))
      return 3;
    VEC_PUSH(&out->files) = xstrdup(f->path);
  }
  char *mpi = xasprintf("%s/mpi.h", j->o->include_dir);
  VEC_EACH(&j->others, path) {
    struct strbuf text = {0};
    out->uses_mpi |= !strcmp(*path, mpi);
    io_read_file(*path, &text);
    digest_add(out->digest, *path, strlen(*path));
    digest_add(out->digest, text.s ? text.s : "", text.n);
    sb_free(&text);
  }
  free(mpi);
  out->path = xasprintf("%s/%s", j->o->out_dir, j->files.v[0].target);
  return 0;
}

static int run(struct job *j, CXIndex index, struct emu_translated *out) {
  tr_launches(&j->files.v[0]);
  arguments(j);
  CXTranslationUnit tu = parse(j, index);
  if (!tu) {
    diag_report(j->diag, DIAG_not_cuda, &(struct diag_loc){.file = j->o->input},
                "the parser gave up on this file; check that it is CUDA source");
    return 1;
  }
  struct inclusions in = {j, tu};
  clang_getInclusions(tu, on_inclusion, &in);
  bool again = false;
  for (size_t i = 1; i < j->files.n; i++) {
    tr_launches(&j->files.v[i]);
    again |= j->files.v[i].changed;
  }
  if (again) {
    clang_disposeTranslationUnit(tu);
    tu = parse(j, index);
  }
  bool ok = tu && headers_found(j, tu);
  VEC_EACH(&j->files, f)
  if (ok || f == j->files.v)
    ok = tr_declarations(tu, &j->files, f, j->diag) && ok;
  clang_disposeTranslationUnit(tu);
  return ok ? write_all(j, out) : 1;
}

int emu_translate(const struct emu_translate_options *o, struct diag_engine *diag,
                  struct emu_translated *out) {
  *out = (struct emu_translated){0};
  struct job j = {.o = o, .diag = diag};
  int error = add_file(&j, o->input), status = 3;
  if (error)
    diag_report(diag, DIAG_cannot_read, &(struct diag_loc){.file = o->input}, "cannot read '%s': %s",
                o->input, strerror(error));
  else {
    CXIndex index = clang_createIndex(0, 0);
    status = run(&j, index, out);
    clang_disposeIndex(index);
  }
  VEC_EACH(&j.files, f) {
    free(f->path);
    free(f->target);
    sb_free(&f->text);
    VEC_FREE(&f->assembly);
  }
  VEC_EACH(&j.others, s) free(*s);
  VEC_EACH(&j.args, s) free(*s);
  VEC_FREE(&j.files);
  VEC_FREE(&j.others);
  VEC_FREE(&j.args);
  return status;
}

void emu_translated_free(struct emu_translated *t) {
  VEC_EACH(&t->files, s) free(*s);
  VEC_FREE(&t->files);
  free(t->path);
  t->path = NULL;
}
