// SPDX-License-Identifier: Apache-2.0
/* Kernels: blocks that become resident as the device has room, their threads and barriers. */
#include "sched_internal.h"

#include <algorithm>

namespace emu {

namespace {

const unsigned sms = 132;
const unsigned enough_threads = 512; // ready ones: no further block starts in the plain schedule

Dim3 unfold(uint64_t i, const Dim3 &d) {
  return Dim3{(unsigned)(i % d.x), (unsigned)(i / d.x % d.y), (unsigned)(i / d.x / d.y)};
}

void block_finish(Block *b) {
  Grid *g = b->grid;
  g->op->end.join(hb_block_end(b->hb));
  if (g->config.block_end)
    g->config.block_end(b->user);
  sched->used[(size_t)g->op->stream->device] -= g->weight;
  g->live--;
  g->resident.erase(std::find(g->resident.begin(), g->resident.end(), b));
  delete b;
  progress();
  if (g->live || g->next < g->blocks)
    return;
  auto &all = sched->grids;
  all.erase(std::remove(all.begin(), all.end(), g), all.end());
  op_finish(g->op);
}

void block_start(Grid *g) {
  const uint64_t index = g->order.empty() ? g->next : g->order[g->next];
  g->next++;
  g->live++;
  sched->used[(size_t)g->op->stream->device] += g->weight;
  auto *b = new Block;
  b->grid = g;
  g->resident.push_back(b);
  const Dim3 &d = g->config.block;
  b->threads = d.x * d.y * d.z;
  b->exited.resize((b->threads + 31) / 32);
  Identity &who = b->who;
  who = g->op->agent.who;
  who.kind = ActorKind::THREAD;
  who.block = (unsigned)index;
  who.block_idx = unfold(index, g->config.grid);
  who.block_key = b;
  b->hb = hb_block_begin(g->op->start, who, b->threads);
  if (g->config.block_begin)
    b->user = g->config.block_begin(who.block_idx);
  for (unsigned t = 0; t < b->threads; t++) {
    auto *a = new Actor;
    a->process = g->op->stream->process;
    a->block = b;
    a->who = who;
    a->who.thread = t;
    a->who.thread_idx = unfold(t, d);
    a->user = g->config.thread_user ? g->config.thread_user(b->user, t) : nullptr;
    a->hb = hb_thread_begin(b->hb, a->who);
    sched_spawn(a, [g, a] {
      g->config.body();
      thread_ended(a);
    });
  }
}

/* All that can still come have arrived: they learn from each other and go on. The running actor is
 * among them or has just ended. */
void meet(Block *block, Barrier &barrier, bool whole) {
  std::vector<Actor *> there;
  there.swap(barrier.arrived);
  std::vector<HbActor *> clocks;
  for (Actor *a : there)
    clocks.push_back(a->hb);
  hb_meet(block->hb, clocks.data(), (unsigned)clocks.size(), whole);
  for (Actor *a : there)
    if (a != sched->current)
      sched_make_ready(a);
  progress();
}

void arrive(Barrier &barrier, const char *what, Site site) {
  Actor *a = sched->current;
  barrier.arrived.push_back(a);
  a->reason = WaitReason{what, site};
}

unsigned lanes(const Block &b, unsigned warp) {
  const unsigned n = std::min(32u, b.threads - warp * 32);
  return (n == 32 ? 0xffffffffu : (1u << n) - 1) & ~b.exited[warp];
}

} // namespace

void grid_begin(OpState *op) {
  op->grid.reset(new Grid);
  Grid *g = op->grid.get();
  g->op = op;
  g->config = std::move(*op->launch);
  const Dim3 &d = g->config.grid;
  g->blocks = (uint64_t)d.x * d.y * d.z;
  const uint64_t limit = sched->options.resident_blocks
                             ? sched->options.resident_blocks
                             : (uint64_t)sms * std::max(1u, g->config.max_blocks_per_sm);
  g->weight = 1.0 / (double)limit;
  if (perturbed()) {
    for (uint64_t i = 0; i < g->blocks; i++)
      g->order.push_back((uint32_t)i);
    for (uint64_t i = g->blocks; i > 1; i--)
      std::swap(g->order[i - 1], g->order[choose(i)]);
  }
  sched->grids.push_back(g);
}

bool grids_step() {
  bool any = false;
  for (size_t i = 0; i < sched->grids.size(); i++) {
    Grid *g = sched->grids[i];
    const double &used = sched->used[(size_t)g->op->stream->device];
    while (g->next < g->blocks && used + g->weight <= 1 + 1e-9 &&
           sched->ready.size() < enough_threads) {
      block_start(g);
      any = true;
    }
  }
  return any;
}

void thread_ended(Actor *a) {
  Block *b = a->block;
  const unsigned warp = a->who.thread / 32;
  hb_thread_end(a->hb);
  a->hb = hb_current = nullptr;
  b->exited[warp] |= 1u << a->who.thread % 32;
  b->ended++;
  sched->changes++;
  for (auto &w : b->warps)
    if (w.first.first == warp && !w.second.arrived.empty() &&
        w.second.arrived.size() == (size_t)__builtin_popcount(w.first.second & lanes(*b, warp)))
      meet(b, w.second, false);
  if (!b->all.arrived.empty() && b->all.arrived.size() == b->threads - b->ended)
    meet(b, b->all, true);
  if (b->ended == b->threads)
    block_finish(b);
}

void sync_block(Site site) {
  Block *b = sched->current->block;
  arrive(b->all, "waits in a barrier of its block", site);
  if (b->all.arrived.size() == b->threads - b->ended)
    meet(b, b->all, true);
  else
    sched_suspend(State::WAITING);
  sched->current->reason = WaitReason();
}

void sync_warp(unsigned mask, Site site) {
  Block *b = sched->current->block;
  const unsigned warp = sched->current->who.thread / 32;
  Barrier &w = b->warps[{warp, mask}];
  arrive(w, "waits in a barrier of its warp", site);
  if (w.arrived.size() == (size_t)__builtin_popcount(mask & lanes(*b, warp)))
    meet(b, w, false);
  else
    sched_suspend(State::WAITING);
  sched->current->reason = WaitReason();
}

void sync_group(const void *key, unsigned count, Site site) {
  struct Group {
    std::vector<Actor *> arrived;
    std::shared_ptr<Clock> clock = std::make_shared<Clock>();
  };
  static std::map<std::pair<Process *, const void *>, Group> groups;
  Actor *a = sched->current;
  const auto where = std::make_pair(a->process, key);
  Group &g = groups[where];
  std::shared_ptr<Clock> clock = g.clock;
  clock->join(release());
  if (g.arrived.size() + 1 == count) {
    std::vector<Actor *> there;
    there.swap(g.arrived);
    groups.erase(where);
    for (Actor *o : there)
      sched_make_ready(o);
    progress();
  } else {
    g.arrived.push_back(a);
    a->reason = WaitReason{"waits in a barrier of a group", site};
    sched_suspend(State::WAITING);
    a->reason = WaitReason();
  }
  acquire(*clock);
}

} // namespace emu
