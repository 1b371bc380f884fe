// SPDX-License-Identifier: Apache-2.0
/* Cooperation levels: which threads make a call together. Any type with thread_rank(), size() and
 * sync() serves. */
#ifndef CUCOCC_EMULATOR_NCCL_DEVICE_COOP_H
#define CUCOCC_EMULATOR_NCCL_DEVICE_COOP_H

#include "core.h"

#include <new>
#include <string.h>

template <int nThreadsPow2> struct ncclCoopTile {
  static_assert(nThreadsPow2 > 0 && nThreadsPow2 <= 32 && !(nThreadsPow2 & (nThreadsPow2 - 1)),
                "a power of two up to 32");
  EMU_NCCL_INLINE int thread_rank() const { return emu_nccl::lane() % nThreadsPow2; }
  constexpr int size() const { return nThreadsPow2; }
  constexpr int num_threads() const { return nThreadsPow2; }
  EMU_NCCL_INLINE uint32_t laneMask() const {
    return (0xffffffffu >> (32 - nThreadsPow2)) << (emu_nccl::lane() & -nThreadsPow2);
  }
  EMU_NCCL_INLINE void sync() {
    if (nThreadsPow2 > 1)
      __syncwarp(laneMask());
  }
};
typedef ncclCoopTile<1> ncclCoopThread;
typedef ncclCoopTile<32> ncclCoopWarp;

/* Some lanes of the warp. */
struct ncclCoopLanes {
  uint32_t lmask;
  constexpr ncclCoopLanes(uint32_t mask = 0xffffffffu) : lmask(mask) {}
  EMU_NCCL_INLINE int thread_rank() const {
    return __builtin_popcount(lmask & ((1u << emu_nccl::lane()) - 1));
  }
  int size() const { return __builtin_popcount(lmask); }
  int num_threads() const { return size(); }
  EMU_NCCL_INLINE void sync() { __syncwarp(lmask); }
};

/* Consecutive warps of the block; ID 0..15 tells spans apart that meet at the same time. */
struct ncclCoopWarpSpan {
  uint32_t warp0 : 8, nWarps : 8, id : 8;
  constexpr ncclCoopWarpSpan(int first, int count, int number)
      : warp0(first), nWarps(count), id(number) {}
  EMU_NCCL_INLINE int thread_rank() const { return (int)threadIdx.x - 32 * (int)warp0; }
  int size() const { return 32 * nWarps; }
  int num_threads() const { return size(); }
  EMU_NCCL_INLINE void sync() { emu_nccl::named_barrier(id, size()); }
};

struct ncclCoopCta {
  EMU_NCCL_INLINE int thread_rank() const { return threadIdx.x; }
  EMU_NCCL_INLINE int size() const { return blockDim.x; }
  EMU_NCCL_INLINE int num_threads() const { return blockDim.x; }
  EMU_NCCL_INLINE void sync() { __syncthreads(); }
};

/* Any of the above behind one type. */
struct ncclCoopAny {
  struct VTable {
    int (*thread_rank)(const void *);
    int (*size)(const void *);
    void (*sync)(void *);
  };
  alignas(8) char storage[16];
  const VTable *vtable;

  ncclCoopAny() = default;
  template <class Impl> ncclCoopAny(Impl impl) {
    static_assert(sizeof(Impl) <= sizeof storage, "too large");
    static const VTable table = {
        [](const void *p) { return (int)((const Impl *)p)->thread_rank(); },
        [](const void *p) { return (int)((const Impl *)p)->size(); },
        [](void *p) { ((Impl *)p)->sync(); }};
    new (storage) Impl(impl);
    vtable = &table;
  }
  int thread_rank() const { return vtable->thread_rank(storage); }
  int size() const { return vtable->size(storage); }
  int num_threads() const { return vtable->size(storage); }
  void sync() { vtable->sync(storage); }
};

template <int n> uint32_t ncclCoopGetLaneMask(ncclCoopTile<n> coop) { return coop.laneMask(); }
inline uint32_t ncclCoopGetLaneMask(ncclCoopLanes coop) { return coop.lmask; }
inline uint32_t ncclCoopGetLaneMask(ncclCoopWarpSpan) { return 0xffffffffu; }
inline uint32_t ncclCoopGetLaneMask(ncclCoopCta) { return 0xffffffffu; }
template <class Coop> constexpr bool ncclCoopIsThread(Coop) { return false; }
template <int n> constexpr bool ncclCoopIsThread(ncclCoopTile<n>) { return n == 1; }
template <int n> constexpr bool ncclCoopWithinWarp(ncclCoopTile<n>) { return true; }
constexpr bool ncclCoopWithinWarp(ncclCoopLanes) { return true; }
constexpr bool ncclCoopWithinWarp(ncclCoopWarpSpan) { return false; }
constexpr bool ncclCoopWithinWarp(ncclCoopCta) { return false; }
EMU_NCCL_INLINE ncclCoopLanes ncclCoopCoalesced() { return ncclCoopLanes{__activemask()}; }
template <class Coop> ncclCoopTile<32> ncclCoopCoalesced(Coop) { return {}; }
inline ncclCoopLanes ncclCoopCoalesced(ncclCoopLanes coop) { return coop; }
template <int n> ncclCoopTile<n> ncclCoopCoalesced(ncclCoopTile<n> coop) { return coop; }

/* The value of thread ROOT in all threads of the group. */
namespace emu_nccl {
template <class Coop, class T>
EMU_NCCL_INLINE T broadcast(Coop coop, int stash_id, const T &value, int root, bool entry) {
  if (entry)
    coop.sync();
  void *stash = block_stash(stash_id, sizeof(T));
  if (coop.thread_rank() == root)
    stash_write(stash, &value, sizeof(T));
  coop.sync();
  T out;
  stash_read(&out, stash, sizeof(T));
  return out;
}
} // namespace emu_nccl
template <int n, class T>
EMU_NCCL_INLINE T ncclCoopBcast(ncclCoopTile<n> coop, T value, int root, bool entrySync = true) {
  return n == 1 ? value
                : emu_nccl::broadcast(coop, 32 + emu_nccl::warp() * 32 + emu_nccl::lane() / n,
                                      value, root, entrySync || true);
}
template <class T>
EMU_NCCL_INLINE T ncclCoopBcast(ncclCoopLanes coop, T value, int root, bool = true) {
  return emu_nccl::broadcast(coop, 32 + emu_nccl::warp() * 32 + __builtin_ctz(coop.lmask), value,
                             root, true);
}
template <class T>
EMU_NCCL_INLINE T ncclCoopBcast(ncclCoopWarpSpan coop, T value, int root, bool entrySync = true) {
  return emu_nccl::broadcast(coop, 1 + coop.id, value, root, entrySync);
}
template <class T>
EMU_NCCL_INLINE T ncclCoopBcast(ncclCoopCta coop, T value, int root, bool entrySync = true) {
  return emu_nccl::broadcast(coop, 0, value, root, entrySync);
}

#endif
