// SPDX-License-Identifier: Apache-2.0
/* Which directives are legal for a region, and why a region may have to stay a host call. */
#include "agents/chain.h"
#include "agents/directive.h"
#include <string.h>

bool dir_call_editable(const struct ir_call *c) {
  return c->in_main_file && c->spelling != IR_SPELLED_MACRO_BODY && !c->function_has_errors;
}

/* ---- staying on the host ------------------------------------------------------------------------- */

static const char *call_reason(const struct ir_program *ir, const struct ir_call *c) {
  if (!c->in_main_file)
    return "the call is in a header, and only the input file is rewritten; move it into the input "
           "file";
  if (c->spelling == IR_SPELLED_MACRO_BODY)
    return "the call is spelled inside a macro's definition; write it at the place of use, for "
           "example as the argument of a checking macro";
  if (c->function_has_errors)
    return "the enclosing function has errors; make it compile (-I, -D)";
  if (c->captured)
    return "the call may run while a stream is captured into a graph, which is not supported yet";
  if (ir->nccl_version && ir->nccl_version < 22807)
    return "the NCCL headers are older than 2.28.7; use newer ones (--nccl-include)";
  return NULL;
}

static bool makes_custom_ops(const struct ir_program *ir) {
  VEC_EACH(&ir->calls, c) if (strncmp(c->callee, "ncclRedOpCreate", 15) == 0) return true;
  return false;
}

static const char *group_reason(const struct ir_program *ir) {
  VEC_EACH(&ir->calls, c)
  if ((c->kind == IR_CALL_GROUP_START || c->kind == IR_CALL_GROUP_END) && !dir_call_editable(c))
    return "a ncclGroupStart or ncclGroupEnd of the program cannot be rewritten (it is in a header, "
           "in a macro's definition, or in a function with errors), so calls inside it stay with it; "
           "spell it out in the input file";
  return NULL;
}

static const char *comm_reason(const struct ir_program *ir, ir_id comm) {
  if (comm < 0)
    return "the communicator is not known, and sends and receives alone cannot set one up for the "
           "device; create it in the input file";
  const struct ir_comm *k = &ir->comms.v[comm];
  if (k->creates.n == 0)
    return "the communicator comes from elsewhere, and sends and receives alone cannot set it up for "
           "the device; create it in the input file";
  VEC_EACH(&k->creates, id)
  if (!dir_call_editable(&ir->calls.v[*id]))
    return "the call that creates the communicator cannot be rewritten; create it in the input file, "
           "outside macro definitions";
  return NULL;
}

const char *dir_host_reason(const struct ir_program *ir, const struct dir_region *region) {
  const char *why = NULL;
  bool p2p = dir_is_p2p(ir, region);
  for (size_t i = 0; i < region->calls.n && !why; i++) {
    const struct ir_call *c = &ir->calls.v[region->calls.v[i]];
    why = call_reason(ir, c);
    if (!why && p2p)
      why = comm_reason(ir, c->comm);
  }
  if (why)
    return why;
  if (!p2p) {
    const struct ir_node *n = &ir->nodes.v[region->node];
    if (n->u.coll.redop[0] && !n->u.coll.redop_static && makes_custom_ops(ir))
      return "the reduction may be one made by ncclRedOpCreatePreMulSum, which device code cannot "
             "see; use a built-in operation";
  }
  return group_reason(ir);
}

/* ---- rules --------------------------------------------------------------------------------------- */

struct subject {
  const struct ir_program *ir;
  const struct dir_region *region;
  const struct dir_directive *d;
  bool p2p;
};

/* Each rule returns NULL when it holds, else its reason. */
static const char *rule_translatable(const struct subject *s) {
  return dir_host_reason(s->ir, s->region);
}

static const char *rule_sync_fits_pattern(const struct subject *s) {
  if (s->p2p && s->d->sync != DIR_sync_peer_signal && s->d->sync != DIR_sync_chunk_signal)
    return "sends and receives involve pairs of ranks only, so a barrier of the team could wait for "
           "ranks that never come; use peer_signal";
  if (!s->p2p && s->d->sync == DIR_sync_peer_signal)
    return "a collective waits for the whole team; use team_barrier";
  return NULL;
}

/* Split and pipelined run beside the launches next to the region. */
static bool is_beside(const struct subject *s) {
  return s->d->placement == DIR_placement_split || s->d->placement == DIR_placement_pipelined;
}

static const char *rule_needs_neighbour(const struct subject *s) {
  struct dir_chain c;
  if (!is_beside(s))
    return NULL;
  dir_chain_find(s->ir, s->region, &c);
  const char *why = c.why;
  dir_chain_free(&c);
  return why;
}

static const char *rule_depth_fits_placement(const struct subject *s) {
  if (s->d->placement == DIR_placement_pipelined && s->d->depth < 2)
    return "depth is the number of parts of a pipeline; use 2 or more";
  if (s->d->placement != DIR_placement_pipelined && s->d->depth != 1)
    return "only a pipelined region is cut into parts; use depth 1";
  if (s->d->placement == DIR_placement_split && s->d->chunk_bytes != DIR_CHUNK_WHOLE)
    return "a split region is issued as a whole; use whole, or pipelined";
  if (s->p2p && is_beside(s) && s->d->chunk_bytes != DIR_CHUNK_WHOLE)
    return "sends and receives are taken message by message; use whole";
  return NULL;
}

static const char *rule_tile_needs_kernel(const struct subject *s) {
  if (s->d->chunk_bytes == DIR_CHUNK_TILE && s->d->placement != DIR_placement_fused &&
      s->d->placement != DIR_placement_specialized)
    return "tile is the producer's own tile, which only fused and specialized placements see; give a "
           "size or whole";
  return NULL;
}

static const char *rule_chunk_aligned(const struct subject *s) {
  if (s->d->chunk_bytes > 0 && (s->d->chunk_bytes < 1024 || s->d->chunk_bytes % 16))
    return "chunk_bytes must be a multiple of 16 and at least 1024, so that vector accesses stay "
           "aligned";
  return NULL;
}

static const char *rule_pull_needs_reader(const struct subject *s) {
  if (s->p2p && s->d->transfer == DIR_transfer_pull)
    return "sends and receives are pushed by the sender; use automatic";
  return NULL;
}

static const char *rule_channels_fixed(const struct subject *s) {
  if (s->p2p && s->d->ctas)
    return "the two sides of a message may be in different regions, so their number of CTAs is fixed; "
           "use 0";
  return NULL;
}

static const char *rule_width_is_chosen(const struct subject *s) {
  if (s->d->vector_bytes != 16)
    return "a copy takes the widest access that the addresses allow; use 16";
  return NULL;
}

static const struct rule {
  const char *name;
  const char *(*check)(const struct subject *);
} rules[] = {{"translatable", rule_translatable},
             {"sync-fits-pattern", rule_sync_fits_pattern},
             {"tile-needs-kernel", rule_tile_needs_kernel},
             {"chunk-aligned", rule_chunk_aligned},
             {"pull-needs-reader", rule_pull_needs_reader},
             {"channels-fixed", rule_channels_fixed},
             {"width-is-chosen", rule_width_is_chosen},
             {"depth-fits-placement", rule_depth_fits_placement},
             {"needs-neighbour", rule_needs_neighbour}};

bool dir_check(const struct ir_program *ir, const struct dir_region *region,
               const struct dir_directive *d, struct diag_engine *diag) {
  struct diag_loc loc;
  dir_region_loc(ir, region, &loc);
  if (d->backend == DIR_backend_host)
    return true;
  for (int k = 0; k < dir_dimension_count(); k++) {
    int v = dir_value_get(d, k);
    if (dir_value_implemented(k, v))
      continue;
    if (diag)
      diag_report(diag, DIAG_directive_unimplemented, &loc,
                  "%s '%s' of region %d has no lowering yet; see --help-directives for what has",
                  dir_dimension_name(k), dir_value_name(k, v), region->id);
    return false;
  }
  struct subject s = {ir, region, d, dir_is_p2p(ir, region)};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    const char *why = rules[i].check(&s);
    if (!why)
      continue;
    if (diag)
      diag_report(diag, DIAG_directive_illegal, &loc,
                  "the directive of region %d breaks the rule %s: %s", region->id, rules[i].name,
                  why);
    return false;
  }
  return true;
}
