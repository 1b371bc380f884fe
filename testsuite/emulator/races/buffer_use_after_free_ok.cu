// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// cudaFreeAsync on one stream while a kernel on another still reads.
#include "races.h"

__global__ void work(const uint32_t *in, uint32_t *out) { out[threadIdx.x] = in[threadIdx.x]; }
int main() {
  cudaStream_t s, t;
  uint32_t *in, *out;
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  CUDA(cudaMalloc(&out, 128));
  CUDA(cudaMallocAsync((void **)&in, 128, s));
  CUDA(cudaMemsetAsync(in, 0, 128, s));
  work<<<1, 32, 0, s>>>(in, out);
  CUDA(cudaFreeAsync(in, s));
  CUDA(cudaStreamSynchronize(s));
  CUDA(cudaStreamSynchronize(t));
  CUDA(cudaFree(out));
  return 0;
}
