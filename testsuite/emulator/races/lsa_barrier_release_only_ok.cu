// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// The barrier between a push and the read of it must release and acquire.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), blockIdx.x};
  at_peer<uint32_t>(a, threadIdx.x, next_rank(dc))[0] = dc.rank + 1;
  bar.sync(ncclCoopCta(), ACQ_REL);
  out[threadIdx.x] = at_home<uint32_t>(a)[threadIdx.x];
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
