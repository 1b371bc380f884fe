// EXPECT: stale-wait|race
// SPDX-License-Identifier: Apache-2.0
// Warm-up launches leave the flag ahead: the timed launch must go on counting, not start again at
// one.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out, uint32_t first) {
  uint32_t *data = at_home<uint32_t>(a), *there = at_peer<uint32_t>(a, 0, next_rank(dc));
  Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), blockIdx.x};
  for (uint32_t it = first; it < first + 2; it++) {
    there[threadIdx.x] = it; // BUG
    __syncthreads();
    if (threadIdx.x == 0) {
      SystemFlag(there[32]).store(it + 1, RELEASE);
      while (SystemFlag(data[32]).load(ACQUIRE) < it + 1) { // BUG
      }
    }
    __syncthreads();
    out[threadIdx.x] += data[threadIdx.x]; // BUG
    bar.sync(ncclCoopCta(), ACQ_REL);
  }
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t));
  Buffer out(w, 64 * sizeof(uint32_t));
  for (uint32_t launch = 0; launch < 2; launch++) {
    uint32_t first = 0;
    EACH_RANK (w, r)
      work<<<1, 32, 0, w.stream[r]>>>(w.dc[r], a.win[r], out.mem[r], first);
  }
  w.sync();
  return 0;
}
