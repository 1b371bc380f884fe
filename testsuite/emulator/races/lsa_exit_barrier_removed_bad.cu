// EXPECT: race
// SPDX-License-Identifier: Apache-2.0
// A pull must be over on every rank before the next kernel overwrites what was pulled.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), blockIdx.x};
  bar.sync(ncclCoopCta(), ACQ_REL);
  out[threadIdx.x] = at_peer<uint32_t>(a, threadIdx.x, next_rank(dc))[0]; // BUG
}
__global__ void refill(ncclWindow_t a) {
  at_home<uint32_t>(a)[threadIdx.x] = 7; // BUG
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t));
  Buffer out(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<1, 32, 0, w.stream[r]>>>(w.dc[r], a.win[r], out.mem[r]);
  EACH_RANK (w, r)
    refill<<<1, 32, 0, w.stream[r]>>>(a.win[r]);
  w.sync();
  return 0;
}
