// SPDX-License-Identifier: Apache-2.0
/* Directives: the table's names, the regions of a program, JSON in and out, the schema. */
#include "agents/directive.h"
#include "support/strbuf.h"
#include <jansson.h>
#include <string.h>

/* ---- the table ----------------------------------------------------------------------------------- */

struct value {
  const char *name, *summary;
  bool implemented;
};
#define IMPLEMENTED true
#define PLANNED false
#define DIM_BEGIN(dim, summary) static const struct value dim##_values[] = {
#define DIM_VALUE(dim, value, status, summary) {#value, summary, status},
#define DIM_END(dim)                                                                               \
  }                                                                                                \
  ;
#include "directives.def"
#undef DIM_BEGIN
#undef DIM_VALUE
#undef DIM_END

static const struct dimension {
  const char *name, *summary;
  const struct value *values;
  int count;
  size_t offset; /* of the enum in struct dir_directive */
} dimensions[] = {
#define DIM_BEGIN(dim, summary)                                                                    \
  {#dim, summary, dim##_values, DIR_##dim##_COUNT, offsetof(struct dir_directive, dim)},
#define DIM_VALUE(dim, value, status, summary)
#define DIM_END(dim)
#include "directives.def"
#undef DIM_BEGIN
#undef DIM_VALUE
#undef DIM_END
};
enum { N_DIMENSIONS = sizeof dimensions / sizeof *dimensions };

_Static_assert(sizeof(enum dir_backend) == sizeof(int), "dimensions are read as int");

static int *dimension_slot(const struct dimension *dim, struct dir_directive *d) {
  return (int *)(void *)((char *)d + dim->offset);
}

static int dimension_get(const struct dimension *dim, const struct dir_directive *d) {
  return *(const int *)(const void *)((const char *)d + dim->offset);
}

int dir_dimension_count(void) { return N_DIMENSIONS; }
const char *dir_dimension_name(int dim) { return dimensions[dim].name; }
const char *dir_dimension_summary(int dim) { return dimensions[dim].summary; }
int dir_value_count(int dim) { return dimensions[dim].count; }
const char *dir_value_name(int dim, int value) { return dimensions[dim].values[value].name; }
const char *dir_value_summary(int dim, int value) { return dimensions[dim].values[value].summary; }
bool dir_value_implemented(int dim, int value) { return dimensions[dim].values[value].implemented; }
int dir_value_get(const struct dir_directive *d, int dim) {
  return dimension_get(&dimensions[dim], d);
}

void dir_value_set(struct dir_directive *d, int dim, int value) {
  *dimension_slot(&dimensions[dim], d) = value;
}

int dir_ctas(const struct dir_directive *d) {
  return d->ctas ? d->ctas : d->placement == DIR_placement_deferred ? 32 : 16;
}

char *dir_describe(const struct dir_directive *d) {
  struct strbuf b = {0};
  for (int i = 0; i < N_DIMENSIONS; i++) {
    if (strcmp(dimensions[i].name, "transfer") == 0)
      continue;
    sb_addf(&b, "%s%s", b.n ? ", " : "",
            dimensions[i].values[dimension_get(&dimensions[i], d)].name);
    if (d->backend == DIR_backend_host)
      return sb_take(&b);
  }
  if (d->chunk_bytes == DIR_CHUNK_WHOLE)
    sb_add(&b, ", whole");
  else if (d->chunk_bytes == DIR_CHUNK_TILE)
    sb_add(&b, ", tile");
  else
    sb_addf(&b, ", %lld bytes", (long long)d->chunk_bytes);
  return sb_take(&b);
}

void dir_set_free(struct dir_set *s) {
  VEC_EACH(&s->regions, r) VEC_FREE(&r->calls);
  VEC_EACH(&s->directives, d) free(d->reason);
  VEC_FREE(&s->regions);
  VEC_FREE(&s->directives);
}

/* ---- regions ------------------------------------------------------------------------------------- */

bool dir_is_p2p(const struct ir_program *ir, const struct dir_region *region) {
  const struct ir_node *n = &ir->nodes.v[region->node];
  return n->kind == IR_GROUP || n->u.coll.op == IR_COLL_send || n->u.coll.op == IR_COLL_recv;
}

/* The outermost group around node N, or -1. */
static ir_id enclosing_group(const struct ir_program *ir, ir_id n) {
  ir_id group = -1;
  for (ir_id p = ir->nodes.v[n].parent; p >= 0; p = ir->nodes.v[p].parent)
    if (ir->nodes.v[p].kind == IR_GROUP)
      group = p;
  return group;
}

static bool earlier(const struct ir_program *ir, ir_id a, ir_id b) {
  const struct ir_range *x = &ir->nodes.v[a].range, *y = &ir->nodes.v[b].range;
  if (x->file != y->file)
    return x->file < y->file;
  return x->begin != y->begin ? x->begin < y->begin : a < b;
}

void dir_find_regions(const struct ir_program *ir, struct dir_set *out) {
  memset(out, 0, sizeof *out);
  VEC(ir_id) leaves = {0};
  for (size_t i = 0; i < ir->nodes.n; i++)
    if (ir->nodes.v[i].kind == IR_COLLECTIVE && ir->nodes.v[i].call >= 0)
      VEC_PUSH(&leaves) = (ir_id)i;
  for (size_t i = 1; i < leaves.n; i++) /* insertion sort: nodes are almost in source order */
    for (size_t j = i; j > 0 && earlier(ir, leaves.v[j], leaves.v[j - 1]); j--) {
      ir_id t = leaves.v[j];
      leaves.v[j] = leaves.v[j - 1];
      leaves.v[j - 1] = t;
    }
  VEC_EACH(&leaves, leaf) {
    const struct ir_node *n = &ir->nodes.v[*leaf];
    bool p2p = n->u.coll.op == IR_COLL_send || n->u.coll.op == IR_COLL_recv;
    ir_id node = p2p ? enclosing_group(ir, *leaf) : -1;
    if (node < 0)
      node = *leaf;
    struct dir_region *r = NULL;
    if (p2p)
      VEC_EACH(&out->regions, q) if (q->node == node) r = q;
    if (!r) {
      r = &VEC_PUSH(&out->regions);
      r->id = (int)out->regions.n;
      r->node = node;
      struct dir_directive *d = &VEC_PUSH(&out->directives);
      *d = (struct dir_directive){.region = r->id, .depth = 1, .vector_bytes = 16,
                                  .reason = xstrdup("")};
    }
    VEC_PUSH(&r->calls) = n->call;
  }
  VEC_FREE(&leaves);
}

void dir_region_loc(const struct ir_program *ir, const struct dir_region *region,
                    struct diag_loc *loc) {
  const struct ir_call *c = &ir->calls.v[region->calls.v[0]];
  *loc = (struct diag_loc){.file = c->name.file >= 0 ? ir->files.v[c->name.file].path : NULL,
                           .line = c->name.line,
                           .col = c->name.col,
                           .end_col = c->name.col + (unsigned)(c->name.end - c->name.begin)};
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

char *dir_to_json(const struct ir_program *ir, const struct dir_set *set) {
  json_t *list = json_array();
  for (size_t i = 0; i < set->directives.n; i++) {
    const struct dir_directive *d = &set->directives.v[i];
    const struct ir_call *c = &ir->calls.v[set->regions.v[i].calls.v[0]];
    json_t *o = json_object();
    json_object_set_new(o, "region",
                        json_pack("{s:i, s:s, s:i}", "id", d->region, "call", c->callee, "line",
                                  (int)c->name.line));
    for (int k = 0; k < N_DIMENSIONS; k++)
      json_object_set_new(o, dimensions[k].name,
                          json_string(dimensions[k].values[dimension_get(&dimensions[k], d)].name));
    json_object_set_new(o, "chunk_bytes",
                        d->chunk_bytes == DIR_CHUNK_WHOLE  ? json_string("whole")
                        : d->chunk_bytes == DIR_CHUNK_TILE ? json_string("tile")
                                                           : json_integer(d->chunk_bytes));
    json_object_set_new(o, "ctas", json_integer(d->ctas));
    json_object_set_new(o, "depth", json_integer(d->depth));
    json_object_set_new(o, "vector_bytes", json_integer(d->vector_bytes));
    json_object_set_new(o, "reason", json_string(d->reason));
    json_array_append_new(list, o);
  }
  json_t *root = json_pack("{s:i, s:o}", "version", 1, "directives", list);
  char *text = json_dumps(root, JSON_INDENT(2));
  json_decref(root);
  struct strbuf b = {0};
  sb_add(&b, text ? text : "{}");
  sb_addc(&b, '\n');
  free(text);
  return sb_take(&b);
}

struct reader {
  const struct ir_program *ir;
  struct diag_engine *diag;
  struct diag_loc loc;
  bool ok;
};

__attribute__((format(printf, 2, 3))) static bool bad(struct reader *r, const char *fmt, ...) {
  struct strbuf b = {0};
  va_list ap;
  va_start(ap, fmt);
  sb_vaddf(&b, fmt, ap);
  va_end(ap);
  if (r->diag)
    diag_report(r->diag, DIAG_directive_invalid, &r->loc, "%s", b.s);
  sb_free(&b);
  return r->ok = false;
}

static bool read_integer(struct reader *r, json_t *v, size_t index, const char *key, long long lo,
                         long long hi, int64_t *out) {
  if (!json_is_integer(v) || json_integer_value(v) < lo || json_integer_value(v) > hi)
    return bad(r, "directives[%zu].%s must be a whole number from %lld to %lld", index, key, lo, hi);
  *out = json_integer_value(v);
  return true;
}

static const struct dimension *find_dimension(const char *name) {
  for (int k = 0; k < N_DIMENSIONS; k++)
    if (strcmp(dimensions[k].name, name) == 0)
      return &dimensions[k];
  return NULL;
}

static bool read_field(struct reader *r, size_t i, const char *key, json_t *v,
                       struct dir_directive *d) {
  int64_t n = 0;
  const struct dimension *dim = find_dimension(key);
  if (dim) {
    for (int k = 0; json_is_string(v) && k < dim->count; k++)
      if (strcmp(dim->values[k].name, json_string_value(v)) == 0) {
        *dimension_slot(dim, d) = k;
        return true;
      }
    struct strbuf names = {0};
    for (int k = 0; k < dim->count; k++)
      sb_addf(&names, "%s%s", k ? ", " : "", dim->values[k].name);
    bad(r, "directives[%zu].%s must be one of: %s", i, key, names.s);
    sb_free(&names);
    return false;
  }
  if (strcmp(key, "chunk_bytes") == 0) {
    if (json_is_string(v) && strcmp(json_string_value(v), "whole") == 0)
      return d->chunk_bytes = DIR_CHUNK_WHOLE, true;
    if (json_is_string(v) && strcmp(json_string_value(v), "tile") == 0)
      return d->chunk_bytes = DIR_CHUNK_TILE, true;
    if (!json_is_integer(v) || json_integer_value(v) < 1)
      return bad(r, "directives[%zu].chunk_bytes must be \"whole\", \"tile\" or a positive whole number",
                 i);
    return d->chunk_bytes = json_integer_value(v), true;
  }
  if (strcmp(key, "ctas") == 0)
    return read_integer(r, v, i, key, 0, 64, &n) && (d->ctas = (int)n, true);
  if (strcmp(key, "depth") == 0)
    return read_integer(r, v, i, key, 1, 16, &n) && (d->depth = (int)n, true);
  if (strcmp(key, "vector_bytes") == 0) {
    if (!json_is_integer(v) || (json_integer_value(v) != 4 && json_integer_value(v) != 8 &&
                                json_integer_value(v) != 16))
      return bad(r, "directives[%zu].vector_bytes must be 4, 8 or 16", i);
    return d->vector_bytes = (int)json_integer_value(v), true;
  }
  if (strcmp(key, "reason") == 0) {
    if (!json_is_string(v))
      return bad(r, "directives[%zu].reason must be a string", i);
    return ir_set(&d->reason, json_string_value(v)), true;
  }
  return strcmp(key, "region") == 0 || bad(r, "directives[%zu] has an unknown key '%s'", i, key);
}

/* The directive of SET that JSON value REGION names, or NULL after a report. */
static struct dir_directive *read_region(struct reader *r, size_t i, json_t *region,
                                         struct dir_set *set) {
  json_t *id = json_object_get(region, "id"), *call = json_object_get(region, "call"),
         *line = json_object_get(region, "line");
  if (!json_is_object(region) || !json_is_integer(id))
    return bad(r, "directives[%zu].region.id must be the number of a region", i), NULL;
  const char *key;
  json_t *v;
  json_object_foreach(region, key, v) if (v != id && v != call && v != line) return bad(
      r, "directives[%zu].region has an unknown key '%s'", i, key),
      NULL;
  json_int_t n = json_integer_value(id);
  if (n < 1 || (size_t)n > set->regions.n)
    return bad(r, "directives[%zu].region.id is %lld, but the program has %zu communication regions",
               i, (long long)n, set->regions.n),
           NULL;
  const struct ir_call *c = &r->ir->calls.v[set->regions.v[n - 1].calls.v[0]];
  if (call && (!json_is_string(call) || strcmp(json_string_value(call), c->callee) != 0))
    return bad(r, "directives[%zu].region.call does not fit: region %lld is %s", i, (long long)n,
               c->callee),
           NULL;
  if (line && (!json_is_integer(line) || json_integer_value(line) != c->name.line))
    return bad(r, "directives[%zu].region.line does not fit: region %lld is at line %u", i,
               (long long)n, c->name.line),
           NULL;
  return &set->directives.v[n - 1];
}

bool dir_from_json(const struct ir_program *ir, struct dir_set *set, const char *file,
                   const char *text, struct diag_engine *diag) {
  struct reader r = {ir, diag, {.file = file}, true};
  json_error_t e;
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &e);
  if (!root) {
    r.loc = (struct diag_loc){.file = file, .line = e.line > 0 ? (unsigned)e.line : 0,
                              .col = e.column > 0 ? (unsigned)e.column : 1};
    return bad(&r, "this is not JSON: %s", e.text);
  }
  json_t *list = json_object_get(root, "directives"), *version = json_object_get(root, "version"), *v;
  const char *key;
  size_t i;
  if (!json_is_object(root) || !json_is_array(list) || json_integer_value(version) != 1)
    bad(&r, "the file must be an object with \"version\": 1 and a list \"directives\"");
  else {
    json_object_foreach(root, key, v) if (v != list && v != version) bad(&r, "unknown key '%s'", key);
    bool *seen = xcalloc(set->regions.n + 1, sizeof *seen);
    json_array_foreach(list, i, v) {
      json_t *field;
      if (!json_is_object(v)) {
        bad(&r, "directives[%zu] must be an object", i);
        continue;
      }
      struct dir_directive *d = read_region(&r, i, json_object_get(v, "region"), set);
      if (!d)
        continue;
      if (seen[d->region])
        bad(&r, "directives[%zu] names region %d a second time", i, d->region);
      seen[d->region] = true;
      for (int k = 0; k < N_DIMENSIONS; k++)
        if (strcmp(dimensions[k].name, "transfer") != 0 && !json_object_get(v, dimensions[k].name))
          bad(&r, "directives[%zu] lacks the key '%s'", i, dimensions[k].name);
      json_object_foreach(v, key, field) read_field(&r, i, key, field, d);
    }
    free(seen);
  }
  json_decref(root);
  return r.ok;
}

char *dir_schema_json(void) {
  json_t *props = json_object(), *required = json_array();
  json_object_set_new(
      props, "region",
      json_pack("{s:s, s:s, s:[s], s:b, s:{s:{s:s, s:i}, s:{s:s}, s:{s:s, s:i}}}", "type", "object",
                "description", "the communication region, numbered from 1 in source order; call and "
                               "line, when present, must agree with it",
                "required", "id", "additionalProperties", 0, "properties", "id", "type", "integer",
                "minimum", 1, "call", "type", "string", "line", "type", "integer", "minimum", 1));
  json_array_append_new(required, json_string("region"));
  for (int k = 0; k < N_DIMENSIONS; k++) {
    json_t *names = json_array();
    struct strbuf b = {0};
    sb_add(&b, dimensions[k].summary);
    for (int j = 0; j < dimensions[k].count; j++) {
      const struct value *x = &dimensions[k].values[j];
      json_array_append_new(names, json_string(x->name));
      sb_addf(&b, "%s%s: %s%s", j ? "; " : " -- ", x->name, x->summary,
              x->implemented ? "" : " (planned)");
    }
    json_object_set_new(props, dimensions[k].name,
                        json_pack("{s:s, s:o}", "description", b.s, "enum", names));
    if (strcmp(dimensions[k].name, "transfer") != 0)
      json_array_append_new(required, json_string(dimensions[k].name));
    sb_free(&b);
  }
  json_object_set_new(props, "chunk_bytes",
                      json_pack("{s:s, s:[{s:[s,s]}, {s:s, s:i}]}", "description",
                                "bytes moved between two synchronisations: a size, the producer's "
                                "tile, or the whole operand",
                                "anyOf", "enum", "whole", "tile", "type", "integer", "minimum", 1));
  json_object_set_new(props, "ctas",
                      json_pack("{s:s, s:s, s:i, s:i}", "description",
                                "CTAs given to communication; 0 = the lowering's choice", "type",
                                "integer", "minimum", 0, "maximum", 64));
  json_object_set_new(props, "depth",
                      json_pack("{s:s, s:s, s:i, s:i}", "description", "parts of a pipeline; 1 for every other placement", "type",
                                "integer", "minimum", 1, "maximum", 16));
  json_object_set_new(props, "vector_bytes",
                      json_pack("{s:s, s:[i,i,i]}", "description",
                                "width of one access where alignment allows", "enum", 4, 8, 16));
  json_object_set_new(props, "reason",
                      json_pack("{s:s, s:s}", "description", "why; for people", "type", "string"));
  json_t *root = json_pack(
      "{s:s, s:s, s:s, s:[s,s], s:b, s:{s:{s:i}, s:{s:s, s:{s:s, s:o, s:b, s:o}}}}", "$schema",
      "https://json-schema.org/draft/2020-12/schema", "title", "cucocc directives", "type", "object",
      "required", "version", "directives", "additionalProperties", 0, "properties", "version",
      "const", 1, "directives", "type", "array", "items", "type", "object", "required", required,
      "additionalProperties", 0, "properties", props);
  char *text = json_dumps(root, JSON_INDENT(2));
  json_decref(root);
  struct strbuf b = {0};
  sb_add(&b, text);
  sb_addc(&b, '\n');
  free(text);
  return sb_take(&b);
}
