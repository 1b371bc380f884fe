// SPDX-License-Identifier: Apache-2.0
/* Programs that run beside us: output, time limits, process groups, environment, sandbox. */
#include "lib/unit.h"
#include "driver/process.h"
#include "driver/sandbox.h"
#include "support/io.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void shell(struct arg_list *words, const char *script) {
  args_add(words, "/bin/sh");
  args_add(words, "-c");
  args_add(words, script);
}

static struct process run(const char *script, double timeout, bool limited, const char *scratch) {
  struct arg_list words = {0};
  shell(&words, script);
  struct process p;
  struct process_spec spec = {.words = &words, .timeout = timeout, .limited = limited, .scratch = scratch, .dir = scratch};
  assert_true(process_complete(&p, &spec));
  args_free(&words);
  return p;
}

static void output_and_status(void **state) {
  (void)state;
  struct process p = run("echo one; echo two >&2; exit 7", 10, false, NULL);
  assert_int_equal(p.status, 7);
  assert_string_equal(p.output.s, "one\ntwo\n");
  assert_false(p.timed_out);
  process_free(&p);
  p = run("kill -SEGV $$", 10, false, NULL);
  assert_int_equal(p.status, 128 + SIGSEGV);
  process_free(&p);
  p = run("yes | head -c 3000000", 20, false, NULL); /* more than is kept, but the program comes to its end */
  assert_int_equal(p.status, 0);
  assert_int_equal(p.output.n, PROCESS_OUTPUT);
  process_free(&p);
  struct arg_list words = {0};
  args_add(&words, "/nowhere/program");
  assert_false(process_start(&p, &(struct process_spec){.words = &words, .timeout = 1}));
  assert_int_equal(errno, ENOENT);
  process_free(&p);
  args_free(&words);
}

static bool alive(long pid) {
  char path[64], text[256] = "";
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f)
    fclose(f);
  const char *s = n ? strrchr(text, ')') : NULL;
  return s && s[2] != 'Z' && s[2] != 'X';
}

static bool ends(long pid) {
  for (int i = 0; i < 100 && alive(pid); i++)
    usleep(20000);
  return !alive(pid);
}

/* Children of what is late end with it, those that ignore signals and those in the background too. */
static void late_groups_are_killed(void **state) {
  (void)state;
  double begin = process_now();
  struct process p = run("trap '' TERM INT HUP; sleep 100 & echo $!; (trap '' TERM; sleep 100) & echo $!; wait", 0.7,
                         false, NULL);
  assert_true(p.timed_out);
  assert_true(process_now() - begin < 20);
  long a, b;
  assert_int_equal(sscanf(p.output.s, "%ld %ld", &a, &b), 2);
  assert_true(ends(a) && ends(b));
  process_free(&p);
  /* and what a program leaves behind when it ends by itself */
  p = run("sleep 100 & echo $!", 10, false, NULL);
  assert_false(p.timed_out);
  assert_int_equal(sscanf(p.output.s, "%ld", &a), 1);
  assert_true(ends(a));
  process_free(&p);
}

static void several_at_a_time(void **state) {
  (void)state;
  enum { N = 4 };
  struct process p[N], *list[N];
  struct arg_list words = {0};
  shell(&words, "sleep 0.5");
  double begin = process_now();
  for (int i = 0; i < N; i++) {
    list[i] = &p[i];
    assert_true(process_start(&p[i], &(struct process_spec){.words = &words, .timeout = 20}));
  }
  for (bool any = true; any;) {
    process_wait(list, N, 1000);
    any = false;
    for (int i = 0; i < N; i++)
      any |= p[i].pid != 0;
  }
  assert_true(process_now() - begin < 1.8);
  for (int i = 0; i < N; i++)
    process_free(&p[i]);
  args_free(&words);
}

static void secrets_stay_here(void **state) {
  (void)state;
  setenv("OPENAI_API_KEY", "secret-1", 1);
  setenv("NCCL_SECRET_TOKEN", "secret-2", 1);
  setenv("NCCL_DEBUG", "harmless", 1);
  struct process p = run("env; ulimit -c", 10, true, NULL);
  assert_null(strstr(p.output.s, "secret-"));
  assert_non_null(strstr(p.output.s, "harmless"));
  assert_non_null(strstr(p.output.s, "PATH="));
  assert_string_equal(p.output.s + p.output.n - 3, "\n0\n");
  process_free(&p);
  unsetenv("OPENAI_API_KEY");
  unsetenv("NCCL_SECRET_TOKEN");
}

static void sandboxed(void **state) {
  (void)state;
  if (!sandbox_available())
    skip();
  const char *temp = io_temp_dir();
  assert_non_null(temp);
  char *outside = xasprintf("%s/outside", temp), *dir = xasprintf("%s/inside", temp),
       *script = xasprintf("echo a > x; echo b > %s; [ $(grep -c : /proc/net/dev) -le 1 ]", outside);
  assert_int_equal(mkdir(dir, 0700), 0);
  struct arg_list inner = {0}, words = {0};
  shell(&inner, script);
  sandbox_wrap(&words, &inner, dir, dir, false);
  struct process p;
  assert_true(process_complete(&p, &(struct process_spec){.words = &words, .dir = dir, .timeout = 20, .limited = true}));
  assert_int_equal(p.status, 0);
  char *written = xasprintf("%s/x", dir);
  assert_int_equal(access(written, R_OK), 0);
  assert_int_not_equal(access(outside, F_OK), 0);
  process_free(&p);
  args_free(&inner);
  args_free(&words);
  free(outside), free(dir), free(script), free(written);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(output_and_status), cmocka_unit_test(late_groups_are_killed),
                                     cmocka_unit_test(several_at_a_time), cmocka_unit_test(secrets_stay_here),
                                     cmocka_unit_test(sandboxed)};
  return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
