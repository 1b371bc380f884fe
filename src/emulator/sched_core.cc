// SPDX-License-Identifier: Apache-2.0
/* The loop that decides who runs, and how actors wait. */
#include "sched_internal.h"

#include <algorithm>
#include <cstdio>
#include <cxxabi.h>

namespace emu {

Scheduler *sched = nullptr;
HbActor *hb_current = nullptr;

namespace {

struct Stacks { // a stack allocator for fibers
  bool host;
  boost::context::stack_context allocate() { return stack_take(host); }
  void deallocate(boost::context::stack_context &s) { stack_give(s); }
};

struct ExceptionState { // what __cxa_get_globals() points at
  void *caught;
  unsigned uncaught;
};

const unsigned quiet_rounds = 256; // of polls by everybody without a change: a deadlock
const unsigned plain_reads = 4096; // in a row: a loop that spins on plain loads
const unsigned atomics = 32;       // in a row: a loop that spins on several places
const unsigned quantum = 1 << 16;  // accesses without a switch

void enter(Actor *a) {
  sched->current = a;
  hb_current = a ? a->hb : nullptr;
  if (sched->hook)
    sched->hook(a ? a->user : nullptr);
}

void resume(Actor *a) {
  auto *e = reinterpret_cast<ExceptionState *>(abi::__cxa_get_globals());
  const ExceptionState mine = *e;
  e->caught = a->exceptions.caught;
  e->uncaught = a->exceptions.uncaught;
  a->accesses = a->reads = a->atomics = 0;
  enter(a);
  a->fiber = std::move(a->fiber).resume();
  a->exceptions.caught = e->caught;
  a->exceptions.uncaught = e->uncaught;
  *e = mine;
  enter(nullptr);
  if (a->state == State::ENDED && a->block)
    delete a;
}

/* Actors whose condition holds now. */
bool check_conditions() {
  bool any = false;
  auto &c = sched->conditions;
  for (size_t i = 0; i < c.size();) {
    Actor *a = c[i];
    sched->current = a;
    hb_current = a->hb;
    const bool now = a->ready();
    enter(nullptr);
    if (!now) {
      i++;
      continue;
    }
    c.erase(c.begin() + (long)i);
    a->ready = nullptr;
    sched_make_ready(a);
    any = true;
  }
  return any;
}

bool laters_step(bool force) {
  auto &l = sched->laters;
  for (size_t i = 0; i < l.size(); i++)
    if (force || l[i].due <= sched->steps) {
      Later one = std::move(l[i]);
      l.erase(l.begin() + (long)i);
      as_agent(one.agent, one.body);
      sched->changes++;
      return true;
    }
  return false;
}

Actor *pick() {
  auto &r = sched->ready;
  if (perturbed()) {
    size_t i = choose(std::min<size_t>(r.size(), 64));
    if (r[i]->process && choose(8) < r[i]->process->speed)
      i = choose(r.size());
    std::swap(r[0], r[i]);
  }
  Actor *a = r.front();
  r.pop_front();
  return a;
}

void release_polling() {
  for (Actor *a : sched->polling)
    sched_make_ready(a);
  sched->polling.clear();
}

std::string actor_text(Actor *a) {
  sched->current = a;
  hb_current = a->hb;
  std::string t = self_text();
  enter(nullptr);
  return t + (a->reason.what.empty() ? " spins" : " " + a->reason.what) +
         (a->reason.site ? " at " + site_text(a->reason.site) : "");
}

void report_deadlock() {
  std::vector<Actor *> all = sched->conditions;
  all.insert(all.end(), sched->polling.begin(), sched->polling.end());
  for (auto &p : sched->processes)
    for (Actor *a : p->actors)
      if (a->state == State::WAITING && !a->ready)
        all.push_back(a);
  for (Grid *g : sched->grids)
    for (Block *b : g->resident) {
      all.insert(all.end(), b->all.arrived.begin(), b->all.arrived.end());
      for (auto &w : b->warps)
        all.insert(all.end(), w.second.arrived.begin(), w.second.arrived.end());
    }
  bool residency = false;
  std::string text = "nothing can go on";
  size_t shown = 0;
  for (Actor *a : all)
    if (shown++ < 24)
      text += "\n  " + actor_text(a);
  if (all.size() > 24)
    text += "\n  and " + std::to_string(all.size() - 24) + " more";
  text += deadlock_operations(&residency);
  Actor *first = all.empty() ? nullptr : all[0];
  if (first) {
    sched->current = first;
    hb_current = first->hb;
  }
  finding(residency ? "residency" : "deadlock", text, first ? first->reason.site : 0);
  enter(nullptr);
}

bool all_ended() {
  for (auto &p : sched->processes)
    if (!p->ended)
      return false;
  return true;
}

/* Nobody can go on before the next alarm: its time comes. */
bool ring() {
  auto &a = sched->alarms;
  if (a.empty())
    return false;
  sched->ticks = std::max(sched->ticks, *a.begin());
  a.erase(a.begin());
  sched->changes++;
  return true;
}

/* False: a deadlock. */
bool loop() {
  unsigned quiet = 0;
  uint64_t seen = sched->changes;
  while (!all_ended()) {
    sched->steps++;
    if (sched->ready.empty() || sched->steps % 32 == 0 || (perturbed() && choose(16) == 0)) {
      laters_step(false);
      bool some = streams_step();
      some |= grids_step();
      if (sched->checked != sched->changes || some) {
        sched->checked = sched->changes;
        check_conditions();
      }
      if (seen != sched->changes) {
        seen = sched->changes;
        quiet = 0;
        release_polling();
      }
    }
    if (!sched->ready.empty()) {
      resume(pick());
      continue;
    }
    if (seen != sched->changes || laters_step(true))
      continue;
    if (!sched->alarms.empty() && *sched->alarms.begin() <= sched->ticks && ring())
      continue;
    if (check_conditions() || streams_step() || grids_step())
      continue;
    if (sched->polling.empty() || ++quiet > quiet_rounds) {
      if (!ring())
        return false;
      quiet = 0;
    }
    release_polling();
  }
  return true;
}

} // namespace

void sched_make_ready(Actor *a) {
  if (a->process && a->process->ended)
    return;
  a->state = State::READY;
  sched->ready.push_back(a);
}

void sched_suspend(State state) {
  Actor *a = sched->current;
  a->state = state;
  if (state == State::READY)
    sched->ready.push_back(a);
  else if (state == State::POLLING)
    sched->polling.push_back(a);
  else if (state == State::WAITING && a->ready)
    sched->conditions.push_back(a);
  sched->loop = std::move(sched->loop).resume();
}

void sched_spawn(Actor *a, std::function<void()> body) {
  a->body = std::move(body);
  a->fiber = boost::context::fiber(std::allocator_arg, Stacks{a->who.kind == ActorKind::HOST},
                                   [a](boost::context::fiber &&from) {
                                     sched->loop = std::move(from);
                                     a->body();
                                     a->state = State::ENDED;
                                     sched->changes++;
                                     return std::move(sched->loop);
                                   });
  sched_make_ready(a);
}

void sched_inline(Actor *a, const std::function<void()> &body) {
  Actor *before = sched->current;
  a->inline_agent = true;
  enter(a);
  body();
  enter(before);
}

/* ---- who runs ---------------------------------------------------------------------------------
 */

Identity self() {
  if (sched && sched->current)
    return sched->current->who;
  return Identity{ActorKind::AGENT, 0, 0, {}, {}, 0, 0, nullptr};
}
int device_count() { return sched ? sched->options.devices : 1; }
int process_count() { return sched ? sched->options.processes : 1; }
int current_device() { return self().device; }
void set_current_device(int device) { sched->current->who.device = device; }
std::shared_ptr<void> &process_local(const void *key) {
  return sched->current->process->local[key];
}
std::shared_ptr<void> &actor_local(const void *key) { return sched->current->local[key]; }
void set_switch_hook(void (*hook)(void *user)) { sched->hook = hook; }
unsigned sched_schedule() { return sched ? sched->options.schedule : 0; }
uint64_t sched_seed() { return sched ? sched->options.seed : 0; }

/* ---- waiting ----------------------------------------------------------------------------------
 */

void wait_until(const std::function<bool()> &ready, const WaitReason &reason) {
  maybe_switch();
  if (ready())
    return;
  Actor *a = sched->current;
  if (a->inline_agent)
    unsupported("a wait inside an operation of a stream", reason.site);
  a->ready = ready;
  a->reason = reason;
  sched_suspend(State::WAITING);
  a->reason = WaitReason();
}

void poll(Site site, const char *what) {
  Actor *a = sched->current;
  sched->ticks += 50;
  if (!a || a->inline_agent)
    return;
  a->reason.what = std::string("polls ") + what;
  a->reason.site = site;
  sched_suspend(State::POLLING);
}

void progress() { sched->changes++; }

void maybe_switch() {
  if (perturbed() && sched->current && !sched->current->inline_agent && choose(4) == 0)
    sched_suspend(State::READY);
}

bool sched_wait_until(const std::function<bool()> &ready, uint64_t until,
                      const WaitReason &reason) {
  bool good = ready();
  if (good || until <= sched->ticks)
    return good;
  sched->alarms.insert(until);
  bool rung = false; // the loop takes an alarm out when it rings
  wait_until([&] { return (good = ready()) || (rung = until <= sched->ticks); }, reason);
  if (!rung) {
    const auto it = sched->alarms.find(until);
    if (it != sched->alarms.end())
      sched->alarms.erase(it);
  }
  return good;
}

uint64_t now_ns() { return sched->ticks; }
bool perturbed() { return sched->options.schedule != 0; }
uint64_t choose(uint64_t limit) { return perturbed() && limit > 1 ? sched->random() % limit : 0; }

void sched_access(bool atomic_or_volatile, bool write, uintptr_t address, Site site) {
  if (!sched || !sched->current)
    return;
  Actor *a = sched->current;
  sched->ticks++;
  if (write && !atomic_or_volatile) {
    a->reads = 0;
    sched->changes++;
  } else {
    a->reads++;
  }
  if (a->inline_agent)
    return;
  if (atomic_or_volatile) {
    const bool again = a->last_address == address;
    a->last_address = address;
    if (again || ++a->atomics >= atomics)
      poll(site, "memory");
    else if (perturbed() && choose(8) == 0)
      sched_suspend(State::READY);
  } else if (a->reads >= plain_reads) {
    poll(site, "memory");
  } else if (++a->accesses >= quantum || (perturbed() && choose(64) == 0)) {
    sched_suspend(State::READY);
  }
}

/* ---- processes and host threads ---------------------------------------------------------------
 */

namespace {
void drop(Process *p) {
  p->ended = true;
  auto gone = [p](Actor *a) { return a->process == p; };
  auto erase = [&](auto &c) { c.erase(std::remove_if(c.begin(), c.end(), gone), c.end()); };
  erase(sched->ready);
  erase(sched->polling);
  erase(sched->conditions);
  streams_drop(p);
  sched->changes++;
}

std::unordered_map<Actor *, HostThread *> &handles() {
  static std::unordered_map<Actor *, HostThread *> h;
  return h;
}

HostThread *make_host(Process *p, const Clock &start, int device, std::function<void *()> body) {
  auto *t = new HostThread;
  auto *a = new Actor;
  t->actor = a;
  t->body = std::move(body);
  a->process = p;
  a->who = Identity{ActorKind::HOST, p->index, device, {}, {}, 0, 0, nullptr};
  a->hb = hb_actor_begin(start, a->who);
  p->actors.push_back(a);
  handles()[a] = t;
  sched_spawn(a, [t, a] {
    t->result = t->body();
    t->clock = hb_actor_end(a->hb);
    a->hb = hb_current = nullptr;
    t->ended = true;
  });
  return t;
}
} // namespace

HostThread *host_thread_start(std::function<void *()> body) {
  return make_host(sched->current->process, release(), current_device(), std::move(body));
}

void *host_thread_join(HostThread *thread, Site site) {
  wait_until([thread] { return thread->ended; }, {"waits for a thread to end", site});
  acquire(thread->clock);
  return thread->result;
}

HostThread *host_thread_self() { return handles()[sched->current]; }

void host_thread_exit(void *result) {
  Actor *a = sched->current;
  HostThread *t = handles()[a];
  t->result = result;
  t->clock = hb_actor_end(a->hb);
  a->hb = hb_current = nullptr;
  t->ended = true;
  sched->changes++;
  sched_suspend(State::ENDED);
  abort(); // an actor that has ended is never resumed
}

void process_exit(int status) {
  if (sched->current->inline_agent)
    unsupported("exit() in a host function of a stream", 0);
  if (sched->options.exiting)
    sched->options.exiting(sched->current->process->index);
  fflush(nullptr);
  Process *p = sched->current->process;
  p->status = status;
  drop(p);
  sched_suspend(State::ENDED);
  abort(); // an actor that has ended is never resumed
}

void abort_all(int status) {
  for (auto &p : sched->processes)
    if (!p->ended && p.get() != sched->current->process) {
      p->status = status;
      drop(p.get());
    }
  process_exit(status);
}

int run_processes(const RunOptions &options, const std::function<int(int process)> &main,
                  std::vector<int> *status) {
  auto *mine = new Scheduler; // stays: actors that never ended keep their stacks
  sched = mine;
  mine->options = options;
  mine->random.seed(options.seed * 1000003 + options.schedule);
  mine->used.resize((size_t)options.devices);
  for (int i = 0; i < options.processes; i++) {
    mine->processes.emplace_back(new Process);
    Process *p = mine->processes.back().get();
    p->index = i;
    p->speed = (unsigned)choose(7);
    make_host(p, Clock(), 0, [main, i]() -> void * { process_exit(main(i)); });
  }
  const bool good = loop();
  bool failed = false; // then the others may well wait for it
  for (auto &p : mine->processes)
    failed |= p->ended && p->status != 0;
  if (!good && !failed)
    report_deadlock();
  int most = good ? 0 : 70;
  if (status)
    status->clear();
  for (auto &p : mine->processes) {
    if (!p->ended)
      p->status = 70;
    if (status)
      status->push_back(p->status);
    most = std::max(most, p->status);
  }
  return most;
}

} // namespace emu
