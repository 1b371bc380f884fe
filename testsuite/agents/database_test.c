// SPDX-License-Identifier: Apache-2.0
/* The database of a search: what was written is found again, whoever wrote it and however it ended. */
#include "lib/unit.h"
#include "agents/evolve/database.h"
#include "agents/landscape.h"
#include "support/strbuf.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct evo_db_run a_run = {.version = "1", .input = "in.cu", .program = "p1", .settings = "{\"seed\":1}",
                                        .machine = "{}", .environment = "{}", .assumptions = "{}"};
static char path[64];

static int fresh(void **state) {
  (void)state;
  snprintf(path, sizeof path, "/tmp/cucocc-db.XXXXXX");
  int fd = mkstemp(path);
  return fd < 0 || close(fd) != 0 || unlink(path) != 0;
}

static int gone(void **state) {
  (void)state;
  static const char *const suffixes[] = {"", "-wal", "-shm"};
  for (int i = 0; i < 3; i++) {
    char *name = xasprintf("%s%s", path, suffixes[i]);
    unlink(name);
    free(name);
  }
  return 0;
}

static struct evo_db *must_open(void) {
  char why[256] = "";
  struct evo_db *db = evo_db_open(path, why, sizeof why);
  if (!db)
    print_error("%s\n", why);
  assert_non_null(db);
  return db;
}

static void add(struct evo_db *db, int64_t run, const struct evo_space *space, int serial, int gene) {
  int genome[LANDSCAPE_GENES] = {1, 0, gene, 0, 0, 0};
  struct evo_candidate c = {.serial = serial, .origin = EVO_ORIGIN_MUTATION, .genome = genome,
                            .parents = {serial - 1, -1}, .predicted = NAN, .score = NAN};
  assert_true(evo_db_candidate(db, run, space, &c, "{}"));
}

static void round_trip(void **state) {
  (void)state;
  struct landscape l = {0};
  landscape_init(&l, 1);
  struct evo_db *db = must_open();
  int64_t run = evo_db_begin_run(db, &a_run);
  assert_true(run > 0);
  add(db, run, &l.space, 0, 3);
  add(db, run, &l.space, 0, 3); /* the same is no error */
  assert_null(evo_db_error(db));
  int64_t id = evo_db_evaluation(db, run, 0, &(struct evo_db_evaluation){.stage = "compile", .outcome = "failed",
                                 .attempt = 1, .diagnostics = "it's \"bad\"", .value = NAN});
  assert_true(id > 0);
  id = evo_db_evaluation(db, run, 0, &(struct evo_db_evaluation){.stage = "compile", .outcome = "ok",
                         .attempt = 2, .diagnostics = "", .value = 0.125});
  assert_true(evo_db_timing(db, id, "candidate", 0, 0.5));
  assert_true(evo_db_code(db, run, 0, "h", "int main(){}"));
  assert_true(evo_db_generation(db, run, 0, 1, 0, 2.5, 1, "abc", 0.1));
  evo_db_close(db);

  db = must_open();
  char *outcome, *diagnostics, *text;
  double value;
  assert_int_equal(evo_db_find_evaluation(db, run, 0, "compile", &outcome, &diagnostics, &value), 1);
  assert_string_equal(outcome, "ok");
  assert_true(value == 0.125);
  free(outcome), free(diagnostics);
  assert_int_equal(evo_db_find_evaluation(db, run, 0, "verify", &outcome, &diagnostics, &value), 0);
  text = evo_db_random_state(db, run, 0);
  assert_string_equal(text, "abc");
  free(text);
  assert_null(evo_db_random_state(db, run, 1));
  assert_null(evo_db_error(db));
  /* another genome under the same number: this is not the run that it was */
  int genome[LANDSCAPE_GENES] = {2};
  struct evo_candidate c = {.genome = genome, .parents = {-1, -1}, .predicted = NAN};
  assert_false(evo_db_candidate(db, run, &l.space, &c, "{}"));
  assert_string_equal(evo_db_error(db), "differs");
  evo_db_close(db);
}

static void foreign_files_are_refused(void **state) {
  (void)state;
  char why[256];
  FILE *f = fopen(path, "w");
  for (int i = 0; i < 200; i++)
    fputs("this is no database\n", f);
  fclose(f);
  assert_null(evo_db_open(path, why, sizeof why));
  assert_true(*why);
  assert_null(evo_db_open("/nowhere/at/all", why, sizeof why));
}

/* A run is resumed when its owner is dead, and not while it lives. */
static void owners(void **state) {
  (void)state;
  int ready[2], go[2];
  char c, *settings;
  assert_int_equal(pipe(ready) | pipe(go), 0);
  pid_t pid = fork();
  if (pid == 0) {
    struct evo_db *db = must_open();
    evo_db_begin_run(db, &a_run);
    c = 'r';
    if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) < 0)
      _exit(1);
    _exit(0); /* not reached: killed */
  }
  assert_int_equal(read(ready[0], &c, 1), 1);
  struct evo_db *db = must_open();
  assert_int_equal(evo_db_resume_run(db, "p1", &settings), 0);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  assert_int_equal(evo_db_resume_run(db, "other", &settings), 0);
  int64_t run = evo_db_resume_run(db, "p1", &settings);
  assert_true(run > 0);
  assert_string_equal(settings, a_run.settings);
  free(settings);
  assert_int_equal(evo_db_resume_run(db, "p1", &settings), 0); /* it is ours now, and we live */
  assert_true(evo_db_end_run(db, run, "interrupted", -1, ""));
  assert_int_equal(evo_db_resume_run(db, "p1", &settings), run);
  free(settings);
  assert_null(evo_db_error(db));
  evo_db_close(db);
  close(ready[0]), close(ready[1]), close(go[0]), close(go[1]);
}

/* Several processes write at the same time, one of them is killed in the middle; nothing committed is lost. */
static void many_writers(void **state) {
  (void)state;
  enum { WRITERS = 4, EACH = 60 };
  pid_t pids[WRITERS];
  evo_db_close(must_open());
  for (int w = 0; w < WRITERS; w++) {
    pids[w] = fork();
    if (pids[w])
      continue;
    struct landscape l = {0};
    landscape_init(&l, 1);
    char why[256];
    struct evo_db *db = evo_db_open(path, why, sizeof why);
    int64_t run = db ? evo_db_begin_run(db, &a_run) : -1;
    for (int i = 0; i < EACH && run > 0; i++) {
      if (w == 0 && i == EACH / 2)
        raise(SIGKILL);
      int genome[LANDSCAPE_GENES] = {1, 0, i % 9, i / 9, 0, 0};
      struct evo_candidate k = {.serial = i, .genome = genome, .parents = {-1, -1}, .predicted = i, .score = i,
                                .state = EVO_SCORED};
      if (!evo_db_begin(db) || !evo_db_candidate(db, run, &l.space, &k, "{}") || !evo_db_score(db, run, &k) ||
          !evo_db_commit(db))
        _exit(1);
      if (evo_db_evaluation(db, run, i, &(struct evo_db_evaluation){.stage = "verify", .outcome = "ok",
                                                                    .value = NAN}) < 0)
        _exit(1);
    }
    _exit(run > 0 && !evo_db_error(db) ? 0 : 1);
  }
  for (int w = 0; w < WRITERS; w++) {
    int status;
    waitpid(pids[w], &status, 0);
    if (w == 0)
      assert_true(WIFSIGNALED(status));
    else
      assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  struct evo_db *db = must_open();
  int complete = 0, half = 0;
  for (int64_t run = 1; run <= WRITERS; run++) {
    int n = 0;
    char *a, *b;
    double v;
    for (int i = 0; i < EACH; i++) {
      n += evo_db_find_evaluation(db, run, i, "verify", &a, &b, &v) == 1;
      free(a), free(b);
    }
    complete += n == EACH;
    half += n == EACH / 2;
  }
  assert_int_equal(complete, WRITERS - 1);
  assert_int_equal(half, 1);
  evo_db_close(db);
}

/* Several processes make the same database at the same moment. */
static void many_openers(void **state) {
  (void)state;
  enum { OPENERS = 6, ROUNDS = 12 };
  for (int round = 0; round < ROUNDS; round++) {
    int go[2];
    char c;
    pid_t pids[OPENERS];
    assert_int_equal(pipe(go), 0);
    for (int i = 0; i < OPENERS; i++) {
      pids[i] = fork();
      if (pids[i])
        continue;
      close(go[1]);
      char why[256] = "";
      ssize_t ignored = read(go[0], &c, 1); /* until the parent closes its end */
      (void)ignored;
      struct evo_db *db = evo_db_open(path, why, sizeof why);
      if (!db)
        print_error("%s\n", why);
      _exit(db && evo_db_begin_run(db, &a_run) > 0 ? 0 : 1);
    }
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < OPENERS; i++) {
      int status;
      waitpid(pids[i], &status, 0);
      assert_int_equal(status, 0);
    }
    gone(NULL);
  }
}

static void hashes(void **state) {
  (void)state;
  char a[EVO_HASH], b[EVO_HASH];
  evo_hash("abc", 3, a);
  evo_hash("abd", 3, b);
  assert_string_not_equal(a, b);
  evo_hash("abc", 3, b);
  assert_string_equal(a, b);
  assert_int_equal(strlen(a), 32);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(round_trip, fresh, gone),
      cmocka_unit_test_setup_teardown(foreign_files_are_refused, fresh, gone),
      cmocka_unit_test_setup_teardown(owners, fresh, gone),
      cmocka_unit_test_setup_teardown(many_openers, fresh, gone),
      cmocka_unit_test_setup_teardown(many_writers, fresh, gone), cmocka_unit_test(hashes)};
  return cmocka_run_group_tests_name("database", tests, NULL, NULL);
}
