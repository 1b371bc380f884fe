// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// A block may not open a second session on an index while the first one lives.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  Bar outer{ncclCoopCta(), dc, ncclTeamTagLsa(), 0};
  outer.sync(ncclCoopCta(), ACQ_REL);
  {
    Bar inner{ncclCoopCta(), dc, ncclTeamTagLsa(), 1};
    inner.sync(ncclCoopCta(), ACQ_REL);
  }
  out[threadIdx.x] = 1;
}
int main() {
  Ranks w(2);
  w.device(2);
  Window a(w, 64 * sizeof(uint32_t));
  Buffer out(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<1, 32, 0, w.stream[r]>>>(w.dc[r], a.win[r], out.mem[r]);
  w.sync();
  return 0;
}
