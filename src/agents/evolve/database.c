// SPDX-License-Identifier: Apache-2.0
#include "agents/evolve/database.h"
#include "support/strbuf.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SCHEMA = 1, APPLICATION = 0x43554f43 /* "CUOC" */, BUSY_MS = 30000 };

struct evo_db {
  sqlite3 *handle;
  char *error;
};

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS runs(id INTEGER PRIMARY KEY, created TEXT NOT NULL, version TEXT NOT "
    "NULL, input TEXT NOT NULL, program TEXT NOT NULL, settings TEXT NOT NULL, machine TEXT NOT NULL, "
    "environment TEXT NOT NULL, assumptions TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'running', "
    "owner TEXT, result INTEGER, note TEXT);"
    "CREATE TABLE IF NOT EXISTS codes(hash TEXT PRIMARY KEY, text TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS candidates(run INTEGER NOT NULL REFERENCES runs(id), serial INTEGER NOT "
    "NULL, generation INTEGER NOT NULL, island INTEGER NOT NULL, origin TEXT NOT NULL, genome TEXT NOT "
    "NULL, directives TEXT NOT NULL, cell INTEGER NOT NULL, predicted REAL, score REAL, state TEXT NOT "
    "NULL DEFAULT 'proposed', code TEXT REFERENCES codes(hash), PRIMARY KEY(run, serial));"
    "CREATE TABLE IF NOT EXISTS lineage(run INTEGER NOT NULL, child INTEGER NOT NULL, parent INTEGER NOT "
    "NULL, position INTEGER NOT NULL, PRIMARY KEY(run, child, position));"
    "CREATE TABLE IF NOT EXISTS evaluations(id INTEGER PRIMARY KEY, run INTEGER NOT NULL, serial INTEGER "
    "NOT NULL, stage TEXT NOT NULL, outcome TEXT NOT NULL, attempt INTEGER NOT NULL, started REAL NOT "
    "NULL, seconds REAL NOT NULL, command TEXT NOT NULL, exit_status INTEGER NOT NULL, diagnostics TEXT "
    "NOT NULL, value REAL);"
    "CREATE INDEX IF NOT EXISTS evaluations_of ON evaluations(run, serial, stage);"
    "CREATE TABLE IF NOT EXISTS timings(evaluation INTEGER NOT NULL REFERENCES evaluations(id), program "
    "TEXT NOT NULL, repetition INTEGER NOT NULL, milliseconds REAL NOT NULL, PRIMARY KEY(evaluation, "
    "program, repetition));"
    "CREATE TABLE IF NOT EXISTS migrations(run INTEGER NOT NULL, generation INTEGER NOT NULL, "
    "from_island INTEGER NOT NULL, to_island INTEGER NOT NULL, serial INTEGER NOT NULL, PRIMARY KEY(run, "
    "generation, from_island, to_island, serial));"
    "CREATE TABLE IF NOT EXISTS generations(run INTEGER NOT NULL, generation INTEGER NOT NULL, "
    "candidates INTEGER NOT NULL, best INTEGER, score REAL, filled INTEGER NOT NULL, random_state TEXT "
    "NOT NULL, seconds REAL NOT NULL, PRIMARY KEY(run, generation));";

/* ---- statements ---------------------------------------------------------------------------------- */

static bool failed(struct evo_db *db, const char *what) {
  if (!db->error)
    db->error = xstrdup(what);
  return false;
}

/* Prepares SQL with values by TYPES: i int, l int64_t, d double (NAN = NULL), s text (NULL = NULL). */
static sqlite3_stmt *prepare(struct evo_db *db, const char *sql, const char *types, va_list ap) {
  sqlite3_stmt *st = NULL;
  if (sqlite3_prepare_v2(db->handle, sql, -1, &st, NULL) != SQLITE_OK) {
    failed(db, sqlite3_errmsg(db->handle));
    return NULL;
  }
  for (int i = 1; *types; i++, types++) {
    double d;
    const char *s;
    switch (*types) {
    case 'i':
      sqlite3_bind_int(st, i, va_arg(ap, int));
      break;
    case 'l':
      sqlite3_bind_int64(st, i, va_arg(ap, int64_t));
      break;
    case 'd':
      d = va_arg(ap, double);
      if (isnan(d))
        sqlite3_bind_null(st, i);
      else
        sqlite3_bind_double(st, i, d);
      break;
    default:
      s = va_arg(ap, const char *);
      sqlite3_bind_text(st, i, s, -1, SQLITE_TRANSIENT);
    }
  }
  return st;
}

static sqlite3_stmt *query(struct evo_db *db, const char *sql, const char *types, ...) {
  va_list ap;
  va_start(ap, types);
  sqlite3_stmt *st = prepare(db, sql, types, ap);
  va_end(ap);
  return st;
}

static bool run(struct evo_db *db, const char *sql, const char *types, ...) {
  va_list ap;
  va_start(ap, types);
  sqlite3_stmt *st = prepare(db, sql, types, ap);
  va_end(ap);
  if (!st)
    return false;
  int rc = sqlite3_step(st);
  if (rc != SQLITE_DONE && rc != SQLITE_ROW)
    failed(db, sqlite3_errmsg(db->handle));
  sqlite3_finalize(st);
  return rc == SQLITE_DONE || rc == SQLITE_ROW;
}

static char *column_text(sqlite3_stmt *st, int i) {
  const unsigned char *s = sqlite3_column_text(st, i);
  return xstrdup(s ? (const char *)s : "");
}

/* ---- opening ------------------------------------------------------------------------------------- */

static int pragma_value(struct evo_db *db, const char *sql) {
  sqlite3_stmt *st = query(db, sql, "");
  int value = st && sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int(st, 0) : -1;
  sqlite3_finalize(st);
  return value;
}

/* SQL that another process may be in the way of, also where SQLite's own waiting does not apply. */
static bool insist(struct evo_db *db, const char *sql) {
  int rc = SQLITE_BUSY;
  for (int i = 0; i < 300 && (rc == SQLITE_BUSY || rc == SQLITE_LOCKED); i++) {
    if (i)
      sqlite3_sleep(100);
    rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
  }
  return rc == SQLITE_OK;
}

static bool set_up(struct evo_db *db, char *why, size_t size) {
  sqlite3_busy_timeout(db->handle, BUSY_MS);
  /* Asked for first: the journal of somebody else's database is not to be touched. In one transaction: another
   * process may be making the tables just now. */
  if (!insist(db, "BEGIN"))
    return snprintf(why, size, "%s", sqlite3_errmsg(db->handle)), false;
  int application = pragma_value(db, "PRAGMA application_id"), version = pragma_value(db, "PRAGMA user_version");
  int tables = pragma_value(db, "SELECT count(*) FROM sqlite_master");
  insist(db, "COMMIT");
  if (db->error)
    return snprintf(why, size, "%s", db->error), false;
  if (tables > 0 && application != APPLICATION)
    return snprintf(why, size, "it is a database of another program"), false;
  if (tables > 0 && version != SCHEMA)
    return snprintf(why, size, "it has version %d of the tables, this program writes %d", version, SCHEMA),
           false;
  char setup[96];
  snprintf(setup, sizeof setup, "PRAGMA application_id = %d; PRAGMA user_version = %d;", APPLICATION, SCHEMA);
  if (!insist(db, "PRAGMA journal_mode = WAL") || !insist(db, "PRAGMA synchronous = FULL") ||
      !insist(db, "BEGIN IMMEDIATE") ||
      sqlite3_exec(db->handle, schema, NULL, NULL, NULL) != SQLITE_OK ||
      sqlite3_exec(db->handle, setup, NULL, NULL, NULL) != SQLITE_OK ||
      sqlite3_exec(db->handle, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
    return snprintf(why, size, "%s", sqlite3_errmsg(db->handle)), false;
  return true;
}

struct evo_db *evo_db_open(const char *path, char *why, size_t size) {
  struct evo_db *db = xcalloc(1, sizeof *db);
  if (sqlite3_open_v2(path, &db->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
    snprintf(why, size, "%s", db->handle ? sqlite3_errmsg(db->handle) : "out of memory");
  else if (set_up(db, why, size))
    return db;
  evo_db_close(db);
  return NULL;
}

void evo_db_close(struct evo_db *db) {
  if (!db)
    return;
  sqlite3_close_v2(db->handle);
  free(db->error);
  free(db);
}

const char *evo_db_error(const struct evo_db *db) { return db->error; }

bool evo_db_begin(struct evo_db *db) { return run(db, "BEGIN IMMEDIATE", ""); }
bool evo_db_commit(struct evo_db *db) { return run(db, "COMMIT", ""); }

/* ---- runs ---------------------------------------------------------------------------------------- */

/* When process PID was started, in ticks since boot: with it, numbers that are used again are told apart. */
static unsigned long long start_ticks(long pid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  FILE *f = fopen(path, "re");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f)
    fclose(f);
  text[n] = '\0';
  const char *s = strrchr(text, ')');
  for (int field = 2; s && field < 22; field++)
    s = strchr(s + 1, ' ');
  return s ? strtoull(s + 1, NULL, 10) : 0;
}

/* HOST PID TICKS */
static char *this_owner(void) {
  char host[128] = "";
  gethostname(host, sizeof host - 1);
  return xasprintf("%s %ld %llu", *host ? host : "-", (long)getpid(), start_ticks(getpid()));
}

/* A process of another host is not known to be dead. */
static bool owner_lives(const char *owner) {
  char host[128], mine[128] = "";
  long pid;
  unsigned long long ticks;
  if (sscanf(owner, "%127s %ld %llu", host, &pid, &ticks) != 3)
    return false;
  gethostname(mine, sizeof mine - 1);
  if (strcmp(host, *mine ? mine : "-") != 0)
    return true;
  return (kill((pid_t)pid, 0) == 0 || errno == EPERM) && start_ticks(pid) == ticks;
}

int64_t evo_db_begin_run(struct evo_db *db, const struct evo_db_run *r) {
  char created[32];
  time_t now = time(NULL);
  struct tm tm;
  strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
  char *owner = this_owner();
  bool ok = run(db,
                "INSERT INTO runs(created, version, input, program, settings, machine, environment, "
                "assumptions, owner) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                "sssssssss", created, r->version, r->input, r->program, r->settings, r->machine,
                r->environment, r->assumptions, owner);
  free(owner);
  return ok ? sqlite3_last_insert_rowid(db->handle) : -1;
}

int64_t evo_db_resume_run(struct evo_db *db, const char *program, char **settings) {
  *settings = NULL;
  if (!evo_db_begin(db))
    return -1;
  int64_t found = 0;
  sqlite3_stmt *st = query(db,
                           "SELECT id, settings, owner, status FROM runs WHERE program = ? ORDER BY id "
                           "DESC",
                           "s", program);
  while (st && !found && sqlite3_step(st) == SQLITE_ROW) {
    char *owner = column_text(st, 2), *status = column_text(st, 3);
    if (strcmp(status, "running") != 0 || !owner_lives(owner)) {
      found = sqlite3_column_int64(st, 0);
      *settings = column_text(st, 1);
    }
    free(owner);
    free(status);
  }
  sqlite3_finalize(st);
  char *owner = this_owner();
  bool ok = st && (!found || run(db, "UPDATE runs SET owner = ?, status = 'running' WHERE id = ?", "sl", owner,
                                 found));
  free(owner);
  ok &= evo_db_commit(db);
  if (!ok) {
    free(*settings);
    *settings = NULL;
  }
  return ok ? found : -1;
}

bool evo_db_change_settings(struct evo_db *db, int64_t id, const char *settings) {
  return run(db, "UPDATE runs SET settings = ? WHERE id = ?", "sl", settings, id);
}

bool evo_db_end_run(struct evo_db *db, int64_t id, const char *status, int result, const char *note) {
  return run(db, "UPDATE runs SET status = ?, result = ?, note = ?, owner = NULL WHERE id = ?", "sisl",
             status, result, note, id);
}

/* ---- candidates ---------------------------------------------------------------------------------- */

static char *genome_text(const struct evo_space *space, const int *genome) {
  struct strbuf b = {0};
  sb_addn(&b, "", 0);
  for (int i = 0; i < space->genes; i++)
    sb_addf(&b, "%s%d", i ? " " : "", genome[i]);
  return sb_take(&b);
}

bool evo_db_candidate(struct evo_db *db, int64_t id, const struct evo_space *space,
                      const struct evo_candidate *c, const char *directives) {
  char *genome = genome_text(space, c->genome);
  bool there = false, same = true;
  sqlite3_stmt *st = query(db, "SELECT genome FROM candidates WHERE run = ? AND serial = ?", "li", id,
                           c->serial);
  if (st && sqlite3_step(st) == SQLITE_ROW) {
    there = true;
    same = strcmp((const char *)sqlite3_column_text(st, 0), genome) == 0;
  }
  sqlite3_finalize(st);
  bool ok = st && (same || failed(db, "differs"));
  if (ok && !there) {
    ok = run(db,
             "INSERT INTO candidates(run, serial, generation, island, origin, genome, directives, cell, "
             "predicted) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
             "liiisssid", id, c->serial, c->generation, c->island, evo_origin_name(c->origin), genome,
             directives, c->cell, c->predicted);
    for (int i = 0; i < 2 && ok; i++)
      if (c->parents[i] >= 0)
        ok = run(db, "INSERT INTO lineage(run, child, parent, position) VALUES(?, ?, ?, ?)", "liii", id,
                 c->serial, c->parents[i], i);
  }
  free(genome);
  return ok;
}

bool evo_db_score(struct evo_db *db, int64_t id, const struct evo_candidate *c) {
  static const char *const states[] = {"proposed", "scored", "failed"};
  return run(db, "UPDATE candidates SET state = ?, score = ? WHERE run = ? AND serial = ?", "sdli",
             states[c->state], c->state == EVO_SCORED ? c->score : NAN, id, c->serial);
}

bool evo_db_code(struct evo_db *db, int64_t id, int serial, const char *hash, const char *text) {
  return run(db, "INSERT OR IGNORE INTO codes(hash, text) VALUES(?, ?)", "ss", hash, text) &&
         run(db, "UPDATE candidates SET code = ? WHERE run = ? AND serial = ?", "sli", hash, id, serial);
}

bool evo_db_migration(struct evo_db *db, int64_t id, const struct evo_migration *m) {
  return run(db, "INSERT OR IGNORE INTO migrations VALUES(?, ?, ?, ?, ?)", "liiii", id, m->generation,
             m->from, m->to, m->serial);
}

bool evo_db_generation(struct evo_db *db, int64_t id, int generation, size_t candidates, int best,
                       double score, int filled, const char *random_state, double seconds) {
  return run(db, "INSERT OR IGNORE INTO generations VALUES(?, ?, ?, ?, ?, ?, ?, ?)", "lilidisd", id,
             generation, (int64_t)candidates, best, score, filled, random_state, seconds);
}

char *evo_db_random_state(struct evo_db *db, int64_t id, int generation) {
  sqlite3_stmt *st = query(db, "SELECT random_state FROM generations WHERE run = ? AND generation = ?",
                           "li", id, generation);
  char *text = st && sqlite3_step(st) == SQLITE_ROW ? column_text(st, 0) : NULL;
  sqlite3_finalize(st);
  return text;
}

/* ---- evaluations --------------------------------------------------------------------------------- */

int64_t evo_db_evaluation(struct evo_db *db, int64_t id, int serial, const struct evo_db_evaluation *e) {
  return run(db,
             "INSERT INTO evaluations(run, serial, stage, outcome, attempt, started, seconds, command, "
             "exit_status, diagnostics, value) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
             "lissiddsisd", id, serial, e->stage, e->outcome, e->attempt, e->started, e->seconds,
             e->command ? e->command : "", e->exit_status, e->diagnostics ? e->diagnostics : "", e->value)
             ? sqlite3_last_insert_rowid(db->handle)
             : -1;
}

bool evo_db_timing(struct evo_db *db, int64_t evaluation, const char *program, int repetition,
                   double milliseconds) {
  return run(db, "INSERT INTO timings VALUES(?, ?, ?, ?)", "lsid", evaluation, program, repetition,
             milliseconds);
}

int evo_db_find_evaluation(struct evo_db *db, int64_t id, int serial, const char *stage, char **outcome,
                           char **diagnostics, double *value) {
  *outcome = *diagnostics = NULL;
  *value = NAN;
  sqlite3_stmt *st = query(db,
                           "SELECT outcome, diagnostics, value FROM evaluations WHERE run = ? AND serial = "
                           "? AND stage = ? ORDER BY id DESC LIMIT 1",
                           "lis", id, serial, stage);
  if (!st)
    return -1;
  int rc = sqlite3_step(st);
  if (rc == SQLITE_ROW) {
    *outcome = column_text(st, 0);
    *diagnostics = column_text(st, 1);
    if (sqlite3_column_type(st, 2) != SQLITE_NULL)
      *value = sqlite3_column_double(st, 2);
  }
  sqlite3_finalize(st);
  return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : -1;
}

bool evo_db_read_timings(struct evo_db *db, int64_t id, int serial, const char *program, double **v,
                         size_t *n, size_t *cap) {
  sqlite3_stmt *st = query(db,
                           "SELECT milliseconds FROM timings WHERE program = ? AND evaluation = (SELECT max(id) FROM "
                           "evaluations WHERE run = ? AND serial = ? AND stage = 'benchmark') ORDER BY repetition",
                           "sli", program, id, serial);
  while (st && sqlite3_step(st) == SQLITE_ROW)
    *(double *)vec_grow((void **)v, n, cap, sizeof **v) = sqlite3_column_double(st, 0);
  sqlite3_finalize(st);
  return st != NULL;
}

/* ---- hash ---------------------------------------------------------------------------------------- */

void evo_hash(const void *bytes, size_t n, char out[EVO_HASH]) {
  const unsigned char *s = bytes;
  uint64_t a = UINT64_C(0xCBF29CE484222325), b = UINT64_C(0x9E3779B97F4A7C15) ^ n;
  for (size_t i = 0; i < n; i++) {
    a = (a ^ s[i]) * UINT64_C(0x100000001B3);
    b = (b + s[i] + 1) * UINT64_C(0xD1342543DE82EF95);
    b ^= b >> 29;
  }
  snprintf(out, EVO_HASH, "%016" PRIx64 "%016" PRIx64, a, b);
}
