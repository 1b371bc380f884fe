// SPDX-License-Identifier: Apache-2.0
/* Windows, device communicators and their teams; what the headers ask of the running block. */
#include "cuda_internal.h"
#include "nccl_devcomm.h"
#include "nccl_group.h"
#include "nccl_reduce.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace emu_nccl {
namespace {

std::map<ncclComm *, std::set<ncclWindow_t>> windows_of;

/* Ranks that reach each other by loads and stores: NCCL_LSA_TEAM_SIZE of them, where that divides
 * the communicator; else all, as on one host. */
int lsa_size(int n) {
  const char *s = getenv("NCCL_LSA_TEAM_SIZE");
  const int k = s ? atoi(s) : 0;
  return k > 0 && n % k == 0 ? k : n;
}

struct Registering {
  ncclComm *comm;
  char *base;
  size_t size;
  ncclWindow_t *out;
  emu::Site site;
};

void make_windows(const std::vector<std::shared_ptr<void>> &all) {
  auto set = std::make_shared<WindowSet>();
  const auto at = [&](size_t r) { return static_cast<Registering *>(all[r].get()); };
  set->clique = at(0)->comm->clique;
  set->lsa_size = lsa_size((int)all.size());
  size_t offset0 = 0;
  bool reported = false;
  for (size_t r = 0; r < all.size(); r++) {
    Registering &g = *at(r);
    const emu::Allocation *a = emu::memory_find(g.base);
    const size_t offset = a ? (uintptr_t)g.base - a->base : 0;
    if (!r)
      offset0 = offset;
    if (!reported && (g.size != at(0)->size || offset != offset0)) {
      reported = true;
      const bool sizes = g.size != at(0)->size;
      emu::finding(
          "asymmetric-window",
          std::string("a window ") +
              (sizes ? "of " + std::to_string(at(0)->size) + " bytes"
                     : "at offset " + std::to_string(offset0) + " of its memory") +
              " on rank 0 and of " +
              (sizes ? std::to_string(g.size) + " bytes" : "offset " + std::to_string(offset)) +
              " on rank " + std::to_string(r),
          g.site, at(0)->site, "rank 0's call");
    }
    set->base.push_back(g.base);
    set->size.push_back(g.size);
    set->live.push_back(true);
    auto *w = new ncclWindow_vidmem{set, (int)r};
    set->handle.push_back(w);
    windows_of[g.comm].insert(w);
    emu::memory_mark_window(g.base, g.size, true);
    *g.out = w;
  }
}

struct Creating {
  ncclComm *comm;
  Requirements need;
  ncclDevComm_t *out;
  emu::Site site;
};
// Barrier handles of the communicator itself; those of resources are small numbers.
constexpr uint32_t LSA_KEY = 0, RAIL_KEY = 0x40000000, WORLD_KEY = 0x50000000;

void make_device_comms(const std::vector<std::shared_ptr<void>> &ranks) {
  const int n = (int)ranks.size();
  auto all = std::make_shared<DeviceClique>();
  const auto at = [&](int r) { return static_cast<Creating *>(ranks[r].get()); };
  const Requirements &first = at(0)->need;
  all->clique = at(0)->comm->clique;
  all->n = n;
  all->lsa_size = lsa_size(n);
  all->gin = first.gin || all->lsa_size < n;
  all->contexts = all->gin ? std::max(1, std::min(first.contexts ? first.contexts : 4, 4)) : 0;
  all->signals = (uint32_t)std::max(first.signals, 0);
  all->counters = (uint32_t)std::max(first.counters, 0);
  bool reported = false;
  for (int r = 0; r < n; r++) {
    Creating &c = *at(r);
    const Requirements &q = c.need;
    if (!reported && (q.lsa_barriers != first.lsa_barriers || q.signals != first.signals ||
                      q.counters != first.counters || q.rail_barriers != first.rail_barriers ||
                      q.world_barriers != first.world_barriers || q.gin != first.gin)) {
      reported = true;
      emu::finding("collective-order",
                   "device communicators with different requirements on rank 0 and rank " +
                       std::to_string(r),
                   c.site, at(0)->site, "rank 0's call");
    }
    uint32_t signals = all->signals, counters = all->counters;
    size_t bytes = 128; // handle 0 is the communicator's own LSA barrier
    for (auto *x = q.resources; x; x = x->next) {
      const size_t align = std::max<size_t>(x->bufferAlign, 128);
      bytes = (bytes + align - 1) / align * align;
      if (x->outBufferHandle)
        *x->outBufferHandle = (uint32_t)(bytes / 128);
      bytes += std::max<size_t>(x->bufferSize, 1);
      if (x->outGinSignalStart)
        *x->outGinSignalStart = signals;
      signals += (uint32_t)x->ginSignalCount;
      if (x->outGinCounterStart)
        *x->outGinCounterStart = counters;
      counters += (uint32_t)x->ginCounterCount;
    }
    ncclDevComm_t dc;
    memset(&dc, 0, sizeof dc);
    dc.rank = r;
    dc.nRanks = n;
    dc.lsaSize = all->lsa_size;
    dc.lsaRank = r % all->lsa_size;
    dc.lsaBarrier = {LSA_KEY, q.lsa_barriers};
    dc.railGinBarrier = {RAIL_KEY, 0, q.rail_barriers};
    dc.worldGinBarrier = {WORLD_KEY, 0, q.world_barriers};
    dc.ginContextCount = (uint8_t)all->contexts;
    dc.ginSignalCount = (int)all->signals;
    dc.ginCounterCount = (int)all->counters;
    auto *e = new DeviceComm{all, r, c.comm, &windows_of[c.comm], {}};
    dc.emulated = e;
    if (q.resources) {
      void *memory = emu::memory_alloc(c.comm->device, bytes, emu::MemoryKind::DEVICE, c.site);
      emu::set_checked(memory, 0, bytes, c.site);
      auto set = r ? at(0)->out->resourceWindow->set : std::make_shared<WindowSet>();
      set->clique = all->clique;
      set->lsa_size = all->lsa_size;
      set->base.push_back((char *)memory);
      set->size.push_back(bytes);
      set->live.push_back(true);
      dc.resourceWindow = new ncclWindow_vidmem{set, r};
      set->handle.push_back(dc.resourceWindow);
      emu::memory_mark_window(memory, bytes, true);
    }
    if (r == n - 1) {
      all->signals = signals;
      all->counters = counters;
    }
    *c.out = dc;
  }
}

/* Where an address goes that a window does not have at PEER: just behind a window of nobody, so
 * that its use is reported. */
void *nowhere(WindowSet &set, size_t offset, emu::Site site) {
  if (!set.nowhere) {
    char *p = (char *)emu::memory_alloc(0, 512, emu::MemoryKind::DEVICE, site);
    emu::memory_mark_window(p, 512, true);
    set.nowhere = p + 512;
  }
  return set.nowhere + offset % 256;
}

} // namespace

void *window_pointer(ncclWindow_t w, size_t offset, int peer, bool lsa) {
  const emu::Site site = EMU_SITE();
  if (!w) {
    emu::finding("unregistered", "the address of a window that is NULL", site);
    emu::process_exit(1);
  }
  WindowSet &set = *w->set;
  const int n = (int)set.base.size();
  int rank = w->rank;
  if (lsa) {
    if (peer < 0 || peer >= set.lsa_size)
      return nowhere(set, offset, site);
    rank = w->rank / set.lsa_size * set.lsa_size + peer;
  } else if (peer != -1) {
    // Load and store reach the ranks of the LSA team.
    if (peer < 0 || peer >= n || peer / set.lsa_size != w->rank / set.lsa_size)
      return nowhere(set, offset, site);
    rank = peer;
  }
  if (!set.live[rank])
    emu::finding("unregistered", "the address of a window that was deregistered", site);
  return set.base[rank] + offset;
}
int window_rank(ncclWindow_t w) { return w ? w->rank : 0; }
void *multimem() { emu::unsupported("multimem", EMU_SITE()); }
ncclWindow_t find_window(DeviceComm *dc, const void *address) {
  for (ncclWindow_t w : *dc->windows) {
    const char *base = w->set->base[w->rank];
    if (w->set->live[w->rank] && (const char *)address >= base &&
        (const char *)address < base + w->set->size[w->rank])
      return w;
  }
  return nullptr;
}

ncclResult_t dev_comm_create(ncclComm_t comm, const Requirements *need, ncclDevComm_t *out) {
  const emu::Site site = EMU_SITE();
  if (!comm || !out)
    return ncclInvalidArgument;
  if (need->multimem)
    emu::unsupported("multimem", site);
  auto mine = std::make_shared<Creating>(Creating{comm, *need, out, site});
  meet("device communicator " + std::to_string(comm->clique->id) + " " +
           std::to_string(comm->meetings++),
       (int)comm->clique->ranks.size(), comm->rank, mine, make_device_comms, "ncclDevCommCreate",
       site);
  return ncclSuccess;
}

/* ---- the running block
 * --------------------------------------------------------------------------- */

void *block_stash(int id, size_t bytes) {
  static const char keys[4096] = {};
  return emu::cuda::shared_slot(keys + id % 4096, std::max<size_t>(bytes, 64), 16);
}
void stash_write(void *stash, const void *value, size_t bytes) {
  if (emu::access_write(stash, bytes, EMU_SITE()))
    memcpy(stash, value, bytes);
}
void stash_read(void *value, const void *stash, size_t bytes) {
  if (emu::access_read(stash, bytes, EMU_SITE()))
    memcpy(value, stash, bytes);
}
int lane() { return (int)emu::cuda::lane_id(); }
int warp() { return (int)emu::cuda::warp_id(); }
void named_barrier(int id, int count) {
  emu::sync_group((const char *)emu::self().block_key + 1 + id, (unsigned)count, EMU_SITE());
}

} // namespace emu_nccl

using namespace emu_nccl;

extern "C" {

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *p, size_t size, ncclWindow_t *out, int) {
  const emu::Site site = EMU_SITE();
  if (!comm || !p || !out || !size)
    return ncclInvalidArgument;
  const emu::Allocation *a = emu::memory_find(p);
  if (!a || a->freed || size > a->base + a->size - (uintptr_t)p) {
    comm->last_error = "ncclCommWindowRegister: not within memory of ncclMemAlloc";
    return ncclUnhandledCudaError;
  }
  if (((uintptr_t)p - a->base) % NCCL_WIN_REQUIRED_ALIGNMENT) {
    comm->last_error = "ncclCommWindowRegister: the address is not aligned";
    return ncclInvalidArgument;
  }
  auto mine = std::make_shared<Registering>(Registering{comm, (char *)p, size, out, site});
  meet("window " + std::to_string(comm->clique->id) + " " + std::to_string(comm->meetings++),
       (int)comm->clique->ranks.size(), comm->rank, mine, make_windows, "ncclCommWindowRegister",
       site);
  return ncclSuccess;
}
ncclResult_t pncclCommWindowRegister(ncclComm_t, void *, size_t, ncclWindow_t *, int)
    __attribute__((alias("ncclCommWindowRegister")));

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t w) {
  if (!comm)
    return ncclInvalidArgument;
  if (!w)
    return ncclSuccess;
  if (!windows_of[comm].erase(w))
    return ncclInvalidArgument;
  w->set->live[w->rank] = false;
  emu::memory_mark_window(w->set->base[w->rank], w->set->size[w->rank], false);
  return ncclSuccess;
}
ncclResult_t pncclCommWindowDeregister(ncclComm_t, ncclWindow_t)
    __attribute__((alias("ncclCommWindowDeregister")));

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t *dc) {
  return comm && dc && dc->emulated ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int barriers,
                                             ncclLsaBarrierHandle_t *out,
                                             ncclDevResourceRequirements_t *request) {
  if (!out || !request || barriers < 0)
    return ncclInvalidArgument;
  memset(request, 0, sizeof *request);
  out->nBarriers = barriers;
  request->bufferSize = (size_t)barriers * (size_t)team.nRanks * 4;
  request->outBufferHandle = &out->bufHandle;
  return ncclSuccess;
}
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t, ncclTeam_t team, int barriers,
                                             ncclGinBarrierHandle_t *out,
                                             ncclDevResourceRequirements_t *request) {
  if (!out || !request || barriers < 0)
    return ncclInvalidArgument;
  memset(request, 0, sizeof *request);
  out->nBarriers = barriers;
  request->ginSignalCount = barriers * team.nRanks;
  request->outGinSignalStart = &out->signal0;
  return ncclSuccess;
}
int ncclLLA2ACalcSlots(int elements, int size) { return elements * ((size + 7) / 8); }
ncclResult_t ncclLLA2ACreateRequirement(int blocks, int slots, ncclLLA2AHandle_t *out,
                                        ncclDevResourceRequirements_t *request) {
  if (!out || !request || blocks < 0 || slots < 0)
    return ncclInvalidArgument;
  memset(request, 0, sizeof *request);
  out->nBlocks = blocks;
  out->nSlots = (uint32_t)slots;
  request->bufferSize = (size_t)blocks * (size_t)slots * 32;
  request->outBufferHandle = &out->bufHandle;
  return ncclSuccess;
}
}

ncclTeam ncclTeamWorld(ncclComm_t c) { return {(int)c->clique->ranks.size(), c->rank, 1}; }
ncclTeam ncclTeamLsa(ncclComm_t c) {
  const int k = lsa_size((int)c->clique->ranks.size());
  return {k, c->rank % k, 1};
}
ncclTeam ncclTeamRail(ncclComm_t c) {
  const int n = (int)c->clique->ranks.size(), k = lsa_size(n);
  return {n / k, c->rank / k, k};
}
int ncclTeamRankToWorld(ncclComm_t c, ncclTeam t, int rank) {
  return c->rank + (rank - t.rank) * t.stride;
}
int ncclTeamRankToLsa(ncclComm_t c, ncclTeam t, int rank) {
  return ncclTeamLsa(c).rank + (rank - t.rank) * t.stride;
}
