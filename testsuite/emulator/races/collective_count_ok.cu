// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// The count of a collective is the same on all ranks.
#include "races.h"

int main() {
  Ranks w(2);
  Buffer a(w, 256), b(w, 256);
  NCCL(ncclGroupStart());
  for (int r = 0; r < w.n; r++) {
    size_t count = 64;
    NCCL(ncclAllReduce(a.mem[r], b.mem[r], count, ncclUint32, ncclSum, w.comm[r], w.stream[r]));
  }
  NCCL(ncclGroupEnd());
  w.sync();
  return 0;
}
