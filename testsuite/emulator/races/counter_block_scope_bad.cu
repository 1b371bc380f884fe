// EXPECT: race
// SPDX-License-Identifier: Apache-2.0
// An atomic of block scope is no atomic for another block.
#include "races.h"

__global__ void count(uint32_t *a) {
  atomicAdd_block(a, 1u); // BUG
}
int main() {
  uint32_t *a;
  CUDA(cudaMalloc(&a, 4));
  CUDA(cudaMemset(a, 0, 4));
  count<<<4, 1>>>(a);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaFree(a));
  return 0;
}
