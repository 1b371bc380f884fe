// SPDX-License-Identifier: Apache-2.0
/* What src/backend/embed.sh generates and embed.c searches. */
#ifndef CUCOCC_BACKEND_EMBED_TABLE_H
#define CUCOCC_BACKEND_EMBED_TABLE_H

struct embed_entry {
  const char *name;         /* path below src/backend; NULL ends the table */
  const char *begin, *end;  /* the text; *END is a NUL byte */
};

extern const struct embed_entry embed_table[];

#endif
