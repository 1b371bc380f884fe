// SPDX-License-Identifier: Apache-2.0
/* A description of the IR's structs, field by field: the one source for construction, release, JSON in
 * both directions, the JSON schema, and the checks that every index and enumerator is in range. */
#ifndef CUCOCC_IR_RECORD_H
#define CUCOCC_IR_RECORD_H

#include "ir/ir.h"

enum rec_type {
  REC_STR,     /* char *, never NULL */
  REC_BOOL,
  REC_INT,     /* int */
  REC_UINT,    /* unsigned */
  REC_SIZE,    /* size_t */
  REC_I64,     /* int64_t */
  REC_ID,      /* ir_id into the table that .table names */
  REC_ENUM,    /* an enumerator of .values */
  REC_RECORD,  /* a struct described by .sub */
  REC_TRIPLE,  /* three of them */
  REC_LIST,    /* VEC of structs described by .sub */
  REC_STRS,    /* VEC(char *) */
  REC_IDS      /* VEC(ir_id) */
};

enum rec_table {
  TABLE_FILES, TABLE_FUNCTIONS, TABLE_KERNELS, TABLE_BUFFERS, TABLE_COMMS, TABLE_STREAMS, TABLE_EVENTS,
  TABLE_CALLS, TABLE_NODES, TABLE_COUNT
};

struct rec_value {
  const char *name;
  int value;
};
struct rec_values {
  const char *what; /* for messages: "a node kind" */
  const struct rec_value *v;
  size_t n;
};

enum { REC_REQUIRED = 1, REC_MINUS_ONE = 2 }; /* must be written; default -1 (else 0) */

struct rec_field {
  const char *key;
  enum rec_type type;
  size_t offset;
  const struct rec_record *sub;
  const struct rec_values *values;
  enum rec_table table;
  unsigned flags;
  unsigned kinds; /* node fields: bit k = present when the node's kind is k; 0 = always */
};

struct rec_record {
  const char *name;
  const char *summary;
  size_t size;
  const struct rec_field *fields;
  size_t n;
};

/* Any VEC, seen through its storage. */
struct rec_vec {
  char *v;
  size_t n, cap;
};

extern const struct rec_record rec_program, rec_node, rec_expr, rec_range;
extern const struct rec_record rec_file, rec_function, rec_kernel, rec_buffer, rec_comm, rec_stream,
    rec_event, rec_call, rec_operand;
extern const struct rec_values rec_node_kinds, rec_collectives, rec_patterns, rec_deps, rec_overlaps,
    rec_copies, rec_syncs, rec_call_kinds;

/* Does the object at BASE have field F (the part of a node's union that belongs to its kind)? */
bool rec_present(const struct rec_record *r, const struct rec_field *f, const void *base);
/* Makes the zeroed object at BASE a valid one: empty strings, ids of -1. */
void rec_init(const struct rec_record *r, void *base);
/* Frees what the object owns. */
void rec_free(const struct rec_record *r, void *base);
/* Is the field at its default, so that it need not be written? */
bool rec_is_default(const struct rec_field *f, const void *base);
/* The name of an enumerator, or NULL. */
const char *rec_name(const struct rec_values *values, int value);

static inline void *rec_at(const void *base, const struct rec_field *f) {
  return (char *)base + f->offset;
}

#endif
