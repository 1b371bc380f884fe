// SPDX-License-Identifier: Apache-2.0
/* CUDA's words for declarations. The translator has rewritten what matters (shared and device
 * variables, launches); the rest means nothing here. */
#ifndef CUCOCC_EMULATOR_HOST_DEFINES_H
#define CUCOCC_EMULATOR_HOST_DEFINES_H

#ifdef CUCOCC_TRANSLATING /* the translator finds them by these */
#define __global__ __attribute__((annotate("emu_global")))
#define __device__ __attribute__((annotate("emu_device")))
#define __constant__ __attribute__((annotate("emu_device")))
#define __managed__ __attribute__((annotate("emu_managed")))
#define __shared__ __attribute__((annotate("emu_shared")))
#else
#define __global__
#define __device__
#define __constant__
#define __managed__
#endif
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __block_size__(...)
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ /* the C++ library spells attributes like this */
#define __align__(n) __attribute__((aligned(n)))
#define __device_builtin__
#define __cudart_builtin__
#define __nv_pure__
#define __builtin_align__(n) __align__(n)
#define CUDARTAPI
#define CUDART_CB
#define CUDAAPI
#define CUDA_CB
#define __builtin_assume(x) ((void)0)
#define __builtin_assume_aligned_emu(p, n) (p)

#endif
