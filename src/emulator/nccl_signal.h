// SPDX-License-Identifier: Apache-2.0
/* What a signal, a counter or a barrier inbox of the emulated NCCL remembers: its value and, for
 * every step of the value, the clock that the step published. A wait for a value joins the clocks
 * of the steps that were needed to reach it and no later ones: a wait that an older epoch satisfies
 * learns nothing about the newer one, so that a read of the newer payload behind it is a race.
 *
 * CLOCK is the engine's vector clock: copyable, with void join(const Clock &). Nothing here blocks;
 * the caller retries a wait that is not reached. */
#ifndef CUCOCC_EMULATOR_NCCL_SIGNAL_H
#define CUCOCC_EMULATOR_NCCL_SIGNAL_H

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

namespace emu_nccl {

/* NCCL's comparison: A <= B in BITS (1..64) bits with wrap-around. */
inline bool rolling_le(uint64_t a, uint64_t b, int bits = 64) {
  uint64_t mask = ~uint64_t(0) >> (64 - bits);
  return ((b - a) & mask) <= (mask >> 1);
}

template <class Clock> class SignalCell {
public:
  uint64_t value() const { return value_; }

  /* One delivered increment by STEP whose sender had CLOCK; SCOPED: its release reaches this
   * device. */
  void add(uint64_t step, const Clock &clock, bool scoped = true) {
    value_ += step;
    steps_.push_back({value_, clock, scoped});
  }

  /* True when the value has reached LEAST. */
  bool reached(uint64_t least, int bits = 64) const { return rolling_le(least, value_, bits); }

  /* Joins into INTO what a wait for LEAST that is reached may rely on. Returns how many steps there
   * were beyond it: when not 0, the wait passed with the cell ahead of what it asked for. */
  size_t join(uint64_t least, Clock &into, int bits = 64) const {
    into.join(reset_clock_);
    size_t used = 0;
    uint64_t before = base_;
    for (const Step &s : steps_) {
      // A step is needed while the value before it was still short of LEAST.
      if (rolling_le(least, before, bits))
        break;
      if (s.scoped)
        into.join(s.clock);
      before = s.value;
      used++;
    }
    return steps_.size() - used;
  }

  /* All steps so far: what an acquiring read of the value may rely on. */
  void join_all(Clock &into) const {
    into.join(reset_clock_);
    for (const Step &s : steps_)
      if (s.scoped)
        into.join(s.clock);
  }

  /* Back to zero. CLOCK: that of the thread that resets; it covers what the steps had published,
   * since a reset may not race with an increment. Returns the number of steps that CLOCK does not
   * cover according to ORDERED(step clock, CLOCK): a reset racing with increments when not 0. */
  template <class Ordered> size_t reset(const Clock &clock, Ordered ordered) {
    size_t racing = 0;
    for (const Step &s : steps_)
      racing += !ordered(s.clock, clock);
    steps_.clear();
    value_ = base_ = 0;
    reset_clock_ = clock;
    return racing;
  }

  /* Forgets the steps at or below VALUE after a wait for it by the only waiter; their clocks are
   * folded into one. */
  void trim(uint64_t value) {
    while (!steps_.empty() && rolling_le(steps_.front().value, value)) {
      if (steps_.front().scoped)
        reset_clock_.join(steps_.front().clock);
      base_ = steps_.front().value;
      steps_.pop_front();
    }
  }

private:
  struct Step {
    uint64_t value; // after the step
    Clock clock;
    bool scoped;
  };
  uint64_t value_ = 0, base_ = 0;
  Clock reset_clock_{};
  std::deque<Step> steps_;
};

/* Sources of puts that are on their way: which bytes of local memory may not be written yet, and
 * who may reuse them after a flush or a counter. SITE identifies the put in reports. */
template <class Site> class SourceTracker {
public:
  /* A put by ISSUER (a context and thread group of the caller's numbering) reads [BEGIN, BEGIN +
   * BYTES). */
  void begin(uintptr_t begin, size_t bytes, uint64_t issuer, const Site &site) {
    if (bytes)
      live_.emplace(begin, Source{begin + bytes, issuer, site});
    if (bytes > longest_)
      longest_ = bytes;
  }

  /* The sources of ISSUER's puts are free: a flush. */
  void release(uint64_t issuer) {
    for (auto i = live_.begin(); i != live_.end();)
      i = i->second.issuer == issuer ? live_.erase(i) : std::next(i);
  }

  /* The put from SITE alone has consumed its source: its counter was waited for. */
  void release_site(uint64_t issuer, const Site &site) {
    for (auto i = live_.begin(); i != live_.end(); ++i)
      if (i->second.issuer == issuer && i->second.site == site) {
        live_.erase(i);
        return;
      }
  }

  /* The put whose source a write of [BEGIN, BEGIN + BYTES) would change, or NULL. */
  const Site *conflict(uintptr_t begin, size_t bytes) const {
    auto i = live_.lower_bound(begin > longest_ ? begin - longest_ : 0);
    for (; i != live_.end() && i->first < begin + bytes; ++i)
      if (i->second.end > begin)
        return &i->second.site;
    return nullptr;
  }

  bool empty() const { return live_.empty(); }

private:
  struct Source {
    uintptr_t end;
    uint64_t issuer;
    Site site;
  };
  std::multimap<uintptr_t, Source> live_;
  size_t longest_ = 0;
};

/* The sessions on the barrier indices of one rank and one barrier handle. A session is opened by a
 * block and closed by its destructor; CLOCK values decide whether an earlier session is over for
 * the opener. */
template <class Clock> class SessionTable {
public:
  enum Verdict { FINE, BEYOND_COUNT, STILL_OPEN, UNORDERED };

  explicit SessionTable(uint32_t count = 0) : count_(count) {}

  /* Opens INDEX for block OWNER whose clock is CLOCK. ORDERED(a, b): a happened before b.
   * STILL_OPEN: another session, of this block or another, has not ended; UNORDERED: the last one
   * ended, but nothing ordered its end before this. */
  template <class Ordered>
  Verdict open(uint32_t index, uint64_t owner, const Clock &clock, Ordered ordered) {
    if (index >= count_)
      return BEYOND_COUNT;
    Entry &e = entries_[index];
    Verdict v = e.open                                                 ? STILL_OPEN
                : e.used && e.owner != owner && !ordered(e.end, clock) ? UNORDERED
                                                                       : FINE;
    e.open++;
    e.used = true;
    e.owner = owner;
    return v;
  }
  void close(uint32_t index, const Clock &clock) {
    auto i = entries_.find(index);
    if (i == entries_.end() || !i->second.open)
      return;
    i->second.open--;
    i->second.end = clock;
  }

private:
  struct Entry {
    unsigned open = 0;
    bool used = false;
    uint64_t owner = 0;
    Clock end{};
  };
  uint32_t count_;
  std::map<uint32_t, Entry> entries_;
};

} // namespace emu_nccl

#endif
