// SPDX-License-Identifier: Apache-2.0
/* Barriers of the device interface. An arrival carries what the arriving rank had released; a wait
 * learns the arrivals that its epoch needed and no later ones. */
#include "nccl_devcomm.h"

namespace emu_nccl {

bool session_open(DeviceComm *dc, uint32_t kind, uint32_t key, uint32_t context, uint32_t count,
                  uint32_t index, emu::Site site) {
  using Table = SessionTable<emu::Clock>;
  const std::array<uint32_t, 3> at{kind, key, context};
  auto i = dc->sessions.find(at);
  if (i == dc->sessions.end())
    i = dc->sessions.emplace(at, Table(count)).first;
  const auto ordered = [](const emu::Clock &a, const emu::Clock &b) { return a.before(b); };
  const uint64_t owner = (uint64_t)(uintptr_t)emu::self().block_key;
  const std::string number = std::to_string(index);
  switch (i->second.open(index, owner, emu::knowledge(), ordered)) {
  case Table::FINE:
    return true;
  case Table::BEYOND_COUNT:
    emu::finding("barrier-index",
                 "barrier index " + number + " where the device communicator has " +
                     std::to_string(count),
                 site);
    return false;
  case Table::STILL_OPEN:
    emu::finding("barrier-index",
                 "a second session on barrier index " + number + " while the first one lives",
                 site);
    return false;
  default:
    emu::finding("barrier-index",
                 "a session on barrier index " + number +
                     " that nothing orders after the last one's end",
                 site);
    return false;
  }
}

void session_close(DeviceComm *dc, uint32_t kind, uint32_t key, uint32_t context, uint32_t index) {
  auto i = dc->sessions.find({kind, key, context});
  if (i != dc->sessions.end())
    i->second.close(index, emu::release());
}

namespace {

int world(const Members &t, int member) { return t.first + member * t.stride; }

// As the real barrier, which stores the epoch.
void tell(BarrierState &s, int to, int from, uint32_t epoch, const emu::Clock &clock) {
  Cell &cell = s.inbox[{to, from}];
  if (!cell.reached(epoch, 32))
    cell.add((uint32_t)(epoch - (uint32_t)cell.value()), clock);
  emu::progress();
}

bool hear(BarrierState &s, int me, int from, uint32_t epoch, Order order, uint64_t timeout,
          uint32_t index, emu::Site site) {
  const uint64_t until = timeout ? emu::now_ns() + timeout : 0;
  Cell &cell = s.inbox[{me, from}];
  if (timeout)
    while (!s.broken && !cell.reached(epoch, 32)) {
      if (emu::now_ns() >= until)
        return false;
      emu::poll(site, "a barrier");
    }
  else
    emu::wait_until([&s, &cell, epoch] { return s.broken || cell.reached(epoch, 32); },
                    {"waits for rank " + std::to_string(from) + " in barrier " +
                         std::to_string(index) + ", epoch " + std::to_string(epoch),
                     site});
  emu::Clock learnt;
  if (s.broken)
    cell.join_all(learnt);
  else
    cell.join(epoch, learnt, 32);
  if (epoch > 8)
    cell.trim(epoch - 8);
  emu::acquire(from_anywhere(learnt), load_order(order), emu::Scope::SYSTEM);
  return true;
}

BarrierState &state(const LsaBarrier &b) { return b.dc->all->lsa_barriers[{b.key, b.index}]; }
BarrierState &state(const GinBarrier &b) {
  return b.dc->all->gin_barriers[{b.key, b.index, b.context}];
}

} // namespace

void lsa_open(LsaBarrier &b, bool leader) {
  const emu::Site site = EMU_SITE();
  BarrierState &s = state(b);
  if (leader && !session_open(b.dc, 0, b.key, 0, b.count, b.index, site)) {
    s.broken = true;
    emu::progress();
  }
  b.epoch = s.epoch[b.dc->rank];
}
void lsa_close(LsaBarrier &b, bool leader) {
  if (!leader)
    return;
  session_close(b.dc, 0, b.key, 0, b.index);
  state(b).epoch[b.dc->rank] = b.epoch;
}
void lsa_arrive(const LsaBarrier &b, int peer, Order order) {
  emu::maybe_switch();
  const emu::Published p = emu::publish(store_order(order), emu::Scope::SYSTEM);
  tell(state(b), world(b.team, peer), b.dc->rank, b.epoch + 1, p.clock);
}
bool lsa_wait(const LsaBarrier &b, int peer, Order order, uint64_t timeout) {
  return hear(state(b), b.dc->rank, world(b.team, peer), b.epoch, order, timeout, b.index,
              EMU_SITE());
}

void gin_open(GinBarrier &b, bool leader) {
  const emu::Site site = EMU_SITE();
  BarrierState &s = state(b);
  if (leader && !session_open(b.dc, 1, b.key, b.context, b.count, b.index, site)) {
    s.broken = true;
    emu::progress();
  }
  b.epoch = s.epoch[b.dc->rank];
}
void gin_close(GinBarrier &b, bool leader) {
  if (!leader)
    return;
  session_close(b.dc, 1, b.key, b.context, b.index);
  state(b).epoch[b.dc->rank] = b.epoch;
}
void gin_arrive(const GinBarrier &b, int peer, Order order, bool fence) {
  emu::maybe_switch();
  BarrierState *s = &state(b);
  const int to = world(b.team, peer), from = b.dc->rank;
  const uint32_t epoch = b.epoch + 1;
  const emu::Clock clock = emu::publish(store_order(order), emu::Scope::SYSTEM).clock;
  if (!fence) {
    tell(*s, to, from, epoch, clock);
    return;
  }
  channel_send(b.dc, b.context, to, [s, to, from, epoch, clock] {
    emu::Clock all = clock;
    all.join(emu::release());
    tell(*s, to, from, epoch, all);
  });
}
bool gin_wait(const GinBarrier &b, Order order, uint64_t timeout) {
  const emu::Site site = EMU_SITE();
  for (int i = 0; i < b.team.n; i++)
    if (i != b.team.rank &&
        !hear(state(b), b.dc->rank, world(b.team, i), b.epoch, order, timeout, b.index, site))
      return false;
  return true;
}

/* ---- the low-latency exchange -------------------------------------------------------------------
 */

void exchange_open(Exchange &e, bool leader) {
  if (leader && e.block >= e.blocks)
    emu::finding("barrier-index",
                 "block " + std::to_string(e.block) + " of an exchange made for " +
                     std::to_string(e.blocks),
                 EMU_SITE());
  e.epoch = e.dc->all->exchange_epoch[{e.key, e.block, (uint32_t)e.dc->rank}];
}
void exchange_close(Exchange &e, bool leader) {
  if (leader)
    e.dc->all->exchange_epoch[{e.key, e.block, (uint32_t)e.dc->rank}] = e.epoch;
}
void exchange_send(const Exchange &e, int peer, uint32_t slot, uint64_t word) {
  emu::maybe_switch();
  if (slot >= e.slots)
    emu::finding("out-of-window",
                 "slot " + std::to_string(slot) + " of an exchange of " + std::to_string(e.slots),
                 EMU_SITE());
  // A slot's data is all that its arrival tells: nothing else is released.
  e.dc->all->exchange[{e.key, e.block, (uint32_t)world(e.team, peer), slot, e.epoch}] = {word, {}};
  emu::progress();
}
uint64_t exchange_recv(const Exchange &e, uint32_t slot) {
  const std::array<uint32_t, 5> at{e.key, e.block, (uint32_t)e.dc->rank, slot, e.epoch};
  auto &slots = e.dc->all->exchange;
  emu::wait_until([&slots, at] { return slots.count(at) != 0; },
                  {"waits for slot " + std::to_string(slot) + " of an exchange", EMU_SITE()});
  std::array<uint32_t, 5> old = at;
  old[4] -= 2;
  slots.erase(old);
  return slots[at].word;
}

} // namespace emu_nccl
