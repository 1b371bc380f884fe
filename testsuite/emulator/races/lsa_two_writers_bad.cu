// EXPECT: race
// SPDX-License-Identifier: Apache-2.0
// Two ranks push to one rank: each to its own slot.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), blockIdx.x};
  uint32_t slot = 0;
  at_peer<uint32_t>(a, slot * 16 + threadIdx.x, 0)[0] = dc.rank; // BUG
  bar.sync(ncclCoopCta(), ACQ_REL);
  if (dc.rank == 0)
    out[threadIdx.x] = at_home<uint32_t>(a)[threadIdx.x];
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t));
  Buffer out(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<1, 16, 0, w.stream[r]>>>(w.dc[r], a.win[r], out.mem[r]);
  w.sync();
  return 0;
}
