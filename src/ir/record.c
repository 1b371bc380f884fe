// SPDX-License-Identifier: Apache-2.0
/* Construction and release of IR structs, driven by their description. */
#include "ir/record.h"
#include <string.h>

bool rec_present(const struct rec_record *r, const struct rec_field *f, const void *base) {
  return r != &rec_node || !f->kinds ||
         (f->kinds >> (unsigned)((const struct ir_node *)base)->kind & 1);
}

void rec_init(const struct rec_record *r, void *base) {
  for (const struct rec_field *f = r->fields; f < r->fields + r->n; f++) {
    if (!rec_present(r, f, base))
      continue;
    char *at = rec_at(base, f);
    switch (f->type) {
    case REC_STR:
      *(char **)at = xstrdup("");
      break;
    case REC_ID:
    case REC_INT:
      *(int *)at = f->flags & REC_MINUS_ONE ? -1 : 0;
      break;
    case REC_RECORD:
      rec_init(f->sub, at);
      break;
    case REC_TRIPLE:
      for (int i = 0; i < 3; i++)
        rec_init(f->sub, at + (size_t)i * f->sub->size);
      break;
    default:
      break;
    }
  }
}

void rec_free(const struct rec_record *r, void *base) {
  for (const struct rec_field *f = r->fields; f < r->fields + r->n; f++) {
    if (!rec_present(r, f, base))
      continue;
    char *at = rec_at(base, f);
    struct rec_vec *vec = (struct rec_vec *)at;
    switch (f->type) {
    case REC_STR:
      free(*(char **)at);
      break;
    case REC_RECORD:
      rec_free(f->sub, at);
      break;
    case REC_TRIPLE:
      for (int i = 0; i < 3; i++)
        rec_free(f->sub, at + (size_t)i * f->sub->size);
      break;
    case REC_LIST:
      for (size_t i = 0; i < vec->n; i++)
        rec_free(f->sub, vec->v + i * f->sub->size);
      free(vec->v);
      break;
    case REC_STRS:
      for (size_t i = 0; i < vec->n; i++)
        free(((char **)(void *)vec->v)[i]);
      free(vec->v);
      break;
    case REC_IDS:
      free(vec->v);
      break;
    default:
      break;
    }
  }
}

static bool all_default(const struct rec_record *r, const void *base) {
  for (const struct rec_field *f = r->fields; f < r->fields + r->n; f++)
    if (!rec_is_default(f, base))
      return false;
  return true;
}

bool rec_is_default(const struct rec_field *f, const void *base) {
  const char *at = rec_at(base, f);
  switch (f->type) {
  case REC_STR:
    return !**(char *const *)(const void *)at;
  case REC_BOOL:
    return !*(const bool *)at;
  case REC_ID:
  case REC_INT:
    return *(const int *)(const void *)at == (f->flags & REC_MINUS_ONE ? -1 : 0);
  case REC_UINT:
  case REC_ENUM:
    return !*(const unsigned *)(const void *)at;
  case REC_SIZE:
    return !*(const size_t *)(const void *)at;
  case REC_I64:
    return !*(const int64_t *)(const void *)at;
  case REC_RECORD:
    return all_default(f->sub, at);
  case REC_TRIPLE:
    for (int i = 0; i < 3; i++)
      if (!all_default(f->sub, at + (size_t)i * f->sub->size))
        return false;
    return true;
  default:
    return !((const struct rec_vec *)(const void *)at)->n;
  }
}

const char *rec_name(const struct rec_values *values, int value) {
  for (size_t i = 0; i < values->n; i++)
    if (values->v[i].value == value)
      return values->v[i].name;
  return NULL;
}
