// SPDX-License-Identifier: Apache-2.0
/* Text for terminals and JSON: source lines with a caret below, and valid UTF-8 from any bytes. */
#ifndef CUCOCC_SUPPORT_DIAG_TEXT_H
#define CUCOCC_SUPPORT_DIAG_TEXT_H

#include "support/strbuf.h"
#include <stdbool.h>

/* Appends "  12 | source" and a caret line for byte columns [col, end_col) (1-based; end_col <= col means
 * one caret). Tabs become spaces up to the next multiple of 8, bytes that are not UTF-8 and control
 * characters are shown as <XX>, wide characters count as two cells, and a line that is too long for a
 * terminal is cut to the part around the caret. LINE need not end in NUL. */
void diag_text_snippet(struct strbuf *out, const char *line, size_t n, unsigned number, unsigned col,
                       unsigned end_col, bool color);

/* Appends N bytes as valid UTF-8: what is not becomes U+FFFD. */
void diag_text_utf8(struct strbuf *out, const char *s, size_t n);

/* Decodes one character of S (N > 0 bytes): returns its length in bytes and stores its code point, or
 * returns 0 when S does not start with valid UTF-8. */
size_t diag_text_decode(const char *s, size_t n, unsigned *code);

#endif
