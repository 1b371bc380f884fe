// SPDX-License-Identifier: Apache-2.0
#include "agents/hardware.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const struct field {
  const char *key;
  double least, most;
  size_t offset;
} fields[] = {
#define FIELD(key, least, most, meaning) {#key, least, most, offsetof(struct hardware, key)},
    HARDWARE_FIELDS
#undef FIELD
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static bool copy_text(json_t *root, const char *key, char *to, size_t n) {
  const char *s = json_string_value(json_object_get(root, key));
  return s && *s && snprintf(to, n, "%s", s) < (int)n;
}

static bool is_known(const char *key) {
  for (int i = 0; i < N_FIELDS; i++)
    if (strcmp(fields[i].key, key) == 0)
      return true;
  return strcmp(key, "version") == 0 || strcmp(key, "name") == 0 || strcmp(key, "summary") == 0;
}

static bool read(struct hardware *h, json_t *root, char *why, size_t size) {
  const char *key;
  json_t *v;
  if (!json_is_object(root) || json_integer_value(json_object_get(root, "version")) != 1)
    return snprintf(why, size, "it must be an object with \"version\": 1"), false;
  if (!copy_text(root, "name", h->name, sizeof h->name) ||
      !copy_text(root, "summary", h->summary, sizeof h->summary))
    return snprintf(why, size, "'name' and 'summary' must be texts, and short"), false;
  json_object_foreach(root, key, v) {
    if (!is_known(key))
      return snprintf(why, size, "unknown key '%.60s'", key), false;
  }
  for (int i = 0; i < N_FIELDS; i++) {
    v = json_object_get(root, fields[i].key);
    double x = json_number_value(v);
    if (!json_is_number(v) || x < fields[i].least || x > fields[i].most)
      return snprintf(why, size, "'%s' must be a number from %g to %g", fields[i].key,
                      fields[i].least, fields[i].most),
             false;
    memcpy((char *)h + fields[i].offset, &x, sizeof x);
  }
  return true;
}

bool hardware_parse(struct hardware *h, const char *text, char *why, size_t size) {
  json_error_t e;
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &e);
  bool ok = root && read(h, root, why, size);
  if (!root)
    snprintf(why, size, "line %d: %s", e.line, e.text);
  json_decref(root);
  return ok;
}
