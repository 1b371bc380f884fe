// SPDX-License-Identifier: Apache-2.0
#include "support/diag_text.h"
#include <stdint.h>
#include <string.h>

enum { TAB = 8, MAX_CELLS = 160 };

size_t diag_text_decode(const char *s, size_t n, unsigned *code) {
  const unsigned char *u = (const unsigned char *)s;
  static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t len = u[0] < 0x80 ? 1 : u[0] >= 0xc2 && u[0] < 0xe0 ? 2 : (u[0] & 0xf0) == 0xe0 ? 3
                     : u[0] >= 0xf0 && u[0] < 0xf5           ? 4
                                                             : 0;
  if (len == 0 || len > n)
    return 0;
  unsigned c = len == 1 ? u[0] : u[0] & (0xffu >> (len + 1));
  for (size_t i = 1; i < len; i++) {
    if ((u[i] & 0xc0) != 0x80)
      return 0;
    c = c << 6 | (u[i] & 0x3f);
  }
  if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
    return 0;
  *code = c;
  return len;
}

void diag_text_utf8(struct strbuf *out, const char *s, size_t n) {
  for (size_t i = 0; i < n;) {
    unsigned code;
    size_t len = diag_text_decode(s + i, n - i, &code);
    if (len)
      sb_addn(out, s + i, len);
    else
      sb_add(out, "\xef\xbf\xbd");
    i += len ? len : 1;
  }
  if (!out->s)
    sb_add(out, "");
}

/* How many terminal cells a character takes: 0, 1 or 2. */
static unsigned cells(unsigned c) {
  static const struct {
    unsigned first, last;
  } zero[] = {{0x300, 0x36f}, {0x200b, 0x200f}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}},
    wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xac00, 0xd7a3},
              {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
              {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
  for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
    if (c >= zero[i].first && c <= zero[i].last)
      return 0;
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
    if (c >= wide[i].first && c <= wide[i].last)
      return 2;
  return 1;
}

struct cell_text {
  struct strbuf text;
  unsigned width;
};

/* Appends the character at S (N bytes left) as it is shown, and returns its length in bytes. */
static size_t show(struct cell_text *t, const char *s, size_t n) {
  unsigned code;
  size_t len = diag_text_decode(s, n, &code);
  if (len && code == '\t') {
    do {
      sb_addc(&t->text, ' ');
      t->width++;
    } while (t->width % TAB);
  } else if (!len || code < 0x20 || (code >= 0x7f && code < 0xa0)) {
    sb_addf(&t->text, "<%02X>", (unsigned char)*s);
    t->width += 4;
    len = 1;
  } else {
    sb_addn(&t->text, s, len);
    t->width += cells(code);
  }
  return len;
}

/* Where to start so that the caret is visible: a character boundary at most MAX_CELLS/2 bytes before. */
static size_t window_start(const char *line, size_t n, size_t caret) {
  if (n <= MAX_CELLS || caret <= MAX_CELLS / 2)
    return 0;
  size_t start = caret - MAX_CELLS / 2;
  while (start > 0 && ((unsigned char)line[start] & 0xc0) == 0x80 && caret - start < MAX_CELLS)
    start--;
  return start;
}

void diag_text_snippet(struct strbuf *out, const char *line, size_t n, unsigned number, unsigned col,
                       unsigned end_col, bool color) {
  size_t caret = col > 0 ? col - 1 : 0;
  if (caret > n)
    caret = n;
  size_t end = end_col > col ? end_col - 1 : caret + 1;
  struct cell_text t = {0};
  size_t i = window_start(line, n, caret);
  bool cut_left = i > 0;
  if (cut_left) {
    sb_add(&t.text, "...");
    t.width = 3;
  }
  unsigned from = UINT32_MAX, to = 0;
  while (i < n && t.width < MAX_CELLS) {
    if (i >= caret && from == UINT32_MAX)
      from = t.width;
    i += show(&t, line + i, n - i);
    if (i <= end)
      to = t.width;
  }
  if (i < n)
    sb_add(&t.text, "...");
  if (from == UINT32_MAX)
    from = t.width;
  sb_addf(out, "%5u | %s\n      | ", number, t.text.s ? t.text.s : "");
  for (unsigned k = 0; k < from; k++)
    sb_addc(out, ' ');
  sb_add(out, color ? "\033[1;32m^" : "^");
  for (unsigned k = from + 1; k < to; k++)
    sb_addc(out, '~');
  sb_add(out, color ? "\033[0m\n" : "\n");
  sb_free(&t.text);
}
