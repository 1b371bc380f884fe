// EXPECT: barrier-index
// SPDX-License-Identifier: Apache-2.0
// Kernels that may overlap need different indices.
#include "races.h"

__global__ void work(ncclDevComm dc, uint32_t index, uint32_t *out) {
  Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), index}; // BUG
  bar.sync(ncclCoopCta(), ACQ_REL);                    // BUG
  out[index * 32 + threadIdx.x] = 1;
}
int main() {
  Ranks w(2);
  w.device(2);
  Window a(w, 64 * sizeof(uint32_t));
  Buffer out(w, 128 * sizeof(uint32_t));
  cudaStream_t second[MAX_RANKS];
  EACH_RANK (w, r)
    CUDA(cudaStreamCreateWithFlags(&second[r], cudaStreamNonBlocking));
  EACH_RANK (w, r)
    work<<<1, 32, 0, w.stream[r]>>>(w.dc[r], 0, out.mem[r]);
  EACH_RANK (w, r)
    work<<<1, 32, 0, second[r]>>>(w.dc[r], 0, out.mem[r] + 32);
  EACH_RANK (w, r)
    CUDA(cudaStreamSynchronize(second[r]));
  w.sync();
  return 0;
}
