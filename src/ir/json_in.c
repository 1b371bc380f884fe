// SPDX-License-Identifier: Apache-2.0
/* The IR from JSON text. Strict: every member must be known, of the right type and in range; the
 * message names the place as a JSON pointer. */
#include "ir/record.h"
#include "ir/text.h"
#include "support/strbuf.h"
#include <jansson.h>
#include <limits.h>
#include <string.h>

struct reader {
  struct strbuf path; /* a JSON pointer */
  struct strbuf why;  /* empty = no error so far */
};

static bool fail(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool fail(struct reader *r, const char *fmt, ...) {
  va_list ap;
  sb_addf(&r->why, "%s: ", r->path.n ? r->path.s : "/");
  va_start(ap, fmt);
  sb_vaddf(&r->why, fmt, ap);
  va_end(ap);
  return false;
}

static void leave(struct reader *r, size_t n) {
  r->path.n = n;
  if (r->path.s)
    r->path.s[n] = '\0';
}

static const char *type_name(const json_t *j) {
  static const char *const names[] = {"an object", "an array", "a string", "an integer",
                                      "a number",  "true",     "false",    "null"};
  return names[json_typeof(j)];
}

static bool expect(struct reader *r, const json_t *j, bool ok, const char *what) {
  return ok || fail(r, "expected %s, found %s", what, type_name(j));
}

static bool integer(struct reader *r, const json_t *j, json_int_t min, json_int_t max,
                    json_int_t *out) {
  if (!expect(r, j, json_is_integer(j), "an integer"))
    return false;
  *out = json_integer_value(j);
  if (*out < min || *out > max)
    return fail(r, "%lld is out of range (%lld to %lld)", (long long)*out, (long long)min,
                (long long)max);
  return true;
}

static bool enumerator(struct reader *r, const json_t *j, const struct rec_values *values,
                       int *out) {
  if (!expect(r, j, json_is_string(j), "a string"))
    return false;
  for (size_t i = 0; i < values->n; i++)
    if (strcmp(values->v[i].name, json_string_value(j)) == 0) {
      *out = values->v[i].value;
      return true;
    }
  return fail(r, "\"%s\" is not %s", json_string_value(j), values->what);
}

static bool string(struct reader *r, const json_t *j, char **out) {
  if (!expect(r, j, json_is_string(j), "a string"))
    return false;
  free(*out);
  *out = ir_text_from_utf8(json_string_value(j));
  return true;
}

static bool record(struct reader *r, const struct rec_record *rec, const json_t *j, void *base);

static bool element(struct reader *r, const struct rec_field *f, const json_t *j,
                    struct rec_vec *vec) {
  json_int_t v;
  if (f->type == REC_LIST) {
    void *e = vec_grow((void **)&vec->v, &vec->n, &vec->cap, f->sub->size);
    return record(r, f->sub, j, e);
  }
  if (f->type == REC_STRS) {
    char **s = vec_grow((void **)&vec->v, &vec->n, &vec->cap, sizeof *s);
    *s = xstrdup("");
    return string(r, j, s);
  }
  if (!integer(r, j, 0, INT_MAX, &v))
    return false;
  *(ir_id *)vec_grow((void **)&vec->v, &vec->n, &vec->cap, sizeof(ir_id)) = (ir_id)v;
  return true;
}

static bool elements(struct reader *r, const struct rec_field *f, const json_t *j, void *at) {
  if (!expect(r, j, json_is_array(j), "an array"))
    return false;
  size_t n = json_array_size(j), mark = r->path.n;
  if (f->type == REC_TRIPLE && n != 3)
    return fail(r, "expected 3 elements, found %zu", n);
  for (size_t i = 0; i < n; i++) {
    sb_addf(&r->path, "/%zu", i);
    const json_t *e = json_array_get(j, i);
    if (f->type == REC_TRIPLE) {
      char *sub = (char *)at + i * f->sub->size;
      rec_free(f->sub, sub);
      memset(sub, 0, f->sub->size);
      if (!record(r, f->sub, e, sub))
        return false;
    } else if (!element(r, f, e, at)) {
      return false;
    }
    leave(r, mark);
  }
  return true;
}

static bool field(struct reader *r, const struct rec_field *f, const json_t *j, void *at) {
  json_int_t v;
  switch (f->type) {
  case REC_STR:
    return string(r, j, at);
  case REC_BOOL:
    if (!expect(r, j, json_is_boolean(j), "true or false"))
      return false;
    *(bool *)at = json_is_true(j);
    return true;
  case REC_INT:
    if (!integer(r, j, INT_MIN, INT_MAX, &v))
      return false;
    *(int *)at = (int)v;
    return true;
  case REC_ID:
    if (!integer(r, j, -1, INT_MAX, &v))
      return false;
    *(ir_id *)at = (ir_id)v;
    return true;
  case REC_UINT:
    if (!integer(r, j, 0, UINT_MAX, &v))
      return false;
    *(unsigned *)at = (unsigned)v;
    return true;
  case REC_SIZE:
    if (!integer(r, j, 0, LLONG_MAX, &v))
      return false;
    *(size_t *)at = (size_t)v;
    return true;
  case REC_I64:
    if (!integer(r, j, LLONG_MIN, LLONG_MAX, &v))
      return false;
    *(int64_t *)at = v;
    return true;
  case REC_ENUM:
    return enumerator(r, j, f->values, at);
  case REC_RECORD:
    rec_free(f->sub, at);
    memset(at, 0, f->sub->size);
    return record(r, f->sub, j, at);
  default:
    return elements(r, f, j, at);
  }
}

static const struct rec_field *find(const struct rec_record *rec, const char *key) {
  for (const struct rec_field *f = rec->fields; f < rec->fields + rec->n; f++)
    if (strcmp(f->key, key) == 0)
      return f;
  return NULL;
}

/* Reads into BASE, which is zeroed; it is valid (can be freed) afterwards in any case. */
static bool record(struct reader *r, const struct rec_record *rec, const json_t *j, void *base) {
  bool is_object = json_is_object(j);
  size_t mark = r->path.n;
  if (rec == &rec_node && is_object) {
    const json_t *kind = json_object_get(j, "kind");
    int k = 0;
    bool ok = true;
    if (kind) {
      sb_add(&r->path, "/kind");
      ok = enumerator(r, kind, &rec_node_kinds, &k);
      leave(r, mark);
      ((struct ir_node *)base)->kind = (enum ir_node_kind)k;
    }
    rec_init(rec, base);
    if (!ok)
      return false;
  } else {
    rec_init(rec, base);
  }
  if (!expect(r, j, is_object, "an object"))
    return false;

  const char *key;
  json_t *value;
  json_object_foreach((json_t *)j, key, value) {
    const struct rec_field *f = find(rec, key);
    if (!f && rec == &rec_program && strcmp(key, "version") == 0)
      continue;
    if (!f)
      return fail(r, "a %s has no member \"%s\"", rec->name, key);
    if (!rec_present(rec, f, base))
      return fail(r, "a node of kind \"%s\" has no member \"%s\"",
                  ir_node_kind_name(((struct ir_node *)base)->kind), key);
    sb_addf(&r->path, "/%s", key);
    if (!field(r, f, value, rec_at(base, f)))
      return false;
    leave(r, mark);
  }
  for (const struct rec_field *f = rec->fields; f < rec->fields + rec->n; f++)
    if ((f->flags & REC_REQUIRED) && rec_present(rec, f, base) && !json_object_get(j, f->key))
      return fail(r, "member \"%s\" is missing", f->key);
  return true;
}

static bool version(struct reader *r, const json_t *j) {
  const json_t *v = json_object_get(j, "version");
  if (!json_is_object(j))
    return true; /* reported by record() */
  if (!json_is_integer(v))
    return fail(r, "member \"version\" (an integer) is missing");
  if (json_integer_value(v) != 1)
    return fail(r, "version %lld of the format is not supported, only 1",
                (long long)json_integer_value(v));
  return true;
}

struct ir_program *ir_from_json(const char *text, char *why, size_t size) {
  json_error_t error;
  json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  if (!j) {
    snprintf(why, size, "line %d, column %d: %s", error.line, error.column, error.text);
    return NULL;
  }
  struct ir_program *p = xcalloc(1, sizeof *p);
  struct reader r = {0};
  bool ok = record(&r, &rec_program, j, p) && version(&r, j);
  json_decref(j);
  if (!ok)
    snprintf(why, size, "%s", r.why.s);
  else
    ok = ir_verify(p, why, size);
  sb_free(&r.path);
  sb_free(&r.why);
  if (ok)
    return p;
  ir_free(p);
  return NULL;
}
