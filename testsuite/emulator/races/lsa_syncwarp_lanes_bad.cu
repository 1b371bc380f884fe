// EXPECT: race
// SPDX-License-Identifier: Apache-2.0
// A warp barrier over half of the lanes orders that half only.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  uint32_t *data = at_home<uint32_t>(a), *flag = data + 32;
  uint32_t *there = at_peer<uint32_t>(a, 0, next_rank(dc));
  there[threadIdx.x] = dc.rank + 1; // BUG
  __syncwarp(threadIdx.x < 16 ? 0xffffu : 0xffff0000u);
  if (threadIdx.x == 0)
    SystemFlag(there[32]).store(1, RELEASE);
  if (threadIdx.x == 0)
    while (SystemFlag(*flag).load(ACQUIRE) < 1) {
    }
  __syncthreads();
  out[threadIdx.x] = data[threadIdx.x]; // BUG
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t));
  Buffer out(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<1, 32, 0, w.stream[r]>>>(w.dc[r], a.win[r], out.mem[r]);
  w.sync();
  return 0;
}
