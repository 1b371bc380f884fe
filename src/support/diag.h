// SPDX-License-Identifier: Apache-2.0
/* Diagnostics in clang's style:
 *     file:line:col: warning: text [-Wname] [CU0123]
 * followed by the source line, a caret, and fix-it or note lines. Every diagnostic has a stable ID from
 * spec/diagnostics.def, which is the one source for severity, option name, summary and explanation
 * (the man page and --help-diagnostics are generated from it). */
#ifndef CUCOCC_SUPPORT_DIAG_H
#define CUCOCC_SUPPORT_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum diag_severity { DIAG_NOTE, DIAG_REMARK, DIAG_WARNING, DIAG_ERROR, DIAG_FATAL };

/* One enumerator per line of spec/diagnostics.def. */
enum diag_id {
#define DIAG(id, code, severity, option, summary) DIAG_##id,
#include "diagnostics.def"
#undef DIAG
  DIAG_COUNT
};

/* A place in a source file. LINE and COL are 1-based, in bytes; line 0 = no place (then only FILE, or
 * nothing when FILE is NULL, is printed). END_COL > COL underlines the range on the same line. */
struct diag_loc {
  const char *file;
  unsigned line, col, end_col;
};

enum diag_format { DIAG_FORMAT_CLANG, DIAG_FORMAT_JSON };
enum diag_color { DIAG_COLOR_AUTO, DIAG_COLOR_ALWAYS, DIAG_COLOR_NEVER };

/* The engine: one per compilation; not thread-safe. */
struct diag_engine;

struct diag_engine *diag_new(FILE *out);
void diag_free(struct diag_engine *d); /* also flushes the JSON array */
void diag_set_format(struct diag_engine *d, enum diag_format f);
void diag_set_color(struct diag_engine *d, enum diag_color c);
/* Applies one -W option without its "-W": "error", "error=NAME", "no-error=NAME", "NAME", "no-NAME",
 * "all"; -w is "no-all". Returns false for an unknown name. */
bool diag_set_warning(struct diag_engine *d, const char *arg);
/* Gives the engine the text of FILE (borrowed; must outlive the engine) so that caret lines can be
 * shown; for files that were never given the engine reads them itself. */
void diag_add_source(struct diag_engine *d, const char *file, const char *text, size_t n);
/* Forgets all texts; call it before a borrowed one is freed when reports may follow. */
void diag_forget_sources(struct diag_engine *d);

/* Reports ID at LOC (NULL = no place) with a printf-style message: one cause, then one remedy. Follow
 * with diag_note() for related places. A warning that is off prints nothing and counts nothing. */
void diag_report(struct diag_engine *d, enum diag_id id, const struct diag_loc *loc, const char *fmt,
                 ...) __attribute__((format(printf, 4, 5)));
/* A note that belongs to the last reported diagnostic (dropped when that one was off). */
void diag_note(struct diag_engine *d, const struct diag_loc *loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Passes on a diagnostic of another tool (clang, nvcc) with that tool's own severity and text. */
void diag_foreign(struct diag_engine *d, const char *tool, enum diag_severity s,
                  const struct diag_loc *loc, const char *text);

/* How many errors (fatal ones included) and warnings were reported so far. */
unsigned diag_errors(const struct diag_engine *d);
unsigned diag_warnings(const struct diag_engine *d);

/* Table access for --help, the man page and tests: "CU0123", "not-transformed", summary text. */
const char *diag_code(enum diag_id id);
const char *diag_option(enum diag_id id); /* "" = cannot be switched off */
const char *diag_summary(enum diag_id id);
enum diag_severity diag_default_severity(enum diag_id id);

#endif
