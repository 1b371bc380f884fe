// SPDX-License-Identifier: Apache-2.0
/* One-sided transfers, signals and counters. */
#ifndef CUCOCC_EMULATOR_NCCL_DEVICE_GIN_H
#define CUCOCC_EMULATOR_NCCL_DEVICE_GIN_H

#include "coop.h"
#include "ptr.h"

#include <type_traits>

struct ncclGinDescriptorSmem {
  alignas(16) char bytes[64];
};

/* What a transfer does at its target and, when its source is free, at home. */
struct ncclGin_None {};
struct ncclGin_SignalInc {
  ncclGinSignal_t signal;
};
struct ncclGin_SignalAdd {
  ncclGinSignal_t signal;
  uint64_t value;
};
struct ncclGin_CounterInc {
  ncclGinCounter_t counter;
};
struct ncclGin_DescriptorSmem {
  ncclGinDescriptorSmem *descriptor;
};
#if CUCOCC_EMU_NCCL >= 23005
struct ncclGin_StrongSignalInc {
  ncclGinSignal_t signal;
};
struct ncclGin_WeakSignalInc {
  ncclGinSignal_t signal;
};
struct ncclGin_StrongSignalAdd {
  ncclGinSignal_t signal;
  uint64_t value;
};
struct ncclGin_WeakSignalAdd {
  ncclGinSignal_t signal;
  uint64_t value;
};
struct ncclGin_VASignalInc {
  ncclWindow_t signalWindow;
  size_t signalOffset;
};
struct ncclGin_StrongVASignalInc {
  ncclWindow_t signalWindow;
  size_t signalOffset;
};
struct ncclGin_WeakVASignalInc {
  ncclWindow_t signalWindow;
  size_t signalOffset;
};
struct ncclGin_VASignalAdd {
  ncclWindow_t signalWindow;
  size_t signalOffset;
  uint64_t value;
};
struct ncclGin_StrongVASignalAdd {
  ncclWindow_t signalWindow;
  size_t signalOffset;
  uint64_t value;
};
struct ncclGin_WeakVASignalAdd {
  ncclWindow_t signalWindow;
  size_t signalOffset;
  uint64_t value;
};
struct ncclGin_WeakCounterInc {
  ncclGinCounter_t counter;
};
struct ncclGin_SegmentDevice {};
struct ncclGin_SegmentMixed {};
struct ncclGin_SegmentHostNuma {};
#endif
#if CUCOCC_EMU_NCCL >= 22907
enum ncclGinResourceSharingMode { NCCL_GIN_RESOURCE_SHARING_CTA, NCCL_GIN_RESOURCE_SHARING_GPU };
#endif
#if CUCOCC_EMU_NCCL >= 23003
struct ncclGinRequest_t {
  int peer; // world rank
};
enum : uint32_t { ncclGinOptFlagsDefault = 0, ncclGinOptFlagsAggregateRequests = 1 };
#endif

namespace emu_nccl {
inline Signal action(ncclGin_None) { return {Signal::NONE, true, 0, 0, nullptr, 0}; }
inline Signal action(ncclGin_SignalInc a) { return {Signal::INC, true, a.signal, 1, nullptr, 0}; }
inline Signal action(ncclGin_SignalAdd a) {
  return {Signal::ADD, true, a.signal, a.value, nullptr, 0};
}
inline Counter local_action(ncclGin_None) { return {false, 0}; }
inline Counter local_action(ncclGin_CounterInc a) { return {true, a.counter}; }
#if CUCOCC_EMU_NCCL >= 23005
inline Signal action(ncclGin_StrongSignalInc a) {
  return {Signal::INC, true, a.signal, 1, nullptr, 0};
}
inline Signal action(ncclGin_WeakSignalInc a) {
  return {Signal::INC, false, a.signal, 1, nullptr, 0};
}
inline Signal action(ncclGin_StrongSignalAdd a) {
  return {Signal::ADD, true, a.signal, a.value, nullptr, 0};
}
inline Signal action(ncclGin_WeakSignalAdd a) {
  return {Signal::ADD, false, a.signal, a.value, nullptr, 0};
}
inline Signal action(ncclGin_VASignalInc a) {
  return {Signal::INC, true, 0, 1, a.signalWindow, a.signalOffset};
}
inline Signal action(ncclGin_StrongVASignalInc a) {
  return {Signal::INC, true, 0, 1, a.signalWindow, a.signalOffset};
}
inline Signal action(ncclGin_WeakVASignalInc a) {
  return {Signal::INC, false, 0, 1, a.signalWindow, a.signalOffset};
}
inline Signal action(ncclGin_VASignalAdd a) {
  return {Signal::ADD, true, 0, a.value, a.signalWindow, a.signalOffset};
}
inline Signal action(ncclGin_StrongVASignalAdd a) {
  return {Signal::ADD, true, 0, a.value, a.signalWindow, a.signalOffset};
}
inline Signal action(ncclGin_WeakVASignalAdd a) {
  return {Signal::ADD, false, 0, a.value, a.signalWindow, a.signalOffset};
}
inline Counter local_action(ncclGin_WeakCounterInc a) { return {true, a.counter}; }
#endif
inline Signal by_id(ncclGinSignal_t id) { return {Signal::INC, true, id, 0, nullptr, 0}; }
inline Signal by_address(ncclWindow_t w, size_t offset) {
  return {Signal::INC, true, 0, 0, w, offset};
}
} // namespace emu_nccl

/* Trailing arguments of transfers (descriptors, scopes, hints) are accepted and have no effect. */
struct ncclGin {
  const ncclDevComm &comm;
  uint32_t nContexts, contextId;
#if CUCOCC_EMU_NCCL >= 22907
  ncclGinResourceSharingMode resourceSharingMode;
#endif

#if CUCOCC_EMU_NCCL >= 22907
  EMU_NCCL_INLINE ncclGin(const ncclDevComm &dc, int contextIndex,
                          ncclGinResourceSharingMode mode = NCCL_GIN_RESOURCE_SHARING_GPU)
      : comm(dc), nContexts(dc.ginContextCount),
        contextId(dc.ginContextCount ? (uint32_t)contextIndex % dc.ginContextCount : 0),
        resourceSharingMode(mode) {
    emu_nccl::gin_check(dc.emulated);
  }
#else
  EMU_NCCL_INLINE ncclGin(const ncclDevComm &dc, int contextIndex)
      : comm(dc), nContexts(dc.ginContextCount),
        contextId(dc.ginContextCount ? (uint32_t)contextIndex % dc.ginContextCount : 0) {
    emu_nccl::gin_check(dc.emulated);
  }
#endif

  template <class Remote = ncclGin_None, class Local = ncclGin_None, class Coop = ncclCoopThread,
            class... Rest>
  EMU_NCCL_INLINE void put(ncclTeam team, int peer, ncclWindow_t to, size_t toOffset,
                           ncclWindow_t from, size_t fromOffset, size_t bytes, Remote remote = {},
                           Local local = {}, Coop coop = {}, Rest...) const {
    coop.sync();
    if (coop.thread_rank() == 0)
      emu_nccl::gin_put(comm.emulated, contextId, ncclTeamRankToWorld(comm, team, peer), to,
                        toOffset, from, fromOffset, bytes, emu_nccl::action(remote),
                        emu_nccl::local_action(local));
    coop.sync();
  }
  template <class T, class Remote = ncclGin_None, class Local = ncclGin_None,
            class Coop = ncclCoopThread, class... Rest>
  EMU_NCCL_INLINE void put(ncclTeam team, int peer, ncclSymPtr<T> to, ncclSymPtr<T> from,
                           size_t count, Remote remote = {}, Local local = {}, Coop coop = {},
                           Rest...) const {
    put(team, peer, to.window, to.offset, from.window, from.offset, count * sizeof(T), remote,
        local, coop);
  }
  template <class T, class Remote = ncclGin_None, class Coop = ncclCoopThread, class... Rest>
  EMU_NCCL_INLINE void putValue(ncclTeam team, int peer, ncclWindow_t to, size_t toOffset, T value,
                                Remote remote = {}, Coop coop = {}, Rest...) const {
    static_assert(sizeof(T) <= 8, "values of up to 8 bytes");
    coop.sync();
    if (coop.thread_rank() == 0)
      emu_nccl::gin_put_value(comm.emulated, contextId, ncclTeamRankToWorld(comm, team, peer), to,
                              toOffset, &value, sizeof(T), emu_nccl::action(remote));
    coop.sync();
  }
  template <class T, class Remote = ncclGin_None, class Coop = ncclCoopThread, class... Rest>
  EMU_NCCL_INLINE void putValue(ncclTeam team, int peer, ncclSymPtr<T> to, T value,
                                Remote remote = {}, Coop coop = {}, Rest...) const {
    putValue(team, peer, to.window, to.offset, value, remote, coop);
  }
  template <class Remote, class Coop = ncclCoopThread, class... Rest>
  EMU_NCCL_INLINE void signal(ncclTeam team, int peer, Remote remote, Coop coop = {},
                              Rest...) const {
    coop.sync();
    if (coop.thread_rank() == 0)
      emu_nccl::gin_signal(comm.emulated, contextId, ncclTeamRankToWorld(comm, team, peer),
                           emu_nccl::action(remote));
    coop.sync();
  }
  template <class Coop, class... Rest>
  EMU_NCCL_INLINE void flush(Coop coop, cuda::memory_order order = cuda::memory_order_acquire,
                             Rest...) const {
    coop.sync();
    if (coop.thread_rank() == 0)
      emu_nccl::gin_flush(comm.emulated, contextId, -1, emu_nccl::order_of(order));
    coop.sync();
  }
#if CUCOCC_EMU_NCCL >= 23003
  template <class Coop = ncclCoopThread, class... Rest>
  EMU_NCCL_INLINE void get(ncclTeam team, int peer, ncclWindow_t from, size_t fromOffset,
                           ncclWindow_t to, size_t toOffset, size_t bytes, Coop coop = {},
                           Rest...) const {
    coop.sync();
    if (coop.thread_rank() == 0)
      emu_nccl::gin_get(comm.emulated, contextId, ncclTeamRankToWorld(comm, team, peer), from,
                        fromOffset, to, toOffset, bytes);
    coop.sync();
  }
  /* What a request covers is everything issued to its peer before wait(): more than was asked for,
   * which orders at most what the hardware may order too. */
  template <class Coop = ncclCoopThread, class... Rest>
  EMU_NCCL_INLINE void flushAsync(ncclTeam team, uint32_t peer, ncclGinRequest_t *request,
                                  Coop = {}, Rest...) const {
    request->peer = ncclTeamRankToWorld(comm, team, (int)peer);
  }
  template <class Coop = ncclCoopThread, class Descriptor = ncclGin_None>
  EMU_NCCL_INLINE void wait(ncclGinRequest_t &request, Coop coop = {}, Descriptor = {},
                            cuda::memory_order order = cuda::memory_order_acquire) const {
    coop.sync();
    if (coop.thread_rank() == 0)
      emu_nccl::gin_flush(comm.emulated, contextId, request.peer, emu_nccl::order_of(order));
    coop.sync();
  }
#endif

  EMU_NCCL_INLINE uint64_t
  readCounter(ncclGinCounter_t id, int bits = 56,
              cuda::memory_order order = cuda::memory_order_acquire) const {
    return emu_nccl::gin_read_counter(comm.emulated, contextId, id, bits,
                                      emu_nccl::order_of(order));
  }
  template <class Coop>
  EMU_NCCL_INLINE void waitCounter(Coop coop, ncclGinCounter_t id, uint64_t least, int bits = 56,
                                   cuda::memory_order order = cuda::memory_order_acquire) const {
    coop.sync();
    if (coop.thread_rank() == 0)
      emu_nccl::gin_wait_counter(comm.emulated, contextId, id, least, bits,
                                 emu_nccl::order_of(order));
    coop.sync();
  }
  EMU_NCCL_INLINE void resetCounter(ncclGinCounter_t id) const {
    emu_nccl::gin_reset_counter(comm.emulated, contextId, id);
  }

  EMU_NCCL_INLINE uint64_t *getSignalShadowPtr(ncclGinSignal_t id) const {
    return emu_nccl::gin_shadow(comm.emulated, contextId, id);
  }
  EMU_NCCL_INLINE void increaseSignalShadow(ncclGinSignal_t id, uint64_t delta) const {
    *getSignalShadowPtr(id) += delta;
  }
  EMU_NCCL_INLINE uint64_t readSignal(ncclGinSignal_t id, int bits = 64,
                                      cuda::memory_order order = cuda::memory_order_acquire) const {
    return emu_nccl::gin_read_signal(comm.emulated, contextId, emu_nccl::by_id(id), bits,
                                     emu_nccl::order_of(order));
  }
  template <class Coop>
  EMU_NCCL_INLINE void waitSignal(Coop coop, ncclGinSignal_t id, uint64_t least, int bits = 64,
                                  cuda::memory_order order = cuda::memory_order_acquire) const {
    coop.sync();
    if (coop.thread_rank() == 0)
      emu_nccl::gin_wait_signal(comm.emulated, contextId, emu_nccl::by_id(id), least, bits,
                                emu_nccl::order_of(order));
    coop.sync();
  }
  template <class Coop>
  EMU_NCCL_INLINE void
  waitSignalMeetShadow(Coop coop, ncclGinSignal_t id, int bits = 64,
                       cuda::memory_order order = cuda::memory_order_acquire) const {
    coop.sync();
    if (coop.thread_rank() == 0)
      emu_nccl::gin_wait_signal(comm.emulated, contextId, emu_nccl::by_id(id),
                                *getSignalShadowPtr(id), bits, emu_nccl::order_of(order));
    coop.sync();
  }
  /* Waits for LEAST more than the shadow says, and takes the shadow to what was found. */
  template <class Coop, class Uint>
  EMU_NCCL_INLINE void
  waitSignalFollowShadow(Coop coop, ncclGinSignal_t id, Uint least, Uint *before, Uint *delta,
                         int bits = 64,
                         cuda::memory_order order = cuda::memory_order_acquire) const {
    coop.sync();
    uint64_t first = 0, found = 0;
    if (coop.thread_rank() == 0) {
      uint64_t *shadow = getSignalShadowPtr(id);
      first = *shadow;
      emu_nccl::gin_wait_signal(comm.emulated, contextId, emu_nccl::by_id(id), first + least, bits,
                                emu_nccl::order_of(order));
      found = emu_nccl::gin_read_signal(comm.emulated, contextId, emu_nccl::by_id(id), bits,
                                        emu_nccl::order_of(order));
      *shadow = found;
    }
    first = ncclCoopBcast(coop, first, 0);
    found = ncclCoopBcast(coop, found, 0);
    *before = (Uint)first;
    *delta = (Uint)(found - first);
  }
  EMU_NCCL_INLINE void resetSignal(ncclGinSignal_t id) const {
    emu_nccl::gin_reset_signal(comm.emulated, contextId, emu_nccl::by_id(id));
  }
#if CUCOCC_EMU_NCCL >= 23005
  EMU_NCCL_INLINE uint64_t readSignal(ncclWindow_t w, size_t offset, int bits = 64,
                                      cuda::memory_order order = cuda::memory_order_acquire) const {
    return emu_nccl::gin_read_signal(comm.emulated, contextId, emu_nccl::by_address(w, offset),
                                     bits, emu_nccl::order_of(order));
  }
  template <class Coop>
  EMU_NCCL_INLINE void waitSignal(Coop coop, ncclWindow_t w, size_t offset, uint64_t least,
                                  int bits = 64,
                                  cuda::memory_order order = cuda::memory_order_acquire) const {
    coop.sync();
    if (coop.thread_rank() == 0)
      emu_nccl::gin_wait_signal(comm.emulated, contextId, emu_nccl::by_address(w, offset), least,
                                bits, emu_nccl::order_of(order));
    coop.sync();
  }
  EMU_NCCL_INLINE void resetSignal(ncclWindow_t w, size_t offset) const {
    emu_nccl::gin_reset_signal(comm.emulated, contextId, emu_nccl::by_address(w, offset));
  }
#endif
};

#endif
