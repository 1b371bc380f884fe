// EXPECT: race
// SPDX-License-Identifier: Apache-2.0
// A kernel boundary orders one rank only: the pull needs a barrier after the peer's fill.
#include "races.h"

__global__ void fill(ncclWindow_t a) {
  at_home<uint32_t>(a)[threadIdx.x] = 7; // BUG
}
__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), blockIdx.x};
  out[threadIdx.x] = at_peer<uint32_t>(a, threadIdx.x, next_rank(dc))[0]; // BUG
  bar.sync(ncclCoopCta(), ACQ_REL);
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t));
  Buffer out(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    fill<<<1, 32, 0, w.stream[r]>>>(a.win[r]);
  EACH_RANK (w, r)
    work<<<1, 32, 0, w.stream[r]>>>(w.dc[r], a.win[r], out.mem[r]);
  w.sync();
  return 0;
}
