// SPDX-License-Identifier: Apache-2.0
#include "support/diag.h"
#include "support/diag_text.h"
#include "support/io.h"
#include "support/strbuf.h"
#include "support/vec.h"
#include <jansson.h>
#include <string.h>
#include <unistd.h>

/* ---- the table --------------------------------------------------------------------------------------- */

struct diag_info {
  const char *code, *option, *summary;
  enum diag_severity severity;
};

#define NOTE DIAG_NOTE
#define REMARK DIAG_REMARK
#define WARNING DIAG_WARNING
#define ERROR DIAG_ERROR
#define FATAL DIAG_FATAL
static const struct diag_info table[DIAG_COUNT] = {
#define DIAG(id, code, severity, option, summary) {code, option, summary, severity},
#include "diagnostics.def"
#undef DIAG
};
#undef NOTE
#undef REMARK
#undef WARNING
#undef ERROR
#undef FATAL

const char *diag_code(enum diag_id id) { return table[id].code; }
const char *diag_option(enum diag_id id) { return table[id].option; }
const char *diag_summary(enum diag_id id) { return table[id].summary; }
enum diag_severity diag_default_severity(enum diag_id id) { return table[id].severity; }

/* ---- the engine -------------------------------------------------------------------------------------- */

struct source {
  char *file;
  const char *text; /* borrowed, or OWNED.s */
  size_t n;
  struct strbuf owned;
};

struct diag_engine {
  FILE *out;
  enum diag_format format;
  enum diag_color color;
  bool on[DIAG_COUNT];         /* warnings and remarks that are shown */
  bool as_error[DIAG_COUNT];   /* -Werror=NAME */
  bool not_error[DIAG_COUNT];  /* -Wno-error=NAME, stronger than -Werror */
  bool all_errors;             /* -Werror */
  bool no_warnings;            /* -w */
  bool last_shown;             /* does a note have something to belong to? */
  unsigned errors, warnings;
  json_t *json;                /* array, in JSON format */
  VEC(struct source) sources;
};

static bool can_be_off(enum diag_id id) { return table[id].option[0] != '\0'; }

struct diag_engine *diag_new(FILE *out) {
  struct diag_engine *d = xcalloc(1, sizeof *d);
  d->out = out;
  for (int i = 0; i < DIAG_COUNT; i++)
    d->on[i] = table[i].severity != DIAG_REMARK; /* remarks are for those who ask */
  return d;
}

void diag_free(struct diag_engine *d) {
  if (!d)
    return;
  if (d->format == DIAG_FORMAT_JSON) {
    char *text = d->json ? json_dumps(d->json, JSON_INDENT(2)) : NULL;
    fprintf(d->out, "%s\n", text ? text : "[]");
    free(text);
  }
  fflush(d->out);
  json_decref(d->json);
  diag_forget_sources(d);
  free(d);
}

void diag_set_format(struct diag_engine *d, enum diag_format f) { d->format = f; }
void diag_set_color(struct diag_engine *d, enum diag_color c) { d->color = c; }

static bool set_one(struct diag_engine *d, const char *name, bool *array, bool value, bool turn_on) {
  bool found = false;
  for (int i = 0; i < DIAG_COUNT; i++) {
    if (!can_be_off(i) || strcmp(table[i].option, name) != 0)
      continue;
    found = true;
    array[i] = value;
    if (turn_on)
      d->on[i] = true;
  }
  return found;
}

static void set_all(bool *array, bool value) {
  for (int i = 0; i < DIAG_COUNT; i++)
    array[i] = value || !can_be_off(i);
}

static const char *after(const char *s, const char *prefix) {
  size_t n = strlen(prefix);
  return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

bool diag_set_warning(struct diag_engine *d, const char *arg) {
  const char *name;
  if (strcmp(arg, "error") == 0 || strcmp(arg, "no-error") == 0) {
    d->all_errors = arg[0] == 'e';
    return true;
  }
  if (strcmp(arg, "all") == 0 || strcmp(arg, "no-all") == 0) {
    d->no_warnings = arg[0] == 'n';
    set_all(d->on, !d->no_warnings);
    return true;
  }
  if ((name = after(arg, "error=")))
    return set_one(d, name, d->not_error, false, false) && set_one(d, name, d->as_error, true, true);
  if ((name = after(arg, "no-error=")))
    return set_one(d, name, d->as_error, false, false) && set_one(d, name, d->not_error, true, false);
  if ((name = after(arg, "no-")))
    return set_one(d, name, d->on, false, false);
  return set_one(d, arg, d->on, true, false);
}

/* ---- sources ------------------------------------------------------------------------------------------- */

static struct source *find_source(struct diag_engine *d, const char *file) {
  VEC_EACH(&d->sources, s)
    if (strcmp(s->file, file) == 0)
      return s;
  return NULL;
}

void diag_add_source(struct diag_engine *d, const char *file, const char *text, size_t n) {
  struct source *s = find_source(d, file);
  if (!s) {
    s = &VEC_PUSH(&d->sources);
    s->file = xstrdup(file);
  }
  sb_free(&s->owned);
  s->text = text;
  s->n = n;
}

void diag_forget_sources(struct diag_engine *d) {
  VEC_EACH(&d->sources, s) {
    free(s->file);
    sb_free(&s->owned);
  }
  VEC_FREE(&d->sources);
}

/* Finds line LINE of FILE; returns false when there is none. */
static bool find_line(struct diag_engine *d, const char *file, unsigned line, const char **begin,
                      size_t *n) {
  struct source *s = find_source(d, file);
  if (!s) {
    s = &VEC_PUSH(&d->sources);
    s->file = xstrdup(file);
    if (strcmp(file, "-") != 0 && io_read_file(file, &s->owned) == 0) {
      s->text = s->owned.s;
      s->n = s->owned.n;
    }
  }
  if (!s->text)
    return false;
  const char *p = s->text, *end = s->text + s->n;
  for (unsigned i = 1; i < line; i++) {
    p = memchr(p, '\n', (size_t)(end - p));
    if (!p)
      return false;
    p++;
  }
  const char *stop = memchr(p, '\n', (size_t)(end - p));
  *begin = p;
  *n = (size_t)((stop ? stop : end) - p);
  if (*n && p[*n - 1] == '\r')
    --*n;
  return p < end || line == 1;
}

/* ---- printing ------------------------------------------------------------------------------------------ */

static const char *severity_name(enum diag_severity s) {
  static const char *const names[] = {"note", "remark", "warning", "error", "fatal error"};
  return names[s];
}

static bool colored(const struct diag_engine *d) {
  if (d->color != DIAG_COLOR_AUTO)
    return d->color == DIAG_COLOR_ALWAYS;
  const char *term = getenv("TERM");
  return isatty(fileno(d->out)) && term && strcmp(term, "dumb") != 0 && !getenv("NO_COLOR");
}

static void print_clang(struct diag_engine *d, const char *tool, enum diag_severity s,
                        const struct diag_loc *loc, const char *text, const char *tail) {
  static const char *const severity_color[] = {"\033[1;36m", "\033[1;34m", "\033[1;35m",
                                               "\033[1;31m", "\033[1;31m"};
  bool color = colored(d);
  const char *bold = color ? "\033[1m" : "", *reset = color ? "\033[0m" : "";
  struct strbuf b = {0};
  sb_add(&b, bold);
  if (loc && loc->file && loc->line)
    sb_addf(&b, "%s:%u:%u: ", loc->file, loc->line, loc->col);
  else if (loc && loc->file)
    sb_addf(&b, "%s: ", loc->file);
  else
    sb_addf(&b, "%s: ", tool);
  sb_addf(&b, "%s%s: %s%s%s%s%s\n", color ? severity_color[s] : "", severity_name(s), reset,
          s == DIAG_NOTE ? "" : bold, text, tail, reset);
  const char *line;
  size_t n;
  if (loc && loc->file && loc->line && find_line(d, loc->file, loc->line, &line, &n))
    diag_text_snippet(&b, line, n, loc->line, loc->col, loc->end_col, color);
  fwrite(b.s, 1, b.n, d->out);
  fflush(d->out);
  sb_free(&b);
}

static json_t *json_text(const char *s) {
  struct strbuf b = {0};
  diag_text_utf8(&b, s, strlen(s));
  json_t *j = json_stringn(b.s, b.n);
  sb_free(&b);
  return j;
}

static void add_json(struct diag_engine *d, const char *tool, const char *code, const char *option,
                     enum diag_severity s, const struct diag_loc *loc, const char *text) {
  json_t *o = json_object();
  json_object_set_new(o, "severity", json_string(severity_name(s)));
  json_object_set_new(o, "message", json_text(text));
  json_object_set_new(o, "tool", json_text(tool));
  if (code)
    json_object_set_new(o, "code", json_string(code));
  if (option && *option)
    json_object_set_new(o, "option", json_string(option));
  if (loc && loc->file) {
    json_object_set_new(o, "file", json_text(loc->file));
    if (loc->line) {
      json_object_set_new(o, "line", json_integer(loc->line));
      json_object_set_new(o, "column", json_integer(loc->col));
      if (loc->end_col > loc->col)
        json_object_set_new(o, "end_column", json_integer(loc->end_col));
    }
  }
  if (!d->json)
    d->json = json_array();
  size_t n = json_array_size(d->json);
  if (s != DIAG_NOTE || n == 0) {
    json_array_append_new(d->json, o);
    return;
  }
  json_t *last = json_array_get(d->json, n - 1), *notes = json_object_get(last, "notes");
  if (!notes)
    json_object_set_new(last, "notes", notes = json_array());
  json_array_append_new(notes, o);
}

/* ---- reporting ----------------------------------------------------------------------------------------- */

static void count(struct diag_engine *d, enum diag_severity s) {
  if (s >= DIAG_ERROR)
    d->errors++;
  else if (s == DIAG_WARNING)
    d->warnings++;
}

/* What ID is reported as, with the -W options; promoted is set when -Werror did it. */
static enum diag_severity effective(const struct diag_engine *d, enum diag_id id, bool *promoted) {
  enum diag_severity s = table[id].severity;
  *promoted = s == DIAG_WARNING && !d->not_error[id] && (d->all_errors || d->as_error[id]);
  return *promoted ? DIAG_ERROR : s;
}

void diag_report(struct diag_engine *d, enum diag_id id, const struct diag_loc *loc, const char *fmt,
                 ...) {
  d->last_shown = d->on[id] || !can_be_off(id);
  if (!d->last_shown)
    return;
  bool promoted;
  enum diag_severity s = effective(d, id, &promoted);
  struct strbuf text = {0};
  va_list ap;
  va_start(ap, fmt);
  sb_vaddf(&text, fmt, ap);
  va_end(ap);
  count(d, s);
  if (d->format == DIAG_FORMAT_JSON) {
    add_json(d, "cucocc", table[id].code, table[id].option, s, loc, text.s);
  } else {
    char *option = can_be_off(id)
                       ? xasprintf(" [%s-W%s]", promoted ? "-Werror," : "", table[id].option)
                       : xstrdup("");
    char *tail = xasprintf("%s [%s]", option, table[id].code);
    print_clang(d, "cucocc", s, loc, text.s, tail);
    free(option);
    free(tail);
  }
  sb_free(&text);
}

void diag_note(struct diag_engine *d, const struct diag_loc *loc, const char *fmt, ...) {
  if (!d->last_shown)
    return;
  struct strbuf text = {0};
  va_list ap;
  va_start(ap, fmt);
  sb_vaddf(&text, fmt, ap);
  va_end(ap);
  if (d->format == DIAG_FORMAT_JSON)
    add_json(d, "cucocc", NULL, NULL, DIAG_NOTE, loc, text.s);
  else
    print_clang(d, "cucocc", DIAG_NOTE, loc, text.s, "");
  sb_free(&text);
}

void diag_foreign(struct diag_engine *d, const char *tool, enum diag_severity s,
                  const struct diag_loc *loc, const char *text) {
  if (s == DIAG_NOTE && !d->last_shown)
    return;
  if (s != DIAG_NOTE)
    d->last_shown = s >= DIAG_ERROR || !d->no_warnings;
  if (!d->last_shown)
    return;
  count(d, s);
  if (d->format == DIAG_FORMAT_JSON)
    add_json(d, tool, NULL, NULL, s, loc, text);
  else
    print_clang(d, tool, s, loc, text, "");
}

unsigned diag_errors(const struct diag_engine *d) { return d->errors; }
unsigned diag_warnings(const struct diag_engine *d) { return d->warnings; }
