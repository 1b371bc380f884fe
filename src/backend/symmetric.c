// SPDX-License-Identifier: Apache-2.0
#include "backend/symmetric.h"
#include <ctype.h>
#include <string.h>

/* ---- which buffers do translated regions use? ---------------------------------------------------- */

static void mark_buffer(const struct ir_program *ir, ir_id b, bool *used) {
  if (b < 0 || used[b])
    return;
  used[b] = true;
  mark_buffer(ir, ir->buffers.v[b].alias_of, used);
  VEC_EACH(&ir->buffers.v[b].aliases, a) mark_buffer(ir, *a, used);
}

static void mark_used(const struct ir_program *ir, const struct dir_set *set, bool *used) {
  for (size_t i = 0; i < set->regions.n; i++) {
    if (set->directives.v[i].backend == DIR_backend_host)
      continue;
    VEC_EACH(&set->regions.v[i].calls, call)
    VEC_EACH(&ir->nodes, n)
    if (n->kind == IR_COLLECTIVE && n->call == *call)
      VEC_EACH(&n->operands, o) mark_buffer(ir, o->buffer, used);
  }
}

/* ---- can every free be rewritten? ---------------------------------------------------------------- */

static size_t skip_quoted(const char *s, size_t i, size_t n) {
  char q = s[i++];
  while (i < n && s[i] != q && s[i] != '\n')
    i += s[i] == '\\' ? 2 : 1;
  return i + 1;
}

/* The offset of the next identifier NAME at or after I that is not in a comment or a literal, or N. */
static size_t find_identifier(const char *s, size_t i, size_t n, const char *name) {
  size_t length = strlen(name);
  while (i < n) {
    unsigned char c = (unsigned char)s[i];
    if (c == '/' && i + 1 < n && s[i + 1] == '/') {
      const char *e = memchr(s + i, '\n', n - i);
      i = e ? (size_t)(e - s) : n;
    } else if (c == '/' && i + 1 < n && s[i + 1] == '*') {
      const char *e = memmem(s + i + 2, n - i - 2, "*/", 2);
      i = e ? (size_t)(e - s) + 2 : n;
    } else if (c == '"' || c == '\'') {
      i = skip_quoted(s, i, n);
    } else if (isalnum(c) || c == '_') {
      size_t b = i;
      while (i < n && (isalnum((unsigned char)s[i]) || s[i] == '_' ||
                       (s[i] == '\'' && isdigit(c)))) /* 1'000 is one number */
        i++;
      if (i - b == length && memcmp(s + b, name, length) == 0)
        return b;
    } else {
      i++;
    }
  }
  return n;
}

/* Is cudaFree mentioned outside the calls that the IR knows (a deleter, a macro's definition)? */
static bool free_escapes(const struct ir_program *ir, const char *text, size_t size) {
  for (size_t i = 0; (i = find_identifier(text, i, size, "cudaFree")) < size; i++) {
    bool known = false;
    VEC_EACH(&ir->calls, c)
    if (c->kind == IR_CALL_FREE && c->in_main_file && c->name.begin == i)
      known = true;
    if (!known)
      return true;
  }
  return false;
}

static const char *stays_because(const struct ir_program *ir, const struct ir_call *c,
                                 bool escapes) {
  if (!dir_call_editable(c))
    return "its allocation is spelled where it cannot be rewritten";
  if (ir->uses_ipc)
    return "the program shares memory through cudaIpc";
  if (!c->uniform)
    return c->uniform_why[0] ? c->uniform_why : "not every rank is known to allocate it";
  if (c->in_loop)
    return "it is allocated in a loop";
  if (c->captured)
    return "it may be allocated while a stream is captured";
  if (escapes)
    return "cudaFree is used other than in a call, so a symmetric buffer could reach it";
  VEC_EACH(&ir->calls, f)
  if (f->kind == IR_CALL_FREE && !dir_call_editable(f) &&
      (f->buffer < 0 || c->buffer < 0 || f->buffer == c->buffer ||
       ir->buffers.v[f->buffer].reassigned || ir->buffers.v[f->buffer].aliases.n > 0))
    return "a call that may free it is spelled where it cannot be rewritten";
  return NULL;
}

int symmetric_choose(const struct ir_program *ir, const struct dir_set *set, const char *text,
                     size_t size, struct diag_engine *diag, bool *move, int *staying) {
  bool *used = xcalloc(ir->buffers.n + 1, sizeof *used);
  bool escapes = free_escapes(ir, text, size);
  int moved = 0;
  *staying = 0;
  mark_used(ir, set, used);
  for (size_t i = 0; i < ir->calls.n; i++) {
    const struct ir_call *c = &ir->calls.v[i];
    move[i] = false;
    if (c->kind != IR_CALL_ALLOC || strcmp(c->callee, "cudaMalloc") != 0 || c->buffer < 0 ||
        !used[c->buffer])
      continue;
    const char *why = stays_because(ir, c, escapes);
    if (!why) {
      move[i] = true;
      moved++;
      continue;
    }
    ++*staying;
    struct diag_loc loc = {.file = c->name.file >= 0 ? ir->files.v[c->name.file].path : NULL,
                           .line = c->name.line,
                           .col = c->name.col,
                           .end_col = c->name.col + (unsigned)strlen(c->callee)};
    diag_report(diag, DIAG_not_symmetric, &loc, "'%s' goes through a staging window: %s",
                ir->buffers.v[c->buffer].name, why);
  }
  free(used);
  return moved;
}
