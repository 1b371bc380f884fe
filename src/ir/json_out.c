// SPDX-License-Identifier: Apache-2.0
/* The IR as JSON text: one entity a line, members at their defaults left out. */
#include "ir/record.h"
#include "ir/text.h"
#include "support/strbuf.h"
#include <jansson.h>

static json_t *string_json(const char *s) {
  char *utf8 = ir_text_to_utf8(s);
  json_t *j = json_string(utf8);
  free(utf8);
  return j;
}

static json_t *record_json(const struct rec_record *r, const void *base);

static json_t *field_json(const struct rec_field *f, const void *base) {
  const void *at = rec_at(base, f);
  const struct rec_vec *vec = at;
  json_t *list;
  switch (f->type) {
  case REC_STR:
    return string_json(*(char *const *)at);
  case REC_BOOL:
    return json_boolean(*(const bool *)at);
  case REC_INT:
  case REC_ID:
    return json_integer(*(const int *)at);
  case REC_UINT:
    return json_integer(*(const unsigned *)at);
  case REC_SIZE:
    return json_integer((json_int_t) * (const size_t *)at);
  case REC_I64:
    return json_integer(*(const int64_t *)at);
  case REC_ENUM: {
    const char *name = rec_name(f->values, *(const int *)at);
    return json_string(name ? name : "?");
  }
  case REC_RECORD:
    return record_json(f->sub, at);
  default:
    break;
  }
  list = json_array();
  if (f->type == REC_TRIPLE)
    for (size_t i = 0; i < 3; i++)
      json_array_append_new(list, record_json(f->sub, (const char *)at + i * f->sub->size));
  else
    for (size_t i = 0; i < vec->n; i++)
      json_array_append_new(
          list, f->type == REC_LIST   ? record_json(f->sub, vec->v + i * f->sub->size)
                : f->type == REC_STRS ? string_json(((char *const *)(const void *)vec->v)[i])
                                      : json_integer(((const ir_id *)(const void *)vec->v)[i]));
  return list;
}

static json_t *record_json(const struct rec_record *r, const void *base) {
  json_t *o = json_object();
  for (const struct rec_field *f = r->fields; f < r->fields + r->n; f++)
    if (rec_present(r, f, base) && ((f->flags & REC_REQUIRED) || !rec_is_default(f, base)))
      json_object_set_new_nocheck(o, f->key, field_json(f, base));
  return o;
}

static void dump(struct strbuf *b, json_t *j) {
  char *s = json_dumps(j, JSON_ENCODE_ANY);
  sb_add(b, s ? s : "null");
  free(s);
  json_decref(j);
}

char *ir_to_json(const struct ir_program *p) {
  struct strbuf b = {0};
  sb_add(&b, "{\n \"version\": 1");
  for (const struct rec_field *f = rec_program.fields; f < rec_program.fields + rec_program.n;
       f++) {
    if (!(f->flags & REC_REQUIRED) && rec_is_default(f, p))
      continue;
    sb_addf(&b, ",\n \"%s\": ", f->key);
    if (f->type != REC_LIST) {
      dump(&b, field_json(f, p));
      continue;
    }
    const struct rec_vec *vec = rec_at(p, f);
    for (size_t i = 0; i < vec->n; i++) {
      sb_add(&b, i ? ",\n  " : "[\n  ");
      dump(&b, record_json(f->sub, vec->v + i * f->sub->size));
    }
    sb_add(&b, "]");
  }
  sb_add(&b, "\n}\n");
  return sb_take(&b);
}
