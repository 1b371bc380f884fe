// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// A reversal through shared memory needs a block barrier.
#include "races.h"

__global__ void reverse(uint32_t *a) {
  __shared__ uint32_t tile[64];
  tile[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = tile[63 - threadIdx.x];
}
int main() {
  uint32_t *a;
  CUDA(cudaMalloc(&a, 256));
  CUDA(cudaMemset(a, 0, 256));
  reverse<<<1, 64>>>(a);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaFree(a));
  return 0;
}
