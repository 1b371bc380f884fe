// SPDX-License-Identifier: Apache-2.0
/* Kernels: what is known of them, and their launches. */
#include "cuda_builtin.h"
#include "cuda_internal.h"
#include "cuda_thread.h"

#include "include/cuda_runtime.h"

#include <algorithm>
#include <cstring>

namespace emu {
namespace cuda {

namespace {

struct Kernel {
  BodyMaker maker;
  int max_dynamic_shared = SHARED_PER_BLOCK;
  int carveout = -1;
};
/* By address: the copies of a program have theirs at different ones. */
std::unordered_map<const void *, Kernel> &kernels() {
  static std::unordered_map<const void *, Kernel> k;
  return k;
}
Kernel *find_kernel(const void *function) {
  auto it = kernels().find(function);
  return it == kernels().end() ? nullptr : &it->second;
}

uint64_t volume(const dim3 &d) { return (uint64_t)d.x * d.y * d.z; }

cudaError_t check(const Config &c) {
  if (volume(c.grid) == 0 || volume(c.block) == 0 || c.grid.x > 0x7fffffff || c.grid.y > 65535 ||
      c.grid.z > 65535 || c.block.x > 1024 || c.block.y > 1024 || c.block.z > 64 ||
      volume(c.block) > THREADS_PER_BLOCK)
    return cudaErrorInvalidConfiguration;
  const Kernel *kernel = c.function ? find_kernel(c.function) : nullptr;
  const size_t most = kernel       ? (size_t)kernel->max_dynamic_shared
                      : c.function ? (size_t)SHARED_PER_BLOCK
                                   : (size_t)SHARED_OPT_IN;
  if (c.shared > most)
    return cudaErrorInvalidValue;
  if (c.cooperative &&
      volume(c.grid) > (uint64_t)blocks_per_sm((unsigned)volume(c.block), c.shared) * SMS)
    return cudaErrorCooperativeLaunchTooLarge;
  return cudaSuccess;
}

Dim3 dim(const dim3 &d) { return Dim3{d.x, d.y, d.z}; }

/* ---- what the scheduler calls
 * ---------------------------------------------------------------------- */

void *block_begin(const std::shared_ptr<GridState> &grid, const Dim3 &index) {
  auto *b = new BlockState;
  const dim3 &d = grid->config.block;
  const unsigned n = (unsigned)volume(d);
  b->grid = grid;
  b->live = n;
  b->warps.resize((n + 31) / 32);
  for (unsigned w = 0; w < b->warps.size(); w++)
    b->warps[w].lanes = n - w * 32 >= 32 ? 0xffffffffu : (1u << (n - w * 32)) - 1;
  b->vote_turn.resize(n);
  b->threads.resize(n);
  for (unsigned t = 0; t < n; t++) {
    const uint3 i{t % d.x, t / d.x % d.y, t / d.x / d.y};
    b->threads[t] = ThreadState{i, uint3{index.x, index.y, index.z}, d, grid->config.grid, t, b};
  }
  return b;
}

void block_end(void *block) {
  auto *b = static_cast<BlockState *>(block);
  for (auto &v : b->shared)
    memory_free(v.address, 0);
  if (b->dynamic)
    memory_free(b->dynamic, 0);
  delete b;
}

void *thread_user(void *block, unsigned thread) {
  return &static_cast<BlockState *>(block)->threads[thread];
}

void on_switch(void *user) {
  current_thread = static_cast<ThreadState *>(user);
  if (current_thread)
    set_builtins(current_thread->thread_idx, current_thread->block_idx, current_thread->block_dim,
                 current_thread->grid_dim);
}

void run_thread(const std::function<void()> &body) {
  ThreadState &t = *current_thread;
  try {
    body();
  } catch (const ThreadEnd &) {
  }
  thread_exit(t);
}

cudaError_t start(const Config &config, std::function<void()> body, Site site) {
  if (current_thread)
    unsupported("a launch from a kernel (dynamic parallelism)", site);
  EMU_CHECK_STICKY();
  cudaError_t e = check(config);
  Stream *stream = e == cudaSuccess ? stream_of(config.stream) : nullptr;
  if (e == cudaSuccess && (!stream || stream_device(stream) != current_device()))
    e = cudaErrorInvalidResourceHandle;
  if (e != cudaSuccess)
    return done(e);
  auto grid = std::make_shared<GridState>(config);
  grid->device = current_device();
  grid->process = self().process;
  grid->cooperative = config.cooperative;
  grid->threads = volume(config.grid) * volume(config.block);
  set_switch_hook(on_switch);
  LaunchConfig l;
  l.grid = dim(config.grid);
  l.block = dim(config.block);
  l.shared_bytes = config.shared;
  l.cooperative = config.cooperative;
  l.name = config.name ? config.name : "kernel";
  l.max_blocks_per_sm = (unsigned)blocks_per_sm((unsigned)volume(config.block), config.shared);
  l.body = [body = std::move(body)] { run_thread(body); };
  l.block_begin = [grid](const Dim3 &index) { return block_begin(grid, index); };
  l.block_end = block_end;
  l.thread_user = thread_user;
  stream_launch(stream, std::move(l), site);
  return cudaSuccess;
}

cudaError_t launch_by_address(const void *function, dim3 grid, dim3 block, void **arguments,
                              size_t shared, cudaStream_t stream, bool cooperative, Site site) {
  const Kernel *kernel = find_kernel(function);
  if (!kernel)
    return done(cudaErrorInvalidDeviceFunction);
  Config config(grid, block, shared, stream);
  config.function = function;
  config.cooperative = cooperative;
  const cudaError_t e = check(config);
  return e != cudaSuccess ? done(e) : start(config, kernel->maker(arguments), site);
}

/* The configuration and attributes of cudaLaunchKernelEx(). */
Config extended(const cudaLaunchConfig_t *c, const void *function, Site site) {
  Config config(c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream);
  config.function = function;
  for (unsigned i = 0; i < c->numAttrs; i++) {
    const cudaLaunchAttribute &a = c->attrs[i];
    if (a.id == cudaLaunchAttributeCooperative)
      config.cooperative = a.val.cooperative != 0;
    else if (a.id == cudaLaunchAttributeClusterDimension &&
             (uint64_t)a.val.clusterDim.x * a.val.clusterDim.y * a.val.clusterDim.z > 1)
      unsupported("a launch with clusters", site);
  }
  return config;
}

} // namespace

void register_kernel(const void *kernel, BodyMaker maker) {
  Kernel &k = kernels()[kernel];
  if (!k.maker)
    k.maker = std::move(maker);
}

cudaError_t launch_body(const Config &config, std::function<void()> body) {
  return start(config, std::move(body), EMU_SITE());
}

cudaError_t launch_extended(const cudaLaunchConfig_t *config, const void *kernel,
                            std::function<void()> body) {
  const Site site = EMU_SITE();
  return start(extended(config, kernel, site), std::move(body), site);
}

} // namespace cuda
} // namespace emu

using namespace emu;
using namespace emu::cuda;

extern "C" {

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream) {
  return launch_by_address(function, grid, block, arguments, shared, stream, false, EMU_SITE());
}

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                        void **arguments, size_t shared, cudaStream_t stream) {
  return launch_by_address(function, grid, block, arguments, shared, stream, true, EMU_SITE());
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                void **arguments) {
  const Site site = EMU_SITE();
  if (!config)
    return done(cudaErrorInvalidConfiguration);
  const Config c = extended(config, function, site);
  return launch_by_address(function, c.grid, c.block, arguments, c.shared, c.stream, c.cooperative,
                           site);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function) {
  const Kernel *kernel = find_kernel(function);
  if (!attributes)
    return done(cudaErrorInvalidValue);
  if (!kernel)
    return done(cudaErrorInvalidDeviceFunction);
  *attributes = cudaFuncAttributes();
  attributes->maxThreadsPerBlock = THREADS_PER_BLOCK;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxDynamicSharedSizeBytes = kernel->max_dynamic_shared;
  attributes->preferredShmemCarveout = kernel->carveout;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute attribute, int value) {
  Kernel *kernel = find_kernel(function);
  if (!kernel)
    return done(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value > SHARED_OPT_IN)
      return done(cudaErrorInvalidValue);
    kernel->max_dynamic_shared = value;
  } else if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
    if (value < -1 || value > 100)
      return done(cudaErrorInvalidValue);
    kernel->carveout = value;
  }
  return cudaSuccess;
}

cudaError_t cudaFuncSetCacheConfig(const void *function, cudaFuncCache) {
  return done(find_kernel(function) ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int block_size, size_t shared) {
  const Kernel *kernel = find_kernel(function);
  if (!blocks || block_size < 1)
    return done(cudaErrorInvalidValue);
  if (!kernel)
    return done(cudaErrorInvalidDeviceFunction);
  *blocks =
      shared > (size_t)kernel->max_dynamic_shared ? 0 : blocks_per_sm((unsigned)block_size, shared);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                   const void *function,
                                                                   int block_size, size_t shared,
                                                                   unsigned int) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block_size, shared);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *shared, const void *function,
                                                      int blocks, int block_size) {
  if (!shared || blocks < 1 || block_size < 1)
    return done(cudaErrorInvalidValue);
  if (!find_kernel(function))
    return done(cudaErrorInvalidDeviceFunction);
  if (blocks > blocks_per_sm((unsigned)block_size, 0))
    return done(cudaErrorInvalidValue);
  *shared = std::min<size_t>(SHARED_OPT_IN, SHARED_PER_SM / (size_t)blocks - SHARED_RESERVED);
  return cudaSuccess;
}

} // extern "C"
