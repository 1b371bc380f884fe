// SPDX-License-Identifier: Apache-2.0
/* clang includes this header of cuRAND into every CUDA file; a toolkit need not have cuRAND. */
#if __has_include_next(<curand_mtgp32_kernel.h>)
#include_next <curand_mtgp32_kernel.h>
#endif
