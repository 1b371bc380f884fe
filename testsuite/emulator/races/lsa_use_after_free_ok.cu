// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// A window may be freed only when no peer reads it any more.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  out[threadIdx.x] = at_peer<uint32_t>(a, threadIdx.x, next_rank(dc))[0];
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t));
  Buffer out(w, 64 * sizeof(uint32_t));
  CUDA(cudaSetDevice(1));
  work<<<1, 32, 0, w.stream[1]>>>(w.dc[1], a.win[1], out.mem[1]);
  w.sync();
  return 0;
}
