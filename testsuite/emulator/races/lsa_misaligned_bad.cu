// EXPECT: misaligned
// SPDX-License-Identifier: Apache-2.0
// A 16-byte access needs an address that is a multiple of 16.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a) {
  size_t offset = 4;
  float4 *there = (float4 *)ncclGetLsaPointer(a, offset, next_rank(dc));
  *there = make_float4(1, 2, 3, 4); // BUG
}
int main() {
  Ranks w(2);
  w.device(1);
  Window a(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<1, 1, 0, w.stream[r]>>>(w.dc[r], a.win[r]);
  w.sync();
  return 0;
}
