// SPDX-License-Identifier: Apache-2.0
/* What the modules of the front end share. Nothing here is visible outside src/frontend. */
#ifndef CUCOCC_FRONTEND_INTERNAL_H
#define CUCOCC_FRONTEND_INTERNAL_H

#include "frontend/frontend.h"
#include <clang-c/Index.h>

typedef VEC(CXCursor) fe_list;
typedef uint64_t fe_key; /* identity of a declaration or of an entity derived from one; 0 = none */

/* ---- calls.c: what a callee is ------------------------------------------------------------------- */

enum fe_class {
  FE_NONE, FE_COLL, FE_GROUP_START, FE_GROUP_END, FE_COMM_CREATE, FE_COMM_INIT_ALL, FE_COMM_SPLIT,
  FE_COMM_DESTROY, FE_COMM_OTHER, FE_ALLOC, FE_FREE, FE_COPY, FE_MEMSET, FE_SYNC_DEVICE,
  FE_SYNC_STREAM, FE_QUERY, FE_EVENT_RECORD, FE_EVENT_WAIT, FE_EVENT_HOST, FE_STREAM_CREATE,
  FE_CAPTURE_BEGIN, FE_CAPTURE_END, FE_SET_DEVICE, FE_IPC, FE_CUBLAS, FE_CUBLAS_STREAM, FE_MPI,
  FE_MPI_SYNC, FE_RANK, FE_THREAD, FE_THREAD_SYNC, FE_LAUNCH, FE_HOST_FUNC
};
/* Argument positions, -1 = none. Their meaning depends on the class:
 * COLL a = index in spec/collectives.def. COMM_*: a = communicator, b = number of ranks.
 * ALLOC: a = pointer (by address), b = size, c = enum ir_origin. FREE: a. COPY: a dst, b src, c size,
 * d kind (or -1), stream. MEMSET: a, c size. CUBLAS: a, b read, c written, stream = handle. */
struct fe_api {
  const char *name;
  enum fe_class cls;
  int a, b, c, d, stream;
};
const struct fe_api *fe_api_find(const char *name);
/* Is NAME a function whose result depends on its arguments only? */
bool fe_api_pure(const char *name);
/* Does it belong to CUDA, NCCL, cuBLAS or MPI (status results, the same on every rank)? */
bool fe_api_known(const char *name);
size_t fe_type_size(const char *nccl_type); /* 0 = unknown */

/* ---- the context --------------------------------------------------------------------------------- */

enum fe_sort { FE_BUFFER, FE_COMM, FE_STREAM, FE_EVENT, FE_KERNEL, FE_FUNCTION, FE_HANDLE };
struct fe_symbol {
  fe_key key;
  enum fe_sort sort;
  ir_id id;
};
struct fe_bind { /* parameter PARAM receives ARG at some call site */
  fe_key param;
  CXCursor arg;
};
struct fe_taint {
  fe_key key;
  char *why;
};
struct fe_flow {
  fe_key dst, src;
};
struct fe_function { /* beside ir_function, same order */
  fe_key key;
  CXCursor cursor;
  size_t begin, end;
  bool interesting; /* it, or what it calls, uses CUDA, NCCL or MPI */
  bool called, nonuniform, captured, in_loop, in_device_loop, thread_entry;
  char *why;
};
struct fe_edge { /* a call of a program's function */
  ir_id caller, callee;
  bool uniform, in_loop, in_device_loop, captured;
  char *why;
};
struct fe_size { /* number of ranks of a communicator */
  ir_id comm;
  struct ir_expr nranks;
};
struct fe_blas { /* the stream of a cuBLAS handle */
  fe_key handle;
  ir_id stream;
};
struct fe_alias_edge { /* buffer A may hold what B holds */
  ir_id a, b;
  bool assign;
};
struct fe_store { /* variable KEY is assigned at offset AT */
  fe_key key;
  size_t at;
};
struct fe_named { /* the TWINth variable of this name that is used as a symbol */
  fe_key key, owner; /* OWNER: the function */
  char *name;
  unsigned twin;
};
struct fe_assign { /* pointer A = B */
  CXCursor a, b;
  bool assign, done;
  bool a_elements, b_elements; /* the elements of A, of B are meant */
  bool both;                   /* B holds what is stored through A, too */
};
struct fe_text {
  CXFile file;
  ir_id id;
  const char *s;
  size_t n;
};

struct fe {
  const struct fe_options *o;
  struct diag_engine *diag;
  struct ir_program *p;
  CXTranslationUnit tu;
  VEC(struct fe_text) texts;
  VEC(struct fe_symbol) symbols;
  VEC(struct fe_bind) binds;
  VEC(struct fe_taint) taints;
  VEC(struct fe_flow) flows;
  VEC(struct fe_function) functions;
  VEC(struct fe_edge) edges;
  VEC(struct fe_size) sizes;
  VEC(struct fe_blas) blas_streams;
  VEC(struct fe_alias_edge) alias_edges;
  VEC(struct fe_assign) pointer_assigns; /* seen, not resolved yet */
  VEC(struct fe_store) first_uses;
  VEC(struct fe_named) named;
  VEC(struct fe_store) stores; /* assignments of variables, in source order per function */
  VEC(fe_key) host_keys;      /* pointers that hold ordinary host memory */
  VEC(ir_id) call_functions;  /* beside ir_program.calls */
  bool has_mpi, has_init_all, has_threads, init_in_device_loop;
  ir_id current; /* function that fe_collect_flows() is in */
  VEC(struct fe_flow) call_graph; /* functions: dst calls src */
  int depth; /* recursion guard of the resolver */
};

/* ---- source.c ------------------------------------------------------------------------------------ */

/* The children of C; none when less than the guarded stack is left. */
void fe_children(CXCursor c, fe_list *out);
/* Lets this thread use LIMIT bytes of stack from here on; 0 = no guard. */
void fe_stack_guard(size_t limit);
/* The Nth child, or a null cursor. */
CXCursor fe_child(CXCursor c, unsigned n);
/* Does C read the declaration KEY? */
bool fe_mentions(CXCursor c, fe_key key);
/* 0-based position of a parameter in its function, -1 if DECL is none. */
int fe_param_index(CXCursor decl);
/* Removes parentheses, casts and implicit conversions. */
CXCursor fe_strip(CXCursor c);
char *fe_spelling(CXCursor c);
char *fe_type_name(CXType t);
bool fe_in_main_file(CXCursor c);
fe_key fe_decl_key(CXCursor decl);
fe_key fe_mix(fe_key k, unsigned n);
/* File table entry and text of a libclang file. */
struct fe_text *fe_text_of(struct fe *f, CXFile file);
/* Where L is in a file: of the macro use, or of the text inside a macro argument. */
bool fe_file_loc(struct fe *f, CXSourceLocation l, struct ir_range *out);
enum ir_spelling fe_spelled(CXSourceLocation l);
struct ir_range fe_range(struct fe *f, CXCursor c);
/* Source text of a range, white space collapsed; caller frees. */
char *fe_slice(struct fe *f, ir_id file, size_t begin, size_t end);
char *fe_cursor_text(struct fe *f, CXCursor c);
typedef VEC(struct ir_arg) fe_args;
/* Splits an argument list that starts at the bracket at AT; returns the offset after the closing one, or
 * 0 when it does not balance. OPEN is "(" or "<<<". */
size_t fe_split_args(struct fe *f, ir_id file, size_t at, const char *open, fe_args *out);
void fe_args_free(fe_args *a);

/* ---- expr.c -------------------------------------------------------------------------------------- */

/* C as an integer expression; E must be initialised. */
void fe_expr(struct fe *f, CXCursor c, struct ir_expr *e);
/* The value of a constant expression. */
bool fe_const(CXCursor c, int64_t *out);
bool fe_is_dependent(CXCursor c);

/* ---- symbols.c ----------------------------------------------------------------------------------- */

/* A pointer expression: entity and byte offset. */
struct fe_place {
  fe_key key;
  CXCursor decl;      /* variable or field */
  char *name;         /* owned */
  bool element;       /* element of an array */
  bool host;          /* the storage of a std::vector or the like */
  CXType type;
  struct ir_expr offset;
};
void fe_place_free(struct fe_place *pl);
/* Resolves an expression (ADDRESS_OF: what &expr points to is wanted, i.e. an output argument). */
bool fe_place_of(struct fe *f, CXCursor c, bool address_of, struct fe_place *out);
ir_id fe_find(struct fe *f, fe_key key, enum fe_sort sort);
void fe_bind_symbol(struct fe *f, fe_key key, enum fe_sort sort, ir_id id);
ir_id fe_buffer(struct fe *f, CXCursor c, bool address_of, struct ir_expr *offset);
ir_id fe_comm(struct fe *f, CXCursor c, bool address_of);
ir_id fe_stream(struct fe *f, CXCursor c, bool address_of);
ir_id fe_event(struct fe *f, CXCursor c, bool address_of);
void fe_alias(struct fe *f, ir_id a, ir_id b, bool assign);
/* Turns the recorded assignments into may-sets. */
void fe_finish_aliases(struct fe *f);
ir_id fe_function_of(struct fe *f, CXCursor decl);

/* ---- uniform.c ----------------------------------------------------------------------------------- */

void fe_collect_flows(struct fe *f, ir_id function);
void fe_solve_taint(struct fe *f);
/* May C have different values on different ranks? Returns why, or NULL (valid while F lives). */
const char *fe_rank_dependent(struct fe *f, CXCursor c);
void fe_finish_uniform(struct fe *f);

/* ---- varying.c ------------------------------------------------------------------------------------ */

/* Records the assignments inside a function. */
void fe_collect_stores(struct fe *f, CXCursor function);
/* How a variable is spelled as a symbol at USE: its name, with a version when it is assigned more than
 * once, so that equal spellings stand for equal values in straight-line code. */
char *fe_symbol_of(struct fe *f, CXCursor variable, CXCursor use);
/* Fills in which symbols change in the loop C. */
void fe_varying(struct fe *f, CXCursor c, ir_id node);

/* ---- kernel_shape.c ------------------------------------------------------------------------------ */

/* Fills name_at, body_at, template_params and whole_grid of KERNEL from its definition. */
void fe_kernel_shape(struct fe *f, CXCursor definition, ir_id kernel);
/* Records the explicit jumps and labels of a function. */
void fe_jumps(struct fe *f, CXCursor function, ir_id id);

/* ---- launch.c ------------------------------------------------------------------------------------ */

/* A launch in terms of the host: what its kernel's parameters and dimensions are. */
struct fe_launch_arg {
  struct ir_expr value; /* integers; text "" = unknown */
  int64_t pointee;      /* pointers: size of what they point to, <= 0 = unknown */
};
struct fe_launch {
  ir_id kernel;
  VEC(struct fe_launch_arg) args; /* none when they do not fit the parameters */
  struct ir_expr grid[3], block[3];
};
void fe_launch_init(struct fe *f, ir_id kernel, const fe_list *args, CXCursor grid, CXCursor block,
                    struct fe_launch *l);
void fe_launch_free(struct fe_launch *l);
/* What all blocks of the launch may touch by access A of one of its kernel's parameters, in bytes from
 * the pointer that is passed. OFFSET and SIZE are initialised; false when it cannot be said. */
bool fe_launch_range(const struct fe *f, const struct fe_launch *l, const struct ir_access *a,
                     struct ir_expr *offset, struct ir_expr *size);

/* ---- walk.c, patterns.c, parse.c ----------------------------------------------------------------- */

/* The callee's name of a call expression ("" if none) and its declaration. */
char *fe_callee(CXCursor call, CXCursor *decl);
void fe_call_args(CXCursor call, fe_list *out);
void fe_walk_function(struct fe *f, ir_id function);
/* Registers a function definition; the table that fe_function_of() reads. */
ir_id fe_add_function(struct fe *f, CXCursor c);
/* The kernel entity of a __global__ function, created on first use. */
ir_id fe_kernel(struct fe *f, CXCursor decl);
void fe_patterns(struct fe *f);
int fe_nccl_version(const char *header);

#endif
