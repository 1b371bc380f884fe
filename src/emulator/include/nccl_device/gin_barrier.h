// SPDX-License-Identifier: Apache-2.0
/* Barriers over signals. */
#ifndef CUCOCC_EMULATOR_NCCL_DEVICE_GIN_BARRIER_H
#define CUCOCC_EMULATOR_NCCL_DEVICE_GIN_BARRIER_H

#include "gin.h"

#if CUCOCC_EMU_NCCL >= 23005
enum ncclGinFenceLevel : uint32_t { None = 0, Put = 1, Get = 2, Relaxed = None };
constexpr ncclGinFenceLevel operator|(ncclGinFenceLevel a, ncclGinFenceLevel b) {
  return (ncclGinFenceLevel)((uint32_t)a | (uint32_t)b);
}
constexpr ncclGinFenceLevel operator&(ncclGinFenceLevel a, ncclGinFenceLevel b) {
  return (ncclGinFenceLevel)((uint32_t)a & (uint32_t)b);
}
#define EMU_NCCL_FENCE_DEFAULT = (ncclGinFenceLevel)3
struct ncclGinAllContexts {
  const ncclDevComm &comm;
  constexpr explicit ncclGinAllContexts(const ncclDevComm &dc) : comm(dc) {}
};
#else
enum class ncclGinFenceLevel { Relaxed };
#define EMU_NCCL_FENCE_DEFAULT
#endif

template <class Coop> struct ncclGinBarrierSession {
  EMU_NCCL_INLINE ncclGinBarrierSession(Coop c, ncclGin gin, ncclTeam team,
                                        ncclGinBarrierHandle handle, uint32_t index)
      : ncclGinBarrierSession(c, gin.comm, gin.contextId, false, team, handle, index) {}
  EMU_NCCL_INLINE ncclGinBarrierSession(Coop c, ncclGin gin, ncclTeamTagRail, uint32_t index)
      : ncclGinBarrierSession(c, gin, ncclTeamRail(gin.comm), gin.comm.railGinBarrier, index) {}
#if CUCOCC_EMU_NCCL >= 23003
  EMU_NCCL_INLINE ncclGinBarrierSession(Coop c, ncclGin gin, ncclTeamTagWorld, uint32_t index)
      : ncclGinBarrierSession(c, gin, ncclTeamWorld(gin.comm), gin.comm.worldGinBarrier, index) {}
#endif
#if CUCOCC_EMU_NCCL >= 23005
  EMU_NCCL_INLINE ncclGinBarrierSession(Coop c, ncclGinAllContexts all, ncclTeam team,
                                        ncclGinBarrierHandle handle, uint32_t index)
      : ncclGinBarrierSession(c, all.comm, 0, true, team, handle, index) {}
  EMU_NCCL_INLINE ncclGinBarrierSession(Coop c, ncclGinAllContexts all, ncclTeamTagRail,
                                        uint32_t index)
      : ncclGinBarrierSession(c, all, ncclTeamRail(all.comm), all.comm.railGinBarrier, index) {}
  EMU_NCCL_INLINE ncclGinBarrierSession(Coop c, ncclGinAllContexts all, ncclTeamTagWorld,
                                        uint32_t index)
      : ncclGinBarrierSession(c, all, ncclTeamWorld(all.comm), all.comm.worldGinBarrier, index) {}
#endif
  EMU_NCCL_INLINE ~ncclGinBarrierSession() {
    emu_nccl::gin_close(barrier, coop.thread_rank() == 0);
  }
  ncclGinBarrierSession(const ncclGinBarrierSession &) = delete;

  EMU_NCCL_INLINE void sync(Coop c, cuda::memory_order order,
                            ncclGinFenceLevel fence EMU_NCCL_FENCE_DEFAULT) {
    sync(c, order, fence, 0);
  }
  /* TIMEOUTCYCLES of 0: none. */
  EMU_NCCL_INLINE ncclResult_t sync(Coop, cuda::memory_order order, ncclGinFenceLevel fence,
                                    uint64_t timeoutCycles) {
    const bool puts = (uint32_t)fence & 1, gets = (uint32_t)fence & 2;
    ncclResult_t result = ncclSuccess;
    coop.sync();
    if (gets && coop.thread_rank() == 0)
      for (uint32_t c = first_context(); c < end_context(); c++)
        emu_nccl::gin_flush(barrier.dc, c, -1, emu_nccl::order_of(order));
    coop.sync();
    for (int i = coop.thread_rank(); i < barrier.team.n - 1; i += coop.size())
      for (uint32_t c = first_context(); c < end_context(); c++) {
        emu_nccl::GinBarrier one = barrier;
        one.context = c;
        emu_nccl::gin_arrive(one, i + (barrier.team.rank <= i), emu_nccl::order_of(order), puts);
      }
    barrier.epoch++;
    if (coop.thread_rank() == 0)
      for (uint32_t c = first_context(); c < end_context(); c++) {
        emu_nccl::GinBarrier one = barrier;
        one.context = c;
        if (!emu_nccl::gin_wait(one, emu_nccl::order_of(order), timeoutCycles))
          result = ncclSystemError;
      }
    coop.sync();
    return result;
  }

  Coop coop;
  emu_nccl::GinBarrier barrier;
  bool allContexts;
  uint32_t nContexts;

private:
  EMU_NCCL_INLINE ncclGinBarrierSession(Coop c, const ncclDevComm &dc, uint32_t context, bool all,
                                        ncclTeam team, ncclGinBarrierHandle handle, uint32_t index)
      : coop(c), barrier{dc.emulated,
                         emu_nccl::members(dc, team),
                         (uint32_t)handle.signal0,
                         (uint32_t)handle.nBarriers,
                         index,
                         context,
                         0},
        allContexts(all), nContexts(dc.ginContextCount) {
    emu_nccl::gin_open(barrier, coop.thread_rank() == 0);
  }
  uint32_t first_context() const { return allContexts ? 0 : barrier.context; }
  uint32_t end_context() const { return allContexts ? nContexts : barrier.context + 1; }
};

#endif
