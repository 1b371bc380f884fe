// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// Every rank registers the same size.
#include "races.h"

int main() {
  Ranks w(2);
  void *mem[MAX_RANKS];
  ncclWindow_t win[MAX_RANKS] = {};
  EACH_RANK (w, r)
    NCCL(ncclMemAlloc(&mem[r], 16384));
  NCCL(ncclGroupStart());
  for (int r = 0; r < w.n; r++) {
    size_t bytes = 16384;
    NCCL(ncclCommWindowRegister(w.comm[r], mem[r], bytes, &win[r], NCCL_WIN_COLL_SYMMETRIC));
  }
  NCCL(ncclGroupEnd());
  EACH_RANK (w, r) {
    NCCL(ncclCommWindowDeregister(w.comm[r], win[r]));
    NCCL(ncclMemFree(mem[r]));
  }
  return 0;
}
