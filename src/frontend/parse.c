// SPDX-License-Identifier: Apache-2.0
/* Runs libclang on the input and builds the IR from its syntax tree. */
#include "frontend/internal.h"
#include "support/strbuf.h"
#include <ctype.h>
#include <pthread.h>
#include <string.h>

typedef VEC(char *) strings;

static void push(strings *s, char *owned) { VEC_PUSH(s) = owned; }

static void add_words(strings *s, const char *const *words) {
  for (; *words; words++)
    push(s, xstrdup(*words));
}

static char *take(CXString s) {
  const char *t = clang_getCString(s);
  char *r = xstrdup(t ? t : "");
  clang_disposeString(s);
  return r;
}

static bool contains(const struct fe_options *o, const char *what) {
  return memmem(o->text, o->size, what, strlen(what)) != NULL;
}

/* The arguments for libclang: nvcc's view of the program, host side. */
static void arguments(const struct fe_options *o, const char *cuda, const char *nccl,
                      strings *args) {
  static const char *const fixed[] = {"-x",
                                      "cuda",
                                      "--cuda-host-only",
                                      "-nocudalib",
                                      "--cuda-gpu-arch=sm_90",
                                      "-Wno-unknown-cuda-version",
                                      "-w",
                                      "-fbracket-depth=256",
                                      "-ferror-limit=200",
                                      NULL};
  bool has_std = false;
  for (size_t i = 0; i < o->n_clang_args; i++)
    has_std |= !strncmp(o->clang_args[i], "-std", 4) || !strncmp(o->clang_args[i], "--std", 5);
  add_words(args, fixed);
  if (!has_std)
    push(args, xstrdup("-std=c++17"));
  push(args, xasprintf("--cuda-path=%s", cuda));
  for (size_t i = 0; i < o->n_clang_args; i++)
    push(args, xstrdup(o->clang_args[i]));
  if (o->resource_dir) {
    push(args, xstrdup("-isystem"));
    push(args, xstrdup(o->resource_dir));
  }
  if (nccl) {
    push(args, xstrdup("-isystem"));
    push(args, xstrdup(nccl));
  }
  push(args, xstrdup("-isystem"));
  push(args, xasprintf("%s/include/cccl", cuda));
  /* clang defines __CUDACC__ empty; NCCL's device headers want a value, as nvcc gives it. */
  push(args, xstrdup("-include"));
  push(args, xasprintf("%s/include/cucocc_cudacc.h", cuda));
}

struct inclusion {
  strings *headers;
  int nccl_version;
};
static void on_inclusion(CXFile file, CXSourceLocation *stack, unsigned depth, CXClientData data) {
  (void)stack;
  struct inclusion *in = data;
  if (!depth)
    return;
  char *name = take(clang_getFileName(file));
  size_t n = strlen(name);
  if (n >= 7 && !strcmp(name + n - 7, "/nccl.h") && !in->nccl_version)
    in->nccl_version = fe_nccl_version(name);
  if (strstr(name, "cucocc_cudacc.h"))
    free(name);
  else
    push(in->headers, name);
}

/* ---- functions
 * ----------------------------------------------------------------------------------- */

struct seen_file {
  CXFile file;
  bool interesting;
};
struct top {
  struct fe *f;
  fe_list kernels;
  VEC(struct seen_file) files;
};

static enum CXChildVisitResult global_attr(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  if (clang_getCursorKind(c) == CXCursor_CUDAGlobalAttr)
    *(int *)data |= 1;
  if (clang_getCursorKind(c) == CXCursor_CUDADeviceAttr)
    *(int *)data |= 2;
  if (clang_getCursorKind(c) == CXCursor_CUDAHostAttr)
    *(int *)data |= 4;
  return CXChildVisit_Continue;
}

/* Can a file hold anything of interest? Spares the front end the inline functions of other
 * libraries. */
static bool interesting_file(struct top *t, CXSourceLocation l) {
  CXFile file = NULL;
  clang_getFileLocation(l, &file, NULL, NULL, NULL);
  if (!file)
    return false;
  VEC_EACH(&t->files, s)
  if (clang_File_isEqual(s->file, file))
    return s->interesting;
  size_t n = 0;
  const char *text = clang_getFileContents(t->f->tu, file, &n);
  static const char *const words[] = {"nccl", "cudaM", "<<<"};
  bool r = false;
  for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
    r |= memmem(text, n, words[i], strlen(words[i])) != NULL;
  VEC_PUSH(&t->files) = (struct seen_file){file, r};
  return r;
}

static enum CXChildVisitResult on_decl(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  struct top *t = data;
  enum CXCursorKind k = clang_getCursorKind(c);
  CXSourceLocation l = clang_getCursorLocation(c);
  if (!clang_Location_isFromMainFile(l) &&
      (clang_Location_isInSystemHeader(l) || !interesting_file(t, l)))
    return CXChildVisit_Continue;
  switch (k) {
  case CXCursor_Namespace:
  case CXCursor_LinkageSpec:
  case CXCursor_UnexposedDecl:
  case CXCursor_ClassDecl:
  case CXCursor_StructDecl:
  case CXCursor_ClassTemplate:
    return CXChildVisit_Recurse;
  case CXCursor_FunctionDecl:
  case CXCursor_CXXMethod:
  case CXCursor_FunctionTemplate:
  case CXCursor_Constructor:
  case CXCursor_Destructor: {
    if (!clang_isCursorDefinition(c))
      return CXChildVisit_Continue;
    int attr = 0;
    clang_visitChildren(c, global_attr, &attr);
    if (attr & 1)
      VEC_PUSH(&t->kernels) = c;
    else if (!(attr & 2) || (attr & 4))
      fe_add_function(t->f, c);
    return CXChildVisit_Continue;
  }
  default:
    return CXChildVisit_Continue;
  }
}

/* ---- clang's diagnostics
 * ------------------------------------------------------------------------- */

static void diag_place(CXDiagnostic d, struct diag_loc *out, char **file, unsigned *offset) {
  CXFile f = NULL;
  unsigned line = 0, col = 0;
  clang_getFileLocation(clang_getDiagnosticLocation(d), &f, &line, &col, offset);
  *file = f ? take(clang_getFileName(f)) : xstrdup("");
  *out = (struct diag_loc){*file, line, col, 0};
}

static bool communicates(struct fe *f, ir_id fn) {
  for (size_t i = 0; i < f->p->calls.n; i++)
    if (f->call_functions.v[i] == fn && (f->p->calls.v[i].kind == IR_CALL_COLLECTIVE ||
                                         f->p->calls.v[i].kind == IR_CALL_COMM_CREATE))
      return true;
  return false;
}

/* Does the text of a function name a communication call? The tree may have lost it to an error. */
static bool names_communication(struct fe *f, const struct ir_function *fn) {
  static const char *const names[] = {
#define COLL(id, nccl, ...) nccl,
#include "collectives.def"
#undef COLL
      "ncclCommInit", "ncclCommSplit"};
  const struct fe_text *t = NULL;
  VEC_EACH(&f->texts, x)
  if (x->id == fn->range.file)
    t = x;
  if (!t || fn->range.end > t->n)
    return false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (memmem(t->s + fn->range.begin, fn->range.end - fn->range.begin, names[i], strlen(names[i])))
      return true;
  return false;
}

/* Marks functions that clang reported errors in. Returns the number of errors in all. */
static unsigned mark_errors(struct fe *f) {
  unsigned n = clang_getNumDiagnostics(f->tu), errors = 0;
  for (unsigned i = 0; i < n; i++) {
    CXDiagnostic d = clang_getDiagnostic(f->tu, i);
    if (clang_getDiagnosticSeverity(d) >= CXDiagnostic_Error) {
      struct diag_loc loc;
      char *file, *text = take(clang_getDiagnosticSpelling(d));
      unsigned offset;
      diag_place(d, &loc, &file, &offset);
      errors++;
      for (size_t j = 0; j < f->functions.n; j++) {
        struct ir_function *fn = &f->p->functions.v[j];
        if (fn->range.file < 0 || strcmp(f->p->files.v[fn->range.file].path, file) ||
            offset < fn->range.begin || offset >= fn->range.end)
          continue;
        if (!fn->has_errors)
          ir_set(&fn->error, text);
        fn->has_errors = true;
      }
      free(file);
      free(text);
    }
    clang_disposeDiagnostic(d);
  }
  return errors;
}

static bool concerns(struct fe *f, ir_id fn) {
  return communicates(f, fn) || names_communication(f, &f->p->functions.v[fn]);
}

/* Did clang stop before the end of the input? A missing header is no reason for it. */
static bool gave_up(struct fe *f) {
  unsigned n = clang_getNumDiagnostics(f->tu);
  bool r = false;
  for (unsigned i = 0; i < n && !r; i++) {
    CXDiagnostic d = clang_getDiagnostic(f->tu, i);
    char *text = take(clang_getDiagnosticSpelling(d));
    r = clang_getDiagnosticSeverity(d) == CXDiagnostic_Fatal && !strstr(text, "file not found");
    free(text);
    clang_disposeDiagnostic(d);
  }
  return r;
}

/* Passes clang's errors on as they are. */
static void show_errors(struct fe *f, unsigned limit) {
  unsigned n = clang_getNumDiagnostics(f->tu);
  for (unsigned i = 0; i < n && limit; i++) {
    CXDiagnostic d = clang_getDiagnostic(f->tu, i);
    enum CXDiagnosticSeverity s = clang_getDiagnosticSeverity(d);
    if (s >= CXDiagnostic_Error) {
      struct diag_loc loc;
      char *file, *text = take(clang_getDiagnosticSpelling(d));
      unsigned offset;
      diag_place(d, &loc, &file, &offset);
      diag_foreign(f->diag, "clang", s == CXDiagnostic_Fatal ? DIAG_FATAL : DIAG_ERROR,
                   loc.line ? &loc : NULL, text);
      free(file);
      free(text);
      limit--;
    }
    clang_disposeDiagnostic(d);
  }
}

static void missing_headers(struct fe *f) {
  unsigned n = clang_getNumDiagnostics(f->tu);
  for (unsigned i = 0; i < n; i++) {
    CXDiagnostic d = clang_getDiagnostic(f->tu, i);
    char *text = take(clang_getDiagnosticSpelling(d));
    if (clang_getDiagnosticSeverity(d) >= CXDiagnostic_Error && strstr(text, "file not found")) {
      struct diag_loc loc;
      char *file;
      unsigned offset;
      diag_place(d, &loc, &file, &offset);
      diag_report(f->diag, DIAG_missing_header, &loc,
                  "%s; functions that need it are left as they are; add -I for its folder", text);
      free(file);
    }
    free(text);
    clang_disposeDiagnostic(d);
  }
}

static struct diag_loc place_of(struct fe *f, const struct ir_range *r) {
  return (struct diag_loc){r->file >= 0 ? f->p->files.v[r->file].path : NULL, r->line, r->col, 0};
}

/* Reports errors by what they reach. Returns 0 or 1. */
static int judge_errors(struct fe *f) {
  if (!mark_errors(f))
    return 0;
  for (size_t i = 0; i < f->call_functions.n; i++)
    f->p->calls.v[i].function_has_errors = f->p->functions.v[f->call_functions.v[i]].has_errors;
  bool main_functions = false, reached = false;
  for (size_t i = 0; i < f->functions.n; i++)
    main_functions |= f->p->functions.v[i].range.file >= 0 &&
                      f->p->files.v[f->p->functions.v[i].range.file].main_file;
  if (!main_functions && !f->p->kernels.n) {
    show_errors(f, 5);
    struct diag_loc at = {f->o->input, 0, 0, 0};
    diag_report(f->diag, DIAG_not_cuda, &at,
                "no function could be parsed; give a CUDA source file (.cu)");
    return 1;
  }
  for (size_t i = 0; i < f->functions.n; i++)
    reached |= f->p->functions.v[i].has_errors && concerns(f, (ir_id)i);
  reached |= gave_up(f);
  if (reached) {
    show_errors(f, 20);
    for (size_t i = 0; i < f->functions.n; i++) {
      const struct ir_function *fn = &f->p->functions.v[i];
      if (!fn->has_errors || (!concerns(f, (ir_id)i) && !gave_up(f)))
        continue;
      struct diag_loc at = place_of(f, &fn->range);
      diag_report(f->diag, DIAG_parse_error, &at,
                  "'%s' cannot be parsed: %s; correct the errors or add the "
                  "missing -I and -D options",
                  fn->name, fn->error);
    }
    return 1;
  }
  missing_headers(f);
  for (size_t i = 0; i < f->functions.n; i++) {
    const struct ir_function *fn = &f->p->functions.v[i];
    if (!fn->has_errors || fn->is_lambda)
      continue;
    struct diag_loc at = place_of(f, &fn->range);
    diag_report(f->diag, DIAG_function_skipped, &at, "'%s' was left as it is: %s", fn->name,
                fn->error);
  }
  return 0;
}

/* ---- the whole
 * ----------------------------------------------------------------------------------- */

static void build(struct fe *f, int *status) {
  struct top top = {.f = f};
  clang_visitChildren(clang_getTranslationUnitCursor(f->tu), on_decl, &top);
  size_t named = f->functions.n;
  mark_errors(f);
  for (size_t i = 0; i < named; i++)
    fe_collect_flows(f, (ir_id)i);
  for (size_t i = 0; i < named; i++)
    fe_collect_stores(f, f->functions.v[i].cursor);
  fe_solve_taint(f);
  VEC_EACH(&top.kernels, k)
  if (fe_in_main_file(*k))
    fe_kernel(f, *k);
  VEC_FREE(&top.kernels);
  VEC_FREE(&top.files);
  for (size_t i = 0; i < named; i++)
    fe_walk_function(f, (ir_id)i);
  fe_finish_aliases(f);
  fe_finish_uniform(f);
  for (size_t i = 0; i < f->call_functions.n; i++) {
    struct ir_call *c = &f->p->calls.v[i];
    const struct fe_function *fn = &f->functions.v[f->call_functions.v[i]];
    if (fn->nonuniform && c->uniform) {
      c->uniform = false;
      ir_set(&c->uniform_why, fn->why ? fn->why : "");
    }
    c->captured |= fn->captured;
    c->in_loop |= fn->in_loop;
    c->in_device_loop |= fn->in_device_loop;
  }
  fe_patterns(f);
  struct ir_program *p = f->p;
  p->model = f->has_init_all || f->init_in_device_loop
                 ? (f->has_mpi ? IR_MODEL_MPI : IR_MODEL_SINGLE_PROCESS)
             : f->has_mpi     ? IR_MODEL_MPI
             : f->has_threads ? IR_MODEL_THREADS
                              : IR_MODEL_UNKNOWN;
  if (!f->has_init_all && !f->init_in_device_loop) { /* arrays of something else */
    VEC_EACH(&p->nodes, n)
    VEC_EACH(&n->operands, o)
    if (o->buffer >= 0 && p->buffers.v[o->buffer].per_device) {
      /* Elements taken together: an offset says nothing about where in which of them. */
      ir_expr_free(&o->offset);
      ir_expr_free(&o->size);
      ir_expr_init(&o->offset);
      ir_expr_init(&o->size);
      o->exact = false;
    }
    VEC_EACH(&p->buffers, b) b->per_device = false;
    VEC_EACH(&p->comms, c) c->per_device = false;
    VEC_EACH(&p->streams, s) s->per_device = false;
    VEC_EACH(&p->events, e) e->per_device = false;
  }
  *status = judge_errors(f);
}

struct job {
  struct fe *f;
  int status;
};

enum { STACK = 256 << 20 };

static void *run_build(void *data) {
  struct job *j = data;
  fe_stack_guard(STACK - (16 << 20));
  build(j->f, &j->status);
  return NULL;
}

/* Builds on a thread with a large stack: trees can be deep. */
static int build_on_thread(struct fe *f) {
  struct job j = {f, 0};
  pthread_t thread;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  bool ok =
      !pthread_attr_setstacksize(&attr, STACK) && !pthread_create(&thread, &attr, run_build, &j);
  if (ok)
    pthread_join(thread, NULL);
  else { /* no thread to be had: on this stack, with a tight guard */
    fe_stack_guard(4 << 20);
    build(f, &j.status);
    fe_stack_guard(0);
  }
  pthread_attr_destroy(&attr);
  return j.status;
}

static void free_context(struct fe *f) {
  VEC_EACH(&f->taints, t) free(t->why);
  VEC_EACH(&f->functions, x) free(x->why);
  VEC_EACH(&f->edges, x) free(x->why);
  VEC_EACH(&f->sizes, x) ir_expr_free(&x->nranks);
  VEC_FREE(&f->texts);
  VEC_FREE(&f->symbols);
  VEC_FREE(&f->binds);
  VEC_FREE(&f->taints);
  VEC_FREE(&f->flows);
  VEC_FREE(&f->call_graph);
  VEC_FREE(&f->functions);
  VEC_FREE(&f->edges);
  VEC_FREE(&f->sizes);
  VEC_FREE(&f->blas_streams);
  VEC_FREE(&f->alias_edges);
  VEC_FREE(&f->pointer_assigns);
  VEC_EACH(&f->named, n) free(n->name);
  VEC_FREE(&f->named);
  VEC_FREE(&f->first_uses);
  VEC_FREE(&f->stores);
  VEC_FREE(&f->host_keys);
  VEC_FREE(&f->call_functions);
}

/* Refuses what is no text at all, before clang sees it. */
static bool plausible(const struct fe_options *o, struct diag_engine *diag) {
  struct diag_loc at = {o->input, 0, 0, 0};
  const char *nul = memchr(o->text, '\0', o->size);
  size_t i = 0;
  if (nul) {
    diag_report(diag, DIAG_not_cuda, &at,
                "there is a NUL byte at offset %zu: this is not a source file; give a CUDA source "
                "file (.cu)",
                (size_t)(nul - o->text));
    return false;
  }
  while (i < o->size && isspace((unsigned char)o->text[i]))
    i++;
  if (i == o->size) {
    diag_report(diag, DIAG_not_cuda, &at, "the file is empty; give a CUDA source file (.cu)");
    return false;
  }
  return true;
}

static bool is_output(const struct fe_options *o) {
  size_t n = o->size < 2000 ? o->size : 2000;
  static const char marker[] = "// cucocc-output";
  return memmem(o->text, n, marker, sizeof marker - 1) != NULL;
}

int fe_parse(const struct fe_options *o, struct diag_engine *diag, struct fe_result *result) {
  *result = (struct fe_result){0};
  if (!plausible(o, diag))
    return 1;
  char *cuda = fe_find_cuda(o->cuda_path);
  if (!cuda) {
    diag_report(diag, DIAG_no_cuda, NULL,
                "no CUDA toolkit was found%s%s; give its root with --cuda-path=DIR",
                o->cuda_path ? " in " : "", o->cuda_path ? o->cuda_path : "");
    return 3;
  }
  char *nccl = fe_find_nccl(o->nccl_include, cuda);
  if (!nccl && contains(o, "nccl.h")) {
    diag_report(diag, DIAG_no_nccl, NULL, "nccl.h was not found; install NCCL or give its folder");
    free(cuda);
    return 3;
  }
  strings args = {0};
  arguments(o, cuda, nccl, &args);
  sb_add(&result->clang_command, "clang");
  VEC_EACH(&args, a) sb_addf(&result->clang_command, " %s", *a);
  sb_addf(&result->clang_command, " %s", o->input);
  /* Headers of our own, seen in the toolkit's folder: what CUDA 13 removed, and nvcc's __CUDACC__.
   */
  char *texture = xasprintf("%s/include/texture_fetch_functions.h", cuda);
  char *cudacc = xasprintf("%s/include/cucocc_cudacc.h", cuda);
  static const char define[] = "#undef __CUDACC__\n#define __CUDACC__ 1\n";
  struct CXUnsavedFile files[] = {{o->input, o->text, (unsigned long)o->size},
                                  {cudacc, define, sizeof define - 1},
                                  {texture, "\n", 1}};
  bool need_texture = true;
  FILE *probe = fopen(texture, "r");
  if (probe) {
    need_texture = false;
    fclose(probe);
  }
  CXIndex index = clang_createIndex(0, 0);
  CXTranslationUnit tu = NULL;
  enum CXErrorCode e =
      clang_parseTranslationUnit2(index, o->input, (const char *const *)args.v, (int)args.n, files,
                                  need_texture ? 3 : 2, CXTranslationUnit_KeepGoing, &tu);
  int status = 0;
  if (e != CXError_Success || !tu) {
    struct diag_loc at = {o->input, 0, 0, 0};
    diag_report(diag, DIAG_not_cuda, &at,
                "the parser gave up on this file (libclang error %d); check that it is CUDA source",
                (int)e);
    status = 1;
  } else {
    struct fe f = {.o = o, .diag = diag, .p = ir_new(), .tu = tu};
    struct inclusion in = {(strings *)&result->headers, 0};
    clang_getInclusions(tu, on_inclusion, &in);
    fe_text_of(&f, clang_getFile(tu, o->input));
    f.p->nccl_version = in.nccl_version;
    f.p->translated = is_output(o);
    status = build_on_thread(&f);
    result->ir = f.p;
    free_context(&f);
    if (status) {
      ir_free(result->ir);
      result->ir = NULL;
    }
  }
  if (tu)
    clang_disposeTranslationUnit(tu);
  clang_disposeIndex(index);
  VEC_EACH(&args, a) free(*a);
  VEC_FREE(&args);
  free(texture);
  free(cudacc);
  free(cuda);
  free(nccl);
  return status;
}

void fe_result_free(struct fe_result *r) {
  VEC_EACH(&r->headers, h) free(*h);
  VEC_FREE(&r->headers);
  sb_free(&r->clang_command);
}
