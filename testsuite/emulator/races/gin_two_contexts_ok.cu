// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// A signal covers earlier puts of its own context only.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  ncclCoopCta cta;
  ncclGin gin{dc, 0};
  ncclTeam world = ncclTeamWorld(dc);
  uint32_t *data = at_home<uint32_t>(a);
  ncclGin other{dc, 1};
  data[threadIdx.x] = dc.rank + 1;
  __threadfence_system();
  cta.sync();
  uint64_t base = other.readSignal(0);
  world_barrier(gin, dc, 0);

  if (threadIdx.x == 0) {
    other.put(world, next_rank(dc), a, 128, a, 0, 128);
    other.signal(world, next_rank(dc), SIGNAL_INC(0));
  }
  other.waitSignal(cta, 0, base + 1);
  out[threadIdx.x] = data[32 + threadIdx.x];
  gin.flush(cta);
  other.flush(cta);
}
int main() {
  Ranks w(2);
  w.device(1, 2);
  Window a(w, 128 * sizeof(uint32_t));
  Buffer out(w, 64 * sizeof(uint32_t));
  EACH_RANK (w, r)
    work<<<1, 32, 0, w.stream[r]>>>(w.dc[r], a.win[r], out.mem[r]);
  w.sync();
  return 0;
}
