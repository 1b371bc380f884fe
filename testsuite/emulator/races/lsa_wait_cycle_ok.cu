// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// Every rank must signal before it waits.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  uint32_t *here = at_home<uint32_t>(a), *there = at_peer<uint32_t>(a, 0, next_rank(dc));
  SystemFlag(there[0]).store(1, RELEASE);
  while (SystemFlag(here[0]).load(ACQUIRE) < 1) {
  }
  out[0] = 1;
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t));
  Buffer out(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<1, 1, 0, w.stream[r]>>>(w.dc[r], a.win[r], out.mem[r]);
  w.sync();
  return 0;
}
