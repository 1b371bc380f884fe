// SPDX-License-Identifier: Apache-2.0
/* Who knows what: the clocks of actors, blocks that share a base, barriers, releases and acquires
 * with scopes, fences. */
#include "hb.h"

#include <algorithm>
#include <deque>

namespace emu {

namespace {

/* Identities by block number: reports name actors that have ended. */
std::deque<Identity> &people() {
  static std::deque<Identity> p;
  return p;
}

uint64_t new_number(const Identity &who) {
  people().push_back(who);
  return people().size();
}

void set_epoch(HbActor *a) {
  const uint64_t first = a->block->single ? a->line : a->line - (a->who.thread & 31);
  a->epoch = (first << TIME_BITS) | (a->time & TIME_MASK);
}

HbActor *new_actor(HbBlock *block, const Identity &who, unsigned thread) {
  HbActor *a = new HbActor();
  a->block = block;
  a->who = who;
  a->line = Clock::thread_line(block->number, thread);
  a->lane = block->single ? 1 : uint32_t(1) << (thread & 31);
  a->time = block->phase;
  a->know = block->base;
  set_epoch(a);
  return a;
}

HbBlock *new_block(const Clock &start, const Identity &who, bool single) {
  HbBlock *b = new HbBlock();
  b->number = new_number(who);
  b->base = start;
  b->base.settle();
  b->time = b->phase = 1;
  b->who = who;
  b->single = single;
  return b;
}

/* The latest time at which ACTOR may have accessed memory. */
uint64_t last_time(const HbActor *a) { return a->accessed ? a->time : a->time - 1; }

/* All that ACTOR knows and has done. */
Clock whole_knowledge(const HbActor *a) {
  Clock c = a->know;
  if (last_time(a))
    c.raise(a->block->single ? Clock::whole_line(a->block->number) : a->line, last_time(a));
  return c;
}

/* Accesses from now on are later than those until now. */
void new_time(HbActor *a) {
  if (!a->accessed)
    return;
  a->accessed = false;
  HbBlock *b = a->block;
  a->time = ++b->time;
  set_epoch(a);
}

Clock release_of(HbActor *a) {
  Clock c = whole_knowledge(a);
  new_time(a);
  return c;
}

int device_of(const Identity &who) { return who.kind == ActorKind::THREAD ? who.device : -1; }

Scope narrower(Scope a, Scope b) { return a < b ? a : b; }

bool releases(Order o) {
  return o == Order::RELEASE || o == Order::ACQ_REL || o == Order::SEQ_CST;
}
bool acquires(Order o) {
  return o == Order::ACQUIRE || o == Order::ACQ_REL || o == Order::SEQ_CST;
}

Published published_by(const HbActor *a, Clock clock, Scope scope) {
  Published p;
  p.clock = std::move(clock);
  p.scope = scope;
  p.device = device_of(a->who);
  p.block = a->who.block_key;
  return p;
}

void learn(HbActor *a, const Clock &clock) { a->know.join(clock); }

} // namespace

Identity hb_who(uint64_t line) {
  const uint64_t block = line >> 11;
  Identity who = people().at(block - 1);
  if (who.kind != ActorKind::THREAD)
    return who;
  who.thread = (unsigned)(line & 2047) - 1;
  return who;
}

bool hb_known_slow(HbActor *a, uint64_t epoch, uint32_t lanes) {
  const uint64_t time = epoch & TIME_MASK;
  const uint64_t line = epoch >> TIME_BITS;
  const uint64_t block = line >> 11;
  const uint64_t whole = a->know.get(Clock::whole_line(block));
  auto &c = a->cache[block % 8];
  c.block = block;
  c.time = whole;
  if (whole >= time)
    return true;
  for (unsigned i = 0; i < 32; i++)
    if (lanes >> i & 1 && line + i != a->line && a->know.get(line + i) < time)
      return false;
  return true;
}

/* ---- beginning and end --------------------------------------------------------------------------- */

HbActor *hb_actor_begin(const Clock &start, const Identity &who) {
  return new_actor(new_block(start, who, true), who, 0);
}

Clock hb_actor_end(HbActor *actor) {
  Clock c = whole_knowledge(actor);
  if (hb_current == actor)
    hb_current = nullptr;
  delete actor->block;
  delete actor;
  return c;
}

HbBlock *hb_block_begin(const Clock &start, const Identity &who, unsigned threads) {
  HbBlock *b = new_block(start, who, false);
  b->who.kind = ActorKind::THREAD;
  b->threads = threads;
  return b;
}

HbActor *hb_thread_begin(HbBlock *block, const Identity &who) {
  return new_actor(block, who, who.thread);
}

void hb_thread_end(HbActor *thread) {
  HbBlock *b = thread->block;
  if (!thread->know.same(b->base))
    b->ended.join(thread->know);
  if (hb_current == thread)
    hb_current = nullptr;
  if (b->threads)
    b->threads--;
  delete thread;
}

Clock hb_block_end(HbBlock *block) {
  Clock c = block->base;
  c.join(block->ended);
  c.raise(Clock::whole_line(block->number), block->time);
  delete block;
  return c;
}

void hb_meet(HbBlock *block, HbActor *const *threads, unsigned count, bool whole) {
  if (!count)
    return;
  Clock all = threads[0]->know;
  bool fences = false;
  for (unsigned i = 0; i < count; i++) {
    all.join(threads[i]->know);
    fences |= threads[i]->fences;
  }
  if (whole) {
    all.join(block->ended);
    all.raise(Clock::whole_line(block->number), block->time);
    all.settle();
    block->base = all;
    block->phase = ++block->time;
  } else {
    for (unsigned i = 0; i < count; i++)
      all.raise(threads[i]->line, last_time(threads[i]));
  }
  // What a fence has released stays so for those who learn of it at the barrier.
  Clock fenced[4];
  if (fences)
    for (unsigned i = 0; i < count; i++)
      for (int s = 0; threads[i]->fences && s < 4; s++)
        fenced[s].join(threads[i]->fenced[s]);
  for (unsigned i = 0; i < count; i++) {
    HbActor *t = threads[i];
    t->know = all;
    if (whole) {
      t->time = block->phase;
      t->accessed = false;
      set_epoch(t);
    } else {
      new_time(t);
    }
    if (fences) {
      t->fences = true;
      for (int s = 0; s < 4; s++)
        t->fenced[s] = fenced[s];
    }
  }
}

/* ---- releases and acquires ------------------------------------------------------------------------- */

Clock release() { return hb_current ? release_of(hb_current) : Clock(); }

Clock knowledge() { return hb_current ? whole_knowledge(hb_current) : Clock(); }

void acquire(const Clock &clock) {
  if (hb_current)
    learn(hb_current, clock);
}

Published publish(Scope scope) {
  if (!hb_current)
    return Published();
  return published_by(hb_current, release_of(hb_current), scope);
}

bool hb_reaches(Scope scope, const Identity &from, const Identity &to) {
  switch (scope) {
  case Scope::THREAD:
    return false;
  case Scope::BLOCK:
    return from.block_key && from.block_key == to.block_key;
  case Scope::DEVICE:
    return device_of(from) >= 0 && device_of(from) == device_of(to);
  case Scope::SYSTEM:
    return true;
  }
  return false;
}

namespace {
bool visible_to(const Identity &me, const Published &published, Scope scope) {
  switch (narrower(published.scope, scope)) {
  case Scope::THREAD:
    return false;
  case Scope::BLOCK:
    return published.block && published.block == me.block_key;
  case Scope::DEVICE:
    return published.device >= 0 && published.device == device_of(me);
  case Scope::SYSTEM:
    return true;
  }
  return false;
}
} // namespace

bool visible(const Published &published, Scope scope) {
  return hb_current && visible_to(hb_current->who, published, scope);
}

bool acquire(const Published &published, Scope scope) {
  if (!visible(published, scope))
    return false;
  learn(hb_current, published.clock);
  return true;
}

unsigned hb_publish(Order order, Scope scope, Published out[4]) {
  HbActor *a = hb_current;
  unsigned n = 0;
  if (!a)
    return 0;
  if (releases(order))
    out[n++] = published_by(a, release_of(a), scope);
  // A fence reaches as far as both it and the store do: wider ones count as narrower ones too.
  if (a->fences)
    for (int s = 3; s >= 1; s--)
      if (!a->fenced[s].empty()) {
        const Scope reach = narrower((Scope)s, scope);
        if (releases(order) && reach == scope)
          continue; // the release has it all
        bool joined = false;
        for (unsigned i = 0; i < n && !joined; i++)
          if (out[i].scope == reach) {
            out[i].clock.join(a->fenced[s]);
            joined = true;
          }
        if (!joined)
          out[n++] = published_by(a, a->fenced[s], reach);
      }
  return n;
}

Published publish(Order order, Scope scope) {
  Published out[4];
  // The widest comes first: a release, or the fence that reaches farthest.
  return hb_publish(order, scope, out) ? out[0] : Published();
}

bool acquire(const Published &published, Order order, Scope scope) {
  if (acquires(order))
    return acquire(published, scope);
  if (!visible(published, scope))
    return false;
  if (published.clock.empty())
    return true;
  HbActor *a = hb_current;
  for (Pending &p : a->pending)
    if (p.scope == scope && p.published.scope == published.scope &&
        p.published.device == published.device && p.published.block == published.block) {
      p.published.clock.join(published.clock);
      return true;
    }
  a->pending.push_back(Pending{published, scope});
  return true;
}

void fence(Order order, Scope scope) {
  HbActor *a = hb_current;
  if (!a || order == Order::RELAXED)
    return;
  if (acquires(order)) {
    std::vector<Pending> rest;
    for (Pending &p : a->pending) {
      const Scope reach = narrower(p.scope, scope);
      if (visible_to(a->who, p.published, reach))
        learn(a, p.published.clock);
      else
        rest.push_back(std::move(p));
    }
    a->pending = std::move(rest);
  }
  if (releases(order)) {
    a->fenced[(int)scope] = release_of(a);
    a->fences = true;
  }
}

} // namespace emu
