// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// An in-place all-reduce: each element belongs to one rank, which alone writes it everywhere.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a) {
  Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), blockIdx.x};
  bar.sync(ncclCoopCta(), ACQ_REL);
  if ((int)threadIdx.x % dc.nRanks == dc.rank) {
    uint32_t sum = 0;
    for (int p = 0; p < dc.nRanks; p++)
      sum += at_peer<uint32_t>(a, threadIdx.x, p)[0];
    for (int p = 0; p < dc.nRanks; p++)
      at_peer<uint32_t>(a, threadIdx.x, p)[0] = sum;
  }
  bar.sync(ncclCoopCta(), ACQ_REL);
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<1, 32, 0, w.stream[r]>>>(w.dc[r], a.win[r]);
  w.sync();
  return 0;
}
