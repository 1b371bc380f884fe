// SPDX-License-Identifier: Apache-2.0
#include "ir/text.h"
#include "support/strbuf.h"
#include "support/vec.h"
#include <stdbool.h>

/* The length of the well-formed UTF-8 sequence at S, with its code point, or 0. */
static unsigned sequence(const unsigned char *s, unsigned *code) {
  unsigned n = *s < 0x80                 ? 1
               : *s >= 0xC2 && *s < 0xE0 ? 2
               : (*s & 0xF0) == 0xE0     ? 3
               : *s >= 0xF0 && *s < 0xF5 ? 4
                                         : 0;
  if (n == 0)
    return 0;
  unsigned c = n == 1 ? *s : *s & (0x7Fu >> n);
  for (unsigned i = 1; i < n; i++) {
    if ((s[i] & 0xC0) != 0x80)
      return 0;
    c = c << 6 | (s[i] & 0x3F);
  }
  *code = c;
  if ((n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10FFFF)) ||
      (c >= 0xD800 && c < 0xE000))
    return 0;
  return n;
}

static bool is_escape(unsigned code) { return code >= 0xF780 && code <= 0xF7FF; }

char *ir_text_to_utf8(const char *bytes) {
  struct strbuf b = {0};
  for (const unsigned char *s = (const unsigned char *)bytes; *s;) {
    unsigned code = 0, n = sequence(s, &code);
    if (n && !is_escape(code)) {
      sb_addn(&b, (const char *)s, n);
      s += n;
      continue;
    }
    unsigned e = 0xF700u + *s++; /* >= U+F780, as plain ASCII is always well-formed */
    sb_addc(&b, (char)(0xE0 | e >> 12));
    sb_addc(&b, (char)(0x80 | (e >> 6 & 0x3F)));
    sb_addc(&b, (char)(0x80 | (e & 0x3F)));
  }
  return sb_take(&b);
}

char *ir_text_from_utf8(const char *utf8) {
  struct strbuf b = {0};
  for (const unsigned char *s = (const unsigned char *)utf8; *s;) {
    unsigned code = 0, n = sequence(s, &code);
    if (n && is_escape(code))
      sb_addc(&b, (char)(code - 0xF700u));
    else
      sb_addn(&b, (const char *)s, n ? n : 1);
    s += n ? n : 1;
  }
  return sb_take(&b);
}
