// EXPECT: stale-wait|race
// SPDX-License-Identifier: Apache-2.0
// The second use of a flag must wait for a new value.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  uint32_t *data = at_home<uint32_t>(a), *there = at_peer<uint32_t>(a, 0, next_rank(dc));
  for (uint32_t it = 1; it <= 2; it++) {
    there[it * 8 + threadIdx.x] = it; // BUG
    __syncthreads();
    uint32_t epoch = 1;
    if (threadIdx.x == 0) {
      SystemFlag(there[0]).store(epoch, RELEASE);
      while (SystemFlag(data[0]).load(ACQUIRE) < epoch) { // BUG
      }
    }
    __syncthreads();
    out[threadIdx.x] += data[it * 8 + threadIdx.x]; // BUG
  }
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t));
  Buffer out(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<1, 8, 0, w.stream[r]>>>(w.dc[r], a.win[r], out.mem[r]);
  w.sync();
  return 0;
}
