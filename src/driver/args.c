// SPDX-License-Identifier: Apache-2.0
#include "driver/args.h"
#include "support/io.h"
#include <ctype.h>
#include <string.h>

enum { MAX_NESTED = 16, MAX_WORDS = 1 << 20 };

void args_add(struct arg_list *a, const char *s) { VEC_PUSH(a) = xstrdup(s); }

void args_addf(struct arg_list *a, const char *fmt, ...) {
  struct strbuf b = {0};
  va_list ap;
  va_start(ap, fmt);
  sb_vaddf(&b, fmt, ap);
  va_end(ap);
  VEC_PUSH(a) = sb_take(&b);
}

void args_append(struct arg_list *a, const struct arg_list *more) {
  for (size_t i = 0; i < more->n; i++)
    args_add(a, more->v[i]);
}

void args_free(struct arg_list *a) {
  VEC_EACH(a, s)
    free(*s);
  VEC_FREE(a);
}

char **args_vector(const struct arg_list *a) {
  char **v = xcalloc(a->n + 1, sizeof *v);
  if (a->n)
    memcpy(v, a->v, a->n * sizeof *v);
  return v;
}

/* Reads one word from *P, which is not at white space. */
static char *split_word(const char **p) {
  struct strbuf word = {0};
  char quote = '\0';
  const char *s = *p;
  for (; *s && (quote || !isspace((unsigned char)*s)); s++) {
    if (quote ? *s == quote : *s == '\'' || *s == '"')
      quote = quote ? '\0' : *s;
    else if (*s == '\\' && quote != '\'' && s[1])
      sb_addc(&word, *++s);
    else
      sb_addc(&word, *s);
  }
  *p = s;
  return sb_take(&word);
}

void args_split(struct arg_list *out, const char *text) {
  for (;;) {
    while (isspace((unsigned char)*text))
      text++;
    if (!*text)
      return;
    char *word = split_word(&text);
    VEC_PUSH(out) = word;
  }
}

static bool expand(struct arg_list *out, size_t argc, char *const *argv, int depth, char **why) {
  for (size_t i = 0; i < argc; i++) {
    if (strcmp(argv[i], "--") == 0) {
      for (; i < argc; i++)
        args_add(out, argv[i]);
      return true;
    }
    if (argv[i][0] != '@' || !argv[i][1]) {
      args_add(out, argv[i]);
      continue;
    }
    struct strbuf text = {0};
    int error = depth >= MAX_NESTED ? -1 : io_read_file(argv[i] + 1, &text);
    bool ok = error == 0 && out->n < MAX_WORDS;
    if (ok) {
      struct arg_list words = {0};
      args_split(&words, text.s);
      ok = expand(out, words.n, words.v, depth + 1, why);
      args_free(&words);
    } else {
      *why = xasprintf("cannot read response file '%s': %s", argv[i] + 1,
                       error > 0 ? strerror(error) : "files include each other without end");
    }
    sb_free(&text);
    if (!ok)
      return false;
  }
  return true;
}

bool args_expand(struct arg_list *out, int argc, char *const *argv, char **why) {
  return expand(out, argc > 0 ? (size_t)argc : 0, argv, 0, why);
}

void args_quote(struct strbuf *out, const struct arg_list *a) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%#";
  for (size_t i = 0; i < a->n; i++) {
    const char *s = a->v[i];
    if (i)
      sb_addc(out, ' ');
    if (*s && strspn(s, plain) == strlen(s)) {
      sb_add(out, s);
      continue;
    }
    sb_addc(out, '\'');
    for (; *s; s++)
      if (*s == '\'')
        sb_add(out, "'\\''");
      else
        sb_addc(out, *s);
    sb_addc(out, '\'');
  }
  if (!out->s)
    sb_add(out, "");
}
