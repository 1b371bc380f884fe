// SPDX-License-Identifier: Apache-2.0
/* spec/ir.schema.json, from the same table as reader and writer. */
#include "ir/record.h"
#include "support/strbuf.h"
#include <jansson.h>
#include <string.h>

struct schema {
  json_t *defs;
};

static json_t *reference(struct schema *s, const struct rec_record *r);

static json_t *integers(json_int_t min, bool bounded) {
  return bounded ? json_pack("{s:s, s:I}", "type", "integer", "minimum", min)
                 : json_pack("{s:s}", "type", "integer");
}

static json_t *array_of(json_t *items) {
  return json_pack("{s:s, s:o}", "type", "array", "items", items);
}

static json_t *field_schema(struct schema *s, const struct rec_field *f) {
  switch (f->type) {
  case REC_STR:
    return json_pack("{s:s}", "type", "string");
  case REC_BOOL:
    return json_pack("{s:s}", "type", "boolean");
  case REC_ID:
    return integers(-1, true);
  case REC_UINT:
  case REC_SIZE:
    return integers(0, true);
  case REC_INT:
  case REC_I64:
    return integers(0, false);
  case REC_ENUM: {
    json_t *names = json_array();
    for (size_t i = 0; i < f->values->n; i++)
      json_array_append_new(names, json_string(f->values->v[i].name));
    return json_pack("{s:o}", "enum", names);
  }
  case REC_RECORD:
    return reference(s, f->sub);
  case REC_LIST:
    return array_of(reference(s, f->sub));
  case REC_TRIPLE:
    return json_pack("{s:s, s:o, s:i, s:i}", "type", "array", "items", reference(s, f->sub),
                     "minItems", 3, "maxItems", 3);
  case REC_STRS:
    return array_of(json_pack("{s:s}", "type", "string"));
  default:
    return array_of(integers(0, true));
  }
}

/* For each kind that has fields of its own: which are required then, and which are not allowed. */
static json_t *node_kinds(const struct rec_record *r) {
  json_t *all = json_array();
  for (size_t k = 0; k < rec_node_kinds.n; k++) {
    int kind = rec_node_kinds.v[k].value;
    json_t *required = json_array(), *absent = json_object();
    for (const struct rec_field *f = r->fields; f < r->fields + r->n; f++) {
      if (f->kinds && !(f->kinds >> kind & 1))
        json_object_set_new(absent, f->key, json_false());
      else if (f->kinds && (f->flags & REC_REQUIRED))
        json_array_append_new(required, json_string(f->key));
    }
    json_array_append_new(all,
                          json_pack("{s:{s:{s:{s:s}}, s:[s]}, s:{s:o, s:o}}", "if", "properties",
                                    "kind", "const", rec_node_kinds.v[k].name, "required", "kind",
                                    "then", "required", required, "properties", absent));
  }
  return all;
}

static json_t *record_schema(struct schema *s, const struct rec_record *r) {
  json_t *properties = json_object(), *required = json_array();
  if (r == &rec_program) {
    json_object_set_new(properties, "version", json_pack("{s:i}", "const", 1));
    json_array_append_new(required, json_string("version"));
  }
  for (const struct rec_field *f = r->fields; f < r->fields + r->n; f++) {
    json_object_set_new(properties, f->key, field_schema(s, f));
    if ((f->flags & REC_REQUIRED) && !f->kinds)
      json_array_append_new(required, json_string(f->key));
  }
  json_t *j = json_pack("{s:s, s:s, s:o, s:o, s:b}", "description", r->summary, "type", "object",
                        "properties", properties, "required", required, "additionalProperties", 0);
  if (r == &rec_node)
    json_object_set_new(j, "allOf", node_kinds(r));
  return j;
}

static json_t *reference(struct schema *s, const struct rec_record *r) {
  if (!json_object_get(s->defs, r->name)) {
    json_object_set_new(s->defs, r->name, json_null()); /* keeps the order of first mention */
    json_object_set_new(s->defs, r->name, record_schema(s, r));
  }
  char *ref = xasprintf("#/$defs/%s", r->name);
  json_t *j = json_pack("{s:s}", "$ref", ref);
  free(ref);
  return j;
}

char *ir_schema_json(void) {
  struct schema s = {json_object()};
  json_t *top = json_pack("{s:s, s:s, s:s}", "$schema",
                          "https://json-schema.org/draft/2020-12/schema", "title", "cucocc IR",
                          "$comment", "Generated from the table in src/ir/record_table.c.");
  json_t *program = record_schema(&s, &rec_program);
  json_object_update(top, program);
  json_decref(program);
  json_object_set_new(top, "$defs", s.defs);
  char *text = json_dumps(top, JSON_INDENT(1));
  json_decref(top);
  char *out = xasprintf("%s\n", text ? text : "");
  free(text);
  return out;
}
