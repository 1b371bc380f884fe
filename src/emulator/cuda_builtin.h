// SPDX-License-Identifier: Apache-2.0
#ifndef CUCOCC_EMULATOR_CUDA_BUILTIN_H
#define CUCOCC_EMULATOR_CUDA_BUILTIN_H

#include "include/vector_types.h"

namespace emu {
namespace cuda {

/* Makes these the values of threadIdx, blockIdx, blockDim and gridDim. */
void set_builtins(const uint3 &thread, const uint3 &block, const uint3 &block_dim,
                  const uint3 &grid_dim);

} // namespace cuda
} // namespace emu

#endif
