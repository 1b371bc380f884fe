// SPDX-License-Identifier: Apache-2.0
/* Barriers over load/store memory. */
#ifndef CUCOCC_EMULATOR_NCCL_DEVICE_LSA_BARRIER_H
#define CUCOCC_EMULATOR_NCCL_DEVICE_LSA_BARRIER_H

#include "coop.h"

template <class Coop> struct ncclLsaBarrierSession {
  EMU_NCCL_INLINE ncclLsaBarrierSession(Coop c, const ncclDevComm &dc, ncclTeam team,
                                        ncclLsaBarrierHandle handle, uint32_t index,
                                        bool multimem = false, ncclMultimemHandle = {})
      : coop(c), barrier{dc.emulated,
                         emu_nccl::members(dc, team),
                         handle.bufHandle,
                         (uint32_t)handle.nBarriers,
                         index,
                         0} {
    if (multimem)
      emu_nccl::multimem();
    emu_nccl::lsa_open(barrier, coop.thread_rank() == 0);
  }
  EMU_NCCL_INLINE ncclLsaBarrierSession(Coop c, const ncclDevComm &dc, ncclTeamTagLsa,
                                        uint32_t index, bool multimem = false)
      : ncclLsaBarrierSession(c, dc, ncclTeamLsa(dc), dc.lsaBarrier, index, multimem) {}
  EMU_NCCL_INLINE ~ncclLsaBarrierSession() {
    emu_nccl::lsa_close(barrier, coop.thread_rank() == 0);
    coop.sync();
  }
  ncclLsaBarrierSession(const ncclLsaBarrierSession &) = delete;

  EMU_NCCL_INLINE void arrive(Coop, cuda::memory_order order) {
    coop.sync();
    for (int i = coop.thread_rank(); i < barrier.team.n - 1; i += coop.size())
      emu_nccl::lsa_arrive(barrier, i + (barrier.team.rank <= i), emu_nccl::order_of(order));
  }
  EMU_NCCL_INLINE void wait(Coop c, cuda::memory_order order) { wait(c, order, 0); }
  EMU_NCCL_INLINE ncclResult_t wait(Coop, cuda::memory_order order, uint64_t timeoutCycles) {
    ncclResult_t result = ncclSuccess;
    barrier.epoch++;
    for (int i = coop.thread_rank(); i < barrier.team.n - 1; i += coop.size())
      if (!emu_nccl::lsa_wait(barrier, i + (barrier.team.rank <= i), emu_nccl::order_of(order),
                              timeoutCycles))
        result = ncclSystemError;
    coop.sync();
    return result;
  }
  EMU_NCCL_INLINE void sync(Coop c, cuda::memory_order order) {
    arrive(c, order);
    wait(c, order, 0);
  }
  EMU_NCCL_INLINE ncclResult_t sync(Coop c, cuda::memory_order order, uint64_t timeoutCycles) {
    arrive(c, order);
    return wait(c, order, timeoutCycles);
  }

  Coop coop;
  emu_nccl::LsaBarrier barrier;
};

#endif
