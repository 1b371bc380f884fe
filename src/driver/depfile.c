// SPDX-License-Identifier: Apache-2.0
#include "driver/depfile.h"
#include <string.h>

void depfile_name(struct strbuf *out, const char *name) {
  for (const char *p = name; *p; p++) {
    if (*p == '$')
      sb_addc(out, '$');
    else if (*p == '#')
      sb_addc(out, '\\');
    else if (*p == ' ' || *p == '\t') {
      for (const char *q = p; q > name && q[-1] == '\\'; q--)
        sb_addc(out, '\\');
      sb_addc(out, '\\');
    }
    sb_addc(out, *p);
  }
}

static bool under(const char *path, const char *dir) {
  size_t n = dir ? strlen(dir) : 0;
  return n && strncmp(path, dir, n) == 0 && path[n] == '/';
}

static bool system_header(const struct depfile *d, const char *path) {
  if (under(path, "/usr"))
    return true;
  for (const char *const *dir = d->system_dirs; dir && *dir; dir++)
    if (under(path, *dir))
      return true;
  return false;
}

void depfile_format(struct strbuf *out, const struct depfile *d) {
  for (size_t i = 0; i < d->targets->n; i++) {
    if (i)
      sb_addc(out, ' ');
    depfile_name(out, d->targets->v[i]);
  }
  sb_add(out, ": ");
  depfile_name(out, d->input);
  for (size_t i = 0; i < d->n_headers; i++) {
    if (d->skip_system && system_header(d, d->headers[i]))
      continue;
    sb_add(out, " \\\n  ");
    depfile_name(out, d->headers[i]);
  }
  sb_addc(out, '\n');
  for (size_t i = 0; d->phony && i < d->n_headers; i++) {
    if (d->skip_system && system_header(d, d->headers[i]))
      continue;
    sb_addc(out, '\n');
    depfile_name(out, d->headers[i]);
    sb_add(out, ":\n");
  }
}

void depfile_replace(struct strbuf *out, const char *text, const char *from, const char *to) {
  struct strbuf old = {0}, new = {0};
  depfile_name(&old, from);
  depfile_name(&new, to);
  static const char blanks[] = " \t\n:\\";
  for (const char *p = text; *p;) {
    bool begins = p == text || strchr(blanks, p[-1]);
    if (old.n && begins && strncmp(p, old.s, old.n) == 0 && strchr(blanks, p[old.n])) {
      sb_addn(out, new.s ? new.s : "", new.n);
      p += old.n;
    } else {
      sb_addc(out, *p++);
    }
  }
  sb_free(&old);
  sb_free(&new);
}
