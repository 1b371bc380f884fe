// EXPECT: collective-order
// SPDX-License-Identifier: Apache-2.0
// The root of a broadcast is the same on all ranks.
#include "races.h"

int main() {
  Ranks w(2);
  Buffer a(w, 256), b(w, 256);
  NCCL(ncclGroupStart());
  for (int r = 0; r < w.n; r++) {
    int root = r;
    NCCL(ncclBroadcast(a.mem[r], b.mem[r], 64, ncclUint32, root, w.comm[r], w.stream[r])); // BUG
  }
  NCCL(ncclGroupEnd());
  w.sync();
  return 0;
}
