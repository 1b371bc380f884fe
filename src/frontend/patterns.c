// SPDX-License-Identifier: Apache-2.0
/* What a group of sends and receives amounts to. */
#include "frontend/internal.h"
#include <ctype.h>
#include <string.h>

struct group {
  VEC(ir_id) p2p;
  unsigned sends, recvs;
  bool in_peer_loop, in_branch, varying;
};

static void gather(struct ir_program *p, ir_id id, bool loop, bool branch, struct group *g) {
  const struct ir_node *n = &p->nodes.v[id];
  if (n->kind == IR_COLLECTIVE && (n->u.coll.op == IR_COLL_send || n->u.coll.op == IR_COLL_recv)) {
    VEC_PUSH(&g->p2p) = id;
    if (n->u.coll.op == IR_COLL_send)
      g->sends++;
    else
      g->recvs++;
    g->in_peer_loop |= loop;
    g->in_branch |= branch;
    if (strchr(n->u.coll.count.text, '['))
      g->varying = true;
  }
  if (n->kind == IR_LOOP && n->u.control.over_peers)
    loop = true;
  if (n->kind == IR_BRANCH)
    branch = true;
  for (size_t i = 0; i < p->nodes.v[id].children.n; i++)
    gather(p, p->nodes.v[id].children.v[i], loop, branch, g);
}

static bool distinct(struct ir_program *p, ir_id a, ir_id b) {
  return strcmp(p->nodes.v[a].u.coll.root_or_peer, p->nodes.v[b].u.coll.root_or_peer) != 0;
}

void fe_patterns(struct fe *f) {
  struct ir_program *p = f->p;
  for (size_t i = 0; i < p->nodes.n; i++) {
    if (p->nodes.v[i].kind != IR_GROUP)
      continue;
    struct group g = {0};
    gather(p, (ir_id)i, false, false, &g);
    enum ir_pattern pattern = IR_PATTERN_NONE;
    if (g.in_peer_loop && g.sends && g.recvs)
      pattern = g.varying ? IR_PATTERN_ALL_TO_ALL_V : IR_PATTERN_ALL_TO_ALL;
    else if (g.sends == 1 && g.recvs == 1 && !g.in_branch)
      pattern = distinct(p, g.p2p.v[0], g.p2p.v[1]) ? IR_PATTERN_RING_SHIFT : IR_PATTERN_PAIRWISE;
    else if (g.sends >= 2 && g.recvs >= 2 && g.p2p.n <= 16)
      pattern = IR_PATTERN_HALO;
    else if (g.p2p.n)
      pattern = IR_PATTERN_PAIRWISE;
    for (size_t j = 0; j < g.p2p.n; j++)
      p->nodes.v[g.p2p.v[j]].u.coll.pattern = pattern;
    VEC_FREE(&g.p2p);
  }
}
