// SPDX-License-Identifier: Apache-2.0
/* The low-latency exchange: slots that carry their epoch with the data. */
#ifndef CUCOCC_EMULATOR_NCCL_DEVICE_LL_A2A_H
#define CUCOCC_EMULATOR_NCCL_DEVICE_LL_A2A_H

#include "coop.h"

template <class Coop> struct ncclLLA2ASession {
  EMU_NCCL_INLINE ncclLLA2ASession(Coop c, const ncclDevComm &dc, ncclTeam team,
                                   ncclLLA2AHandle handle, uint32_t block, int maxElts,
                                   bool multimem = false, ncclMultimemHandle = {})
      : coop(c), exchange{dc.emulated,       emu_nccl::members(dc, team),
                          handle.bufHandle,  (uint32_t)handle.nBlocks,
                          handle.nSlots,     block,
                          (uint32_t)maxElts, 0} {
    if (multimem)
      emu_nccl::multimem();
    emu_nccl::exchange_open(exchange, coop.thread_rank() == 0);
  }
  EMU_NCCL_INLINE ~ncclLLA2ASession() {
    emu_nccl::exchange_close(exchange, coop.thread_rank() == 0);
    coop.sync();
  }
  ncclLLA2ASession(const ncclLLA2ASession &) = delete;

  template <class T> EMU_NCCL_INLINE void send(int peer, int slot, T value) {
    for (unsigned w = 0; w < words<T>(); w++)
      emu_nccl::exchange_send(exchange, peer, part(slot, w), word(value, w));
  }
  template <class T> EMU_NCCL_INLINE void bcast(int slot, T value) {
    for (int peer = 0; peer < exchange.team.n; peer++)
      send(peer, slot, value);
  }
  template <class T> EMU_NCCL_INLINE T recv(int slot) {
    uint64_t whole[words<T>()];
    for (unsigned w = 0; w < words<T>(); w++)
      whole[w] = emu_nccl::exchange_recv(exchange, part(slot, w));
    T value;
    memcpy(&value, whole, sizeof value);
    return value;
  }
  template <int MinCount, int MaxCount, class T>
  EMU_NCCL_INLINE void recvUnrolled(int start, int count, int stride, T (&values)[MaxCount]) {
    for (int i = 0; i < MaxCount && (i < MinCount || i < count); i++)
      values[i] = recv<T>(start + i * stride);
  }
  template <int Unroll, class T, class ToAcc, class Reduce>
  EMU_NCCL_INLINE auto recvReduce(int start, int count, int stride, ToAcc toAcc, Reduce reduce)
      -> decltype(toAcc(T())) {
    auto sum = toAcc(recv<T>(start));
    for (int i = 1; i < count; i++)
      sum = reduce(sum, toAcc(recv<T>(start + i * stride)));
    return sum;
  }
  EMU_NCCL_INLINE void endEpoch(Coop) {
    coop.sync();
    exchange.epoch++;
    coop.sync();
  }

  Coop coop;
  emu_nccl::Exchange exchange;

private:
  template <class T> static constexpr unsigned words() { return (sizeof(T) + 7) / 8; }
  uint32_t part(int slot, unsigned w) const { return (uint32_t)slot + w * exchange.pitch; }
  template <class T> static uint64_t word(const T &value, unsigned w) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)&value + 8 * w,
           sizeof(T) - 8 * w < 8 ? sizeof(T) - 8 * w : sizeof bits);
    return bits;
  }
};

#endif
