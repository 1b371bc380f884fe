// SPDX-License-Identifier: Apache-2.0
/* Text templates: @NAME@ placeholders, and the prelude's sections. */
#ifndef CUCOCC_BACKEND_TEMPLATE_H
#define CUCOCC_BACKEND_TEMPLATE_H

#include "support/strbuf.h"
#include <stdbool.h>

struct template_value {
  const char *name, *value; /* "@ID@" is {"ID", "3"} */
};

/* Appends TEXT to OUT with every @NAME@ of VALUES replaced. Returns false when TEXT has a placeholder
 * (upper-case letters, digits and underscores between two @) that VALUES does not name. */
bool template_expand(const char *text, const struct template_value *values, size_t n_values,
                     struct strbuf *out);

/* Appends the prelude TEXT to OUT, but only its sections named in WANTED (NULL-terminated) and what
 * they need. A section begins at a line "// cucocc-section: NAME" or
 * "// cucocc-section: NAME needs A B"; a section "end" and what stands before the first section are
 * always kept. */
void template_sections(const char *text, const char *const *wanted, struct strbuf *out);

#endif
