// EXPECT: out-of-window
// SPDX-License-Identifier: Apache-2.0
// A peer is a rank of the team.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a) {
  int peer = dc.lsaRank + 1;
  at_peer<uint32_t>(a, threadIdx.x, peer)[0] = 1; // BUG
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
