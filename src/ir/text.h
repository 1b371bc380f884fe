// SPDX-License-Identifier: Apache-2.0
/* Source text is bytes, JSON strings are Unicode. Bytes that are not UTF-8 become U+F780..U+F7FF (private
 * use: U+F700 + byte), and so do the bytes of those characters themselves: nothing is lost either way. */
#ifndef CUCOCC_IR_TEXT_H
#define CUCOCC_IR_TEXT_H

/* Both return a fresh string. */
char *ir_text_to_utf8(const char *bytes);
char *ir_text_from_utf8(const char *utf8);

#endif
