// SPDX-License-Identifier: Apache-2.0
/* Barriers over load/store memory inside and signals between its teams. */
#ifndef CUCOCC_EMULATOR_NCCL_DEVICE_BARRIER_H
#define CUCOCC_EMULATOR_NCCL_DEVICE_BARRIER_H

#include "gin_barrier.h"
#include "lsa_barrier.h"

#include <optional>

template <class Coop> struct ncclBarrierSession {
  EMU_NCCL_INLINE ncclBarrierSession(Coop c, ncclTeam inner, ncclTeam outer, ncclGin gin,
                                     ncclLsaBarrierHandle innerHandle,
                                     ncclGinBarrierHandle outerHandle, uint32_t index,
                                     bool multimem = false, ncclMultimemHandle mm = {}) {
    if (inner.nRanks > 1)
      lsa.emplace(c, gin.comm, inner, innerHandle, index, multimem, mm);
    if (outer.nRanks > 1)
      gin_.emplace(c, gin, outer, outerHandle, index);
  }
  EMU_NCCL_INLINE ncclBarrierSession(Coop c, ncclTeamTagWorld, ncclGin gin, uint32_t index,
                                     bool multimem = false)
      : ncclBarrierSession(c, ncclTeamLsa(gin.comm), ncclTeamRail(gin.comm), gin,
                           gin.comm.lsaBarrier, gin.comm.railGinBarrier, index, multimem) {}
  EMU_NCCL_INLINE ncclBarrierSession(Coop c, ncclTeamTagLsa, const ncclDevComm &dc, uint32_t index,
                                     bool multimem = false) {
    lsa.emplace(c, dc, ncclTeamTagLsa(), index, multimem);
  }
  EMU_NCCL_INLINE ncclBarrierSession(Coop c, ncclTeamTagRail, ncclGin gin, uint32_t index) {
    gin_.emplace(c, gin, ncclTeamTagRail(), index);
  }
  ncclBarrierSession(const ncclBarrierSession &) = delete;

  EMU_NCCL_INLINE ncclLsaBarrierSession<Coop> &lsaBarrier() { return *lsa; }
  EMU_NCCL_INLINE ncclGinBarrierSession<Coop> &ginBarrier() { return *gin_; }

  EMU_NCCL_INLINE void sync(Coop c, cuda::memory_order order,
                            ncclGinFenceLevel fence EMU_NCCL_FENCE_DEFAULT) {
    sync(c, order, fence, 0);
  }
  EMU_NCCL_INLINE ncclResult_t sync(Coop c, cuda::memory_order order, ncclGinFenceLevel fence,
                                    uint64_t timeoutCycles) {
    ncclResult_t inner = ncclSuccess, outer = ncclSuccess;
    if (lsa)
      lsa->arrive(c, gin_ ? cuda::memory_order_acq_rel : order);
    if (lsa)
      inner = lsa->wait(c, gin_ ? cuda::memory_order_acq_rel : order, timeoutCycles);
    if (gin_) {
      outer = gin_->sync(c, order, fence, timeoutCycles);
      if (lsa) { // the others of the inner team learn that the outer ones have arrived
        lsa->arrive(c, order);
        inner = lsa->wait(c, order, timeoutCycles);
      }
    }
    return inner != ncclSuccess ? inner : outer;
  }

private:
  std::optional<ncclLsaBarrierSession<Coop>> lsa;
  std::optional<ncclGinBarrierSession<Coop>> gin_;
};

#endif
