// SPDX-License-Identifier: Apache-2.0
/* Cooperative groups: the grid, blocks, tiles of up to a warp, coalesced threads. Clusters are not
 * modelled. */
#ifndef CUCOCC_EMULATOR_COOPERATIVE_GROUPS_H
#define CUCOCC_EMULATOR_COOPERATIVE_GROUPS_H

#include "emu_cuda.h"
#include "emu_warp.h"

namespace emu {
namespace cuda {
void sync_grid();
bool grid_is_cooperative();
} // namespace cuda
} // namespace emu

namespace cooperative_groups {

namespace detail {
inline unsigned volume(dim3 d) { return d.x * d.y * d.z; }
inline unsigned linear(uint3 i, dim3 d) { return (i.z * d.y + i.y) * d.x + i.x; }
inline unsigned thread_of_block() { return linear(threadIdx, blockDim); }
inline unsigned rank_in(unsigned mask) {
  return (unsigned)__builtin_popcount(mask & ((1u << ::emu::cuda::lane_id()) - 1));
}
inline unsigned nth_lane(unsigned mask, unsigned n) {
  for (unsigned lane = 0; lane < 32; lane++)
    if ((mask >> lane & 1) && n-- == 0)
      return lane;
  return 32;
}
/* Bits of MASK's lanes, packed together: votes count from the group's rank 0. */
inline unsigned pack(unsigned lanes, unsigned mask) {
  unsigned out = 0, bit = 0;
  for (unsigned lane = 0; lane < 32; lane++)
    if (mask >> lane & 1)
      out |= (lanes >> lane & 1) << bit++;
  return out;
}
} // namespace detail

/* Threads of one warp, given by their lanes: what tiles and coalesced threads have in common. */
class warp_threads {
protected:
  unsigned mask_;
  explicit warp_threads(unsigned mask) : mask_(mask) {}

public:
  unsigned emu_mask() const { return mask_; }
  unsigned size() const { return (unsigned)__builtin_popcount(mask_); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const { return detail::rank_in(mask_); }
  EMU_INLINE void sync() const { ::emu::cuda::sync_lanes(mask_); }
  template <class T> EMU_INLINE T shfl(T value, unsigned rank) const {
    return ::emu::cuda::from_bits<T>(::emu::cuda::shuffle(mask_, ::emu::cuda::to_bits<T>(value),
                                                          detail::nth_lane(mask_, rank % size())));
  }
  template <class T> EMU_INLINE T shfl_up(T value, unsigned delta) const {
    const unsigned r = thread_rank();
    return shfl_from(value, r >= delta ? r - delta : r);
  }
  template <class T> EMU_INLINE T shfl_down(T value, unsigned delta) const {
    const unsigned r = thread_rank();
    return shfl_from(value, delta < size() - r ? r + delta : r);
  }
  template <class T> EMU_INLINE T shfl_xor(T value, unsigned lanes) const {
    const unsigned r = thread_rank() ^ lanes;
    return shfl_from(value, r < size() ? r : thread_rank());
  }
  EMU_INLINE int any(int predicate) const { return ::emu::cuda::ballot(mask_, predicate) != 0; }
  EMU_INLINE int all(int predicate) const { return ::emu::cuda::ballot(mask_, !predicate) == 0; }
  EMU_INLINE unsigned ballot(int predicate) const {
    return detail::pack(::emu::cuda::ballot(mask_, predicate), mask_);
  }
  template <class T> EMU_INLINE unsigned match_any(T value) const {
    return detail::pack(::emu::cuda::match(mask_, ::emu::cuda::to_bits<T>(value)), mask_);
  }
  template <class T> EMU_INLINE unsigned match_all(T value, int &all) const {
    const unsigned lanes = __match_all_sync(mask_, value, &all);
    return detail::pack(lanes, mask_);
  }

private:
  template <class T> EMU_INLINE T shfl_from(T value, unsigned rank) const {
    return ::emu::cuda::from_bits<T>(
        ::emu::cuda::shuffle(mask_, ::emu::cuda::to_bits<T>(value), detail::nth_lane(mask_, rank)));
  }
};

class coalesced_group : public warp_threads {
public:
  explicit coalesced_group(unsigned mask) : warp_threads(mask) {}
  unsigned meta_group_size() const { return 1; }
  unsigned meta_group_rank() const { return 0; }
};
EMU_INLINE coalesced_group coalesced_threads() {
  return coalesced_group(::emu::cuda::active_mask());
}

class thread_block {
public:
  EMU_INLINE static void sync() { ::emu::cuda::sync_threads(); }
  static unsigned size() { return detail::volume(blockDim); }
  static unsigned num_threads() { return size(); }
  static unsigned thread_rank() { return detail::thread_of_block(); }
  static dim3 group_index() { return blockIdx; }
  static dim3 thread_index() { return threadIdx; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return thread_block(); }

class grid_group {
public:
  bool is_valid() const { return ::emu::cuda::grid_is_cooperative(); }
  EMU_INLINE void sync() const { ::emu::cuda::sync_grid(); }
  static unsigned long long num_blocks() { return detail::volume(gridDim); }
  static unsigned long long block_rank() { return detail::linear(blockIdx, gridDim); }
  static unsigned long long num_threads() { return num_blocks() * detail::volume(blockDim); }
  static unsigned long long size() { return num_threads(); }
  static unsigned long long thread_rank() {
    return block_rank() * detail::volume(blockDim) + detail::thread_of_block();
  }
  static dim3 group_dim() { return gridDim; }
  static dim3 dim_blocks() { return gridDim; }
  static dim3 block_index() { return blockIdx; }
};
inline grid_group this_grid() { return grid_group(); }

/* A tile of N threads, N a power of two up to a warp. */
template <unsigned N, class Parent = void> class thread_block_tile : public warp_threads {
  static_assert(N > 0 && N <= 32 && (N & (N - 1)) == 0,
                "tiles larger than a warp are not modelled by the emulator");
  static unsigned tile_mask() {
    return (0xffffffffu >> (32 - N)) << (::emu::cuda::lane_id() & ~(N - 1));
  }

public:
  thread_block_tile() : warp_threads(tile_mask()) {}
  template <class Other>
  thread_block_tile(const thread_block_tile<N, Other> &t) : warp_threads(t.emu_mask()) {}
  static constexpr unsigned size() { return N; }
  static constexpr unsigned num_threads() { return N; }
  static unsigned thread_rank() { return ::emu::cuda::lane_id() & (N - 1); }
  static unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
  static unsigned meta_group_rank() { return thread_block::thread_rank() / N; }
  template <class T> EMU_INLINE T shfl(T v, int rank) const {
    return __shfl_sync(mask_, v, rank, N);
  }
  template <class T> EMU_INLINE T shfl_up(T v, unsigned d) const {
    return __shfl_up_sync(mask_, v, d, N);
  }
  template <class T> EMU_INLINE T shfl_down(T v, unsigned d) const {
    return __shfl_down_sync(mask_, v, d, N);
  }
  template <class T> EMU_INLINE T shfl_xor(T v, unsigned l) const {
    return __shfl_xor_sync(mask_, v, (int)l, N);
  }
};
template <unsigned N, class P> inline thread_block_tile<N, P> tiled_partition(const P &) {
  return thread_block_tile<N, P>();
}
class thread_group : public warp_threads {
public:
  explicit thread_group(unsigned mask) : warp_threads(mask) {}
};
inline thread_group tiled_partition(const thread_block &, unsigned n) {
  return thread_group((n >= 32 ? 0xffffffffu : (1u << n) - 1)
                      << (::emu::cuda::lane_id() & ~(n - 1)));
}
/* The caller's lanes that gave the same LABEL, or PREDICATE. */
template <class G> EMU_INLINE coalesced_group labeled_partition(const G &g, int label) {
  return coalesced_group(::emu::cuda::match(g.emu_mask(), (uint64_t)(unsigned)label));
}
template <class G> EMU_INLINE coalesced_group binary_partition(const G &g, bool predicate) {
  return coalesced_group(::emu::cuda::match(g.emu_mask(), predicate));
}

template <class G> EMU_INLINE void sync(const G &g) { g.sync(); }
template <class G> EMU_INLINE unsigned long long thread_rank(const G &g) { return g.thread_rank(); }
template <class G> EMU_INLINE unsigned long long group_size(const G &g) { return g.size(); }

/* One thread is chosen: the first. */
template <class G, class F> EMU_INLINE void invoke_one(const G &g, F &&f) {
  if (g.thread_rank() == 0)
    f();
}

} // namespace cooperative_groups

#endif
