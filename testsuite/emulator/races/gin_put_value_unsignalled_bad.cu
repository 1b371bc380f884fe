// EXPECT: race
// SPDX-License-Identifier: Apache-2.0
// A value put without a signal is not delivered by a barrier of the LSA team.
#include "races.h"

__global__ void work(ncclDevComm dc, ncclWindow_t a, uint32_t *out) {
  ncclCoopCta cta;
  ncclGin gin{dc, 0};
  ncclTeam world = ncclTeamWorld(dc);
  uint32_t *data = at_home<uint32_t>(a);
  uint64_t base = gin.readSignal(0);
  world_barrier(gin, dc, 0);
  if (threadIdx.x == 0)
    gin.putValue(world, next_rank(dc), a, 128, (uint32_t)7); // BUG
  Bar bar{cta, dc, ncclTeamTagLsa(), 0};
  bar.sync(cta, ACQ_REL);
  (void)base;
  if (threadIdx.x == 0)
    out[0] = data[32]; // BUG
  gin.flush(cta);
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
