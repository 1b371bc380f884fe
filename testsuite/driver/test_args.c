// SPDX-License-Identifier: Apache-2.0
/* Words, response files, nvcc's command line, makefile rules. */
#include "driver/args.h"
#include "driver/depfile.h"
#include "driver/nvcc_args.h"
#include "driver/options.h"
#include "lib/unit.h"
#include "support/io.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *joined(struct arg_list *a) {
  struct strbuf b = {0};
  args_quote(&b, a);
  args_free(a);
  return sb_take(&b);
}

static void expect_words(struct arg_list *got, const char *want) {
  char *s = joined(got);
  assert_string_equal(s, want);
  free(s);
}

static void splitting(void **state) {
  (void)state;
  struct arg_list a = {0};
  args_split(&a, "  a 'b c' \"d \\\" e\" f\\ g '' x'y'z\n-D'A=\"1\"'\t");
  expect_words(&a, "a 'b c' 'd \" e' 'f g' '' xyz '-DA=\"1\"'");
}

static void response_files(void **state) {
  (void)state;
  char dir[] = "/tmp/test_args.XXXXXX";
  assert_non_null(mkdtemp(dir));
  char *one = xasprintf("%s/one", dir), *loop = xasprintf("%s/loop", dir);
  char *text = xasprintf("-DA @%s/two 'x y'", dir), *two = xasprintf("%s/two", dir);
  char *self = xasprintf("@%s", loop);
  io_write_file(one, text, strlen(text));
  io_write_file(two, "-DB\n", 4);
  io_write_file(loop, self, strlen(self));
  struct arg_list a = {0};
  char *why = NULL, *at_one = xasprintf("@%s", one);
  char *argv[] = {(char *)"cucocc", at_one, (char *)"--", (char *)"@untouched"};
  assert_true(args_expand(&a, 4, argv, &why));
  expect_words(&a, "cucocc -DA -DB 'x y' -- @untouched");
  char *bad[] = {(char *)"cucocc", self};
  assert_false(args_expand(&a, 2, bad, &why));
  free(why);
  char *missing[] = {(char *)"cucocc", (char *)"@/nonexistent"};
  assert_false(args_expand(&a, 2, missing, &why));
  assert_non_null(strstr(why, "/nonexistent"));
  free(why);
  args_free(&a);
  unlink(one);
  unlink(two);
  unlink(loop);
  rmdir(dir);
  free(one);
  free(two);
  free(loop);
  free(text);
  free(self);
  free(at_one);
}

/* What a command line means for clang. */
static void to_clang(void **state) {
  (void)state;
  static const struct {
    const char *words, *clang;
  } cases[] = {
      {"-Ia -I b --include-path=c --include-path d -I=e", "-Ia -Ib -Ic -Id -Ie"},
      {"-DX=1 -D Y --define-macro=Z -UX --undefine-macro Y", "-DX=1 -DY -DZ -UX -UY"},
      {"-DF(a,b)=a", "'-DF(a,b)=a'"},
      {"-std=c++17", "-std=c++17"},
      {"-std c++20", "-std=c++20"},
      {"--std=c++14", "-std=c++14"},
      {"--std c++17", "-std=c++17"},
      {"-isystem s -isystem=t --system-include u,v", "-isystem s -isystem t -isystem u -isystem v"},
      {"-include p.h --pre-include=q.h", "-include p.h -include q.h"},
      {"-arch=sm_90 -arch sm_80 --gpu-architecture=sm_90 --gpu-architecture sm_70", ""},
      {"-gencode arch=compute_90,code=sm_90 -gencode=arch=compute_80,code=sm_80", ""},
      {"--generate-code arch=compute_90,code=[sm_90,compute_90]", ""},
      {"-Xcompiler -Wall,-fopenmp,-DQ=2", "-fopenmp -DQ=2"},
      {"-Xcompiler=-Wall -Xcompiler \"-I inc -O2\" --compiler-options -fno-exceptions",
       "-I inc -fno-exceptions"},
      {"-Xcompiler -isystem,sys,-pthread", "-isystem sys -pthread"},
      {"-ccbin g++ --compiler-bindir=/usr/bin/g++ -O3 -O 2 -g -G -lineinfo", "-D__CUDACC_DEBUG__"},
      {"--expt-relaxed-constexpr -extended-lambda",
       "-D__CUDACC_RELAXED_CONSTEXPR__ -D__CUDACC_EXTENDED_LAMBDA__"},
      {"-rdc=true -rdc true --relocatable-device-code=false -dc",
       "-D__CUDACC_RDC__ -D__CUDACC_RDC__ -D__CUDACC_RDC__"},
      {"-lnccl -L/usr/lib -L /x -l mpi --library=m -Xlinker -rpath,/x -Xptxas -v", ""},
      {"-m64 -t4 -t 0 --threads=2 -x cu -maxrregcount=64 --use_fast_math -cudart=shared", ""},
      {"-default-stream per-thread --default-stream=legacy", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1"},
      {"-Xcudafe --diag_suppress=177 -diag-suppress 20012 -Wno-deprecated-gpu-targets", ""},
      {"-fopenmp -march=native -pthread", "-fopenmp -pthread"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arg_list words = {0};
    args_split(&words, cases[i].words);
    struct nvcc_command c = {0};
    char *why = NULL;
    assert_true(nvcc_command_parse(&c, words.n, words.v, &why));
    assert_int_equal(c.inputs.n, 0);
    struct arg_list clang = c.clang;
    c.clang = (struct arg_list){0};
    expect_words(&clang, cases[i].clang);
    nvcc_command_free(&c);
    /* the same words in our own command line: nothing is refused */
    struct options o = {0};
    FILE *sink = fopen("/dev/null", "w");
    struct diag_engine *d = diag_new(sink);
    struct arg_list ours = {0};
    args_add(&ours, "cucocc");
    args_append(&ours, &words);
    args_add(&ours, "in.cu");
    assert_int_equal(options_parse(&o, (int)ours.n, ours.v, d), OPTIONS_RUN);
    assert_int_equal(diag_warnings(d), 0);
    assert_int_equal(o.inputs.n, 1);
    expect_words(&o.clang_args, cases[i].clang);
    diag_free(d);
    fclose(sink);
    options_free(&o);
    args_free(&ours);
    args_free(&words);
  }
}

static void commands(void **state) {
  (void)state;
  struct arg_list words = {0};
  args_split(&words, "-O3 -c in.cu -o obj/in.o -MD -MF in.d -x cu other.cpp lib.o");
  struct nvcc_command c = {0};
  char *why = NULL;
  assert_true(nvcc_command_parse(&c, words.n, words.v, &why));
  assert_int_equal(c.inputs.n, 2);
  assert_string_equal(c.words.v[c.inputs.v[0]], "in.cu");
  assert_string_equal(c.words.v[c.inputs.v[1]], "other.cpp");
  assert_string_equal(c.output, "obj/in.o");
  assert_string_equal(c.dep_file, "in.d");
  assert_true(c.object && c.deps && !c.no_code);
  nvcc_command_free(&c);
  args_free(&words);
  static const char *const programs[] = {"nvcc", "/usr/local/cuda/bin/nvcc", "nvcc-13.0",
                                         "x86_64-linux-gnu-nvcc", "nvcc_wrapper"};
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    assert_true(nvcc_is_program(programs[i]));
  static const char *const others[] = {"in.cu", "nvcc.cu", "mynvccx", "-", "nvccx"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_false(nvcc_is_program(others[i]));
}

static void makefile_rules(void **state) {
  (void)state;
  struct arg_list targets = {0};
  args_add(&targets, "a b.o");
  char *headers[] = {(char *)"/usr/include/x.h", (char *)"my dir/$h#.h", (char *)"/cuda/include/c.h"};
  const char *const system_dirs[] = {"/cuda", NULL};
  struct depfile d = {.targets = &targets, .input = "in.cu", .headers = headers, .n_headers = 3};
  struct strbuf b = {0};
  depfile_format(&b, &d);
  assert_string_equal(b.s, "a\\ b.o: in.cu \\\n  /usr/include/x.h \\\n  my\\ dir/$$h\\#.h \\\n"
                           "  /cuda/include/c.h\n");
  sb_free(&b);
  d.skip_system = d.phony = true;
  d.system_dirs = system_dirs;
  depfile_format(&b, &d);
  assert_string_equal(b.s, "a\\ b.o: in.cu \\\n  my\\ dir/$$h\\#.h\n\nmy\\ dir/$$h\\#.h:\n");
  sb_free(&b);
  depfile_replace(&b, "x.o : /tmp/t/a.cu /tmp/t/a.cuh \\\n /tmp/t/a.cu\n", "/tmp/t/a.cu", "src/a.cu");
  assert_string_equal(b.s, "x.o : src/a.cu /tmp/t/a.cuh \\\n src/a.cu\n");
  sb_free(&b);
  args_free(&targets);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(splitting), cmocka_unit_test(response_files), cmocka_unit_test(to_clang),
      cmocka_unit_test(commands),  cmocka_unit_test(makefile_rules),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
