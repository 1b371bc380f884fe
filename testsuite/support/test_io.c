// SPDX-License-Identifier: Apache-2.0
#include "lib/unit.h"
#include "support/io.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static char *in_dir(const char *name) { return xasprintf("%s/%s", dir, name); }

static int count_files(void) {
  DIR *d = opendir(dir);
  int n = 0;
  for (struct dirent *e; (e = readdir(d));)
    n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
  closedir(d);
  return n;
}

static int setup(void **state) {
  (void)state;
  strcpy(dir, "/tmp/test_io.XXXXXX");
  return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  char *command = xasprintf("rm -rf %s", dir);
  int status = system(command);
  free(command);
  return status;
}

static void expect_content(const char *path, const char *bytes, size_t n) {
  struct strbuf b = {0};
  assert_int_equal(io_read_file(path, &b), 0);
  assert_int_equal(b.n, n);
  assert_memory_equal(b.s, bytes, n);
  sb_free(&b);
}

static void round_trip(void **state) {
  (void)state;
  char *path = in_dir("a");
  static char bytes[300000];
  srand(1);
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (char)rand();
  assert_int_equal(io_write_file(path, bytes, sizeof bytes), 0);
  expect_content(path, bytes, sizeof bytes);
  assert_int_equal(io_write_file(path, "", 0), 0);
  expect_content(path, "", 0);
  assert_int_equal(count_files(), 1);
  free(path);
}

static void keeps_mode_and_link(void **state) {
  (void)state;
  char *path = in_dir("real"), *link = in_dir("link");
  assert_int_equal(io_write_file(path, "1", 1), 0);
  assert_int_equal(chmod(path, 0640), 0);
  assert_int_equal(symlink("real", link), 0);
  assert_int_equal(io_write_file(link, "22", 2), 0);
  struct stat st;
  assert_int_equal(lstat(link, &st), 0);
  assert_true(S_ISLNK(st.st_mode));
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0640);
  expect_content(path, "22", 2);
  unlink(path); /* a dangling link */
  assert_int_equal(io_write_file(link, "333", 3), 0);
  expect_content(path, "333", 3);
  free(path);
  free(link);
}

static void fresh_file_obeys_umask(void **state) {
  (void)state;
  char *path = in_dir("fresh");
  mode_t old = umask(027);
  assert_int_equal(io_write_file(path, "x", 1), 0);
  umask(old);
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0640);
  free(path);
}

static void errors_leave_everything(void **state) {
  (void)state;
  struct strbuf b = {0};
  assert_int_equal(io_read_file(dir, &b), EISDIR);
  assert_int_equal(io_read_file("/nonexistent/x", &b), ENOENT);
  sb_free(&b);
  int before = count_files();
  assert_int_equal(io_write_file(dir, "x", 1), EISDIR);
  assert_int_equal(io_write_file("/nonexistent/x", "x", 1), ENOENT);
  assert_int_equal(io_write_file("/dev/full", "x", 1), ENOSPC);
  assert_int_equal(io_write_file("/dev/null", "x", 1), 0);
  assert_int_equal(count_files(), before);
}

/* A full disk: the limit on file size stands for it. */
static void full_disk_keeps_the_old_file(void **state) {
  (void)state;
  char *path = in_dir("kept");
  assert_int_equal(io_write_file(path, "old", 3), 0);
  int before = count_files();
  pid_t pid = fork();
  if (pid == 0) {
    signal(SIGXFSZ, SIG_IGN);
    static char big[1 << 20];
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    _exit(setrlimit(RLIMIT_FSIZE, &limit) != 0 || io_write_file(path, big, sizeof big) != EFBIG);
  }
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  expect_content(path, "old", 3);
  assert_int_equal(count_files(), before);
  free(path);
}

/* A signal in the middle: no temporary file or folder stays. */
static void signal_cleans_up(void **state) {
  (void)state;
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  pid_t pid = fork();
  if (pid == 0) {
    io_install_signal_handlers();
    setenv("TMPDIR", dir, 1);
    const char *temp = io_temp_dir();
    char *inner = xasprintf("%s/sub", temp);
    mkdir(inner, 0700);
    char *file = xasprintf("%s/file", inner);
    io_write_file(file, "x", 1);
    if (write(fds[1], "k", 1) != 1)
      _exit(9);
    for (;;)
      pause();
  }
  char c;
  assert_int_equal(read(fds[0], &c, 1), 1);
  int with = count_files();
  kill(pid, SIGTERM);
  int status = 0;
  waitpid(pid, &status, 0);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGTERM);
  for (int i = 0; i < 200 && count_files() == with; i++)
    usleep(10000);
  assert_int_equal(count_files(), with - 1);
  close(fds[0]);
  close(fds[1]);
}

static void names(void **state) {
  (void)state;
  static const struct {
    const char *path, *dir, *base;
  } cases[] = {{"a", ".", "a"},        {"a/b", "a", "b"},    {"/a", "/", "a"},   {"/", "/", "/"},
               {"a//b//", "a", "b"},   {"/a/b/c", "/a/b", "c"}, {"", ".", ""},  {"./x.cu", ".", "x.cu"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *d = io_dirname(cases[i].path), *b = io_basename(cases[i].path);
    assert_string_equal(d, cases[i].dir);
    assert_string_equal(b, cases[i].base);
    free(d);
    free(b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),
      cmocka_unit_test(keeps_mode_and_link),
      cmocka_unit_test(fresh_file_obeys_umask),
      cmocka_unit_test(errors_leave_everything),
      cmocka_unit_test(full_disk_keeps_the_old_file),
      cmocka_unit_test(signal_cleans_up),
      cmocka_unit_test(names),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
