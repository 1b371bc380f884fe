// SPDX-License-Identifier: Apache-2.0
/* The fast-path agent: what is certain, nothing clever. */
#include "agents/directive.h"

void fast_path_choose(const struct ir_program *ir, struct dir_set *set, struct diag_engine *diag) {
  for (size_t i = 0; i < set->regions.n; i++) {
    const struct dir_region *r = &set->regions.v[i];
    struct dir_directive *d = &set->directives.v[i];
    const char *why = dir_host_reason(ir, r);
    bool p2p = dir_is_p2p(ir, r);
    char *reason = d->reason;
    *d = (struct dir_directive){.region = r->id,
                                .backend = why ? DIR_backend_host : DIR_backend_lsa,
                                .placement = DIR_placement_deferred,
                                .sync = p2p ? DIR_sync_peer_signal : DIR_sync_team_barrier,
                                .issuer = DIR_issuer_cta,
                                .chunk_bytes = DIR_CHUNK_WHOLE,
                                .transfer = DIR_transfer_automatic,
                                .depth = 1,
                                .vector_bytes = 16,
                                .reason = reason};
    ir_set(&d->reason, why ? why : "fast path: correct wherever the host call is");
    if (!why)
      continue;
    struct diag_loc loc;
    dir_region_loc(ir, r, &loc);
    diag_report(diag, DIAG_not_transformed, &loc, "%s stays a host call: %s",
                ir->calls.v[r->calls.v[0]].callee, why);
  }
}
