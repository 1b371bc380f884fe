// SPDX-License-Identifier: Apache-2.0
/* The intermediate representation of a host-driven CUDA/NCCL program.
 *
 * A program is a list of functions; each has an ordered tree of nodes: sequences, loops and branches
 * with leaves that are regions (compute, collective, copy, sync), calls of other functions of the
 * program, or host code that matters (allocation, communicator and stream life cycle). Entities
 * (buffers, communicators, streams, events, kernels) live in tables and are named by index; -1 means
 * none or unknown. The IR holds facts about the user's program only: it knows nothing of libclang, of
 * directives, or of the code that will be emitted.
 *
 * Everything is owned by the program and freed by ir_free(). Strings are never NULL unless stated. */
#ifndef CUCOCC_IR_IR_H
#define CUCOCC_IR_IR_H

#include "support/vec.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef int ir_id; /* index into a table of struct ir_program, or -1 */

/* A range of bytes [begin, end) in file FILE, with the 1-based line and column of BEGIN. */
struct ir_range {
  ir_id file;
  size_t begin, end;
  unsigned line, col;
};

/* ---- symbolic expressions ------------------------------------------------------------------------ */

/* coefficient * SYMBOL, SYMBOL the spelling of a program variable or opaque sub-expression. */
struct ir_term {
  char *symbol;
  int64_t coef;
};

/* An integer expression. TEXT is what a reader sees. When AFFINE, its value is
 * constant + sum(terms), terms sorted by symbol, coefficients non-zero. A symbol stands for one value
 * within one execution of the straight-line code around it: a variable that is assigned between two
 * uses must be spelled differently there, or be opaque. Loops that change it say so (control.varying). */
struct ir_expr {
  char *text;
  bool affine;
  int64_t constant;
  VEC(struct ir_term) terms;
};

/* ---- entities ------------------------------------------------------------------------------------ */

struct ir_file {
  char *path;      /* as opened */
  bool main_file;  /* the input itself: the only file that may be edited */
};

/* Where a pointer's memory comes from. */
enum ir_origin {
  IR_ORIGIN_UNKNOWN,  /* nothing is known */
  IR_ORIGIN_CUDA,     /* cudaMalloc whose sites are in ir_buffer.allocs */
  IR_ORIGIN_NCCL,     /* ncclMemAlloc */
  IR_ORIGIN_OTHER,    /* cudaMallocManaged, cudaMallocAsync, cudaHostAlloc, ... */
  IR_ORIGIN_HOST,     /* ordinary host memory */
  IR_ORIGIN_PARAM,    /* a parameter of the function: the caller decides */
  IR_ORIGIN_ALIAS     /* always derived from ALIAS_OF (a pointer + offset, a swap, a struct copy) */
};

struct ir_buffer {
  char *name;           /* source spelling of the variable or member: d_x, bufs[], ctx.send */
  char *function;       /* enclosing function, "" for globals */
  struct ir_range decl;
  char *elem_type;      /* canonical element type, "" if unknown */
  enum ir_origin origin;
  ir_id alias_of;       /* buffer, for IR_ORIGIN_ALIAS */
  int param;            /* IR_ORIGIN_PARAM: 0-based position of the parameter, -1 if not known */
  bool per_device;      /* an array indexed by device in a single-process program */
  bool reassigned;      /* assigned from other pointers too (swap): aliases is the whole may-set */
  VEC(ir_id) aliases;   /* buffers whose memory this name may hold (itself excluded) */
  VEC(ir_id) allocs;    /* calls (ir_call) that allocate it */
  VEC(ir_id) frees;     /* calls that free it */
  struct ir_expr size;  /* bytes; text "" if unknown */
};

enum ir_comm_origin {
  IR_COMM_UNKNOWN, IR_COMM_INIT_RANK, IR_COMM_INIT_ALL, IR_COMM_CONFIG, IR_COMM_SPLIT, IR_COMM_PARAM
};

struct ir_comm {
  char *name;
  char *function;
  enum ir_comm_origin origin;
  int param;            /* IR_COMM_PARAM: position of the parameter, -1 if not known */
  bool per_device;      /* comms[i] of a single-process program */
  VEC(ir_id) creates;   /* calls that create it */
  VEC(ir_id) destroys;
};

struct ir_stream {
  char *name;           /* "default" for stream 0 */
  char *function;
  int param;            /* position when it is a parameter, else -1 */
  bool is_default;
  bool non_blocking;    /* created with cudaStreamNonBlocking: no implicit order with stream 0 */
  bool per_device;
};

struct ir_event {
  char *name;
  char *function;
  bool per_device;      /* events[i] of a single-process program */
};

/* What a kernel does to the memory behind one pointer parameter. */
enum ir_access_kind { IR_ACCESS_NONE, IR_ACCESS_AFFINE, IR_ACCESS_WHOLE, IR_ACCESS_UNKNOWN };

/* Bytes that one block may touch: [sum(coef[d]*blockIdx.d) + base, + extent) with symbolic parts over
 * kernel parameters, blockDim and gridDim. KIND AFFINE only when derived with proof. */
struct ir_access {
  enum ir_access_kind kind;
  struct ir_expr block_coef[3]; /* bytes per blockIdx.x/.y/.z */
  struct ir_expr base;          /* bytes */
  struct ir_expr extent;        /* bytes; text "" = unknown extent */
  bool exact;                   /* every byte of the range is touched (else: at most these) */
  /* Bytes that all blocks of a launch together may touch: [all_base, + all_extent); text "" = unknown. */
  struct ir_expr all_base, all_extent;
};

struct ir_kernel_param {
  char *name;
  char *type;
  bool pointer;
  bool atomic;             /* updated with atomics */
  struct ir_access read, write;
};

struct ir_kernel {
  char *name;
  struct ir_range range;   /* the definition; file -1 when only declared */
  bool is_template;
  bool grid_sync;          /* uses cooperative grid synchronisation */
  bool opaque;             /* body not visible: every pointer is read and written */
  VEC(struct ir_kernel_param) params;
  VEC(char *) device_globals; /* __device__ variables that it touches */
  /* For writing a variant of the kernel beside it (both 0 unless its text is in the main file): offsets
   * of its name and of the brace that opens its body; names of its template parameters. */
  size_t name_at, body_at;
  VEC(char *) template_params;
  /* "" when its grid may be launched in parts: every use of blockIdx and gridDim is spelled in its own
   * text, and blocks do not wait for each other; else why not. */
  char *whole_grid;
};

/* ---- calls: the places a rewriter may edit ------------------------------------------------------- */

enum ir_call_kind {
  IR_CALL_COLLECTIVE,    /* ncclAllReduce ... ncclRecv: see spec/collectives.def */
  IR_CALL_GROUP_START, IR_CALL_GROUP_END,
  IR_CALL_COMM_CREATE, IR_CALL_COMM_DESTROY, IR_CALL_COMM_OTHER,
  IR_CALL_ALLOC, IR_CALL_FREE,
  IR_CALL_OTHER
};

enum ir_spelling {
  IR_SPELLED_PLAIN,      /* in the file itself, outside macros */
  IR_SPELLED_MACRO_ARG,  /* spelled once as an argument of a macro use: editable at its spelling */
  IR_SPELLED_MACRO_BODY  /* its text is (partly) inside a macro's definition: not editable */
};

struct ir_arg {
  char *text;            /* source text */
  struct ir_range range; /* spelling */
};

struct ir_call {
  enum ir_call_kind kind;
  char *callee;          /* ncclAllReduce, cudaMalloc, ... */
  struct ir_range name;  /* the callee's token: what a rewriter replaces */
  struct ir_range range; /* the whole call expression */
  enum ir_spelling spelling;
  bool in_main_file;
  bool function_has_errors; /* clang reported an error inside the enclosing function */
  char *function;        /* enclosing function */
  /* May it be executed a different number of times, or in another order, by different ranks? False
   * only when shown: straight-line code or loops/branches with rank-independent conditions, in main or
   * in functions reached only that way. UNIFORM_WHY says what spoiled it ("" when uniform). */
  bool uniform;
  char *uniform_why;
  bool in_loop;          /* inside a loop that is not a loop over the process's own devices */
  bool in_device_loop;   /* inside a loop over the process's devices */
  bool captured;         /* may be executed while a stream is being captured into a graph */
  VEC(struct ir_arg) args;
  ir_id buffer;          /* ALLOC, FREE: the buffer; else -1 */
  ir_id comm;            /* COMM_*, COLLECTIVE: the communicator; else -1 */
};

/* ---- nodes --------------------------------------------------------------------------------------- */

enum ir_node_kind {
  IR_SEQ,        /* children in order */
  IR_LOOP,       /* one child: the body */
  IR_BRANCH,     /* children: then, else (or the cases of a switch) */
  IR_GROUP,      /* ncclGroupStart .. ncclGroupEnd: child is the sequence between */
  IR_COMPUTE, IR_COLLECTIVE, IR_COPY, IR_SYNC, IR_HOST, IR_CALL
};

enum ir_mode { IR_READ = 1, IR_WRITE = 2, IR_READ_WRITE = 3, IR_ACCUMULATE = 7 };

/* One use of memory by a leaf. Ranges are in bytes from the start of the buffer. */
struct ir_operand {
  ir_id buffer;
  char *text;              /* source text of the pointer argument */
  enum ir_mode mode;
  struct ir_expr offset;   /* text "" = unknown */
  struct ir_expr size;     /* text "" = unknown (then the whole buffer) */
  bool exact;              /* offset and size are exactly what is touched */
  int arg;                 /* position of the argument it comes from, -1 if not known */
};

enum ir_pattern {          /* what a group of sends and receives amounts to */
  IR_PATTERN_NONE, IR_PATTERN_RING_SHIFT, IR_PATTERN_ALL_TO_ALL, IR_PATTERN_ALL_TO_ALL_V,
  IR_PATTERN_HALO, IR_PATTERN_PAIRWISE
};

enum ir_sync_kind {
  IR_SYNC_DEVICE, IR_SYNC_STREAM, IR_SYNC_EVENT_RECORD, IR_SYNC_EVENT_WAIT /* stream waits */,
  IR_SYNC_EVENT_HOST /* host waits */, IR_SYNC_MPI, IR_SYNC_THREAD, IR_SYNC_QUERY
};

enum ir_compute_kind { IR_COMPUTE_LAUNCH, IR_COMPUTE_CUBLAS, IR_COMPUTE_HOST_FUNC };
enum ir_copy_kind {
  IR_COPY_H2D, IR_COPY_D2H, IR_COPY_D2D, IR_COPY_PEER, IR_COPY_DEFAULT, IR_COPY_MEMSET
};

/* The collective of spec/collectives.def, in that order. */
enum ir_collective {
#define COLL(id, ...) IR_COLL_##id,
#include "collectives.def"
#undef COLL
  IR_COLL_COUNT
};

struct ir_node {
  ir_id id;                /* == index in ir_program.nodes */
  ir_id parent;
  ir_id function;
  enum ir_node_kind kind;
  struct ir_range range;
  char *label;             /* short text for people: kernel name, nccl call, copy kind */
  VEC(ir_id) children;

  /* leaves */
  ir_id stream;            /* -1: host only or unknown */
  bool async;              /* returns to the host before it is done */
  VEC(struct ir_operand) operands;
  ir_id event;             /* sync nodes */
  ir_id call;              /* ir_call behind a COLLECTIVE or HOST leaf; GROUP: the GroupStart */
  ir_id call_end;          /* GROUP: the GroupEnd */

  union {
    struct {
      enum ir_compute_kind kind;
      ir_id kernel;
      char *grid, *block, *shared; /* source text of the launch configuration, "" if none */
      struct ir_range launch;      /* <<< ... >>> with its brackets */
      VEC(struct ir_arg) args;     /* kernel arguments (LAUNCH) or call arguments (CUBLAS) */
    } compute;
    struct {
      enum ir_collective op;
      ir_id comm;
      struct ir_expr count;        /* elements */
      char *type;                  /* ncclFloat ... or source text when decided at run time */
      bool type_static;
      char *redop;                 /* ncclSum ... , source text, or "" */
      bool redop_static;           /* one of the five built-in operations */
      char *root_or_peer;          /* source text, "" if none */
      bool in_place;               /* proved: send and receive overlap as NCCL's in-place form */
      enum ir_pattern pattern;     /* of the enclosing group, for send/recv */
    } coll;
    struct {
      enum ir_copy_kind kind;
    } copy;
    struct {
      enum ir_sync_kind kind;
    } sync;
    struct {
      char *condition;             /* source text of the loop head or condition */
      bool over_devices;           /* a loop over the process's own devices */
      bool over_peers;             /* a loop over the ranks of a communicator */
      bool rank_dependent;         /* the condition may differ between ranks */
      bool varying_known;          /* LOOP: VARYING lists every variable assigned in the loop */
      VEC(char *) varying;         /* else: any symbol may change from one iteration to the next */
    } control;                     /* LOOP, BRANCH */
    struct {
      ir_id callee;                /* ir_function */
      VEC(struct ir_arg) args;
    } callee;                      /* CALL */
  } u;
};

/* An explicit change of control in a function of the main file: return, break, continue, goto, throw,
 * or a label or case that may be jumped to. */
struct ir_jump {
  size_t at; /* offset in the main file */
};

struct ir_function {
  char *name;
  struct ir_range range;
  bool is_main;
  bool is_template;
  bool is_lambda;
  bool has_errors;               /* clang reported errors in its body: left as it is */
  char *error;                   /* first such error, "" if none */
  VEC(struct ir_jump) jumps;     /* spelled outside macros, in source order */
  ir_id body;                    /* node (IR_SEQ), -1 when nothing of interest is inside */
};

/* ---- dependences and overlap ---------------------------------------------------------------------
 *
 * Dependences join leaves of one function. They are reduced: an edge that other edges imply may be left
 * out, so ask for paths, not for single edges. Data: one edge for a pair of leaves and a buffer, with the
 * strongest hazard (RAW, then WAW, then WAR). Order: the leaves of a group on one stream start and end
 * together; their order edges are given at the first of them only. The record of an event is ordered
 * after what it records, and only waits for the event after it.
 *
 * Carried dependences go from one iteration of a loop, the innermost common one unless the ranges are
 * disjoint there, to later ones (also when the loop is executed again). Loops over the process's devices
 * do not count for entities that exist per device, nor do loops inside a group, whose
 * iterations are unordered. The arms of a branch exclude each other and have no edges between them. */

enum ir_dep_kind {
  IR_DEP_RAW, IR_DEP_WAR, IR_DEP_WAW,  /* through a buffer */
  IR_DEP_STREAM, IR_DEP_EVENT, IR_DEP_HOST, IR_DEP_COMM
};

struct ir_dep {
  ir_id from, to;        /* leaves; TO comes after FROM (or in the next iteration, when CARRIED) */
  enum ir_dep_kind kind;
  ir_id buffer;          /* data dependences */
  bool carried;          /* from one iteration of LOOP to later ones */
  ir_id loop;            /* -1 when not carried */
  bool may;              /* only possible, not certain: ranges or aliases are not known exactly */
};

enum ir_overlap_kind {
  IR_OVERLAP_DATA,        /* ordered because of data */
  IR_OVERLAP_ORDER_ONLY,  /* ordered only by stream, event or host: the opportunity */
  IR_OVERLAP_CONCURRENT   /* already concurrent */
};

/* A pair of regions near each other: a collective or copy, and one of the nearest 16 computations before
 * and after it. A call stands for what the called function does. */
struct ir_overlap {
  ir_id a, b;             /* leaves, one of them a collective or copy, the other compute; A first */
  enum ir_overlap_kind kind;
  bool carried;           /* A of one iteration and B of the next */
  char *why;
};

/* ---- the program --------------------------------------------------------------------------------- */

enum ir_process_model { IR_MODEL_UNKNOWN, IR_MODEL_MPI, IR_MODEL_SINGLE_PROCESS, IR_MODEL_THREADS };

struct ir_program {
  VEC(struct ir_file) files;
  VEC(struct ir_function) functions;
  VEC(struct ir_kernel) kernels;
  VEC(struct ir_buffer) buffers;
  VEC(struct ir_comm) comms;
  VEC(struct ir_stream) streams;
  VEC(struct ir_event) events;
  VEC(struct ir_call) calls;
  VEC(struct ir_node) nodes;
  VEC(struct ir_dep) deps;
  VEC(struct ir_overlap) overlaps;
  enum ir_process_model model;
  int nccl_version;       /* NCCL_VERSION_CODE of the headers that were parsed, 0 if none */
  bool translated;        /* the input is itself an output of cucocc */
  bool uses_ipc;          /* cudaIpc*: allocations must stay as they are */
};

struct ir_program *ir_new(void);
void ir_free(struct ir_program *p);

/* Constructors: append a zeroed entity with empty strings and ids of -1, and return its index. */
ir_id ir_add_file(struct ir_program *p, const char *path, bool main_file);
ir_id ir_add_function(struct ir_program *p, const char *name);
ir_id ir_add_kernel(struct ir_program *p, const char *name);
ir_id ir_add_buffer(struct ir_program *p, const char *name, const char *function);
ir_id ir_add_comm(struct ir_program *p, const char *name, const char *function);
ir_id ir_add_stream(struct ir_program *p, const char *name, const char *function);
ir_id ir_add_event(struct ir_program *p, const char *name, const char *function);
ir_id ir_add_call(struct ir_program *p, enum ir_call_kind kind, const char *callee);
/* Appends a node under PARENT (-1 = a function's root), as its last child. */
ir_id ir_add_node(struct ir_program *p, enum ir_node_kind kind, ir_id parent);
struct ir_node *ir_node(struct ir_program *p, ir_id id); /* invalid after the next ir_add_node */
/* Appends an operand with empty expressions to leaf NODE and returns it (valid until the next). */
struct ir_operand *ir_add_operand(struct ir_program *p, ir_id node, ir_id buffer, enum ir_mode mode);
/* Replaces an owned string: frees *FIELD and stores a copy of S. */
void ir_set(char **field, const char *s);

/* Expressions. Arithmetic keeps AFFINE where the result is; texts are made readable. */
void ir_expr_init(struct ir_expr *e);                         /* unknown: text "" */
void ir_expr_free(struct ir_expr *e);
void ir_expr_const(struct ir_expr *e, int64_t value);
void ir_expr_symbol(struct ir_expr *e, const char *symbol);   /* 1 * symbol */
void ir_expr_opaque(struct ir_expr *e, const char *text);     /* a text that is not analysed */
void ir_expr_copy(struct ir_expr *dst, const struct ir_expr *src);
void ir_expr_add(struct ir_expr *dst, const struct ir_expr *a, const struct ir_expr *b, int sign);
void ir_expr_mul(struct ir_expr *dst, const struct ir_expr *a, const struct ir_expr *b);
bool ir_expr_known(const struct ir_expr *e);
/* Is a - b a constant? Then stores it. */
bool ir_expr_difference(const struct ir_expr *a, const struct ir_expr *b, int64_t *out);

/* Do two operands touch a common byte, given that neither is empty and both are used in the same
 * iteration? Returns 0 no (proved), 1 maybe, 2 yes (proved). */
int ir_operands_overlap(const struct ir_program *p, const struct ir_operand *a,
                        const struct ir_operand *b);

/* Computes deps and overlaps (replacing what was there) from the tree, operands, streams, events and
 * host synchronisation. Calls of functions of the program count with their summarised effects. */
void ir_analyse(struct ir_program *p);

/* Checks every invariant stated in this header (ids in range, one parent, leaves without children,
 * ranges inside files, edges between leaves, sorted terms, ...). Returns true, or false with up to
 * SIZE bytes of the first violation in WHY. */
bool ir_verify(const struct ir_program *p, char *why, size_t size);

/* JSON per spec/ir.schema.json. ir_to_json returns text to free(). ir_from_json returns NULL with a
 * message in WHY when the text is not JSON, does not fit, or fails ir_verify. */
char *ir_to_json(const struct ir_program *p);
struct ir_program *ir_from_json(const char *text, char *why, size_t size);
/* The text of spec/ir.schema.json, from the same table as reader and writer; free() it. */
char *ir_schema_json(void);

/* Names used in JSON, directives, graphs and diagnostics, e.g. "all_gather", "RAW", "order_only". */
const char *ir_node_kind_name(enum ir_node_kind k);
const char *ir_collective_name(enum ir_collective c);  /* entry name: all_gather */
const char *ir_collective_nccl(enum ir_collective c);  /* ncclAllGather */
const char *ir_dep_name(enum ir_dep_kind k);
const char *ir_overlap_name(enum ir_overlap_kind k);
const char *ir_pattern_name(enum ir_pattern k);
const char *ir_copy_name(enum ir_copy_kind k);
const char *ir_sync_name(enum ir_sync_kind k);
bool ir_node_is_leaf(const struct ir_node *n);

#endif
