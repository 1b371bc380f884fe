// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// Barrier b orders block b of the ranks, not what another block wrote.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), blockIdx.x};
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t j = i;
  at_peer<uint32_t>(a, i, next_rank(dc))[0] = dc.rank + 1;
  bar.sync(ncclCoopCta(), ACQ_REL);
  out[i] = at_home<uint32_t>(a)[j];
}
int main() {
  Ranks w(2);
  w.device(2);
  Window a(w, 64 * sizeof(uint32_t));
  Buffer out(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<2, 32, 0, w.stream[r]>>>(w.dc[r], a.win[r], out.mem[r]);
  w.sync();
  return 0;
}
