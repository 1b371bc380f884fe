// SPDX-License-Identifier: Apache-2.0
/* Which buffer, communicator, stream or event an expression names.
 *
 * An entity is a variable, a member (of any instance of its struct) or the elements of an array
 * taken together. Parameters of helper functions stand for what all visible callers pass, where
 * that is one entity. */
#include "frontend/internal.h"
#include "support/strbuf.h"
#include <string.h>

void fe_place_free(struct fe_place *pl) {
  free(pl->name);
  pl->name = NULL;
  ir_expr_free(&pl->offset);
}

static int64_t pointee_size(CXType t) {
  CXType c = clang_getCanonicalType(t);
  CXType e = c.kind == CXType_Pointer ? clang_getPointeeType(c) : clang_getArrayElementType(c);
  if (e.kind == CXType_Invalid || e.kind == CXType_Dependent)
    return -1;
  if (e.kind == CXType_Void)
    return 1;
  long long n = clang_Type_getSizeOf(e);
  return n > 0 ? n : -1;
}

static bool is_pointer(CXType t) {
  enum CXTypeKind k = clang_getCanonicalType(t).kind;
  return k == CXType_Pointer || k == CXType_ConstantArray || k == CXType_IncompleteArray ||
         k == CXType_VariableArray;
}

/* offset += sign * index * size of what BASE points to. */
static void advance(struct fe *f, struct fe_place *pl, CXCursor index, CXType base, int sign) {
  struct ir_expr i, n, m, r;
  ir_expr_init(&i);
  ir_expr_init(&n);
  ir_expr_init(&m);
  ir_expr_init(&r);
  fe_expr(f, index, &i);
  int64_t size = pointee_size(base);
  if (size < 0) {
    char *t = fe_type_name(base), *star = strrchr(t, '*');
    if (star)
      *star = '\0';
    for (size_t l = strlen(t); l && t[l - 1] == ' ';)
      t[--l] = '\0';
    char *s = xasprintf("sizeof(%s)", t);
    ir_expr_free(&n);
    ir_expr_symbol(&n, s);
    free(s);
    free(t);
  } else {
    ir_expr_free(&n);
    ir_expr_const(&n, size);
  }
  ir_expr_mul(&m, &i, &n);
  ir_expr_add(&r, &pl->offset, &m, sign);
  ir_expr_free(&pl->offset);
  pl->offset = r;
  ir_expr_free(&i);
  ir_expr_free(&n);
  ir_expr_free(&m);
}

static void rename_to(struct fe_place *pl, char *name) {
  free(pl->name);
  pl->name = name;
}

static bool resolve(struct fe *f, CXCursor c, struct fe_place *out);

static bool resolve_index(struct fe *f, CXCursor c, CXCursor base, CXCursor index,
                          struct fe_place *out) {
  if (!resolve(f, base, out))
    return false;
  CXType t = clang_getCursorType(c);
  bool leaf = !is_pointer(t) && clang_getCanonicalType(t).kind != CXType_Record;
  char *type = fe_type_name(clang_getCanonicalType(t));
  leaf = leaf && !strchr(type, '*'); /* vector<T*>::reference and the like */
  free(type);
  if (leaf && is_pointer(clang_getCursorType(fe_strip(base)))) {
    advance(f, out, index, clang_getCursorType(fe_strip(base)), 1);
    return true;
  }
  out->key = fe_mix(out->key, '[');
  out->element = true;
  out->type = t;
  rename_to(out, xasprintf("%s[]", out->name));
  return true;
}

static bool resolve_call(struct fe *f, CXCursor c, struct fe_place *out) {
  CXCursor decl;
  char *name = fe_callee(c, &decl);
  fe_list args = {0};
  bool ok = false;
  fe_children(c, &args);
  if (!strcmp(name, "operator[]") && args.n >= 3)
    ok = resolve_index(f, c, args.v[0], args.v[2], out);
  else if ((!strcmp(name, "operator*") || !strcmp(name, "operator->")) && args.n >= 1)
    ok = resolve(f, args.v[0], out);
  else if ((!strcmp(name, "data") || !strcmp(name, "get") || !strcmp(name, "at") ||
            !strcmp(name, "front") || !strcmp(name, "begin")) &&
           args.n >= 1 && clang_getCursorKind(args.v[0]) == CXCursor_MemberRefExpr) {
    CXCursor object = fe_child(args.v[0], 0);
    if (!clang_Cursor_isNull(object) && clang_isExpression(clang_getCursorKind(object)))
      ok = !strcmp(name, "at") && args.n >= 2 ? resolve_index(f, c, object, args.v[1], out)
                                              : resolve(f, object, out);
    if (ok && strcmp(name, "at")) {
      char *type = fe_type_name(clang_getCanonicalType(out->type));
      out->host = !strncmp(type, "std::vector<", 12) || !strncmp(type, "std::array<", 11) ||
                  strstr(type, "basic_string<");
      free(type);
      out->type = clang_getCursorType(c);
    }
  } else if ((!strcmp(name, "raw_pointer_cast") || !strcmp(name, "move") ||
              !strcmp(name, "addressof")) &&
             args.n >= 2)
    ok = resolve(f, args.v[1], out);
  free(name);
  VEC_FREE(&args);
  return ok;
}

static bool resolve(struct fe *f, CXCursor c, struct fe_place *out) {
  if (f->depth > 60)
    return false;
  c = fe_strip(c);
  fe_list kids = {0};
  bool ok = false;
  f->depth++;
  switch (clang_getCursorKind(c)) {
  case CXCursor_DeclRefExpr: {
    CXCursor d = clang_getCursorReferenced(c);
    enum CXCursorKind k = clang_getCursorKind(d);
    if (k != CXCursor_VarDecl && k != CXCursor_ParmDecl)
      break;
    out->key = fe_decl_key(d);
    out->decl = d;
    out->type = clang_getCursorType(d);
    rename_to(out, fe_spelling(d));
    ok = out->key != 0;
    break;
  }
  case CXCursor_VarDecl:
  case CXCursor_ParmDecl:
  case CXCursor_FieldDecl:
    out->key = fe_decl_key(c);
    out->decl = c;
    out->type = clang_getCursorType(c);
    rename_to(out, fe_spelling(c));
    ok = out->key != 0;
    break;
  case CXCursor_MemberRefExpr: {
    CXCursor d = clang_getCursorReferenced(c);
    if (clang_Cursor_isNull(d) || (clang_getCursorKind(d) != CXCursor_FieldDecl &&
                                   clang_getCursorKind(d) != CXCursor_VarDecl))
      break;
    out->key = fe_decl_key(d);
    out->decl = d;
    out->type = clang_getCursorType(d);
    char *text = fe_cursor_text(f, c), *field = fe_spelling(d);
    rename_to(out, *text && strlen(text) < 60 ? xstrdup(text) : xstrdup(field));
    free(text);
    free(field);
    ok = out->key != 0;
    break;
  }
  case CXCursor_ArraySubscriptExpr:
    fe_children(c, &kids);
    if (kids.n == 2)
      ok = resolve_index(f, c, kids.v[0], kids.v[1], out);
    break;
  case CXCursor_BinaryOperator: {
    enum CXBinaryOperatorKind op = clang_getCursorBinaryOperatorKind(c);
    fe_children(c, &kids);
    if (kids.n != 2 || (op != CXBinaryOperator_Add && op != CXBinaryOperator_Sub))
      break;
    CXCursor p = kids.v[0], i = kids.v[1];
    if (!is_pointer(clang_getCursorType(fe_strip(p))) &&
        is_pointer(clang_getCursorType(fe_strip(i))) && op == CXBinaryOperator_Add) {
      p = kids.v[1];
      i = kids.v[0];
    }
    /* The step is that of the outermost cast on the pointer: (char *)p + n. */
    CXType step = clang_getCursorType(p);
    if (resolve(f, p, out)) {
      advance(f, out, i, step, op == CXBinaryOperator_Add ? 1 : -1);
      ok = true;
    }
    break;
  }
  case CXCursor_UnaryOperator: {
    enum CXUnaryOperatorKind op = clang_getCursorUnaryOperatorKind(c);
    fe_children(c, &kids);
    if (kids.n == 1 && (op == CXUnaryOperator_AddrOf || op == CXUnaryOperator_Deref))
      ok = resolve(f, kids.v[0], out);
    break;
  }
  case CXCursor_CallExpr:
    ok = resolve_call(f, c, out);
    if (!ok) { /* a converting constructor, a copy */
      fe_children(c, &kids);
      if (kids.n == 1 && clang_isExpression(clang_getCursorKind(kids.v[0])))
        ok = resolve(f, kids.v[0], out);
    }
    break;
  default:
    break;
  }
  f->depth--;
  VEC_FREE(&kids);
  return ok;
}

bool fe_place_of(struct fe *f, CXCursor c, bool address_of, struct fe_place *out) {
  *out = (struct fe_place){.decl = clang_getNullCursor(), .name = xstrdup("")};
  ir_expr_init(&out->offset);
  ir_expr_const(&out->offset, 0);
  if (!resolve(f, c, out)) {
    fe_place_free(out);
    return false;
  }
  if (address_of) {
    /* An output argument spelled `array`, `array + i` or `vector.data()`: its elements are meant.
     */
    CXCursor s = fe_strip(c);
    bool addr = clang_getCursorKind(s) == CXCursor_UnaryOperator &&
                clang_getCursorUnaryOperatorKind(s) == CXUnaryOperator_AddrOf;
    bool param = clang_getCursorKind(s) == CXCursor_DeclRefExpr &&
                 clang_getCursorKind(out->decl) == CXCursor_ParmDecl;
    if (!addr && !param && !out->element) {
      out->key = fe_mix(out->key, '[');
      out->element = true;
      rename_to(out, xasprintf("%s[]", out->name));
    }
  }
  return true;
}

ir_id fe_find(struct fe *f, fe_key key, enum fe_sort sort) {
  VEC_EACH(&f->symbols, s)
  if (s->key == key && s->sort == sort)
    return s->id;
  return -1;
}

void fe_bind_symbol(struct fe *f, fe_key key, enum fe_sort sort, ir_id id) {
  VEC_PUSH(&f->symbols) = (struct fe_symbol){key, sort, id};
}

/* The name of the function that encloses a local declaration, "" for globals and members. */
static char *owner_name(CXCursor decl) {
  CXCursor p = clang_getCursorSemanticParent(decl);
  enum CXCursorKind k = clang_getCursorKind(p);
  if (k == CXCursor_FunctionDecl || k == CXCursor_CXXMethod || k == CXCursor_FunctionTemplate ||
      k == CXCursor_Constructor || k == CXCursor_Destructor)
    return fe_spelling(p);
  return xstrdup("");
}

/* What a parameter stands for: the one entity that every visible caller passes, or -1. */
static ir_id bound(struct fe *f, const struct fe_place *pl, enum fe_sort sort,
                   ir_id (*get)(struct fe *, CXCursor, bool)) {
  if (clang_getCursorKind(pl->decl) != CXCursor_ParmDecl || f->depth > 20)
    return -1;
  (void)sort;
  fe_key key = fe_decl_key(pl->decl);
  ir_id id = -1;
  f->depth++;
  for (size_t i = 0; i < f->binds.n; i++) {
    if (f->binds.v[i].param != key)
      continue;
    ir_id other = get(f, f->binds.v[i].arg, pl->element);
    if (other < 0 || (id >= 0 && other != id)) {
      id = -1;
      break;
    }
    id = other;
  }
  f->depth--;
  return id;
}

static bool in_array(const struct fe_place *pl) { return pl->element; }

ir_id fe_buffer(struct fe *f, CXCursor c, bool address_of, struct ir_expr *offset) {
  struct fe_place pl;
  CXCursor s = fe_strip(c);
  enum CXCursorKind k = clang_getCursorKind(s);
  int64_t null;
  if (k == CXCursor_CXXNullPtrLiteralExpr || k == CXCursor_GNUNullExpr || fe_const(s, &null))
    return -1;
  if (!fe_place_of(f, c, address_of, &pl))
    return -1;
  /* A pointer to pointers that is passed on: the elements hold the memory. */
  ir_id id = fe_find(f, pl.key, FE_BUFFER);
  if (id < 0) {
    char *owner = owner_name(pl.decl);
    id = ir_add_buffer(f->p, pl.name, owner);
    free(owner);
    fe_bind_symbol(f, pl.key, FE_BUFFER, id);
    struct ir_buffer *b = &f->p->buffers.v[id];
    b->decl = fe_range(f, pl.decl);
    b->per_device = in_array(&pl);
    CXType t = clang_getCanonicalType(pl.type);
    CXType e = t.kind == CXType_Pointer ? clang_getPointeeType(t) : clang_getArrayElementType(t);
    if (e.kind == CXType_Pointer)
      e = clang_getPointeeType(e);
    char *type = fe_type_name(e.kind == CXType_Invalid ? t : clang_getUnqualifiedType(e));
    ir_set(&b->elem_type, type);
    bool vector = strstr(type, "vector<") != NULL;
    free(type);
    if (clang_getCursorKind(pl.decl) == CXCursor_ParmDecl) {
      b->origin = IR_ORIGIN_PARAM;
      b->param = fe_param_index(pl.decl);
      bool out = t.kind == CXType_LValueReference ||
                 (t.kind == CXType_Pointer && clang_getPointeeType(t).kind == CXType_Pointer);
      fe_key key = fe_decl_key(pl.decl);
      for (size_t i = 0; i < f->binds.n && f->depth < 20; i++) {
        if (f->binds.v[i].param != key)
          continue;
        f->depth++;
        ir_id other = fe_buffer(f, f->binds.v[i].arg, pl.element, NULL);
        f->depth--;
        if (other >= 0)
          fe_alias(f, id, other, false);
        if (other >= 0 && out)
          fe_alias(f, other, id, false); /* the helper stores into its caller's pointer */
      }
    } else if (!is_pointer(pl.type) || vector || t.kind == CXType_ConstantArray)
      b->origin = pl.element && !vector ? IR_ORIGIN_UNKNOWN : IR_ORIGIN_HOST;
    else if (pl.host && !pl.element)
      b->origin = IR_ORIGIN_HOST;
    else
      VEC_EACH(&f->host_keys, h)
    if (*h == pl.key)
      b->origin = IR_ORIGIN_HOST;
  }
  if (offset)
    ir_expr_copy(offset, &pl.offset);
  fe_place_free(&pl);
  return id;
}

ir_id fe_comm(struct fe *f, CXCursor c, bool address_of) {
  struct fe_place pl;
  if (!fe_place_of(f, c, address_of, &pl))
    return -1;
  ir_id id = fe_find(f, pl.key, FE_COMM);
  if (id < 0) {
    id = bound(f, &pl, FE_COMM, fe_comm);
    if (id < 0) {
      char *owner = owner_name(pl.decl);
      id = ir_add_comm(f->p, pl.name, owner);
      free(owner);
      f->p->comms.v[id].per_device = in_array(&pl);
      if (clang_getCursorKind(pl.decl) == CXCursor_ParmDecl)
        f->p->comms.v[id].origin = IR_COMM_PARAM;
      f->p->comms.v[id].param = fe_param_index(pl.decl);
    }
    fe_bind_symbol(f, pl.key, FE_COMM, id);
  }
  fe_place_free(&pl);
  return id;
}

ir_id fe_stream(struct fe *f, CXCursor c, bool address_of) {
  struct fe_place pl;
  CXCursor s = fe_strip(c);
  enum CXCursorKind k = clang_getCursorKind(s);
  int64_t v;
  bool none = clang_Cursor_isNull(s) || k == CXCursor_CXXNullPtrLiteralExpr ||
              k == CXCursor_GNUNullExpr || fe_const(s, &v) || k == CXCursor_UnexposedExpr;
  char *text = clang_Cursor_isNull(s) ? xstrdup("") : fe_cursor_text(f, s);
  none = none || !strcmp(text, "NULL") || !strcmp(text, "cudaStreamLegacy") ||
         !strcmp(text, "cudaStreamDefault") || !strcmp(text, "cudaStreamPerThread");
  free(text);
  if (none) {
    ir_id id = fe_find(f, 1, FE_STREAM);
    if (id < 0) {
      id = ir_add_stream(f->p, "default", "");
      f->p->streams.v[id].is_default = true;
      fe_bind_symbol(f, 1, FE_STREAM, id);
    }
    return id;
  }
  if (!fe_place_of(f, c, address_of, &pl))
    return -1;
  ir_id id = fe_find(f, pl.key, FE_STREAM);
  if (id < 0) {
    id = bound(f, &pl, FE_STREAM, fe_stream);
    if (id < 0) {
      char *owner = owner_name(pl.decl);
      id = ir_add_stream(f->p, pl.name, owner);
      free(owner);
      f->p->streams.v[id].per_device = in_array(&pl);
      f->p->streams.v[id].param = fe_param_index(pl.decl);
    }
    fe_bind_symbol(f, pl.key, FE_STREAM, id);
  }
  fe_place_free(&pl);
  return id;
}

ir_id fe_event(struct fe *f, CXCursor c, bool address_of) {
  struct fe_place pl;
  if (!fe_place_of(f, c, address_of, &pl))
    return -1;
  ir_id id = fe_find(f, pl.key, FE_EVENT);
  if (id < 0) {
    id = bound(f, &pl, FE_EVENT, fe_event);
    if (id < 0) {
      char *owner = owner_name(pl.decl);
      id = ir_add_event(f->p, pl.name, owner);
      free(owner);
      f->p->events.v[id].per_device = in_array(&pl);
    }
    fe_bind_symbol(f, pl.key, FE_EVENT, id);
  }
  fe_place_free(&pl);
  return id;
}

void fe_alias(struct fe *f, ir_id a, ir_id b, bool assign) {
  if (a < 0 || b < 0 || a == b)
    return;
  VEC_EACH(&f->alias_edges, e)
  if (e->a == a && e->b == b)
    return;
  VEC_PUSH(&f->alias_edges) = (struct fe_alias_edge){a, b, assign};
}

static void reach(struct fe *f, ir_id from, bool *seen) {
  VEC_EACH(&f->alias_edges, e)
  if (e->a == from && !seen[e->b]) {
    seen[e->b] = true;
    reach(f, e->b, seen);
  }
}

/* Resolves the pointer assignments that concern known buffers, and what these lead to. */
static void link_assigns(struct fe *f) {
  for (bool change = true; change;) {
    change = false;
    for (size_t i = 0; i < f->pointer_assigns.n; i++) {
      struct fe_assign *w = &f->pointer_assigns.v[i];
      struct fe_place a, b;
      if (w->done)
        continue;
      if (!fe_place_of(f, w->a, w->a_elements, &a)) {
        w->done = true;
        continue;
      }
      if (!fe_place_of(f, w->b, w->b_elements, &b)) {
        ir_id id = fe_find(f, a.key, FE_BUFFER);
        if (id >= 0 && w->assign) { /* holds memory of an unknown origin, too */
          f->p->buffers.v[id].reassigned = true;
          if (f->p->buffers.v[id].origin != IR_ORIGIN_PARAM)
            f->p->buffers.v[id].origin = IR_ORIGIN_UNKNOWN;
        }
        w->done = true;
        fe_place_free(&a);
        continue;
      }
      if (fe_find(f, a.key, FE_BUFFER) >= 0 || fe_find(f, b.key, FE_BUFFER) >= 0) {
        struct fe_assign link = *w;
        w->done = change = true;
        ir_id x = fe_buffer(f, link.a, link.a_elements, NULL);
        ir_id y = fe_buffer(f, link.b, link.b_elements, NULL);
        fe_alias(f, x, y, link.assign);
        if (link.both)
          fe_alias(f, y, x, link.assign);
      }
      fe_place_free(&a);
      fe_place_free(&b);
    }
  }
}

void fe_finish_aliases(struct fe *f) {
  link_assigns(f);
  size_t n = f->p->buffers.n;
  bool *seen = xcalloc(n + 1, sizeof *seen);
  for (size_t i = 0; i < n; i++) {
    struct ir_buffer *b = &f->p->buffers.v[i];
    memset(seen, 0, n);
    reach(f, (ir_id)i, seen);
    unsigned direct = 0;
    ir_id only = -1;
    bool assigned = false;
    VEC_EACH(&f->alias_edges, e)
    if (e->a == (ir_id)i) {
      direct++;
      only = e->b;
      assigned = assigned || e->assign;
    }
    for (size_t j = 0; j < n; j++)
      if (seen[j] && j != i)
        VEC_PUSH(&b->aliases) = (ir_id)j;
    if (!direct)
      continue;
    if (direct == 1 && !b->allocs.n && !assigned && b->origin == IR_ORIGIN_UNKNOWN) {
      b->origin = IR_ORIGIN_ALIAS;
      b->alias_of = only;
    } else if (assigned || direct > 1)
      b->reassigned = true;
  }
  free(seen);
}

ir_id fe_function_of(struct fe *f, CXCursor decl) {
  fe_key key = fe_decl_key(decl);
  CXCursor def = clang_getCursorDefinition(decl);
  fe_key kdef = clang_Cursor_isNull(def) ? 0 : fe_decl_key(def);
  for (size_t i = 0; key && i < f->functions.n; i++)
    if (f->functions.v[i].key == key || f->functions.v[i].key == kdef)
      return (ir_id)i;
  return -1;
}
