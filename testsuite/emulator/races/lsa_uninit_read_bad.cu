// EXPECT: uninit-read
// SPDX-License-Identifier: Apache-2.0
// The landing buffer is read where nobody wrote.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), blockIdx.x};
  uint32_t written = 31;
  if (threadIdx.x < written)
    at_peer<uint32_t>(a, threadIdx.x, next_rank(dc))[0] = 1;
  bar.sync(ncclCoopCta(), ACQ_REL);
  out[threadIdx.x] = at_home<uint32_t>(a)[threadIdx.x]; // BUG
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t), false);
  Buffer out(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<1, 32, 0, w.stream[r]>>>(w.dc[r], a.win[r], out.mem[r]);
  w.sync();
  return 0;
}
