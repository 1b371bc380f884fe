// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// Blocks count in one word: with atomics.
#include "races.h"

__global__ void count(uint32_t *a) { atomicAdd(a, 1u); }
int main() {
  uint32_t *a;
  CUDA(cudaMalloc(&a, 4));
  CUDA(cudaMemset(a, 0, 4));
  count<<<4, 1>>>(a);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaFree(a));
  return 0;
}
