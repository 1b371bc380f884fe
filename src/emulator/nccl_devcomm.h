// SPDX-License-Identifier: Apache-2.0
/* The device side of the emulated NCCL: windows, device communicators, and what their barriers,
 * signals and transfers remember. */
#ifndef CUCOCC_EMULATOR_NCCL_DEVCOMM_H
#define CUCOCC_EMULATOR_NCCL_DEVCOMM_H

#include "include/nccl_device/core.h"
#include "nccl_internal.h"
#include "nccl_signal.h"

#include <array>
#include <set>

namespace emu_nccl {

/* One window on all ranks of a communicator. */
struct WindowSet {
  std::shared_ptr<Clique> clique;
  std::vector<char *> base; // of each rank
  std::vector<size_t> size;
  std::vector<bool> live;
  std::vector<ncclWindow_vidmem *> handle;
  int lsa_size = 1;
  char *nowhere = nullptr; // an address just behind a window of nobody
};

using Cell = SignalCell<emu::Clock>;

/* A transfer whose source may still be read, or whose target may still be written. */
struct Transfer {
  emu::Clock issued;   // what its issuer had done
  emu::Clock consumed; // that, and the read of the source
  emu::Site site;
  bool get = false, done = true;
  int peer = 0;
};
using TransferRef = std::shared_ptr<Transfer>;

/* What one rank's context remembers. */
struct Context {
  std::map<uint32_t, Cell> signals, counters;
  std::map<uint32_t, uint64_t> shadows;
  std::vector<TransferRef> outstanding;
  std::map<uint32_t, std::deque<std::pair<uint64_t, TransferRef>>> counted; // by counter
};

/* What a block sends to one peer over one context, in order. */
struct Channel {
  emu::Agent *reader, *writer;
  std::deque<std::function<void()>> queue;
};

struct BarrierState {                        // of one index among the ranks
  std::map<std::pair<int, int>, Cell> inbox; // (to, from)
  std::map<int, uint32_t> epoch;             // of each rank
  bool broken = false; // misused: reported, and from then on it lets everybody pass
};

struct ExchangeSlot {
  uint64_t word;
  emu::Clock clock;
};

/* What all ranks of a device communicator share. */
struct DeviceClique {
  std::shared_ptr<Clique> clique;
  int n, lsa_size;
  bool gin;
  uint32_t contexts, signals, counters;
  std::map<std::pair<uint32_t, uint32_t>, BarrierState> lsa_barriers; // by key and index
  std::map<std::array<uint32_t, 3>, BarrierState> gin_barriers;       // and context
  std::map<std::pair<int, uint32_t>, Context> context;                // by rank
  std::map<std::array<uint32_t, 4>, Channel> channels;                // rank, context, peer, block
  std::map<std::array<uint32_t, 5>, ExchangeSlot> exchange;           // key, block, to, slot, epoch
  std::map<std::array<uint32_t, 3>, uint32_t> exchange_epoch;         // key, block, rank
};

/* One rank's view. */
struct DeviceComm {
  std::shared_ptr<DeviceClique> all;
  int rank;
  ncclComm *comm;
  std::set<ncclWindow_t> *windows; // of the rank's communicator
  std::map<std::array<uint32_t, 3>, SessionTable<emu::Clock>> sessions; // kind, key, context
};

/* A clock that was published by a store over the network or between devices. */
inline emu::Published from_anywhere(const emu::Clock &clock) {
  emu::Published p;
  p.clock = clock;
  p.scope = emu::Scope::SYSTEM;
  return p;
}
inline emu::Order store_order(Order o) {
  return o & RELEASE ? emu::Order::RELEASE : emu::Order::RELAXED;
}
inline emu::Order load_order(Order o) {
  return o & ACQUIRE ? emu::Order::ACQUIRE : emu::Order::RELAXED;
}
/* Opens and closes a session; reports misuse, after which it returns false. KIND: 0 LSA, 1 GIN. */
bool session_open(DeviceComm *dc, uint32_t kind, uint32_t key, uint32_t context, uint32_t count,
                  uint32_t index, emu::Site site);
void session_close(DeviceComm *dc, uint32_t kind, uint32_t key, uint32_t context, uint32_t index);
/* Delivers a strong signal of the running block to PEER by way of everything it put there before:
 * ARRIVE runs as the writing engine. */
void channel_send(DeviceComm *dc, uint32_t context, int peer, std::function<void()> arrive);

} // namespace emu_nccl

struct ncclWindow_vidmem {
  std::shared_ptr<emu_nccl::WindowSet> set;
  int rank;
};

#endif
