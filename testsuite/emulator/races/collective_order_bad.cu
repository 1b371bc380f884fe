// EXPECT: collective-order
// SPDX-License-Identifier: Apache-2.0
// Every rank issues the same collectives in the same order.
#include "races.h"

int main() {
  Ranks w(2);
  Buffer a(w, 256), b(w, 256);
  NCCL(ncclGroupStart());
  for (int r = 0; r < w.n; r++) {
    bool first = r == 0;
    if (first)
      NCCL(ncclAllReduce(a.mem[r], a.mem[r], 64, ncclUint32, ncclSum, w.comm[r],
                         w.stream[r]));                                                 // BUG
    NCCL(ncclBroadcast(b.mem[r], b.mem[r], 64, ncclUint32, 0, w.comm[r], w.stream[r])); // BUG
    if (!first)
      NCCL(ncclAllReduce(a.mem[r], a.mem[r], 64, ncclUint32, ncclSum, w.comm[r],
                         w.stream[r])); // BUG
  }
  NCCL(ncclGroupEnd());
  w.sync();
  return 0;
}
