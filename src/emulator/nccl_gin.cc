// SPDX-License-Identifier: Apache-2.0
/* One-sided transfers, signals and counters. A transfer's source is read in the name of a reading
 * engine when it is issued, its target written in that of a writing engine when it is delivered:
 * by the schedule's choice, in order for each block, context and peer. A flush learns the reads
 * alone, a signal the writes before it. */
#include "nccl_devcomm.h"

#include <algorithm>
#include <cstring>

namespace emu_nccl {
namespace {

// Sources that may not be written yet, of all communicators.
SourceTracker<TransferRef> sources;

void on_write(uintptr_t address, size_t size, emu::Site site) {
  if (sources.empty())
    return;
  const TransferRef *found = sources.conflict(address, size);
  if (!found)
    return;
  const TransferRef t = *found;
  // A write that the put itself is not ordered before is a race, which the read shows.
  if (!t->issued.before(emu::knowledge()))
    return;
  sources.release_site(0, t);
  emu::finding("missing-flush",
               "write to the source of a put that may still be read: no flush, and no wait for a "
               "local counter, since",
               site, t->site, "the put");
  emu::acquire(t->consumed); // said once
}

Context &context_of(DeviceComm *dc, uint32_t context) {
  return dc->all->context[{dc->rank, context}];
}

Channel &channel(DeviceComm *dc, uint32_t context, int peer) {
  const std::array<uint32_t, 4> at{(uint32_t)dc->rank, context, (uint32_t)peer, emu::self().block};
  auto i = dc->all->channels.find(at);
  if (i == dc->all->channels.end()) {
    const std::string name = "network of rank " + std::to_string(dc->rank);
    emu::Agent *reader = emu::agent_new(dc->comm->process, dc->comm->device, name);
    emu::Agent *writer = emu::agent_new(dc->comm->process, dc->comm->device, name);
    i = dc->all->channels.emplace(at, Channel{reader, writer, {}}).first;
  }
  return i->second;
}

void enqueue(Channel &c, std::function<void()> deliver) {
  c.queue.push_back(std::move(deliver));
  Channel *channel = &c;
  emu::later(c.writer, emu::choose(64), [channel] {
    const std::function<void()> first = std::move(channel->queue.front());
    channel->queue.pop_front();
    first();
    emu::progress();
  });
}

bool peer_exists(DeviceComm *dc, int peer, emu::Site site) {
  if (peer >= 0 && peer < dc->all->n)
    return true;
  emu::finding("out-of-window", "there is no rank " + std::to_string(peer), site);
  return false;
}

// The address of a range in a window, NULL when it is not in it (reported).
char *range(DeviceComm *dc, ncclWindow_t w, int rank, size_t offset, size_t bytes, const char *what,
            emu::Site site) {
  if (!w || w->set->clique != dc->all->clique || !w->set->live[rank]) {
    emu::finding("unregistered", std::string(what) + " of a transfer is in no registered window",
                 site);
    return nullptr;
  }
  const size_t size = w->set->size[rank];
  if (offset > size || bytes > size - offset) {
    emu::finding("out-of-window",
                 std::string(what) + " of a transfer: " + std::to_string(bytes) +
                     " bytes at offset " + std::to_string(offset) + " of a window of " +
                     std::to_string(size),
                 site);
    return nullptr;
  }
  return w->set->base[rank] + offset;
}

void check_signal(DeviceComm *dc, const Signal &s, emu::Site site) {
  if (s.kind != Signal::NONE && s.window)
    emu::unsupported("signals in windows (VA signals)", site);
  if (s.kind != Signal::NONE && s.id >= dc->all->signals)
    emu::finding("signal-index",
                 "signal " + std::to_string(s.id) + " where the device communicator has " +
                     std::to_string(dc->all->signals),
                 site);
}
void check_counter(DeviceComm *dc, uint32_t id, emu::Site site) {
  if (id >= dc->all->counters)
    emu::finding("signal-index",
                 "counter " + std::to_string(id) + " where the device communicator has " +
                     std::to_string(dc->all->counters),
                 site);
}

// Runs as the writing engine, after the data.
void deliver_signal(Cell &cell, const Signal &s) { cell.add(s.value, emu::release()); }

void wait_cell(Cell &cell, uint64_t least, int bits, Order order, const std::string &what,
               emu::Site site) {
  emu::maybe_switch();
  emu::wait_until([&cell, least, bits] { return cell.reached(least, bits); },
                  {"waits for " + what + " to reach " + std::to_string(least), site});
  emu::Clock learnt;
  cell.join(least, learnt, bits);
  if (bits == 64 && least > 64)
    cell.trim(least - 64);
  emu::acquire(from_anywhere(learnt), load_order(order), emu::Scope::SYSTEM);
}
uint64_t read_cell(Cell &cell, int bits, Order order, emu::Site site) {
  emu::poll(site, "a signal or counter");
  emu::Clock learnt;
  cell.join_all(learnt);
  emu::acquire(from_anywhere(learnt), load_order(order), emu::Scope::SYSTEM);
  return cell.value() & ~uint64_t(0) >> (64 - bits);
}
void reset_cell(Cell &cell, const char *what, emu::Site site) {
  const auto ordered = [](const emu::Clock &a, const emu::Clock &b) { return a.before(b); };
  if (cell.reset(emu::knowledge(), ordered))
    emu::finding("race", std::string("reset of a ") + what + " that races with its increments",
                 site);
  emu::progress();
}

Cell &signal_cell(DeviceComm *dc, uint32_t context, const Signal &s, emu::Site site) {
  Signal used = s;
  used.kind = Signal::INC;
  check_signal(dc, used, site);
  return context_of(dc, context).signals[s.id];
}

void put(DeviceComm *dc, uint32_t context, int peer, char *to, const char *from,
         std::shared_ptr<std::vector<char>> data, size_t bytes, const Signal &signal,
         const Counter &counter, emu::Site site) {
  Channel &c = channel(dc, context, peer);
  auto t = std::make_shared<Transfer>();
  t->issued = emu::release();
  t->site = site;
  t->peer = peer;
  if (from) {
    emu::as_agent(c.reader, [&] {
      emu::acquire(t->issued);
      if (emu::access_read(from, bytes, site))
        std::memcpy(data->data(), from, bytes);
      t->consumed = emu::release();
    });
    sources.begin((uintptr_t)from, bytes, 0, t);
    context_of(dc, context).outstanding.push_back(t);
  }
  if (counter.used) {
    check_counter(dc, counter.id, site);
    Context *mine = &context_of(dc, context);
    const uint32_t id = counter.id;
    emu::Clock consumed = from ? t->consumed : t->issued;
    emu::later(c.reader, emu::choose(16), [mine, id, t, consumed] {
      Cell &cell = mine->counters[id];
      cell.add(1, consumed);
      mine->counted[id].push_back({cell.value(), t});
      emu::progress();
    });
  }
  check_signal(dc, signal, site);
  DeviceClique *all = dc->all.get();
  enqueue(c, [=] {
    emu::acquire(t->issued);
    if (to && emu::access_write(to, bytes, site))
      std::memcpy(to, data->data(), bytes);
    if (signal.kind != Signal::NONE)
      deliver_signal(all->context[{peer, context}].signals[signal.id], signal);
  });
  emu::maybe_switch();
}

void forget(Context &c, const TransferRef &t) {
  sources.release_site(0, t);
  c.outstanding.erase(std::remove(c.outstanding.begin(), c.outstanding.end(), t),
                      c.outstanding.end());
}

} // namespace

void channel_send(DeviceComm *dc, uint32_t context, int peer, std::function<void()> arrive) {
  enqueue(channel(dc, context, peer), std::move(arrive));
}

void gin_check(DeviceComm *dc) {
  static bool hooked;
  if (!hooked) {
    hooked = true;
    emu::set_write_hook(on_write);
  }
  if (!dc->all->gin)
    emu::finding("gin-disabled",
                 "GIN on a device communicator whose requirements do not ask for it", EMU_SITE());
}

void gin_put(DeviceComm *dc, uint32_t context, int peer, ncclWindow_t to, size_t to_offset,
             ncclWindow_t from, size_t from_offset, size_t bytes, const Signal &signal,
             const Counter &counter) {
  const emu::Site site = EMU_SITE();
  if (!peer_exists(dc, peer, site))
    return;
  char *source = range(dc, from, dc->rank, from_offset, bytes, "the source", site);
  char *target = range(dc, to, peer, to_offset, bytes, "the target", site);
  if (!source)
    target = nullptr;
  put(dc, context, peer, target, source, std::make_shared<std::vector<char>>(bytes), bytes, signal,
      counter, site);
}

void gin_put_value(DeviceComm *dc, uint32_t context, int peer, ncclWindow_t to, size_t to_offset,
                   const void *value, size_t bytes, const Signal &signal) {
  const emu::Site site = EMU_SITE();
  if (!peer_exists(dc, peer, site))
    return;
  char *target = range(dc, to, peer, to_offset, bytes, "the target", site);
  auto data = std::make_shared<std::vector<char>>((const char *)value, (const char *)value + bytes);
  put(dc, context, peer, target, nullptr, data, bytes, signal, {false, 0}, site);
}

void gin_signal(DeviceComm *dc, uint32_t context, int peer, const Signal &signal) {
  const emu::Site site = EMU_SITE();
  if (peer_exists(dc, peer, site))
    put(dc, context, peer, nullptr, nullptr, nullptr, 0, signal, {false, 0}, site);
}

void gin_get(DeviceComm *dc, uint32_t context, int peer, ncclWindow_t from, size_t from_offset,
             ncclWindow_t to, size_t to_offset, size_t bytes) {
  const emu::Site site = EMU_SITE();
  if (!peer_exists(dc, peer, site))
    return;
  char *source = range(dc, from, peer, from_offset, bytes, "the source", site);
  char *target = range(dc, to, dc->rank, to_offset, bytes, "the target", site);
  if (!source || !target)
    return;
  Channel &c = channel(dc, context, peer);
  auto t = std::make_shared<Transfer>();
  t->issued = emu::release();
  t->site = site;
  t->peer = peer;
  t->get = true;
  t->done = false;
  context_of(dc, context).outstanding.push_back(t);
  emu::later(c.reader, emu::choose(64), [t, source, target, bytes, site] {
    emu::acquire(t->issued);
    emu::copy_checked(target, source, bytes, site);
    t->consumed = emu::release();
    t->done = true;
    emu::progress();
  });
  emu::maybe_switch();
}

void gin_flush(DeviceComm *dc, uint32_t context, int peer, Order) {
  const emu::Site site = EMU_SITE();
  Context &c = context_of(dc, context);
  const emu::Clock now = emu::knowledge();
  // Those that are ordered before this flush; others are not its business.
  std::vector<TransferRef> mine;
  for (const TransferRef &t : c.outstanding)
    if ((peer < 0 || t->peer == peer) && t->issued.before(now))
      mine.push_back(t);
  for (const TransferRef &t : mine) {
    emu::wait_until([t] { return t->done; }, {"waits for a get in a flush", site});
    emu::acquire(t->consumed);
    forget(c, t);
  }
  emu::maybe_switch();
}

uint64_t gin_read_signal(DeviceComm *dc, uint32_t context, const Signal &s, int bits, Order order) {
  const emu::Site site = EMU_SITE();
  return read_cell(signal_cell(dc, context, s, site), bits, order, site);
}
void gin_wait_signal(DeviceComm *dc, uint32_t context, const Signal &s, uint64_t least, int bits,
                     Order order) {
  const emu::Site site = EMU_SITE();
  wait_cell(signal_cell(dc, context, s, site), least, bits, order,
            "signal " + std::to_string(s.id) + " of context " + std::to_string(context), site);
}
void gin_reset_signal(DeviceComm *dc, uint32_t context, const Signal &s) {
  const emu::Site site = EMU_SITE();
  reset_cell(signal_cell(dc, context, s, site), "signal", site);
  context_of(dc, context).shadows[s.id] = 0;
}
uint64_t *gin_shadow(DeviceComm *dc, uint32_t context, uint32_t id) {
  return &context_of(dc, context).shadows[id];
}

uint64_t gin_read_counter(DeviceComm *dc, uint32_t context, uint32_t id, int bits, Order order) {
  const emu::Site site = EMU_SITE();
  check_counter(dc, id, site);
  return read_cell(context_of(dc, context).counters[id], bits, order, site);
}
void gin_wait_counter(DeviceComm *dc, uint32_t context, uint32_t id, uint64_t least, int bits,
                      Order order) {
  const emu::Site site = EMU_SITE();
  check_counter(dc, id, site);
  Context &c = context_of(dc, context);
  wait_cell(c.counters[id], least, bits, order, "counter " + std::to_string(id), site);
  auto &counted = c.counted[id];
  while (!counted.empty() && rolling_le(counted.front().first, least, bits)) {
    forget(c, counted.front().second);
    counted.pop_front();
  }
}
void gin_reset_counter(DeviceComm *dc, uint32_t context, uint32_t id) {
  const emu::Site site = EMU_SITE();
  check_counter(dc, id, site);
  reset_cell(context_of(dc, context).counters[id], "counter", site);
  context_of(dc, context).counted[id].clear();
}

} // namespace emu_nccl
