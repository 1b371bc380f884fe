// SPDX-License-Identifier: Apache-2.0
#include "ir/range.h"
#include <ctype.h>
#include <string.h>

/* Does the spelling SYMBOL mention the variable NAME (x, or a member path like s.x by its last
 * part)? */
static bool mentions(const char *symbol, const char *name) {
  size_t n = strlen(name);
  for (const char *s = symbol; n && (s = strstr(s, name)); s++) {
    bool left = s == symbol || !(isalnum((unsigned char)s[-1]) || s[-1] == '_');
    bool right = !(isalnum((unsigned char)s[n]) || s[n] == '_');
    if (left && right)
      return true;
  }
  return false;
}

static uint64_t levels_that_change(const struct ir_expr *e, const struct ir_node *const *loops,
                                   size_t n, bool per_device) {
  uint64_t r = 0;
  for (size_t k = 0; e->terms.n && k < n; k++) {
    if (per_device && loops[k]->u.control.over_devices)
      continue;
    bool varies = !loops[k]->u.control.varying_known;
    VEC_EACH(&loops[k]->u.control.varying, v)
    for (size_t i = 0; !varies && i < e->terms.n; i++)
      varies = mentions(e->terms.v[i].symbol, *v);
    if (varies)
      r |= (uint64_t)1 << (k < RANGE_LEVELS ? k : RANGE_LEVELS - 1);
  }
  return r;
}

void range_unknown(struct range *r) {
  *r = (struct range){0};
  ir_expr_init(&r->end);
}

void range_init(struct range *r, const struct ir_operand *o, const struct ir_node *const *loops,
                size_t n, bool per_device) {
  range_unknown(r);
  if (!o->offset.affine || !o->size.affine)
    return;
  ir_expr_add(&r->end, &o->offset, &o->size, 1);
  if (!r->end.affine)
    return;
  r->offset = &o->offset;
  r->known = true;
  r->exact = o->exact;
  r->fixed = !r->offset->terms.n && !r->end.terms.n;
  r->offset_varies = levels_that_change(&o->offset, loops, n, per_device);
  r->end_varies = r->offset_varies | levels_that_change(&o->size, loops, n, per_device);
}

void range_free(struct range *r) { ir_expr_free(&r->end); }

struct side {
  const struct ir_expr *e;
  uint64_t varies;
};

/* Stores X - Y if it is a constant although loops of level COMMON and deeper are in any iterations.
 */
static bool difference(struct side x, struct side y, unsigned common, int64_t *out) {
  if (common < RANGE_LEVELS && ((x.varies | y.varies) >> common))
    return false;
  return ir_expr_difference(x.e, y.e, out);
}

int range_overlap(const struct range *a, const struct range *b, unsigned common) {
  if (!a->known || !b->known)
    return 1;
  if (a->fixed && b->fixed)
    return a->offset->constant >= b->end.constant || b->offset->constant >= a->end.constant ? 0
           : a->exact && b->exact                                                           ? 2
                                                                                            : 1;
  struct side ao = {a->offset, a->offset_varies}, bo = {b->offset, b->offset_varies};
  struct side ae = {&a->end, a->end_varies}, be = {&b->end, b->end_varies};
  int64_t d;
  bool a_starts_in = false, b_starts_in = false;
  if (difference(ao, be, common, &d)) {
    if (d >= 0)
      return 0;
    a_starts_in = true; /* before the end of the other */
  }
  if (difference(bo, ae, common, &d)) {
    if (d >= 0)
      return 0;
    b_starts_in = true;
  }
  bool same_start = difference(ao, bo, common, &d) && d == 0;
  return a->exact && b->exact && (same_start || (a_starts_in && b_starts_in)) ? 2 : 1;
}

bool range_within(const struct range *a, const struct range *b, unsigned common) {
  struct side ao = {a->offset, a->offset_varies}, bo = {b->offset, b->offset_varies};
  struct side ae = {&a->end, a->end_varies}, be = {&b->end, b->end_varies};
  int64_t d;
  if (a->fixed && b->fixed)
    return a->offset->constant <= b->offset->constant && b->end.constant <= a->end.constant;
  return a->known && b->known && difference(ao, bo, common, &d) && d <= 0 &&
         difference(be, ae, common, &d) && d <= 0;
}
