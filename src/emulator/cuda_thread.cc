// SPDX-License-Identifier: Apache-2.0
/* What a CUDA thread calls: who it is, barriers, shuffles and votes, shared memory, traps. */
#include "cuda_thread.h"
#include "cuda_internal.h"

#include "include/cooperative_groups.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace emu {
namespace cuda {

ThreadState *current_thread = nullptr;

ThreadState &thread_of(const char *what) {
  if (!current_thread)
    unsupported(std::string(what) + " outside of a kernel", EMU_SITE());
  return *current_thread;
}

/* ---- who runs
 * --------------------------------------------------------------------------------------- */

unsigned lane_id() noexcept { return current_thread ? current_thread->linear % 32 : 0; }
unsigned warp_id() noexcept { return current_thread ? current_thread->linear / 32 : 0; }

namespace {

WarpState &warp_of(const ThreadState &t) { return t.block->warps[t.linear / 32]; }

/* Lanes that have met under MASK do not wait any more, although they run again only later. */
void release_lanes(WarpState &warp, unsigned mask) {
  const unsigned needed = mask & warp.lanes & ~warp.exited;
  unsigned there = 0;
  for (unsigned i = 0; i < 32; i++)
    there |= (unsigned)((warp.blocked >> i & 1) && warp.waits_under[i] == mask) << i;
  if ((there & needed) == needed)
    warp.blocked &= ~there;
}

void release_block(BlockState &block) {
  if (block.in_barrier < block.live)
    return;
  block.in_barrier = 0;
  for (WarpState &warp : block.warps)
    for (unsigned i = 0; i < 32; i++)
      if (warp.waits_under[i] == 0)
        warp.blocked &= ~(1u << i);
}

/* The running lane waits for the lanes of MASK, 0 for its block: until then __activemask() does not
 * wait for it. */
void blocked(const ThreadState &t, unsigned mask) {
  WarpState &warp = warp_of(t);
  warp.blocked |= 1u << t.linear % 32;
  warp.waits_under[t.linear % 32] = mask;
  if (mask) {
    release_lanes(warp, mask);
  } else {
    t.block->in_barrier++;
    release_block(*t.block);
  }
}

} // namespace

/* ---- barriers
 * ---------------------------------------------------------------------------------------- */

void sync_threads() {
  const Site site = EMU_SITE();
  blocked(thread_of("__syncthreads()"), 0);
  sync_block(site);
}

int sync_threads_reduce(int predicate, int mode) {
  const Site site = EMU_SITE();
  ThreadState &t = thread_of("__syncthreads_count()");
  BlockState &b = *t.block;
  const unsigned turn = b.vote_turn[t.linear]++ % 3;
  b.votes[turn].total++;
  b.votes[turn].count += predicate != 0;
  blocked(t, 0);
  sync_block(site);
  const int count = b.votes[turn].count, total = b.votes[turn].total;
  auto &next =
      b.votes[(turn + 2) % 3]; // the one before: nobody reads it any more after this barrier
  next.count = next.total = 0;
  return mode == 0 ? count : mode == 1 ? count == total : count != 0;
}

void sync_lanes(unsigned mask) {
  const Site site = EMU_SITE();
  ThreadState &t = thread_of("__syncwarp()");
  if (!(mask >> t.linear % 32 & 1)) {
    finding("warp-mask",
            "lane " + std::to_string(t.linear % 32) + " calls __syncwarp() with a mask without it",
            site);
    return;
  }
  blocked(t, mask);
  sync_warp(mask, site);
}

void sync_grid() {
  const Site site = EMU_SITE();
  ThreadState &t = thread_of("grid_group::sync()");
  GridState &g = *t.block->grid;
  if (!g.cooperative) {
    finding("barrier-index", "grid_group::sync() in a kernel that is not launched cooperatively",
            site);
    trap("grid_group::sync() in a kernel that is not launched cooperatively");
  }
  sync_group(&g.barrier, (unsigned)g.threads, site);
}

bool grid_is_cooperative() { return thread_of("grid_group::is_valid()").block->grid->cooperative; }

/* ---- shuffles and votes
 * ------------------------------------------------------------------------------- */

namespace {

Exchange &exchange_of(WarpState &warp, unsigned mask) {
  for (auto &e : warp.exchanges)
    if (e->mask == mask)
      return *e;
  warp.exchanges.emplace_back(new Exchange);
  warp.exchanges.back()->mask = mask;
  return *warp.exchanges.back();
}

/* Gives BITS to the other lanes of MASK; returns the cells of all, and in VALID which lanes gave.
 */
const uint64_t *exchange(unsigned mask, uint64_t bits, unsigned *valid, const char *what,
                         Site site) {
  ThreadState &t = thread_of(what);
  const unsigned lane = t.linear % 32;
  WarpState &warp = warp_of(t);
  if (!(mask >> lane & 1)) {
    finding("warp-mask",
            "lane " + std::to_string(lane) + " calls " + what + " with a mask without it", site);
    mask = 1u << lane;
  }
  Exchange &e = exchange_of(warp, mask);
  const unsigned turn = ++e.turn[lane];
  auto &cells = e.cells[turn & 1];
  cells.value[lane] = bits;
  cells.turn[lane] = turn;
  blocked(t, mask);
  sync_warp(mask, site);
  *valid = 0;
  for (unsigned i = 0; i < 32; i++)
    *valid |= (unsigned)(cells.turn[i] == turn) << i;
  return cells.value;
}

} // namespace

uint64_t shuffle(unsigned mask, uint64_t bits, unsigned source) {
  unsigned valid;
  const uint64_t *cells = exchange(mask, bits, &valid, "a warp shuffle", EMU_SITE());
  return source < 32 && (valid >> source & 1) ? cells[source] : ~(uint64_t)0;
}

unsigned ballot(unsigned mask, int predicate) {
  unsigned valid, result = 0;
  const uint64_t *cells = exchange(mask, predicate != 0, &valid, "a warp vote", EMU_SITE());
  for (unsigned lane = 0; lane < 32; lane++)
    result |= (unsigned)((valid >> lane & 1) && cells[lane]) << lane;
  return result;
}

unsigned match(unsigned mask, uint64_t bits) {
  unsigned valid, result = 0;
  const uint64_t *cells = exchange(mask, bits, &valid, "a warp match", EMU_SITE());
  for (unsigned lane = 0; lane < 32; lane++)
    result |= (unsigned)((valid >> lane & 1) && cells[lane] == bits) << lane;
  return result;
}

uint32_t reduce(unsigned mask, uint32_t value, Reduction operation, bool is_signed) {
  unsigned valid;
  const uint64_t *cells = exchange(mask, value, &valid, "a warp reduction", EMU_SITE());
  bool first = true;
  uint32_t r = value;
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(valid >> lane & 1))
      continue;
    const uint32_t x = (uint32_t)cells[lane];
    const bool less = is_signed ? (int32_t)x < (int32_t)r : x < r;
    if (first)
      r = x;
    else
      switch (operation) {
      case Reduction::ADD:
        r += x;
        break;
      case Reduction::MIN:
        r = less ? x : r;
        break;
      case Reduction::MAX:
        r = less ? r : x;
        break;
      case Reduction::AND:
        r &= x;
        break;
      case Reduction::OR:
        r |= x;
        break;
      case Reduction::XOR:
        r ^= x;
        break;
      }
    first = false;
  }
  return r;
}

unsigned active_mask() {
  const Site site = EMU_SITE();
  ThreadState &t = thread_of("__activemask()");
  WarpState &warp = warp_of(t);
  const unsigned lane = t.linear % 32, bit = 1u << lane;
  ActiveMask *a = nullptr;
  for (auto &m : warp.actives)
    if (m->site == site)
      a = m.get();
  if (!a) {
    warp.actives.emplace_back(new ActiveMask{site, 0, {}});
    a = warp.actives.back().get();
  }
  a->result[lane] = 0;
  a->arrived |= bit;
  const int patience = 64;
  for (int looks = 0; !a->result[lane]; looks++) {
    const unsigned elsewhere = warp.blocked | warp.exited | ~warp.lanes;
    if ((a->arrived | elsewhere) == 0xffffffffu || looks == patience) {
      for (unsigned i = 0; i < 32; i++)
        if (a->arrived >> i & 1)
          a->result[i] = a->arrived;
      a->arrived = 0;
      progress();
      break;
    }
    poll(site, "__activemask()");
  }
  return a->result[lane];
}

/* ---- fences and time
 * ----------------------------------------------------------------------------------- */

long long clock_ticks() { return (long long)(now_ns() * 198 / 100); }
uint64_t timer_ns() { return now_ns(); }

void sleep_ns(unsigned ns) {
  const Site site = EMU_SITE();
  const uint64_t until = now_ns() + std::min(ns, 1000000u);
  for (int looks = 0; now_ns() < until && looks < 16; looks++)
    poll(site, "__nanosleep()");
}

void spin_pause() { poll(EMU_SITE(), "a volatile load"); }

/* ---- shared memory
 * -------------------------------------------------------------------------------------- */

void *shared_slot(const void *key, size_t size, size_t alignment) {
  BlockState &b = *thread_of("a __shared__ variable").block;
  for (auto &v : b.shared)
    if (v.key == key)
      return v.address;
  void *p = memory_alloc(b.grid->device, size, MemoryKind::SHARED, EMU_SITE(),
                         std::max<size_t>(alignment, 128));
  if (!p)
    unsupported("no memory is left for __shared__ variables", EMU_SITE());
  b.shared.push_back(SharedVariable{key, p});
  return p;
}

void *shared_dynamic_base() {
  BlockState &b = *thread_of("dynamic shared memory").block;
  if (!b.dynamic) {
    // An empty one has an address too; any access to it is beyond its end.
    b.dynamic = memory_alloc(b.grid->device, std::max<size_t>(b.grid->config.shared, 1),
                             MemoryKind::SHARED, EMU_SITE(), 1024);
    if (!b.dynamic)
      unsupported("no memory is left for dynamic shared memory", EMU_SITE());
  }
  return b.dynamic;
}

bool is_shared(const void *address) {
  const Allocation *a = memory_find(address);
  return a && a->kind == MemoryKind::SHARED;
}

bool is_global(const void *address) {
  const Allocation *a = memory_find(address);
  return a && a->kind != MemoryKind::SHARED && a->kind != MemoryKind::LOCAL;
}

/* ---- ends
 * ------------------------------------------------------------------------------------------------
 */

void thread_exit(ThreadState &t) {
  WarpState &warp = warp_of(t);
  warp.exited |= 1u << t.linear % 32;
  for (unsigned i = 0; i < 32; i++)
    if ((warp.blocked >> i & 1) && warp.waits_under[i])
      release_lanes(warp, warp.waits_under[i]);
  if (--t.block->live)
    release_block(*t.block);
}

void trap(const char *what) {
  const Site site = EMU_SITE();
  ThreadState &t = thread_of("__trap()");
  set_sticky_error(t.block->grid->device, cudaErrorLaunchFailure);
  fprintf(stderr, "%s: %s in %s\n", site_text(site).c_str(), what, self_text().c_str());
  throw ThreadEnd();
}

void assert_failed(const char *assertion, const char *file, unsigned line, const char *function) {
  if (!current_thread) {
    fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, assertion);
    fflush(nullptr);
    abort();
  }
  const ThreadState &t = *current_thread;
  fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file,
          line, function, t.block_idx.x, t.block_idx.y, t.block_idx.z, t.thread_idx.x,
          t.thread_idx.y, t.thread_idx.z, assertion);
  set_sticky_error(t.block->grid->device, cudaErrorAssert);
  throw ThreadEnd();
}

void refuse(const char *what) { unsupported(what, EMU_SITE()); }

} // namespace cuda
} // namespace emu
