// SPDX-License-Identifier: Apache-2.0
/* Barriers of blocks and warps, shuffles, votes, and what else threads ask their hardware. */
#ifndef CUCOCC_EMULATOR_EMU_WARP_H
#define CUCOCC_EMULATOR_EMU_WARP_H

#include "emu_atomic.h"
#include "emu_cuda.h"

static constexpr int warpSize = 32;

EMU_INLINE void __syncthreads() { ::emu::cuda::sync_threads(); }
EMU_INLINE int __syncthreads_count(int predicate) {
  return ::emu::cuda::sync_threads_reduce(predicate, 0);
}
EMU_INLINE int __syncthreads_and(int predicate) {
  return ::emu::cuda::sync_threads_reduce(predicate, 1);
}
EMU_INLINE int __syncthreads_or(int predicate) {
  return ::emu::cuda::sync_threads_reduce(predicate, 2);
}
EMU_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { ::emu::cuda::sync_lanes(mask); }
EMU_INLINE unsigned __activemask() { return ::emu::cuda::active_mask(); }

EMU_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
  return ::emu::cuda::ballot(mask, predicate);
}
EMU_INLINE int __any_sync(unsigned mask, int predicate) {
  return ::emu::cuda::ballot(mask, predicate) != 0;
}
EMU_INLINE int __all_sync(unsigned mask, int predicate) {
  return ::emu::cuda::ballot(mask, !predicate) == 0;
}
EMU_INLINE int __uni_sync(unsigned mask, int predicate) {
  const unsigned yes = ::emu::cuda::ballot(mask, predicate);
  return yes == 0 || ::emu::cuda::ballot(mask, !predicate) == 0;
}

namespace emu {
namespace cuda {
enum class Shuffle { INDEX, UP, DOWN, XOR };
/* As the hardware finds the source lane: it stays within the lanes of a segment of WIDTH, else the
 * caller keeps its own value. */
inline unsigned shuffle_source(Shuffle kind, unsigned lane, unsigned x, unsigned width) {
  const unsigned segment = lane & ~(width - 1), end = segment + width;
  unsigned source = lane;
  switch (kind) {
  case Shuffle::INDEX:
    return segment + (x & (width - 1));
  case Shuffle::UP:
    source = lane - x;
    return x <= lane - segment ? source : lane;
  case Shuffle::DOWN:
    return x < end - lane ? lane + x : lane;
  case Shuffle::XOR:
    source = lane ^ x;
    return source < end ? source : lane; // earlier segments may be read
  }
  return lane;
}
template <class T>
EMU_INLINE T shuffle_value(Shuffle kind, unsigned mask, T value, unsigned x, int width) {
  static_assert(std::is_trivially_copyable<T>::value || sizeof(T) <= 8,
                "shuffles move up to 8 bytes");
  return from_bits<T>(
      shuffle(mask, to_bits<T>(value), shuffle_source(kind, lane_id(), x, (unsigned)width)));
}
} // namespace cuda
} // namespace emu

template <class T> EMU_INLINE T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  return ::emu::cuda::shuffle_value(::emu::cuda::Shuffle::INDEX, mask, value, (unsigned)lane,
                                    width);
}
template <class T>
EMU_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return ::emu::cuda::shuffle_value(::emu::cuda::Shuffle::UP, mask, value, delta, width);
}
template <class T>
EMU_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return ::emu::cuda::shuffle_value(::emu::cuda::Shuffle::DOWN, mask, value, delta, width);
}
template <class T> EMU_INLINE T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  return ::emu::cuda::shuffle_value(::emu::cuda::Shuffle::XOR, mask, value, (unsigned)lanes, width);
}

template <class T> EMU_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  return ::emu::cuda::match(mask, ::emu::cuda::to_bits<T>(value));
}
template <class T> EMU_INLINE unsigned __match_all_sync(unsigned mask, T value, int *all) {
  const unsigned same = ::emu::cuda::match(mask, ::emu::cuda::to_bits<T>(value));
  const unsigned differ = ::emu::cuda::ballot(mask, same != mask);
  *all = differ == 0;
  return differ == 0 ? mask : 0;
}

#define EMU_REDUCE(name, operation)                                                                \
  EMU_INLINE unsigned name(unsigned mask, unsigned value) {                                        \
    return ::emu::cuda::reduce(mask, value, ::emu::cuda::Reduction::operation, false);             \
  }
#define EMU_REDUCE_SIGNED(name, operation)                                                         \
  EMU_REDUCE(name, operation)                                                                      \
  EMU_INLINE int name(unsigned mask, int value) {                                                  \
    return (int)::emu::cuda::reduce(mask, (unsigned)value, ::emu::cuda::Reduction::operation,      \
                                    true);                                                         \
  }
EMU_REDUCE_SIGNED(__reduce_add_sync, ADD)
EMU_REDUCE_SIGNED(__reduce_min_sync, MIN)
EMU_REDUCE_SIGNED(__reduce_max_sync, MAX)
EMU_REDUCE(__reduce_and_sync, AND)
EMU_REDUCE(__reduce_or_sync, OR)
EMU_REDUCE(__reduce_xor_sync, XOR)
#undef EMU_REDUCE
#undef EMU_REDUCE_SIGNED

EMU_INLINE long long clock64() { return ::emu::cuda::clock_ticks(); }
EMU_INLINE unsigned long long __globaltimer() { return ::emu::cuda::timer_ns(); }
EMU_INLINE void __nanosleep(unsigned ns) { ::emu::cuda::sleep_ns(ns); }
EMU_INLINE void __trap() { ::emu::cuda::trap("__trap"); }
EMU_INLINE void __brkpt() {}

EMU_INLINE unsigned __isShared(const void *p) { return ::emu::cuda::is_shared(p); }
EMU_INLINE unsigned __isGlobal(const void *p) { return ::emu::cuda::is_global(p); }

/* Loads and stores with hints for the caches: plain ones here. */
#define EMU_LOAD(name)                                                                             \
  template <class T> EMU_INLINE T name(const T *address) { return *address; }
#define EMU_STORE(name)                                                                            \
  template <class T> EMU_INLINE void name(T *address, T value) { *address = value; }
EMU_LOAD(__ldg)
EMU_LOAD(__ldcg)
EMU_LOAD(__ldca)
EMU_LOAD(__ldcs)
EMU_LOAD(__ldlu)
EMU_STORE(__stwb)
EMU_STORE(__stcg)
EMU_STORE(__stcs)
EMU_STORE(__stwt)
#undef EMU_LOAD
#undef EMU_STORE
/* This one reads anew each time: it may be the body of a spinning loop. */
template <class T> EMU_INLINE T __ldcv(const T *address) {
  if constexpr (std::is_arithmetic<T>::value) {
    return *const_cast<const volatile T *>(address);
  } else {
    ::emu::cuda::spin_pause();
    return *address;
  }
}

#endif
