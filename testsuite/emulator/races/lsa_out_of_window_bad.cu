// EXPECT: out-of-window
// SPDX-License-Identifier: Apache-2.0
// The offset of the last element is below the size of the window.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t count) {
  uint32_t *there = at_peer<uint32_t>(a, 0, next_rank(dc));
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
    there[i] = i; // BUG
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<1, 32, 0, w.stream[r]>>>(w.dc[r], a.win[r], 65);
  w.sync();
  return 0;
}
