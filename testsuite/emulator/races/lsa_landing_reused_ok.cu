// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// One landing buffer for all iterations needs an acknowledgement before the next push.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  uint32_t *data = at_home<uint32_t>(a), *there = at_peer<uint32_t>(a, 0, next_rank(dc));
  uint32_t *back = at_peer<uint32_t>(a, 33, (dc.rank + dc.nRanks - 1) % dc.nRanks);
  for (uint32_t it = 0; it < 3; it++) {
    if (threadIdx.x == 0)
      wait_flag(data + 33, it);
    __syncthreads();
    there[threadIdx.x] = it;
    __syncthreads();
    if (threadIdx.x == 0) {
      set_flag(there + 32, it + 1);
      wait_flag(data + 32, it + 1);
    }
    __syncthreads();
    out[threadIdx.x] += data[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
      set_flag(back, it + 1);
  }
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
