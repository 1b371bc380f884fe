// EXPECT: barrier-index
// SPDX-License-Identifier: Apache-2.0
// The index must be below the number of barriers asked for.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), blockIdx.x}; // BUG
  bar.sync(ncclCoopCta(), ACQ_REL);                         // BUG
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t));
  Buffer out(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<2, 32, 0, w.stream[r]>>>(w.dc[r], a.win[r], out.mem[r]);
  w.sync();
  return 0;
}
