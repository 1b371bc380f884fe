// SPDX-License-Identifier: Apache-2.0
/* Between the launch and what threads call. */
#ifndef CUCOCC_EMULATOR_CUDA_THREAD_H
#define CUCOCC_EMULATOR_CUDA_THREAD_H

#include "cuda_internal.h"

namespace emu {
namespace cuda {

/* Thrown to end the running CUDA thread early; caught at its bottom. */
struct ThreadEnd {};
/* The thread has returned: its warp need not wait for it. */
void thread_exit(ThreadState &thread);

} // namespace cuda
} // namespace emu

#endif
