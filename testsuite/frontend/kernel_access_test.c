// SPDX-License-Identifier: Apache-2.0
/* The kernel access analysis against executions: kernels run on the CPU over random launches, and
 * every byte that they touch must lie inside what is claimed for its block. */
#include "frontend/frontend.h"
#include "frontend/kernel_access.h"
#include "kernel_run.h"
#include "lib/unit.h"
#include "support/strbuf.h"
#include <clang-c/Index.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { LAUNCHES = 150 };

static struct ir_program *ir;
static unsigned long seed = 20240611;

static unsigned below(unsigned n) {
  seed = seed * 6364136223846793005ul + 1442695040888963407ul;
  return (unsigned)(seed >> 33) % n;
}

/* ---- reading the kernels
 * ------------------------------------------------------------------------- */

static enum CXChildVisitResult find_global(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  if (clang_getCursorKind(c) == CXCursor_CUDAGlobalAttr)
    *(bool *)data = true;
  return CXChildVisit_Continue;
}

static enum CXChildVisitResult visit(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  (void)data;
  enum CXCursorKind k = clang_getCursorKind(c);
  bool global = false;
  if (clang_Location_isInSystemHeader(clang_getCursorLocation(c)) ||
      (k != CXCursor_FunctionDecl && k != CXCursor_FunctionTemplate))
    return CXChildVisit_Continue;
  clang_visitChildren(c, find_global, &global);
  if (global) {
    CXString s = clang_getCursorSpelling(c);
    fe_kernel_access(c, ir, ir_add_kernel(ir, clang_getCString(s)));
    clang_disposeString(s);
  }
  return CXChildVisit_Continue;
}

/* Fills IR with the kernels of TEXT, which sees the test's folder. */
static void read_kernels(const char *text) {
  const char *top = getenv("top_srcdir");
  char *cuda = fe_find_cuda(NULL), *path = xasprintf("--cuda-path=%s", cuda);
  char *cccl = xasprintf("%s/include/cccl", cuda);
  char *shim = xasprintf("%s/src/frontend/include", top ? top : ".");
  char *here = xasprintf("%s/testsuite/frontend", top ? top : ".");
  const char *args[] = {"-x",
                        "cuda",
                        "-std=c++17",
                        "--cuda-host-only",
                        "-nocudalib",
                        "--cuda-gpu-arch=sm_90",
                        "-Wno-unknown-cuda-version",
                        path,
                        "-isystem",
                        cccl,
                        "-isystem",
                        shim,
                        "-I",
                        here};
  struct CXUnsavedFile file = {"kernels.cu", text, strlen(text)};
  CXIndex index = clang_createIndex(0, 1);
  CXTranslationUnit tu = NULL;
  assert_int_equal(clang_parseTranslationUnit2(index, "kernels.cu", args,
                                               sizeof args / sizeof *args, &file, 1, 0, &tu),
                   CXError_Success);
  for (unsigned i = 0; i < clang_getNumDiagnostics(tu); i++) {
    CXDiagnostic d = clang_getDiagnostic(tu, i);
    assert_true(clang_getDiagnosticSeverity(d) < CXDiagnostic_Error);
    clang_disposeDiagnostic(d);
  }
  ir_free(ir);
  ir = ir_new();
  clang_visitChildren(clang_getTranslationUnitCursor(tu), visit, NULL);
  clang_disposeTranslationUnit(tu);
  clang_disposeIndex(index);
  free(cuda);
  free(path);
  free(cccl);
  free(shim);
  free(here);
}

static int read_all(void **state) {
  (void)state;
  read_kernels("#define UNROLL _Pragma(\"unroll\")\n#define PTR(T) T *\n#define CAST(T, p) "
               "(reinterpret_cast<T *>(p))\n"
               "#include \"kernels.h\"\n");
  return 0;
}

static int drop_all(void **state) {
  (void)state;
  ir_free(ir);
  ir = NULL;
  return 0;
}

static const struct ir_kernel *kernel(const char *name) {
  VEC_EACH(&ir->kernels, k) if (!strcmp(k->name, name)) return k;
  fail_msg("no kernel %s", name);
  return NULL;
}

/* ---- values of expressions
 * ----------------------------------------------------------------------- */

static const struct run_config *config;
static const struct ir_kernel *current;

static long value_of(const char *name) {
  static const char *const dims[] = {"gridDim.", "blockDim."};
  for (int i = 0; i < 2; i++)
    if (!strncmp(name, dims[i], strlen(dims[i])))
      return (i ? config->block : config->grid)[name[strlen(dims[i])] - 'x'];
  if (!strcmp(name, "sizeof(T)"))
    return 4; /* kernel_run.cc uses float and 3 */
  if (!strcmp(name, "W"))
    return 3;
  int n = 0;
  VEC_EACH(&current->params, p) {
    if (!p->pointer && !strcmp(p->name, name))
      return config->ints[n];
    n += !p->pointer;
  }
  fail_msg("%s: unknown symbol %s", current->name, name);
  return 0;
}

static long parse_sum(const char **s);

static long parse_factor(const char **s) {
  while (**s == ' ')
    ++*s;
  if (**s == '(') {
    ++*s;
    long v = parse_sum(s);
    assert_int_equal(**s, ')');
    ++*s;
    return v;
  }
  if (**s == '-') {
    ++*s;
    return -parse_factor(s);
  }
  if (isdigit((unsigned char)**s))
    return strtol(*s, (char **)s, 10);
  const char *b = *s;
  while (isalnum((unsigned char)**s) || **s == '_' || **s == '.')
    ++*s;
  if (**s == '(') /* sizeof(T) */
    *s = strchr(*s, ')') + 1;
  char *name = xstrndup(b, (size_t)(*s - b));
  long v = value_of(name);
  free(name);
  return v;
}

static long parse_product(const char **s) {
  long v = parse_factor(s);
  for (;;) {
    while (**s == ' ')
      ++*s;
    char op = **s;
    if (op != '*' && op != '/')
      return v;
    ++*s;
    long w = parse_factor(s);
    v = op == '*' ? v * w : w ? v / w : 0;
  }
}

static long parse_sum(const char **s) {
  long v = parse_product(s);
  while (**s == '+' || **s == '-') {
    char op = *(*s)++;
    long w = parse_product(s);
    v += op == '+' ? w : -w;
  }
  return v;
}

static long evaluate(const struct ir_expr *e) {
  assert_true(e->affine);
  long v = e->constant;
  VEC_EACH(&e->terms, t) {
    const char *s = t->symbol;
    v += t->coef * parse_sum(&s);
    assert_int_equal(*s, '\0');
  }
  const char *text = e->text; /* what a reader sees means the same */
  assert_int_equal(parse_sum(&text), v);
  return v;
}

/* ---- running
 * ------------------------------------------------------------------------------------- */

static unsigned long outside, inside;
static long shrink; /* planted fault: bytes taken from the end of every range */

static bool range_of(const struct ir_access *a, const unsigned block[3], long *begin, long *end) {
  if (a->kind != IR_ACCESS_AFFINE && a->kind != IR_ACCESS_WHOLE)
    return false;
  *begin = evaluate(&a->base);
  for (int d = 0; d < 3; d++)
    *begin += evaluate(&a->block_coef[d]) * block[d];
  *end = *begin + evaluate(&a->extent) - shrink;
  return true;
}

struct touched {
  unsigned char *bytes; /* of the first exact range, for the last block */
  const struct ir_access *exact;
  int param, write;
};

static void check(void *data, const unsigned block[3], int param, long begin, long end, int write) {
  struct touched *t = data;
  const struct ir_kernel_param *p = &current->params.v[param];
  const struct ir_access *a = write ? &p->write : &p->read;
  long b, e;
  if (a->kind == IR_ACCESS_UNKNOWN)
    return;
  bool ok = range_of(a, block, &b, &e) && begin >= b && end <= e;
  if (ok && *a->all_extent.text) {
    long all = evaluate(&a->all_base);
    ok = begin >= all && end <= all + evaluate(&a->all_extent);
  }
  if (!ok && !outside && !shrink)
    print_message("%s(%s): block %u,%u,%u %s bytes %ld to %ld\n", current->name, p->name, block[0],
                  block[1], block[2], write ? "writes" : "reads", begin, end);
  if (ok)
    inside++;
  else
    outside++;
  if (ok && t->exact && param == t->param && write == t->write && block[0] == config->grid[0] - 1 &&
      block[1] == config->grid[1] - 1)
    memset(t->bytes + (begin - b), 1, (size_t)(end - begin));
}

static void launch(int i) {
  struct run_config c = {{1 + below(4), 1 + below(3), 1},
                         {1 + below(7), 1 + below(5), 1},
                         {(int)below(28), (int)below(28), (int)below(28)}};
  current = kernel(run_name(i));
  config = &c;
  struct touched t = {0};
  VEC_EACH(&current->params, p)
  for (int w = 0; w < 2; w++)
    if ((w ? &p->write : &p->read)->exact) {
      t.exact = w ? &p->write : &p->read;
      t.param = (int)(p - current->params.v);
      t.write = w;
    }
  long size = t.exact ? evaluate(&t.exact->extent) : 0;
  t.bytes = xcalloc((size_t)size + 1, 1);
  run_kernel(i, &c, check, &t);
  for (long j = 0; j < size && !shrink; j++)
    assert_int_equal(t.bytes[j], 1);
  free(t.bytes);
}

static void executions(void **state) {
  (void)state;
  for (int i = 0; run_name(i); i++) {
    outside = inside = 0;
    for (int j = 0; j < LAUNCHES; j++)
      launch(i);
    if (outside)
      fail_msg("%s: %lu accesses outside, %lu inside", run_name(i), outside, inside);
  }
}

/* A claim that is one byte short must be noticed, or the test above proves nothing. */
static void planted_fault(void **state) {
  (void)state;
  static const char *const tight[] = {"copy_exact", "gemm",    "row_norm",  "grid_stride",
                                      "stencil",    "vectors", "templated", "five_points"};
  shrink = 1;
  for (size_t n = 0; n < sizeof tight / sizeof *tight; n++) {
    outside = 0;
    for (int i = 0; run_name(i); i++)
      for (int j = 0; j < LAUNCHES && !strcmp(run_name(i), tight[n]); j++)
        launch(i);
    assert_true(outside > 0);
  }
  shrink = 0;
}

/* ---- what is derived
 * ----------------------------------------------------------------------------- */

static const struct ir_kernel_param *param(const char *k, const char *name) {
  VEC_EACH(&kernel(k)->params, p) if (!strcmp(p->name, name)) return p;
  fail_msg("%s has no parameter %s", k, name);
  return NULL;
}

static void expect(const char *k, const char *name, bool write, enum ir_access_kind kind,
                   const char *x, const char *y, const char *base, const char *extent) {
  const struct ir_kernel_param *p = param(k, name);
  const struct ir_access *a = write ? &p->write : &p->read;
  if (a->kind != kind)
    fail_msg("%s(%s): %s of kind %d, not %d", k, name, write ? "write" : "read", (int)a->kind,
             (int)kind);
  if (kind != IR_ACCESS_AFFINE && kind != IR_ACCESS_WHOLE)
    return;
  assert_string_equal(a->block_coef[0].text, x);
  assert_string_equal(a->block_coef[1].text, y);
  assert_string_equal(a->block_coef[2].text, "0");
  assert_string_equal(a->base.text, base);
  assert_string_equal(a->extent.text, extent);
}

#define AFFINE(k, p, w, ...) expect(k, p, w, IR_ACCESS_AFFINE, __VA_ARGS__)
#define WHOLE(k, p, w, ...) expect(k, p, w, IR_ACCESS_WHOLE, "0", "0", __VA_ARGS__)
#define NOTHING(k, p, w) expect(k, p, w, IR_ACCESS_NONE, "", "", "", "")
#define UNKNOWN(k, p, w) expect(k, p, w, IR_ACCESS_UNKNOWN, "", "", "", "")

static void affine(void **state) {
  (void)state;
  AFFINE("copy_guarded", "y", true, "4*blockDim.x", "0", "0", "4*blockDim.x");
  AFFINE("copy_guarded", "x", false, "4*blockDim.x", "0", "0", "4*blockDim.x");
  NOTHING("copy_guarded", "x", true);
  NOTHING("copy_guarded", "y", false);
  assert_false(param("copy_guarded", "y")->write.exact);
  assert_true(param("copy_exact", "y")->write.exact);
  assert_false(param("copy_guarded", "n")->pointer);
  AFFINE("stencil", "x", false, "4*blockDim.x", "0", "-4", "4*blockDim.x + 8");
  AFFINE("gemm", "a", false, "0", "16*k", "0", "4*blockDim.y*k");
  AFFINE("gemm", "b", false, "16", "0", "0", "4*blockDim.x + 4*k*n - 4*n");
  AFFINE("gemm", "c", true, "16", "16*n", "0", "4*blockDim.x + 4*blockDim.y*n - 4*n");
  AFFINE("gemm_tiled", "a", false, "0", "16*k", "0", "4*blockDim.y*k");
  AFFINE("gemm_tiled", "b", false, "16", "0", "0", "4*blockDim.x + 4*k*n - 4*n");
  AFFINE("row_norm", "x", false, "4*cols", "0", "0", "4*cols");
  AFFINE("row_norm", "norm", true, "4", "0", "0", "4");
  AFFINE("vectors", "x", false, "16*blockDim.x", "0", "0", "16*blockDim.x");
  AFFINE("unroll", "x", false, "16*blockDim.x", "0", "0", "16*blockDim.x");
  AFFINE("unroll", "y", true, "4*blockDim.x", "0", "0", "4*blockDim.x");
  AFFINE("gather_rows", "index", false, "4*blockDim.x", "0", "0", "4*blockDim.x");
  AFFINE("helpers", "y", true, "8*blockDim.x", "0", "4", "8*blockDim.x - 4");
  AFFINE("templated", "y", true, "W*blockDim.x*sizeof(T)", "0", "0", "W*blockDim.x*sizeof(T)");
}

static void whole(void **state) {
  (void)state;
  WHOLE("grid_stride", "y", true, "0", "4*n");
  WHOLE("grid_stride", "x", false, "0", "4*n");
  WHOLE("grid_stride_size", "x", false, "4", "4*n - 4");
  WHOLE("unrolled_tail", "y", true, "0", "4*n");
  WHOLE("backwards", "x", false, "0", "4*n");
  WHOLE("histogram", "bins", true, "0", "1024");
  WHOLE("modulo", "bias", false, "0", "4*n"); /* or 4*width: neither is always smaller */
  WHOLE("masked", "x", false, "0", "32");
  assert_true(param("histogram", "bins")->atomic);
  assert_false(param("histogram", "x")->atomic);
}

static void all_blocks(const char *k, const char *name, bool write, const char *base,
                       const char *extent) {
  const struct ir_kernel_param *p = param(k, name);
  const struct ir_access *a = write ? &p->write : &p->read;
  assert_string_equal(a->all_base.text, base);
  assert_string_equal(a->all_extent.text, extent);
}

/* What all blocks of a launch touch: guards count, also where they say nothing of one block. */
static void all(void **state) {
  (void)state;
  all_blocks("copy_guarded", "y", true, "0", "4*n");
  all_blocks("copy_exact", "y", true, "0", "4*blockDim.x*gridDim.x");
  all_blocks("gemm", "a", false, "0", "4*k*m");
  all_blocks("gemm", "b", false, "0", "4*k*n");
  all_blocks("gemm", "c", true, "0", "4*m*n");
  all_blocks("grid_stride", "y", true, "0", "4*n");
  all_blocks("row_norm", "x", false, "0", "4*cols*gridDim.x");
  all_blocks("gather_rows", "x", false, "", "");
  all_blocks("copy_guarded", "x", true, "", "");
}

static void unknown(void **state) {
  (void)state;
  UNKNOWN("gather_rows", "x", false);
  NOTHING("gather_rows", "x", true);
  UNKNOWN("swapped", "a", true);
  UNKNOWN("swapped", "b", false);
  UNKNOWN("recursive", "y", true);
  UNKNOWN("misled", "y", true);
  UNKNOWN("do_while", "y", true);
}

/* Claimed from BASE at most. */
static void from(const char *k, const char *name, const char *base) {
  const struct ir_access *a = &param(k, name)->write;
  if (a->kind != IR_ACCESS_UNKNOWN)
    assert_string_equal(a->base.text, base);
}

/* Code that must never be claimed to be understood. */
static void hostile(void **state) {
  (void)state;
  read_kernels("#include <cooperative_groups.h>\n"
               "struct view { float *p; int n; __device__ float &at(int i) { return p[i]; } };\n"
               "__device__ int hits; __constant__ float table[4]; constexpr float scale = 2;\n"
               "__device__ float *hidden;\n"
               "__device__ void elsewhere(float *p);\n"
               "__global__ void by_struct(view v, float *y) { v.at(3) = 1; y[0] = scale; }\n"
               "__global__ void pointers(float **rows, int *n) { rows[1][2] = n[0]; }\n"
               "__global__ void escapes(float *x, const float *c) { elsewhere(x); x[0] = c[0]; }\n"
               "__global__ void globals(float *y) { atomicAdd(&hits, 1); y[0] = table[1]; }\n"
               "__global__ void through_global(float *y) { hidden[0] = 1; }\n"
               "__global__ void stored(float *y) { hidden = y; }\n"
               "__global__ void jumps(float *y, int n) { l: y[n] = 1; if (y[0] > 0) goto l; }\n"
               "__global__ void assembly(float *y) { asm volatile(\"st.f32 [%0], 0f00000000;\" :: "
               "\"l\"(y)); }\n"
               "__global__ void unconst(const float *x) { *(float *)x = 1; }\n"
               "__global__ void lambda(float *y) { auto f = [=](int i) { y[i] = 1; }; f(3); }\n"
               "__global__ void cast(float *y, long a) { *(float *)a = 1; }\n"
               "__global__ void synced(float *y) {\n"
               "  cooperative_groups::this_grid().sync(); y[threadIdx.x] = 1; }\n"
               "__global__ void local_array(float *y) { float *p[2] = {y, y}; p[1][7] = 1; }\n"
               "__global__ void address_taken(float *y, int n) {\n"
               "  int i = threadIdx.x; int *p = &i; if (i < n) { *p = 1000; y[i] = 1; } }\n"
               "__global__ void declared(float *y);\n"
               "template <class T> __global__ void functor(T f, float *y) { f(y); }\n"
               "struct two { int a, b; };\n"
               "__device__ two pair(const float *x) { return {(int)x[9], 2}; }\n"
               "__global__ void bindings(float *y) { auto [a, b] = pair(y); y[b] = a; }\n"
               "template <class I> __global__ void index_type(float *y, I n) {\n"
               "  int i = (int)threadIdx.x - 5; if (n <= i) y[i] = 1; }\n"
               "__device__ int min(float *p, int n) { p[n] = 1; return n; }\n"
               "template <class T> __global__ void own_min(float *y, T n) { min(y, (int)n); }\n"
               "template <class T> __device__ void count(T *p, int i) { hits++; p[i] = 0; }\n"
               "template <class T> __global__ void overloaded(T *y) { count(y, 1); }\n");
  UNKNOWN("by_struct", "v", true);
  WHOLE("by_struct", "y", true, "0", "4");
  assert_true(param("by_struct", "v")->pointer);
  assert_int_equal(kernel("by_struct")->device_globals.n, 0);
  UNKNOWN("pointers", "rows", true);
  WHOLE("pointers", "n", false, "0", "4");
  UNKNOWN("escapes", "x", true);
  UNKNOWN("escapes", "x", false);
  WHOLE("escapes", "c", false, "0", "4");
  assert_int_equal(kernel("globals")->device_globals.n, 2);
  WHOLE("globals", "y", true, "0", "4");
  UNKNOWN("through_global", "y", true);
  UNKNOWN("stored", "y", true);
  UNKNOWN("jumps", "y", true);
  UNKNOWN("assembly", "y", true);
  WHOLE("unconst", "x", true, "0", "4");
  UNKNOWN("lambda", "y", true);
  UNKNOWN("cast", "y", true);
  UNKNOWN("local_array", "y", true);
  UNKNOWN("address_taken", "y", true);
  UNKNOWN("declared", "y", true);
  UNKNOWN("functor", "y", true);
  UNKNOWN("functor", "f", true);
  UNKNOWN("bindings", "y", true);
  from("index_type", "y", "-20");
  UNKNOWN("own_min", "y", true);
  UNKNOWN("overloaded", "y", true);
  assert_int_equal(kernel("overloaded")->device_globals.n, 1);
  assert_true(kernel("declared")->opaque);
  assert_true(kernel("synced")->grid_sync);
  assert_false(kernel("globals")->grid_sync);
}

int main(void) {
  char *cuda = fe_find_cuda(NULL);
  if (!cuda) {
    printf("1..0 # SKIP no CUDA toolkit\n");
    return 0;
  }
  free(cuda);
  const struct CMUnitTest tests[] = {cmocka_unit_test(affine),     cmocka_unit_test(whole),
                                     cmocka_unit_test(all),        cmocka_unit_test(unknown),
                                     cmocka_unit_test(executions), cmocka_unit_test(planted_fault),
                                     cmocka_unit_test(hostile)};
  return cmocka_run_group_tests(tests, read_all, drop_all);
}
