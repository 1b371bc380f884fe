// SPDX-License-Identifier: Apache-2.0
/* The CUDA runtime for programs: the API, its C++ forms, and what device code uses. */
#ifndef CUCOCC_EMULATOR_CUDA_RUNTIME_H
#define CUCOCC_EMULATOR_CUDA_RUNTIME_H

#include "assert.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "cuda_runtime_api.h"

#include "emu_atomic.h"
#include "emu_math.h"
#include "emu_warp.h"
#include "vector_functions.h"

/* ---- typed forms of the API ---------------------------------------------------------------------
 */

template <class T> EMU_INLINE cudaError_t cudaMalloc(T **pointer, size_t size) {
  return ::cudaMalloc((void **)pointer, size);
}
template <class T>
EMU_INLINE cudaError_t cudaMallocHost(T **pointer, size_t size, unsigned int flags = 0) {
  return ::cudaHostAlloc((void **)pointer, size, flags);
}
EMU_INLINE cudaError_t cudaMallocHost(void **pointer, size_t size, unsigned int flags) {
  return ::cudaHostAlloc(pointer, size, flags);
}
template <class T>
EMU_INLINE cudaError_t cudaHostAlloc(T **pointer, size_t size, unsigned int flags) {
  return ::cudaHostAlloc((void **)pointer, size, flags);
}
template <class T>
EMU_INLINE cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned int flags) {
  return ::cudaHostGetDevicePointer((void **)device, host, flags);
}
template <class T>
EMU_INLINE cudaError_t cudaMallocManaged(T **pointer, size_t size,
                                         unsigned int flags = cudaMemAttachGlobal) {
  return ::cudaMallocManaged((void **)pointer, size, flags);
}
template <class T>
EMU_INLINE cudaError_t cudaMallocPitch(T **pointer, size_t *pitch, size_t width, size_t height) {
  return ::cudaMallocPitch((void **)pointer, pitch, width, height);
}
template <class T>
EMU_INLINE cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaStream_t stream) {
  return ::cudaMallocAsync((void **)pointer, size, stream);
}
template <class T>
EMU_INLINE cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaMemPool_t pool,
                                       cudaStream_t stream) {
  return ::cudaMallocFromPoolAsync((void **)pointer, size, pool, stream);
}
template <class T>
EMU_INLINE cudaError_t cudaMallocFromPoolAsync(T **pointer, size_t size, cudaMemPool_t pool,
                                               cudaStream_t stream) {
  return ::cudaMallocFromPoolAsync((void **)pointer, size, pool, stream);
}

/* Symbols: the translator has made SYMBOL the current device's copy. */
namespace emu {
namespace cuda {
cudaError_t symbol_range(const void *symbol, size_t size, size_t count, size_t offset);
}
} // namespace emu
template <class T>
EMU_INLINE cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t count,
                                          size_t offset = 0,
                                          cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  const cudaError_t e = ::emu::cuda::symbol_range(&symbol, sizeof(T), count, offset);
  return e != cudaSuccess ? e : ::cudaMemcpy((char *)&symbol + offset, from, count, kind);
}
template <class T>
EMU_INLINE cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *from, size_t count,
                                               size_t offset = 0,
                                               cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                                               cudaStream_t stream = nullptr) {
  const cudaError_t e = ::emu::cuda::symbol_range(&symbol, sizeof(T), count, offset);
  return e != cudaSuccess ? e
                          : ::cudaMemcpyAsync((char *)&symbol + offset, from, count, kind, stream);
}
template <class T>
EMU_INLINE cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t count,
                                            size_t offset = 0,
                                            cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  const cudaError_t e = ::emu::cuda::symbol_range(&symbol, sizeof(T), count, offset);
  return e != cudaSuccess ? e : ::cudaMemcpy(to, (const char *)&symbol + offset, count, kind);
}
template <class T>
EMU_INLINE cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &symbol, size_t count,
                                                 size_t offset = 0,
                                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
                                                 cudaStream_t stream = nullptr) {
  const cudaError_t e = ::emu::cuda::symbol_range(&symbol, sizeof(T), count, offset);
  return e != cudaSuccess
             ? e
             : ::cudaMemcpyAsync(to, (const char *)&symbol + offset, count, kind, stream);
}
template <class T> EMU_INLINE cudaError_t cudaGetSymbolAddress(void **address, const T &symbol) {
  const cudaError_t e = ::emu::cuda::symbol_range(&symbol, sizeof(T), 0, 0);
  *address = e != cudaSuccess ? nullptr : (void *)&symbol;
  return e;
}
template <class T> EMU_INLINE cudaError_t cudaGetSymbolSize(size_t *size, const T &) {
  *size = sizeof(T);
  return cudaSuccess;
}

/* Kernels by their name. */
template <class... P>
EMU_INLINE cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block,
                                        void **arguments, size_t shared = 0,
                                        cudaStream_t stream = nullptr) {
  return ::cudaLaunchKernel((const void *)::emu::cuda::kernel_handle(kernel), grid, block,
                            arguments, shared, stream);
}
template <class... P>
EMU_INLINE cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block,
                                                   void **arguments, size_t shared = 0,
                                                   cudaStream_t stream = nullptr) {
  return ::cudaLaunchCooperativeKernel((const void *)::emu::cuda::kernel_handle(kernel), grid,
                                       block, arguments, shared, stream);
}
namespace emu {
namespace cuda {
cudaError_t launch_extended(const cudaLaunchConfig_t *config, const void *kernel,
                            std::function<void()> body);
}
} // namespace emu
template <class... P, class... A>
EMU_INLINE cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                          A &&...arguments) {
  auto values = std::make_shared<std::tuple<std::decay_t<P>...>>(std::forward<A>(arguments)...);
  return ::emu::cuda::launch_extended(config, (const void *)kernel,
                                      [kernel, values] { std::apply(kernel, *values); });
}
template <class... P>
EMU_INLINE cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(P...)) {
  return ::cudaFuncGetAttributes(attributes, (const void *)::emu::cuda::kernel_handle(kernel));
}
template <class... P>
EMU_INLINE cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attribute,
                                            int value) {
  return ::cudaFuncSetAttribute((const void *)::emu::cuda::kernel_handle(kernel), attribute, value);
}
template <class... P>
EMU_INLINE cudaError_t cudaFuncSetCacheConfig(void (*kernel)(P...), cudaFuncCache config) {
  return ::cudaFuncSetCacheConfig((const void *)::emu::cuda::kernel_handle(kernel), config);
}
template <class... P>
EMU_INLINE cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                                     void (*kernel)(P...),
                                                                     int block_size,
                                                                     size_t shared) {
  return ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      blocks, (const void *)::emu::cuda::kernel_handle(kernel), block_size, shared);
}
template <class... P>
EMU_INLINE cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, void (*kernel)(P...), int block_size, size_t shared, unsigned int flags) {
  return ::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, (const void *)::emu::cuda::kernel_handle(kernel), block_size, shared, flags);
}
template <class... P>
EMU_INLINE cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *shared,
                                                                 void (*kernel)(P...), int blocks,
                                                                 int block_size) {
  return ::cudaOccupancyAvailableDynamicSMemPerBlock(
      shared, (const void *)::emu::cuda::kernel_handle(kernel), blocks, block_size);
}
template <class K, class F>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *block, K kernel,
                                                           F shared_of, int limit = 0) {
  int device = 0, sms = 0, best = 0;
  cudaError_t e = ::cudaGetDevice(&device);
  if (e == cudaSuccess)
    e = ::cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  if (limit <= 0 || limit > 1024)
    limit = 1024;
  *grid = *block = 0;
  for (int size = limit & ~31; e == cudaSuccess && size > 0; size -= 32) {
    int n = 0;
    e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, size, shared_of(size));
    if (n * size > best) {
      best = n * size;
      *block = size;
      *grid = n * sms;
    }
  }
  return e;
}
template <class K>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid, int *block, K kernel, size_t shared = 0,
                                               int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMem(
      grid, block, kernel, [shared](int) { return shared; }, limit);
}
template <class K>
cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, K kernel,
                                                        size_t shared = 0, int limit = 0,
                                                        unsigned int = 0) {
  return cudaOccupancyMaxPotentialBlockSize(grid, block, kernel, shared, limit);
}

#endif
