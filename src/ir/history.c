// SPDX-License-Identifier: Apache-2.0
#include "ir/history.h"

void history_init(struct history *h, size_t lists) {
  *h = (struct history){0};
  for (size_t i = 0; i < lists; i++)
    VEC_PUSH(&h->heads) = -1;
}

void history_free(struct history *h) {
  VEC_FREE(&h->entries);
  VEC_FREE(&h->heads);
  VEC_FREE(&h->undo);
}

void history_show(struct history *h, int entry) {
  struct history_entry *e = &h->entries.v[entry];
  if (e->linked)
    return;
  int *head = &h->heads.v[e->list];
  e->prev = -1;
  e->next = *head;
  if (*head >= 0)
    h->entries.v[*head].prev = entry;
  *head = entry;
  e->linked = true;
}

static void unlink_entry(struct history *h, int entry) {
  struct history_entry *e = &h->entries.v[entry];
  if (e->prev >= 0)
    h->entries.v[e->prev].next = e->next;
  else
    h->heads.v[e->list] = e->next;
  if (e->next >= 0)
    h->entries.v[e->next].prev = e->prev;
  e->linked = false;
}

int history_add(struct history *h, int list, struct history_entry e) {
  int id = (int)h->entries.n;
  e.list = list;
  e.linked = false;
  e.replaced_by = -1;
  VEC_PUSH(&h->entries) = e;
  history_show(h, id);
  return id;
}

void history_hide(struct history *h, int entry) {
  if (!h->entries.v[entry].linked)
    return;
  unlink_entry(h, entry);
  VEC_PUSH(&h->undo) = entry;
}

struct history_scope history_enter(const struct history *h) {
  return (struct history_scope){h->entries.n, h->undo.n};
}

void history_leave(struct history *h, struct history_scope s) {
  while (h->undo.n > s.undo) {
    int e = h->undo.v[--h->undo.n];
    if ((size_t)e < s.entries)
      history_show(h, e);
  }
}

void history_park(struct history *h, struct history_scope s, void *parked) {
  VEC(int) *out = parked;
  for (size_t i = s.entries; i < h->entries.n; i++)
    if (h->entries.v[i].linked) {
      unlink_entry(h, (int)i);
      if (out)
        VEC_PUSH(out) = (int)i;
    }
}
