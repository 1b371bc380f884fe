// SPDX-License-Identifier: Apache-2.0
/* Directives: what is to be done with a communication region, stated before any code is written.
 * The model here and spec/directive.schema.json come from one table, spec/directives.def. */
#ifndef CUCOCC_AGENTS_DIRECTIVE_H
#define CUCOCC_AGENTS_DIRECTIVE_H

#include "ir/ir.h"
#include "support/diag.h"

/* The dimensions: enum dir_backend { DIR_BACKEND_lsa, ... } and so on. */
#define DIM_BEGIN(dim, summary) enum dir_##dim {
#define DIM_VALUE(dim, value, status, summary) DIR_##dim##_##value,
#define DIM_END(dim) DIR_##dim##_COUNT };
#include "directives.def"
#undef DIM_BEGIN
#undef DIM_VALUE
#undef DIM_END

/* Dimensions by index: DIR_DIM_backend, ... */
enum dir_dimension {
#define DIM_BEGIN(dim, summary) DIR_DIM_##dim,
#define DIM_VALUE(dim, value, status, summary)
#define DIM_END(dim)
#include "directives.def"
#undef DIM_BEGIN
#undef DIM_VALUE
#undef DIM_END
  DIR_DIM_COUNT
};

enum { DIR_CHUNK_WHOLE = 0, DIR_CHUNK_TILE = -1 }; /* special values of chunk_bytes */

/* The table by index, for JSON, --help-directives and search: dimensions 0..count-1, values
 * 0..count-1 of each. */
int dir_dimension_count(void);
const char *dir_dimension_name(int dim);
const char *dir_dimension_summary(int dim);
int dir_value_count(int dim);
const char *dir_value_name(int dim, int value);
const char *dir_value_summary(int dim, int value);
bool dir_value_implemented(int dim, int value);

/* A region that a directive can be about: one collective leaf, or a group of sends and receives. */
struct dir_region {
  int id;                 /* 1, 2, ... in source order: region_1 in emitted code */
  ir_id node;             /* COLLECTIVE leaf, or the GROUP node for sends and receives */
  VEC(ir_id) calls;       /* ir_call of every NCCL call that belongs to it, in source order */
};

struct dir_directive {
  int region;
  enum dir_backend backend;
  enum dir_placement placement;
  enum dir_sync sync;
  enum dir_issuer issuer;
  int64_t chunk_bytes;    /* > 0, or DIR_CHUNK_* */
  enum dir_transfer transfer; /* push or pull */
  int ctas;               /* CTAs given to communication, 1..64; 0 = the lowering's choice */
  int depth;              /* parts of a pipeline, 1..16; 1 for every other placement */
  int vector_bytes;       /* 4, 8, 16: width of one access where alignment allows */
  char *reason;           /* why this was chosen, or why the region stays on the host; for people */
};

struct dir_set {
  VEC(struct dir_region) regions;
  VEC(struct dir_directive) directives; /* one per region, same order */
};

void dir_set_free(struct dir_set *s);

/* Value of dimension DIM in D. */
int dir_value_get(const struct dir_directive *d, int dim);
/* Sets it; VALUE is in range. */
void dir_value_set(struct dir_directive *d, int dim, int value);
/* CTAs that a collective uses: what D says, or the lowering's choice (enough to fill NVLink; fewer where
 * they take SMs from a computation at the same time). */
int dir_ctas(const struct dir_directive *d);
/* One line for people, "lsa, deferred, team_barrier, cta, whole"; free() it. */
char *dir_describe(const struct dir_directive *d);
/* Is REGION made of sends and receives? */
bool dir_is_p2p(const struct ir_program *ir, const struct dir_region *region);
/* The place of the region's first call, for diagnostics. */
void dir_region_loc(const struct ir_program *ir, const struct dir_region *region,
                    struct diag_loc *loc);
/* Can the callee's token of CALL be replaced? */
bool dir_call_editable(const struct ir_call *call);

/* Lists the regions of a program in source order. Sends and receives of one group (or a lone one) make
 * one region; collectives one each. */
void dir_find_regions(const struct ir_program *ir, struct dir_set *out);

/* The fast-path agent: a conservative directive for every region (lsa, deferred, team_barrier or
 * peer_signal, cta, whole), or backend host with the reason when the region cannot be translated
 * safely. Reports every region that stays a host call (CU0401) with its reason. */
void fast_path_choose(const struct ir_program *ir, struct dir_set *set, struct diag_engine *diag);

/* Why can REGION not be taken off the host at all? Returns NULL when it can, else a static or
 * program-owned sentence naming cause and remedy. */
const char *dir_host_reason(const struct ir_program *ir, const struct dir_region *region);

/* Legality of D for its region: every rule has a name and a reason. Returns true, or false after
 * reporting CU0502 or CU0503 at the region (diag may be NULL: then only the verdict). */
bool dir_check(const struct ir_program *ir, const struct dir_region *region,
               const struct dir_directive *d, struct diag_engine *diag);

/* JSON: {"version": 1, "directives": [{"region": {"id":1,"call":"ncclAllGather","line":12}, "backend":
 * "lsa", ...}]}. dir_to_json returns text to free(). dir_from_json replaces the directives of SET by
 * those in TEXT (regions that TEXT does not name keep theirs); reports CU0501 with the JSON path
 * otherwise, and returns false. */
char *dir_to_json(const struct ir_program *ir, const struct dir_set *set);
bool dir_from_json(const struct ir_program *ir, struct dir_set *set, const char *file,
                   const char *text, struct diag_engine *diag);
/* spec/directive.schema.json, generated from the table (a test compares it with the file). */
char *dir_schema_json(void);

#endif
