// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// A collective on another stream needs an event after the kernel that fills its buffer.
#include "races.h"

__global__ void fill(uint32_t *a) { a[threadIdx.x] = threadIdx.x; }
int main() {
  Ranks w(2);
  Buffer a(w, 128), b(w, 128);
  cudaStream_t compute[MAX_RANKS];
  cudaEvent_t filled[MAX_RANKS];
  EACH_RANK (w, r) {
    CUDA(cudaStreamCreateWithFlags(&compute[r], cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&filled[r], cudaEventDisableTiming));
    fill<<<1, 32, 0, compute[r]>>>(a.mem[r]);
    CUDA(cudaEventRecord(filled[r], compute[r]));
    CUDA(cudaStreamWaitEvent(w.stream[r], filled[r], 0));
  }
  NCCL(ncclGroupStart());
  for (int r = 0; r < w.n; r++)
    NCCL(ncclAllReduce(a.mem[r], b.mem[r], 32, ncclUint32, ncclSum, w.comm[r], w.stream[r]));
  NCCL(ncclGroupEnd());
  w.sync();
  EACH_RANK (w, r)
    CUDA(cudaStreamSynchronize(compute[r]));
  return 0;
}
