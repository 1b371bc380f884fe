// SPDX-License-Identifier: Apache-2.0
/* The storage of threadIdx and its relatives. Programs see constants (emu_cuda.h); this file, which
 * must not include that header, changes them when another thread runs. */
#include "cuda_builtin.h"

extern "C" {
uint3 threadIdx, blockIdx, blockDim = {1, 1, 1}, gridDim = {1, 1, 1};
}

namespace emu {
namespace cuda {

void set_builtins(const uint3 &thread, const uint3 &block, const uint3 &block_dim,
                  const uint3 &grid_dim) {
  threadIdx = thread;
  blockIdx = block;
  blockDim = block_dim;
  gridDim = grid_dim;
}

} // namespace cuda
} // namespace emu
