// SPDX-License-Identifier: Apache-2.0
// Setup shared by the race programs: one process, one thread, one communicator over all devices (at
// most MAX_RANKS). The programs are ordinary CUDA/NCCL programs: nvcc compiles them as well as the
// emulator does.
#pragma once
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CUDA(call)                                                                                 \
  do {                                                                                             \
    cudaError_t cudaStatus_ = (call);                                                              \
    if (cudaStatus_ != cudaSuccess) {                                                              \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(cudaStatus_));         \
      exit(2);                                                                                     \
    }                                                                                              \
  } while (0)
#define NCCL(call)                                                                                 \
  do {                                                                                             \
    ncclResult_t ncclStatus_ = (call);                                                             \
    if (ncclStatus_ != ncclSuccess && ncclStatus_ != ncclInProgress) {                             \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, ncclGetErrorString(ncclStatus_));         \
      exit(2);                                                                                     \
    }                                                                                              \
  } while (0)

#if NCCL_VERSION_CODE >= 23005
#define SIGNAL_INC(id)                                                                             \
  ncclGin_StrongSignalInc { (ncclGinSignal_t)(id) }
#define FENCE_NONE ncclGinFenceLevel::None
#else
#define SIGNAL_INC(id)                                                                             \
  ncclGin_SignalInc { (ncclGinSignal_t)(id) }
#define FENCE_NONE ncclGinFenceLevel::Relaxed
#endif

constexpr auto RELAXED = cuda::memory_order_relaxed;
constexpr auto ACQUIRE = cuda::memory_order_acquire;
constexpr auto RELEASE = cuda::memory_order_release;
constexpr auto ACQ_REL = cuda::memory_order_acq_rel;

using SystemFlag = cuda::atomic_ref<uint32_t, cuda::thread_scope_system>;
using DeviceFlag = cuda::atomic_ref<uint32_t, cuda::thread_scope_device>;
using Bar = ncclLsaBarrierSession<ncclCoopCta>;

enum { MAX_RANKS = 4 };

// Runs a launch (or any statement) once per rank, with the rank's device current.
#define EACH_RANK(w, r) for (int r = 0; (w).use(r); r++)

struct Ranks {
  int n = 0;
  bool device_comms = false;
  ncclComm_t comm[MAX_RANKS] = {};
  cudaStream_t stream[MAX_RANKS] = {};
  ncclDevComm dc[MAX_RANKS];

  explicit Ranks(int want = 2) {
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    CUDA(cudaGetDeviceCount(&n));
    if (n < want) {
      fprintf(stderr, "needs %d devices\n", want);
      exit(77);
    }
    n = want;
    NCCL(ncclCommInitAll(comm, n, nullptr));
    EACH_RANK (*this, r)
      CUDA(cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking));
  }
  bool use(int r) const {
    if (r < n)
      CUDA(cudaSetDevice(r));
    return r < n;
  }
  // LSA barriers and, when signals > 0, GIN with that many signals, counters and world barriers.
  void device(int lsa_barriers, int signals = 0) {
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
    ncclDevCommRequirements q = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
    ncclDevCommRequirements q;
    memset(&q, 0, sizeof q);
#endif
    q.lsaBarrierCount = lsa_barriers;
    if (signals) {
      q.ginSignalCount = signals;
      q.ginCounterCount = signals;
#if NCCL_VERSION_CODE >= 23003
      q.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
      q.worldGinBarrierCount = signals;
#elif NCCL_VERSION_CODE >= 22907
      q.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
      q.barrierCount = signals;
#else
      q.ginForceEnable = true;
      q.ginContextCount = 2;
      q.railGinBarrierCount = signals;
#endif
    }
    NCCL(ncclGroupStart());
    for (int r = 0; r < n; r++)
      NCCL(ncclDevCommCreate(comm[r], &q, &dc[r]));
    NCCL(ncclGroupEnd());
    device_comms = true;
  }
  void sync() const {
    EACH_RANK (*this, r)
      CUDA(cudaStreamSynchronize(stream[r]));
  }
  ~Ranks() {
    for (int r = 0; device_comms && r < n; r++)
      NCCL(ncclDevCommDestroy(comm[r], &dc[r]));
    for (int r = 0; r < n; r++)
      NCCL(ncclCommDestroy(comm[r]));
    EACH_RANK (*this, r)
      cudaStreamDestroy(stream[r]);
  }
};

// One symmetric window of `bytes` on every rank; zeroed before it is registered unless `zero` is
// false.
struct Window {
  Ranks &w;
  void *mem[MAX_RANKS] = {};
  ncclWindow_t win[MAX_RANKS] = {};
  bool live = true;
  Window(Ranks &ranks, size_t bytes, bool zero = true) : w(ranks) {
    EACH_RANK (w, r) {
      NCCL(ncclMemAlloc(&mem[r], bytes));
      if (zero)
        CUDA(cudaMemset(mem[r], 0, bytes));
      if (zero)
        CUDA(cudaDeviceSynchronize());
    }
    NCCL(ncclGroupStart());
    for (int r = 0; r < w.n; r++)
      NCCL(ncclCommWindowRegister(w.comm[r], mem[r], bytes, &win[r], NCCL_WIN_COLL_SYMMETRIC));
    NCCL(ncclGroupEnd());
  }
  void release() {
    if (live)
      EACH_RANK (w, r) {
        NCCL(ncclCommWindowDeregister(w.comm[r], win[r]));
        NCCL(ncclMemFree(mem[r]));
      }
    live = false;
  }
  ~Window() { release(); }
};

// Ordinary device memory, one allocation per rank, zeroed.
struct Buffer {
  Ranks &w;
  uint32_t *mem[MAX_RANKS] = {};
  Buffer(Ranks &ranks, size_t bytes) : w(ranks) {
    EACH_RANK (w, r) {
      CUDA(cudaMalloc(&mem[r], bytes));
      CUDA(cudaMemset(mem[r], 0, bytes));
      CUDA(cudaDeviceSynchronize());
    }
  }
  ~Buffer() {
    EACH_RANK (w, r)
      cudaFree(mem[r]);
  }
};

template <class T> __device__ T *at_peer(ncclWindow_t w, size_t element, int peer) {
  return (T *)ncclGetLsaPointer(w, element * sizeof(T), peer);
}
template <class T> __device__ T *at_home(ncclWindow_t w, size_t element = 0) {
  return (T *)ncclGetLocalPointer(w, element * sizeof(T));
}
__device__ inline void set_flag(uint32_t *f, uint32_t v) { SystemFlag(*f).store(v, RELEASE); }
__device__ inline void wait_flag(uint32_t *f, uint32_t least) {
  while (SystemFlag(*f).load(ACQUIRE) < least) {
  }
}
__device__ inline int next_rank(const ncclDevComm &dc) { return (dc.rank + 1) % dc.nRanks; }

// A barrier over all ranks through the network: the spelling differs by version.
__device__ inline void world_barrier(ncclGin &gin, const ncclDevComm &dc, uint32_t index) {
  ncclCoopCta cta;
#if NCCL_VERSION_CODE >= 23003
  ncclGinBarrierSession<ncclCoopCta> bar{cta, gin, ncclTeamTagWorld(), index};
#elif NCCL_VERSION_CODE >= 22907
  ncclBarrierSession<ncclCoopCta> bar{cta, ncclTeamTagWorld(), gin, index};
#else
  ncclGinBarrierSession<ncclCoopCta> bar{cta, gin, ncclTeamWorld(dc), dc.railGinBarrier, index};
#endif
  bar.sync(cta, ACQ_REL, FENCE_NONE);
}
