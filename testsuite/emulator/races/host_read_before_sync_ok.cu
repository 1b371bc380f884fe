// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// The host reads the copy after the stream is synchronised.
#include "races.h"

__global__ void fill(uint32_t *a) { a[threadIdx.x] = threadIdx.x; }
int main() {
  cudaStream_t s;
  uint32_t *a, *host, sum = 0;
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CUDA(cudaMalloc(&a, 128));
  CUDA(cudaMallocHost((void **)&host, 128));
  memset(host, 0, 128);
  fill<<<1, 32, 0, s>>>(a);
  CUDA(cudaMemcpyAsync(host, a, 128, cudaMemcpyDeviceToHost, s));
  CUDA(cudaStreamSynchronize(s));
  for (int i = 0; i < 32; i++)
    sum += host[i];
  CUDA(cudaStreamSynchronize(s));
  CUDA(cudaFree(a));
  CUDA(cudaFreeHost(host));
  return sum > 4096;
}
