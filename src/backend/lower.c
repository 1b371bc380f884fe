// SPDX-License-Identifier: Apache-2.0
/* Lowering. The user's text changes only in callee names: every emitted entry has the signature of what
 * it stands for, so arguments, checking macros and line numbers stay as they are. */
#include "backend/lower.h"
#include "backend/embed.h"
#include "backend/parts.h"
#include "backend/rewriter.h"
#include "backend/symmetric.h"
#include "backend/template.h"
#include <string.h>

/* The first line of every output; the front end recognises it. */
static const char marker[] = "// cucocc-output 1: translated by cucocc; edit the original instead.\n";

struct job {
  const struct ir_program *ir;
  const struct dir_set *set;
  const struct lower_options *o;
  struct diag_engine *diag;
  struct rewriter rw;
  struct parts_plan parts;
};

/* Does D's region run beside the launches around it? */
static bool is_beside(const struct dir_directive *d) {
  return d->backend != DIR_backend_host &&
         (d->placement == DIR_placement_split || d->placement == DIR_placement_pipelined);
}

/* ---- names --------------------------------------------------------------------------------------- */

static const char *const replaced_calls[][2] = {
    {"ncclGroupStart", "cucocc::group_start"},
    {"ncclGroupEnd", "cucocc::group_end"},
    {"ncclCommInitRank", "cucocc::comm_init_rank"},
    {"ncclCommInitAll", "cucocc::comm_init_all"},
    {"ncclCommInitRankConfig", "cucocc::comm_init_rank_config"},
    {"ncclCommInitRankScalable", "cucocc::comm_init_rank_scalable"},
    {"ncclCommSplit", "cucocc::comm_split"},
    {"ncclCommFinalize", "cucocc::comm_finalize"},
    {"ncclCommDestroy", "cucocc::comm_destroy"},
    {"ncclCommAbort", "cucocc::comm_abort"},
};

static const char *replacement(const char *callee) {
  for (size_t i = 0; i < sizeof replaced_calls / sizeof *replaced_calls; i++)
    if (strcmp(replaced_calls[i][0], callee) == 0)
      return replaced_calls[i][1];
  return NULL;
}

/* ncclDataType_t enumerators and the C++ types that carry them in emitted code. */
static const char *const types[][2] = {
    {"ncclInt8", "int8_t"},         {"ncclChar", "int8_t"},      {"ncclUint8", "uint8_t"},
    {"ncclInt32", "int32_t"},       {"ncclInt", "int32_t"},      {"ncclUint32", "uint32_t"},
    {"ncclInt64", "int64_t"},       {"ncclUint64", "uint64_t"},  {"ncclFloat16", "__half"},
    {"ncclHalf", "__half"},         {"ncclFloat32", "float"},    {"ncclFloat", "float"},
    {"ncclFloat64", "double"},      {"ncclDouble", "double"},    {"ncclBfloat16", "__nv_bfloat16"},
    {"ncclFloat8e4m3", "__nv_fp8_e4m3"}, {"ncclFloat8e5m2", "__nv_fp8_e5m2"},
};
static const char *const operations[][2] = {
    {"ncclSum", "cucocc::Sum"}, {"ncclProd", "cucocc::Prod"}, {"ncclMin", "cucocc::Min"},
    {"ncclMax", "cucocc::Max"}, {"ncclAvg", "cucocc::Avg"},
};

/* The second column for NAME, or "void": decided at run time. */
static const char *static_name(const char *const (*table)[2], size_t n, bool is_static,
                               const char *name) {
  for (size_t i = 0; is_static && i < n; i++)
    if (strcmp(table[i][0], name) == 0)
      return table[i][1];
  return "void";
}

/* ---- edits --------------------------------------------------------------------------------------- */

/* Replaces the callee's token (a global qualifier before it, `::ncclSend`, still fits). */
static void rename_call(struct job *j, const struct ir_call *c, const char *name) {
  rw_replace(&j->rw, c->name.begin, c->name.end, name);
}

static void edit_region(struct job *j, const struct dir_region *r) {
  VEC_EACH(&r->calls, id) {
    const struct ir_call *c = &j->ir->calls.v[*id];
    const char *entry = NULL;
    for (int k = 0; k < IR_COLL_COUNT; k++)
      if (strcmp(ir_collective_nccl((enum ir_collective)k), c->callee) == 0)
        entry = ir_collective_name((enum ir_collective)k);
    char *name = xasprintf("cucocc::region_%d::%s", r->id, entry ? entry : c->callee);
    rename_call(j, c, name);
    free(name);
  }
}

static void edit_life_cycle(struct job *j, const bool *move, bool any_symmetric) {
  for (size_t i = 0; i < j->ir->calls.n; i++) {
    const struct ir_call *c = &j->ir->calls.v[i];
    const char *name = NULL;
    if (!dir_call_editable(c))
      continue;
    switch (c->kind) {
    case IR_CALL_GROUP_START:
    case IR_CALL_GROUP_END:
    case IR_CALL_COMM_CREATE:
    case IR_CALL_COMM_DESTROY:
      name = replacement(c->callee);
      break;
    case IR_CALL_ALLOC:
      name = move[i] ? "cucocc::symmetric_malloc" : NULL;
      break;
    case IR_CALL_FREE:
      name = any_symmetric && strcmp(c->callee, "cudaFree") == 0 ? "cucocc::symmetric_free" : NULL;
      break;
    default:
      break;
    }
    if (name)
      rename_call(j, c, name);
  }
}

/* ---- generated code ------------------------------------------------------------------------------ */

static void add_prelude(struct job *j, bool reduce, bool p2p, struct strbuf *out) {
  bool overlap = false, blas = parts_use_blas(j->ir, &j->parts);
  VEC_EACH(&j->set->directives, d) overlap |= is_beside(d);
  if (j->o->runtime == LOWER_RUNTIME_INCLUDE) {
    sb_add(out, "#include <cucocc/cucocc_runtime.cuh>\n");
    return;
  }
  const char *wanted[] = {"core", overlap ? "overlap" : "core", blas ? "blas" : "core",
                          reduce ? "reduce" : "core", p2p ? "p2p" : "core", NULL};
  template_sections(embed_file("runtime/cucocc_runtime.cuh", NULL), wanted, out);
}

/* The C++ type that places the pieces of a region. */
static char *place_of(struct job *j, const struct dir_directive *d) {
  if (!is_beside(d))
    return xasprintf("Whole");
  return xasprintf("Pieces<%d, %lld, %d, %s>", d->region,
                   d->chunk_bytes > 0 ? (long long)d->chunk_bytes : 0LL,
                   d->chunk_bytes > 0 ? 64 : d->depth,
                   parts_is_late(&j->parts, d->region) ? "true" : "false");
}

static bool add_region(struct job *j, const struct dir_region *r, const struct dir_directive *d,
                       struct strbuf *out) {
  const struct ir_node *n = &j->ir->nodes.v[r->node];
  const struct ir_call *c = &j->ir->calls.v[r->calls.v[0]];
  bool p2p = dir_is_p2p(j->ir, r);
  char *file = xasprintf("templates/%s.cuh.in", p2p ? "p2p" : ir_collective_name(n->u.coll.op));
  const char *text = embed_file(file, NULL);
  if (!text && !p2p && n->u.coll.op == IR_COLL_bcast)
    text = embed_file("templates/broadcast.cuh.in", NULL);
  free(file);
  if (!text)
    return false;
  char *id = xasprintf("%d", r->id), *directive = dir_describe(d),
       *ctas = xasprintf("%d", dir_ctas(d)),
       *chunk = xasprintf("%lld", d->chunk_bytes > 0 ? (long long)d->chunk_bytes : 0LL),
       *loc = xasprintf("%s:%u:%u", j->ir->files.v[c->name.file].path, c->name.line, c->name.col),
       *vector = xasprintf("%d", d->vector_bytes), *place = place_of(j, d);
  const struct template_value values[] = {
      {"ID", id},
      {"LOC", loc},
      {"DIRECTIVE", directive},
      {"CALL", c->callee},
      {"CTAS", ctas},
      {"THREADS", "512"},
      {"TYPE", p2p ? "void"
                   : static_name(types, sizeof types / sizeof *types, n->u.coll.type_static,
                                 n->u.coll.type)},
      {"OP", p2p ? "void"
                 : static_name(operations, sizeof operations / sizeof *operations,
                               n->u.coll.redop_static, n->u.coll.redop)},
      {"CHUNK", is_beside(d) ? "0" : chunk},
      {"PLACE", place},
      {"PUSH", d->transfer == DIR_transfer_pull ? "false" : "true"},
      {"VECTOR", vector},
      {"SYNC", dir_value_name(DIR_DIM_sync, (int)d->sync)},
      {"COOP", d->issuer == DIR_issuer_cta    ? "ncclCoopCta"
               : d->issuer == DIR_issuer_warp ? "ncclCoopWarp"
                                              : "ncclCoopThread"},
  };
  bool complete = template_expand(text, values, sizeof values / sizeof *values, out);
  free(id), free(directive), free(ctas), free(chunk), free(loc), free(vector), free(place);
  return complete;
}

static void add_line_directive(struct strbuf *out, const char *path) {
  sb_add(out, "#line 1 \"");
  for (; *path; path++) {
    if (*path == '"' || *path == '\\')
      sb_addc(out, '\\');
    sb_addc(out, *path);
  }
  sb_add(out, "\"\n");
}

/* ---- the whole ----------------------------------------------------------------------------------- */

static bool check_directives(struct job *j, struct lower_report *report) {
  bool legal = true;
  *report = (struct lower_report){.regions = (int)j->set->regions.n};
  for (size_t i = 0; i < j->set->regions.n; i++) {
    const struct dir_directive *d = &j->set->directives.v[i];
    legal &= dir_check(j->ir, &j->set->regions.v[i], d, j->diag);
    if (d->backend == DIR_backend_host)
      report->host++;
    else
      report->translated++;
  }
  return legal;
}

int lower_program(const struct ir_program *ir, const struct dir_set *set,
                  const struct lower_options *o, struct diag_engine *diag, struct strbuf *out,
                  struct lower_report *report) {
  struct job j = {.ir = ir, .set = set, .o = o, .diag = diag};
  if (!check_directives(&j, report))
    return 1;
  if (report->translated == 0) {
    sb_addn(out, o->text, o->size);
    return 0;
  }
  rw_init(&j.rw, o->text, o->size);
  bool *move = xcalloc(ir->calls.n + 1, sizeof *move), reduce = false, p2p = false, complete = true;
  report->symmetric =
      symmetric_choose(ir, set, o->text, o->size, diag, move, &report->staged);
  parts_plan(ir, set, o->text, &j.parts);
  struct strbuf regions = {0};
  for (size_t i = 0; i < set->regions.n; i++) {
    const struct dir_region *r = &set->regions.v[i];
    if (set->directives.v[i].backend == DIR_backend_host)
      continue;
    p2p |= dir_is_p2p(ir, r);
    reduce |= !dir_is_p2p(ir, r) && ir->nodes.v[r->node].u.coll.redop[0];
    edit_region(&j, r);
    sb_addc(&regions, '\n');
    complete &= add_region(&j, r, &set->directives.v[i], &regions);
  }
  edit_life_cycle(&j, move, report->symmetric > 0);
  complete &= parts_edit(ir, &j.parts, o->input, &j.rw);
  sb_add(out, marker);
  add_prelude(&j, reduce, p2p, out);
  if (regions.n)
    sb_addn(out, regions.s, regions.n);
  sb_addc(out, '\n');
  add_line_directive(out, o->input);
  rw_apply(&j.rw, out);
  sb_free(&regions);
  rw_free(&j.rw);
  parts_plan_free(&j.parts);
  free(move);
  if (!complete)
    diag_report(diag, DIAG_ir_invalid, NULL, "a kernel template of this build is damaged; reinstall "
                                             "cucocc");
  return complete ? 0 : 1;
}
