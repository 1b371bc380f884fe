// SPDX-License-Identifier: Apache-2.0
#include "backend/template.h"
#include "support/vec.h"
#include <string.h>

/* The length of a placeholder that starts at S ('@'), both @ included, or 0. */
static size_t placeholder(const char *s) {
  size_t n = strspn(s + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  return n && s[n + 1] == '@' ? n + 2 : 0;
}

bool template_expand(const char *text, const struct template_value *values, size_t n_values,
                     struct strbuf *out) {
  bool complete = true;
  for (const char *at; (at = strchr(text, '@')); ) {
    size_t n = placeholder(at), i = 0;
    if (!n) {
      sb_addn(out, text, (size_t)(at + 1 - text));
      text = at + 1;
      continue;
    }
    sb_addn(out, text, (size_t)(at - text));
    while (i < n_values &&
           (strncmp(values[i].name, at + 1, n - 2) != 0 || values[i].name[n - 2] != '\0'))
      i++;
    if (i < n_values)
      sb_add(out, values[i].value);
    else
      complete = false;
    text = at + n;
  }
  sb_add(out, text);
  return complete;
}

/* ---- sections ------------------------------------------------------------------------------------ */

static const char marker[] = "// cucocc-section: ";

struct section {
  const char *begin, *end;   /* text, without the marker line */
  const char *name;
  size_t name_length;
  const char *needs, *needs_end;
  bool wanted;
};

static const char *line_end(const char *s) {
  const char *e = strchr(s, '\n');
  return e ? e + 1 : s + strlen(s);
}

void template_sections(const char *text, const char *const *wanted, struct strbuf *out) {
  VEC(struct section) list = {0};
  const char *line = text;
  struct section *cur = &VEC_PUSH(&list);
  *cur = (struct section){.begin = text, .wanted = true, .name = "", .needs = "", .needs_end = ""};
  for (; *line; line = line_end(line)) {
    if (strncmp(line, marker, sizeof marker - 1) != 0)
      continue;
    list.v[list.n - 1].end = line;
    cur = &VEC_PUSH(&list);
    cur->begin = line_end(line);
    cur->name = line + sizeof marker - 1;
    cur->name_length = strcspn(cur->name, " \n");
    cur->needs = cur->name + cur->name_length;
    cur->needs_end = cur->needs + strcspn(cur->needs, "\n");
    cur->wanted = cur->name_length == 3 && strncmp(cur->name, "end", 3) == 0;
    for (const char *const *w = wanted; *w; w++)
      if (strlen(*w) == cur->name_length && strncmp(*w, cur->name, cur->name_length) == 0)
        cur->wanted = true;
  }
  list.v[list.n - 1].end = line;
  for (bool changed = true; changed;) {
    changed = false;
    VEC_EACH(&list, s)
    for (const char *p = s->needs; s->wanted && p < s->needs_end;) {
      p += strspn(p, " ");
      size_t n = strcspn(p, " \n");
      VEC_EACH(&list, t)
      if (!t->wanted && n && t->name_length == n && strncmp(t->name, p, n) == 0)
        t->wanted = changed = true;
      p += n ? n : 1;
    }
  }
  VEC_EACH(&list, s) if (s->wanted) sb_addn(out, s->begin, (size_t)(s->end - s->begin));
  VEC_FREE(&list);
}
