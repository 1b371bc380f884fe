// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// The base of a signal is read before the barrier, when nobody can have raised it.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  ncclCoopCta cta;
  ncclGin gin{dc, 0};
  ncclTeam world = ncclTeamWorld(dc);
  uint32_t *data = at_home<uint32_t>(a);
  uint64_t base = gin.readSignal(0);
  world_barrier(gin, dc, 0);
  if (dc.rank == 0 && threadIdx.x == 0)
    gin.signal(world, 1, SIGNAL_INC(0));
  if (dc.rank == 1)
    gin.waitSignal(cta, 0, base + 1);
  out[threadIdx.x] = data[threadIdx.x];
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
