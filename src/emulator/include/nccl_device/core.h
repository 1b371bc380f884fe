// SPDX-License-Identifier: Apache-2.0
/* Device communicators, their requirements, teams, and addresses in windows. */
#ifndef CUCOCC_EMULATOR_NCCL_DEVICE_CORE_H
#define CUCOCC_EMULATOR_NCCL_DEVICE_CORE_H

#include "rt.h"

#include <cuda/atomic>

/* Inlined even without optimisation, so that the place of a call is the program's. */
#define EMU_NCCL_INLINE inline __attribute__((always_inline))

typedef uint32_t ncclDevResourceHandle;
typedef ncclDevResourceHandle ncclDevResourceHandle_t;
typedef uint32_t ncclGinSignal_t;
typedef uint32_t ncclGinCounter_t;

struct ncclTeam {
  int nRanks, rank, stride;
};
typedef struct ncclTeam ncclTeam_t;
struct ncclTeamTagWorld {};
struct ncclTeamTagLsa {};
struct ncclTeamTagRail {};

/* Declared because programs name it; using it ends the run. */
struct ncclMultimemHandle {
  void *mcBasePtr;
};
typedef struct ncclMultimemHandle ncclMultimemHandle_t;

struct ncclLsaBarrierHandle {
  ncclDevResourceHandle_t bufHandle;
  int nBarriers;
};
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle_t;
struct ncclGinBarrierHandle {
  ncclGinSignal_t signal0;
  ncclDevResourceHandle_t bufHandle;
  int nBarriers;
};
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle_t;
struct ncclLLA2AHandle {
  ncclDevResourceHandle_t bufHandle;
  uint32_t nSlots;
  int nBlocks;
};
typedef struct ncclLLA2AHandle ncclLLA2AHandle_t;

struct ncclDevComm {
  int rank, nRanks;
  uint32_t nRanks_rcp32;
  int lsaRank, lsaSize;
  uint32_t lsaSize_rcp32;
  ncclWindow_t resourceWindow;
  ncclMultimemHandle_t lsaMultimem;
  ncclLsaBarrierHandle_t lsaBarrier;
  ncclGinBarrierHandle_t railGinBarrier, worldGinBarrier;
  uint8_t ginContextCount;
  uint32_t ginSignalBase;
  int ginSignalCount;
  uint32_t ginCounterBase;
  int ginCounterCount;
  emu_nccl::DeviceComm *emulated;
};
typedef struct ncclDevComm ncclDevComm_t;

struct ncclDevResourceRequirements {
  struct ncclDevResourceRequirements *next;
  size_t bufferSize, bufferAlign;
  ncclDevResourceHandle_t *outBufferHandle;
  int ginSignalCount, ginCounterCount;
  ncclGinSignal_t *outGinSignalStart;
  ncclGinCounter_t *outGinCounterStart;
};
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
struct ncclTeamRequirements {
  struct ncclTeamRequirements *next;
  ncclTeam_t team;
  bool multimem;
  ncclMultimemHandle_t *outMultimemHandle;
};
typedef struct ncclTeamRequirements ncclTeamRequirements_t;

typedef enum {
  NCCL_GIN_CONNECTION_NONE,
  NCCL_GIN_CONNECTION_FULL,
  NCCL_GIN_CONNECTION_RAIL
} ncclGinConnectionType_t;
typedef enum {
  NCCL_GIN_TYPE_NONE = 0,
  NCCL_GIN_TYPE_PROXY = 2,
  NCCL_GIN_TYPE_GDAKI = 3,
  NCCL_GIN_TYPE_GPI = 4
} ncclGinType_t;

struct ncclDevCommRequirements {
#if CUCOCC_EMU_NCCL >= 22902
  size_t size;
  unsigned int magic, version;
#endif
  ncclDevResourceRequirements_t *resourceRequirementsList;
  ncclTeamRequirements_t *teamRequirementsList;
  bool lsaMultimem;
  int barrierCount, lsaBarrierCount, railGinBarrierCount;
  int lsaLLA2ABlockCount, lsaLLA2ASlotCount;
  bool ginForceEnable;
  int ginContextCount, ginSignalCount, ginCounterCount;
#if CUCOCC_EMU_NCCL >= 22907
  ncclGinConnectionType_t ginConnectionType;
  bool ginExclusiveContexts;
  int ginQueueDepth;
#endif
#if CUCOCC_EMU_NCCL >= 23003
  int ginTrafficClass;
  int worldGinBarrierCount;
#endif
#if CUCOCC_EMU_NCCL >= 23005
  bool ginStrongSignalsRequired, ginVaSignalsRequired;
#endif
};
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;

#if CUCOCC_EMU_NCCL >= 22902
#define EMU_NCCL_MAGIC 0xcafebeefu
#define EMU_NCCL_REQUIREMENTS_HEAD                                                                 \
  sizeof(ncclDevCommRequirements_t), EMU_NCCL_MAGIC, NCCL_VERSION_CODE
#define EMU_NCCL_REQUIREMENTS_22902                                                                \
  EMU_NCCL_REQUIREMENTS_HEAD, nullptr, nullptr, false, 0, 0, 0, 0, 0, false, 4, 0, 0
#if CUCOCC_EMU_NCCL >= 23005
#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER                                                     \
  { EMU_NCCL_REQUIREMENTS_22902, NCCL_GIN_CONNECTION_NONE, false, 0, INT_MIN, 0, true, true }
#elif CUCOCC_EMU_NCCL >= 23003
#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER                                                     \
  { EMU_NCCL_REQUIREMENTS_22902, NCCL_GIN_CONNECTION_NONE, false, 0, INT_MIN, 0 }
#elif CUCOCC_EMU_NCCL >= 22907
#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER                                                     \
  { EMU_NCCL_REQUIREMENTS_22902, NCCL_GIN_CONNECTION_NONE, false, 0 }
#else
#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER                                                     \
  { EMU_NCCL_REQUIREMENTS_22902 }
#endif

struct ncclCommProperties {
  size_t size;
  unsigned int magic, version;
  int rank, nRanks, cudaDev, nvmlDev;
  bool deviceApiSupport, multimemSupport;
  ncclGinType_t ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  ncclGinType_t railedGinType;
};
typedef struct ncclCommProperties ncclCommProperties_t;
#define NCCL_COMM_PROPERTIES_INITIALIZER                                                           \
  { sizeof(ncclCommProperties_t), EMU_NCCL_MAGIC, NCCL_VERSION_CODE }
#endif

extern "C" {
ncclResult_t ncclDevCommDestroy(ncclComm_t, const ncclDevComm_t *);
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t, int nBarriers, ncclLsaBarrierHandle_t *out,
                                             ncclDevResourceRequirements_t *outReq);
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t, ncclTeam_t, int nBarriers,
                                             ncclGinBarrierHandle_t *out,
                                             ncclDevResourceRequirements_t *outReq);
int ncclLLA2ACalcSlots(int maxElts, int maxEltSize);
ncclResult_t ncclLLA2ACreateRequirement(int nBlocks, int nSlots, ncclLLA2AHandle_t *out,
                                        ncclDevResourceRequirements_t *outReq);
#if CUCOCC_EMU_NCCL >= 22902
ncclResult_t ncclCommQueryProperties(ncclComm_t, ncclCommProperties_t *);
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t, size_t offset, int lsaRank, void **out);
ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t, size_t offset, int peer, void **out);
#endif
}
namespace emu_nccl {
/* ncclDevCommRequirements without the differences between versions. */
struct Requirements {
  ncclDevResourceRequirements_t *resources;
  bool multimem, gin;
  int lsa_barriers, rail_barriers, world_barriers, contexts, signals, counters;
};
ncclResult_t dev_comm_create(ncclComm_t, const Requirements *, ncclDevComm_t *out);
} // namespace emu_nccl
/* Inlined, because the requirements' layout depends on the version that the program asks for. */
EMU_NCCL_INLINE ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t *r,
                                               ncclDevComm_t *out) {
  if (!r)
    return ncclInvalidArgument;
#if CUCOCC_EMU_NCCL >= 22902
  if (r->size != sizeof *r || r->magic != EMU_NCCL_MAGIC)
    return ncclInvalidArgument;
#endif
  emu_nccl::Requirements q{};
  q.resources = r->resourceRequirementsList;
  q.multimem = r->lsaMultimem;
  q.lsa_barriers = r->lsaBarrierCount > r->barrierCount ? r->lsaBarrierCount : r->barrierCount;
  q.rail_barriers =
      r->railGinBarrierCount > r->barrierCount ? r->railGinBarrierCount : r->barrierCount;
  q.signals = r->ginSignalCount;
  q.counters = r->ginCounterCount;
  q.contexts = r->ginContextCount;
#if CUCOCC_EMU_NCCL >= 23003
  q.world_barriers = r->worldGinBarrierCount;
#endif
#if CUCOCC_EMU_NCCL >= 22907
  q.gin = r->ginForceEnable || r->ginConnectionType != NCCL_GIN_CONNECTION_NONE;
  if (!q.gin && (q.signals || q.counters || q.world_barriers || r->railGinBarrierCount))
    return ncclInvalidArgument;
#else
  q.gin = r->ginForceEnable || q.signals || q.counters;
#endif
  return emu_nccl::dev_comm_create(comm, &q, out);
}
/* Overloaded for communicators and device communicators, hence not under their C names. */
ncclTeam ncclTeamWorld(ncclComm_t);
ncclTeam ncclTeamLsa(ncclComm_t);
ncclTeam ncclTeamRail(ncclComm_t);
int ncclTeamRankToWorld(ncclComm_t, ncclTeam, int rank);
int ncclTeamRankToLsa(ncclComm_t, ncclTeam, int rank);

/* ---- teams
 * --------------------------------------------------------------------------------------- */

EMU_NCCL_INLINE ncclTeam ncclTeamWorld(const ncclDevComm &dc) { return {dc.nRanks, dc.rank, 1}; }
EMU_NCCL_INLINE ncclTeam ncclTeamLsa(const ncclDevComm &dc) { return {dc.lsaSize, dc.lsaRank, 1}; }
EMU_NCCL_INLINE ncclTeam ncclTeamRail(const ncclDevComm &dc) {
  return {dc.nRanks / dc.lsaSize, dc.rank / dc.lsaSize, dc.lsaSize};
}
EMU_NCCL_INLINE int ncclTeamRankToWorld(const ncclDevComm &dc, ncclTeam t, int rank) {
  return dc.rank + (rank - t.rank) * t.stride;
}
EMU_NCCL_INLINE int ncclTeamRankToLsa(const ncclDevComm &dc, ncclTeam t, int rank) {
  return dc.lsaRank + (rank - t.rank) * t.stride;
}
/* B and A as sets of ranks: is member BRANK of B in A, and as which? */
EMU_NCCL_INLINE int ncclTeamRankToTeam(ncclTeam a, ncclTeam b, int bRank) {
  return a.rank + (bRank - b.rank) * b.stride / a.stride;
}
EMU_NCCL_INLINE bool ncclTeamRankIsMember(ncclTeam a, ncclTeam b, int bRank) {
  int apart = (bRank - b.rank) * b.stride, rank = a.rank + apart / a.stride;
  return apart % a.stride == 0 && rank >= 0 && rank < a.nRanks;
}
EMU_NCCL_INLINE ncclTeam ncclTeamInnerFactor(ncclTeam t, int inner) {
  return {inner, t.rank % inner, t.stride};
}
EMU_NCCL_INLINE ncclTeam ncclTeamOuterFactor(ncclTeam t, int inner) {
  return {t.nRanks / inner, t.rank / inner, t.stride * inner};
}
/* Member INDEX of PARENT without SUBSET. */
EMU_NCCL_INLINE int ncclTeamRankInDifference(ncclTeam parent, ncclTeam subset, int index) {
  int step = subset.stride / parent.stride, first = parent.rank - subset.rank * step;
  if (index < first)
    return index;
  int between = (subset.nRanks - 1) * (step - 1);
  if (index - first >= between)
    return index + subset.nRanks;
  return index + 1 + (index - first) / (step - 1);
}

namespace emu_nccl {
EMU_NCCL_INLINE Members members(const ncclDevComm &dc, ncclTeam t) {
  return {t.nRanks, t.rank, dc.rank - t.rank * t.stride, t.stride};
}
/* The parts of a memory order that a store and a load apply. */
EMU_NCCL_INLINE Order order_of(cuda::memory_order o) {
  return o == cuda::memory_order_relaxed   ? RELAXED
         : o == cuda::memory_order_acquire ? ACQUIRE
         : o == cuda::memory_order_consume ? ACQUIRE
         : o == cuda::memory_order_release ? RELEASE
                                           : ACQ_REL;
}
} // namespace emu_nccl

/* ---- windows
 * ------------------------------------------------------------------------------------- */

EMU_NCCL_INLINE void *ncclGetLocalPointer(ncclWindow_t w, size_t offset) {
  return emu_nccl::window_pointer(w, offset, -1, false);
}
EMU_NCCL_INLINE void *ncclGetLsaPointer(ncclWindow_t w, size_t offset, int peer) {
  return emu_nccl::window_pointer(w, offset, peer, true);
}
EMU_NCCL_INLINE void *ncclGetPeerPointer(ncclWindow_t w, size_t offset, int peer) {
  return emu_nccl::window_pointer(w, offset, peer, false);
}
EMU_NCCL_INLINE void *ncclGetPeerPointer(ncclWindow_t w, size_t offset, ncclTeam t, int peer) {
  return emu_nccl::window_pointer(w, offset, emu_nccl::window_rank(w) + (peer - t.rank) * t.stride,
                                  false);
}
EMU_NCCL_INLINE void *ncclGetMultimemPointer(ncclWindow_t, size_t, ncclMultimemHandle) {
  return emu_nccl::multimem();
}
EMU_NCCL_INLINE void *ncclGetLsaMultimemPointer(ncclWindow_t, size_t, const ncclDevComm &) {
  return emu_nccl::multimem();
}
template <class Coop>
EMU_NCCL_INLINE ncclWindow_t ncclFindWindow(Coop, const ncclDevComm &dc, const void *address) {
  return emu_nccl::find_window(dc.emulated, address);
}

EMU_NCCL_INLINE size_t ncclGetResourceBufferOffset(ncclDevResourceHandle_t h) {
  return (size_t)h * 128;
}
EMU_NCCL_INLINE void *ncclGetResourceBufferLocalPointer(const ncclDevComm &dc,
                                                        ncclDevResourceHandle h) {
  return emu_nccl::window_pointer(dc.resourceWindow, ncclGetResourceBufferOffset(h), -1, false);
}
EMU_NCCL_INLINE void *ncclGetResourceBufferLsaPointer(const ncclDevComm &dc,
                                                      ncclDevResourceHandle h, int peer) {
  return emu_nccl::window_pointer(dc.resourceWindow, ncclGetResourceBufferOffset(h), peer, true);
}
EMU_NCCL_INLINE void *ncclGetResourceBufferPeerPointer(const ncclDevComm &dc,
                                                       ncclDevResourceHandle h, ncclTeam t,
                                                       int peer) {
  return emu_nccl::window_pointer(dc.resourceWindow, ncclGetResourceBufferOffset(h),
                                  ncclTeamRankToWorld(dc, t, peer), false);
}

#endif
