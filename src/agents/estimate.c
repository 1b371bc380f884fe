// SPDX-License-Identifier: Apache-2.0
#include "agents/estimate.h"
#include "support/strbuf.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 24, MOST_STEPS = 4096 };

void estimate_init(struct estimate *e, double fallback) {
  memset(e, 0, sizeof *e);
  e->fallback = fallback;
}

void estimate_free(struct estimate *e) {
  VEC_EACH(&e->values, v) free(v->name);
  VEC_EACH(&e->definitions, d) {
    free(d->name);
    free(d->text);
  }
  VEC_FREE(&e->values);
  VEC_FREE(&e->definitions);
}

static struct estimate_value *find_value(struct estimate *e, const char *name) {
  VEC_EACH(&e->values, v) if (strcmp(v->name, name) == 0) return v;
  return NULL;
}

void estimate_set(struct estimate *e, const char *name, double value, enum estimate_source source) {
  struct estimate_value *v = find_value(e, name);
  if (!v) {
    v = &VEC_PUSH(&e->values);
    v->name = xstrdup(name);
  }
  v->value = value;
  v->source = source;
}

void estimate_define(struct estimate *e, const char *name, const char *text, size_t position) {
  struct estimate_definition *d = &VEC_PUSH(&e->definitions);
  d->name = xstrdup(name);
  d->text = xstrdup(text);
  d->position = position;
}

const char *estimate_source_name(enum estimate_source s) {
  static const char *const names[] = {"given", "machine", "program", "default"};
  return names[s];
}

bool estimate_given(struct estimate *e, const char *name, double *out) {
  struct estimate_value *v = find_value(e, name);
  if (!v || v->source != ESTIMATE_GIVEN)
    return false;
  v->used = true;
  *out = v->value;
  return true;
}

bool estimate_number(const char *text, double *out) {
  static const struct {
    const char *suffix;
    double factor;
  } units[] = {{"", 1},   {"us", 1},       {"ms", 1e3},         {"s", 1e6},
               {"k", 1024}, {"K", 1024}, {"M", 1024.0 * 1024}, {"G", 1024.0 * 1024 * 1024}};
  char *end;
  double x = strtod(text, &end);
  if (end == text || !isfinite(x))
    return false;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strcmp(end, units[i].suffix) == 0) {
      *out = x * units[i].factor;
      return true;
    }
  return false;
}

/* ---- expressions --------------------------------------------------------------------------------- */

struct parser {
  struct estimate *e;
  const char *s;
  bool strict, ok;
};

static bool name_value(struct estimate *e, const char *name, bool strict, double *out);
static double conditional(struct parser *p);

static void blanks(struct parser *p) {
  while (isspace((unsigned char)*p->s))
    p->s++;
}

static bool take(struct parser *p, const char *token) {
  blanks(p);
  size_t n = strlen(token);
  if (strncmp(p->s, token, n) != 0)
    return false;
  /* not the first half of a longer operator */
  if (n == 1 && strchr("<>=!&|", *token) && (p->s[1] == '=' || p->s[1] == *token))
    return false;
  p->s += n;
  return true;
}

static bool word_byte(char c) { return isalnum((unsigned char)c) || c == '_'; }

static double fail(struct parser *p) {
  p->ok = false;
  return 0;
}

static double number(struct parser *p) {
  char *end;
  double x = strtod(p->s, &end);
  if (p->s[0] == '0' && (p->s[1] == 'x' || p->s[1] == 'X'))
    x = (double)strtoull(p->s, &end, 16);
  if (end == p->s)
    return fail(p);
  p->s = end;
  while (*p->s && strchr("uUlLfFzZ", *p->s))
    p->s++;
  return x;
}

/* Sizes of the types that sizeof and casts are written with; 0 = no type. */
static double type_size(const char *name, size_t n) {
  static const struct {
    const char *name;
    int size;
  } types[] = {{"char", 1},    {"int8_t", 1},   {"uint8_t", 1},  {"bool", 1},     {"short", 2},
               {"int16_t", 2}, {"uint16_t", 2}, {"half", 2},     {"__half", 2},   {"__nv_bfloat16", 2},
               {"nv_bfloat16", 2}, {"int", 4},  {"unsigned", 4}, {"int32_t", 4},  {"uint32_t", 4},
               {"float", 4},   {"real", 4},     {"real_t", 4},   {"T", 4},        {"long", 8},
               {"size_t", 8},  {"ssize_t", 8},  {"int64_t", 8},  {"uint64_t", 8}, {"ptrdiff_t", 8},
               {"double", 8},  {"float2", 8},   {"int4", 16},    {"float4", 16},  {"uint4", 16}};
  if (n > 5 && strncmp(name, "std::", 5) == 0)
    return type_size(name + 5, n - 5);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strlen(types[i].name) == n && strncmp(types[i].name, name, n) == 0)
      return types[i].size;
  return 0;
}

/* Reads words up to the closing parenthesis or '>' that make a type. Returns its size, 0 if it is none. */
static double type_until(struct parser *p, char close) {
  const char *s = p->s;
  double size = 0;
  for (;;) {
    while (isspace((unsigned char)*s))
      s++;
    if (*s == close || *s == '*')
      break;
    const char *begin = s;
    while (word_byte(*s) || (s[0] == ':' && s[1] == ':' && (s += 1)))
      s++;
    if (s == begin)
      return 0;
    size_t n = (size_t)(s - begin);
    bool qualifier = (n == 5 && strncmp(begin, "const", 5) == 0) ||
                     (n == 8 && strncmp(begin, "unsigned", 8) == 0) ||
                     (n == 6 && strncmp(begin, "signed", 6) == 0);
    double x = type_size(begin, n);
    if (!x && !qualifier)
      return 0;
    size = x ? x : size ? size : 4;
  }
  if (*s == '*') {
    size = 8;
    while (*s == '*' || isspace((unsigned char)*s))
      s++;
  }
  if (*s != close)
    return 0;
  p->s = s + 1;
  return size;
}

/* min, max, ceil-like and cast calls; anything else is a name with its arguments. */
static double call(struct parser *p, const char *name, size_t n, const char *begin) {
  const char *last = name + n;
  while (last > name && word_byte(last[-1]))
    last--;
  size_t len = (size_t)(name + n - last);
  bool least = (len == 3 && strncmp(last, "min", 3) == 0), most = len == 3 && strncmp(last, "max", 3) == 0;
  if (least || most) {
    double x = conditional(p);
    while (take(p, ",")) {
      double y = conditional(p);
      x = (y < x) == least ? y : x;
    }
    return take(p, ")") ? x : fail(p);
  }
  if (type_size(name, n)) { /* size_t(x) */
    double x = conditional(p);
    return take(p, ")") ? x : fail(p);
  }
  int depth = 1; /* v.size(), f(a, b): one name */
  while (*p->s && depth) {
    depth += *p->s == '(';
    depth -= *p->s++ == ')';
  }
  if (depth)
    return fail(p);
  char *whole = xstrndup(begin, (size_t)(p->s - begin));
  double x = 0;
  if (!name_value(p->e, whole, p->strict, &x))
    p->ok = false;
  free(whole);
  return x;
}

static double name(struct parser *p) {
  const char *begin = p->s;
  for (;;) {
    while (word_byte(*p->s))
      p->s++;
    if (p->s[0] == '.' || (p->s[0] == ':' && p->s[1] == ':'))
      p->s += p->s[0] == '.' ? 1 : 2;
    else if (p->s[0] == '-' && p->s[1] == '>')
      p->s += 2;
    else if (*p->s == '[') {
      const char *close = strchr(p->s, ']');
      if (!close)
        return fail(p);
      p->s = close + 1;
    } else
      break;
  }
  size_t n = (size_t)(p->s - begin);
  if (n == 0)
    return fail(p);
  blanks(p);
  if (n == 6 && strncmp(begin, "sizeof", 6) == 0 && take(p, "(")) {
    double size = type_until(p, ')');
    if (size)
      return size;
    int depth = 1; /* sizeof an expression: like a float */
    for (; *p->s && depth; p->s++)
      depth += (*p->s == '(') - (*p->s == ')');
    return depth ? fail(p) : 4;
  }
  if (n >= 5 && strncmp(begin + n - 5, "_cast", 5) == 0 && take(p, "<")) {
    if (!type_until(p, '>') || !take(p, "("))
      return fail(p);
    double x = conditional(p);
    return take(p, ")") ? x : fail(p);
  }
  if (take(p, "("))
    return call(p, begin, n, begin);
  if (n == 4 && strncmp(begin, "true", 4) == 0)
    return 1;
  if ((n == 5 && strncmp(begin, "false", 5) == 0) || (n == 7 && strncmp(begin, "nullptr", 7) == 0))
    return 0;
  char *whole = xstrndup(begin, n);
  double x = 0;
  if (!name_value(p->e, whole, p->strict, &x))
    p->ok = false;
  free(whole);
  return x;
}

static double unary(struct parser *p) {
  blanks(p);
  if (take(p, "-"))
    return -unary(p);
  if (take(p, "+"))
    return unary(p);
  if (*p->s == '!' && p->s[1] != '=') {
    p->s++;
    return !unary(p);
  }
  if (take(p, "(")) {
    const char *back = p->s;
    if (type_until(p, ')')) {
      blanks(p);
      if (word_byte(*p->s) || *p->s == '(' || *p->s == '-')
        return unary(p);
    }
    p->s = back;
    double x = conditional(p);
    return take(p, ")") ? x : fail(p);
  }
  if (isdigit((unsigned char)*p->s) || *p->s == '.')
    return number(p);
  return name(p);
}

static bool whole(double x) { return x == floor(x) && fabs(x) < 1e15; }

static double product(struct parser *p) {
  double x = unary(p);
  while (p->ok) {
    if (take(p, "*"))
      x *= unary(p);
    else if (take(p, "/")) {
      double y = unary(p);
      bool integers = whole(x) && whole(y);
      x = y ? x / y : fail(p);
      if (integers)
        x = trunc(x);
    } else if (take(p, "%")) {
      double y = unary(p);
      x = y ? fmod(x, y) : fail(p);
    } else
      break;
  }
  return x;
}

static double sum(struct parser *p) {
  double x = product(p);
  while (p->ok) {
    if (take(p, "+"))
      x += product(p);
    else if (take(p, "-"))
      x -= product(p);
    else
      break;
  }
  return x;
}

static double shift(struct parser *p) {
  double x = sum(p);
  while (p->ok) {
    if (take(p, "<<"))
      x = ldexp(x, (int)sum(p));
    else if (take(p, ">>"))
      x = floor(ldexp(x, -(int)sum(p)));
    else
      break;
  }
  return x;
}

static double relation(struct parser *p) {
  double x = shift(p);
  while (p->ok) {
    if (take(p, "<="))
      x = x <= shift(p);
    else if (take(p, ">="))
      x = x >= shift(p);
    else if (take(p, "=="))
      x = x == shift(p);
    else if (take(p, "!="))
      x = x != shift(p);
    else if (take(p, "<"))
      x = x < shift(p);
    else if (take(p, ">"))
      x = x > shift(p);
    else
      break;
  }
  return x;
}

static double logic(struct parser *p) {
  double x = relation(p);
  while (p->ok) {
    if (take(p, "&&")) {
      double y = relation(p);
      x = x && y;
    } else if (take(p, "||")) {
      double y = relation(p);
      x = x || y;
    } else
      break;
  }
  return x;
}

static double conditional(struct parser *p) {
  double x = logic(p);
  if (!p->ok || !take(p, "?"))
    return x;
  double a = conditional(p);
  if (!take(p, ":"))
    return fail(p);
  double b = conditional(p);
  return x ? a : b;
}

static bool evaluate(struct estimate *e, const char *text, bool strict, double *out) {
  if (e->depth == 0)
    e->steps = 0;
  if (e->depth >= MOST_DEPTH || e->steps++ > MOST_STEPS)
    return false;
  struct parser p = {e, text, strict, true};
  e->depth++;
  double x = conditional(&p);
  e->depth--;
  blanks(&p);
  if (!p.ok || *p.s || !isfinite(x))
    return false;
  *out = x;
  return true;
}

bool estimate_eval(struct estimate *e, const char *text, double *out) {
  return evaluate(e, text, false, out);
}
bool estimate_known(struct estimate *e, const char *text, double *out) {
  return evaluate(e, text, true, out);
}

/* ---- names --------------------------------------------------------------------------------------- */

/* x of c.x, a->x and N::x. */
static const char *last_part(const char *name) {
  const char *best = name;
  for (const char *s = name; *s && *s != '('; s++)
    if (*s == '.' || (s[0] == '-' && s[1] == '>') || (s[0] == ':' && s[1] == ':'))
      best = s + (*s == '.' ? 1 : 2);
  return best;
}

static bool defined(struct estimate *e, const char *name, double *value) {
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < e->definitions.n; i++) {
      struct estimate_definition *d = &e->definitions.v[i];
      bool inside = d->position >= e->scope_begin && d->position < e->scope_end;
      if (inside != (pass == 0) || d->busy || strcmp(d->name, name) != 0)
        continue;
      d->busy = true;
      bool found = evaluate(e, d->text, true, value);
      d->busy = false;
      if (found)
        return true;
    }
  return false;
}

static bool name_value(struct estimate *e, const char *name, bool strict, double *out) {
  const char *last = last_part(name);
  const char *const names[] = {name, last != name ? last : NULL};
  for (int i = 0; i < 2 && names[i]; i++) {
    struct estimate_value *v = find_value(e, names[i]);
    if (v && v->source < ESTIMATE_PROGRAM) {
      v->used = true;
      *out = v->value;
      return true;
    }
    if (defined(e, names[i], out)) {
      if (e->depth < 2) { /* what is used directly is stated */
        estimate_set(e, names[i], *out, ESTIMATE_PROGRAM);
        find_value(e, names[i])->used = true;
      }
      return true;
    }
  }
  if (e->outer)
    return name_value(e->outer, name, strict, out);
  if (strict)
    return false;
  *out = e->fallback;
  estimate_set(e, name, *out, ESTIMATE_DEFAULT);
  find_value(e, name)->used = true;
  return true;
}
