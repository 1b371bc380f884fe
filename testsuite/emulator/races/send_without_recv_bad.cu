// EXPECT: deadlock
// SPDX-License-Identifier: Apache-2.0
// Every send has its receive.
#include "races.h"

int main() {
  Ranks w(2);
  Buffer a(w, 256), b(w, 256);
  NCCL(ncclGroupStart());
  for (int r = 0; r < w.n; r++) {
    NCCL(ncclSend(a.mem[r], 64, ncclUint32, 1 - r, w.comm[r], w.stream[r])); // BUG
    if (r == 0)
      NCCL(ncclRecv(b.mem[r], 64, ncclUint32, 1 - r, w.comm[r], w.stream[r])); // BUG
  }
  NCCL(ncclGroupEnd());
  w.sync();
  return 0;
}
