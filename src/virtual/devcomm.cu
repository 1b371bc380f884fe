// SPDX-License-Identifier: Apache-2.0
#include "virtual.h"

namespace vnccl {

namespace {
// What a set of requirements comes to: offsets are from the start of the resource buffer.
struct Plan {
  size_t bytes = 0;
  int lsa_barriers = 0, signals = 0, counters = 0, contexts = 0;
  size_t lsa_buffer = 0, hybrid_buffer = 0, gin_epochs = 0, shadows = 0;
  uint32_t rail_signal = 0, world_signal = 0, hybrid_rail = 0, hybrid_world = 0;
  bool gin = false;

  size_t take(size_t n, size_t align = 128) {
    if (align < 128)
      align = 128; // handles count in 128 bytes
    bytes = (bytes + align - 1) / align * align;
    const size_t at = bytes;
    bytes += n;
    return at;
  }
  uint32_t take_signals(int n) {
    const uint32_t at = (uint32_t)signals;
    signals += n;
    return at;
  }
};

ncclResult_t plan(const ncclComm *c, const ncclDevCommRequirements *q, Plan &p) {
  if (q->lsaMultimem)
    return fail(ncclInvalidUsage, "multimem is not modelled");
  for (auto *t = q->teamRequirementsList; t; t = t->next)
    if (t->multimem)
      return fail(ncclInvalidUsage, "multimem is not modelled");
  const int lsa = c->lsa, rails = c->n / c->lsa;
  auto inbox = [&](int barriers) { return ((size_t)3 * barriers + (size_t)barriers * lsa) * 4; };
#if VIRTUAL_2_30
  p.gin = q->ginForceEnable || q->ginConnectionType != NCCL_GIN_CONNECTION_NONE;
  if (!p.gin && (q->ginSignalCount || q->ginCounterCount || q->railGinBarrierCount ||
                 q->worldGinBarrierCount))
    return fail(ncclInvalidArgument, "GIN resources without a GIN connection type");
  p.lsa_barriers = q->lsaBarrierCount;
  p.lsa_buffer = p.take(inbox(p.lsa_barriers));
  p.hybrid_buffer = p.take(inbox(q->barrierCount));
#else
  p.gin = q->ginForceEnable || q->ginSignalCount || q->ginCounterCount || rails > 1;
  p.lsa_barriers = q->lsaBarrierCount > q->barrierCount ? q->lsaBarrierCount : q->barrierCount;
  p.lsa_buffer = p.take(inbox(p.lsa_barriers));
#endif
  p.signals = q->ginSignalCount;
  p.counters = q->ginCounterCount;
  for (auto *r = q->resourceRequirementsList; r; r = r->next) {
    const size_t at = p.take(r->bufferSize, r->bufferAlign);
    if (r->outBufferHandle)
      *r->outBufferHandle = (ncclDevResourceHandle_t)(at / 128);
    const uint32_t signal = p.take_signals(r->ginSignalCount);
    if (r->outGinSignalStart)
      *r->outGinSignalStart = signal;
    if (r->outGinCounterStart)
      *r->outGinCounterStart = (ncclGinCounter_t)p.counters;
    p.counters += r->ginCounterCount;
  }
  p.contexts = q->ginContextCount < 1 ? 1 : q->ginContextCount > 4 ? 4 : q->ginContextCount;
#if VIRTUAL_2_30
  p.rail_signal = p.take_signals(q->railGinBarrierCount * rails);
  p.world_signal = p.take_signals(q->worldGinBarrierCount * c->n);
  if (p.gin) {
    p.hybrid_rail = p.take_signals(q->barrierCount * rails);
    p.hybrid_world = p.take_signals(q->barrierCount * c->n);
  }
#else
  const int barriers =
      q->railGinBarrierCount > q->barrierCount ? q->railGinBarrierCount : q->barrierCount;
  p.rail_signal = p.take_signals(barriers);
  p.gin_epochs = p.take((size_t)barriers * NCCL_GIN_MAX_CONTEXTS * 4);
#endif
  p.take(16);
  return ncclSuccess;
}

struct DevCommStep : Step {
  ncclDevCommRequirements need;
  ncclDevComm *out;
  Plan p;
  Physical mine;
  size_t offset = 0;

  DevCommStep(ncclComm *c, const ncclDevCommRequirements *q, ncclDevComm *o)
      : Step(c), need(*q), out(o) {}

  struct Said {
    bool good;
    size_t bytes;
    int signals;
  };
  ncclResult_t prepare() {
    V_NCCL(plan(comm, &need, p));
    V_NCCL(make_physical(p.bytes, mine));
    offset = comm->used;
    if (offset + mine.size > kStride)
      return fail(ncclInvalidUsage, "more than %zu GiB", kStride >> 30);
    char *at = comm->flat + comm->rank * kStride + offset;
    V_NCCL(map_at(at, mine));
    V_CUDA(cudaMemsetAsync(at, 0, mine.size, comm->setup));
    V_CUDA(cudaStreamSynchronize(comm->setup));
    return offer(comm, mine);
  }
  void publish() override {
    Said said{prepare() == ncclSuccess, mine.size, p.signals};
    memcpy(comm->segment->rank[comm->rank].blob, &said, sizeof said);
  }

  ncclResult_t complete(std::vector<std::unique_ptr<Step>> &) override {
    std::vector<size_t> sizes;
    for (int r = 0; r < comm->n; r++) {
      Said s;
      memcpy(&s, comm->segment->rank[r].blob, sizeof s);
      if (!s.good || s.bytes != mine.size || s.signals != p.signals) {
        comm->steps++;
        return fail(ncclInvalidArgument,
                    "rank %d asks for another device communicator than rank %d", r, comm->rank);
      }
      sizes.push_back(s.bytes);
    }
    auto w = std::make_unique<Window>();
    V_NCCL(collect(comm, mine, sizes, w->parts));
    w->comm = comm;
    w->map = w->offset = offset;
    w->map_size = w->size = mine.size;
    w->user = nullptr;
    comm->used += mine.size;
    V_NCCL(map_parts(comm, offset, w->parts, comm->rank));
    V_NCCL(describe_window(*w));
    const int number = comm->devcomms++;
    std::unique_ptr<Gin> gin;
    if (p.gin) {
      V_NCCL(new_gin(comm, comm->path + ".gin" + std::to_string(number), p.contexts, p.signals,
                     p.counters, gin));
    }
    write(*w, gin.get());
    if (gin)
      start_gin(*gin);
    comm->gins[w->device] = std::move(gin);
    comm->resources[w->device] = w.release();
    return ncclSuccess;
  }

  // The structure that kernels take by value.
  void write(const Window &w, Gin *gin) const {
    ncclDevComm d;
    memset((void *)&d, 0, sizeof d);
    d.rank = comm->rank;
    d.nRanks = comm->n;
    d.nRanks_rcp32 = nccl::utility::idivRcp32((uint32_t)comm->n);
    d.lsaRank = comm->rank % comm->lsa;
    d.lsaSize = comm->lsa;
    d.lsaSize_rcp32 = nccl::utility::idivRcp32((uint32_t)comm->lsa);
    d.windowTable = (ncclDevCommWindowTable *)comm->table;
    d.resourceWindow = w.device;
    d.lsaBarrier.bufHandle = (ncclDevResourceHandle_t)(p.lsa_buffer / 128);
    d.lsaBarrier.nBarriers = p.lsa_barriers;
    d.railGinBarrier.signal0 = p.rail_signal;
    d.ginSignalCount = p.signals;
    d.ginCounterCount = p.counters;
#if VIRTUAL_2_30
    d.magic = NCCL_API_MAGIC;
    d.version = NCCL_VERSION_CODE;
    d.resourceWindow_inlined.lsaFlatBase = w.host.lsaFlatBase;
    d.resourceWindow_inlined.stride4G = w.host.stride4G;
    d.hybridLsaBarrier.bufHandle = (ncclDevResourceHandle_t)(p.hybrid_buffer / 128);
    d.hybridLsaBarrier.nBarriers = need.barrierCount;
    d.hybridRailGinBarrier.signal0 = p.hybrid_rail;
    d.hybridWorldGinBarrier.signal0 = p.hybrid_world;
    d.worldGinBarrier.signal0 = p.world_signal;
    d.abortFlag = comm->abort_flag;
    if (gin) {
      d.ginConnectionCount = 1;
      d.ginNetDeviceTypes[0] = NCCL_NET_DEVICE_GIN_PROXY;
      d.ginHandles[0] = gin->device_contexts; // one structure a context, in a row
      d.ginContextCount = (uint32_t)p.contexts;
      d.ginStrongLegacySignals = true;
    }
#else
    d.resourceWindow_inlined = w.host;
    d.railGinBarrier.bufHandle = (ncclDevResourceHandle_t)(p.gin_epochs / 128);
    if (gin) {
      d.ginContextCount = (uint8_t)p.contexts;
      for (int i = 0; i < p.contexts; i++) {
        d.ginTypes[i] = NCCL_NET_DEVICE_GIN_PROXY;
        d.ginHandles[i] = gin->device_contexts + i;
      }
    }
#endif
    if (gin)
      d.ginSignalShadows = gin->shadows;
    *out = d;
  }
};
} // namespace

ncclResult_t drop_devcomm(ncclComm *c, const ncclDevComm *dc) {
  auto it = c->resources.find(dc->resourceWindow);
  if (it == c->resources.end())
    return fail(ncclInvalidArgument, "no such device communicator");
  DeviceGuard g(c->device);
  c->gins.erase(dc->resourceWindow); // ends its thread
  std::unique_ptr<Window> w(it->second);
  c->resources.erase(it);
  driver().MemRelease(w->parts[c->rank].handle); // the mapping keeps the memory until it goes
  unmap_parts(c, w->map, w->parts);
  forget_window(w->device);
  cudaFree(w->device);
  return ncclSuccess;
}

std::unique_ptr<Step> new_devcomm_step(ncclComm *comm, const ncclDevCommRequirements *need,
                                       ncclDevComm *out) {
  return std::make_unique<DevCommStep>(comm, need, out);
}

} // namespace vnccl

using namespace vnccl;

extern "C" {

#if VIRTUAL_2_30
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *p) {
  if (!comm || !p)
    return fail(ncclInvalidArgument, "ncclCommQueryProperties without its arguments");
  p->rank = comm->rank;
  p->nRanks = comm->n;
  p->cudaDev = p->nvmlDev = comm->device;
  p->deviceApiSupport = true;
  p->multimemSupport = false;
  p->ginType = p->railedGinType = NCCL_GIN_TYPE_PROXY;
  p->nLsaTeams = comm->n / comm->lsa;
  p->hostRmaSupport = false;
  return ncclSuccess;
}

static ncclResult_t find(ncclWindow_t window, Window **w) {
  *w = window_of(window);
  return *w ? ncclSuccess : fail(ncclInvalidArgument, "no such window");
}
ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **out) {
  Window *w;
  V_NCCL(find(window, &w));
  *out = peer / w->comm->lsa == w->comm->rank / w->comm->lsa
             ? w->comm->flat + peer * kStride + w->offset + offset
             : nullptr;
  return ncclSuccess;
}
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsa_rank, void **out) {
  Window *w;
  V_NCCL(find(window, &w));
  return ncclGetPeerDevicePointer(window, offset,
                                  w->comm->rank / w->comm->lsa * w->comm->lsa + lsa_rank, out);
}
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t, size_t, void **) {
  return fail(ncclInvalidUsage, "multimem is not modelled");
}
ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t, size_t, ncclMultimemHandle, void **) {
  return fail(ncclInvalidUsage, "multimem is not modelled");
}
ncclResult_t ncclWinGetUserPtr(ncclComm_t, ncclWindow_t window, void **out) {
  Window *w;
  V_NCCL(find(window, &w));
  *out = w->user;
  return ncclSuccess;
}
#endif

ncclTeam_t ncclTeamWorld(ncclComm_t c) { return ncclTeam_t{c->n, c->rank, 1}; }
ncclTeam_t ncclTeamLsa(ncclComm_t c) { return ncclTeam_t{c->lsa, c->rank % c->lsa, 1}; }
ncclTeam_t ncclTeamRail(ncclComm_t c) {
  return ncclTeam_t{c->n / c->lsa, c->rank / c->lsa, c->lsa};
}
int ncclTeamRankToWorld(ncclComm_t c, ncclTeam_t t, int rank) {
  return c->rank + (rank - t.rank) * t.stride;
}
int ncclTeamRankToLsa(ncclComm_t c, ncclTeam_t t, int rank) {
  return c->rank % c->lsa + (rank - t.rank) * t.stride;
}

} // extern "C"
