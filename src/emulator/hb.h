// SPDX-License-Identifier: Apache-2.0
/* The clocks of actors, for the memory half alone. */
#ifndef CUCOCC_EMULATOR_HB_H
#define CUCOCC_EMULATOR_HB_H

#include "engine_internal.h"

namespace emu {

/* A release that a fence has made, for the relaxed stores that follow; or what relaxed loads have
 * seen, for the next fence. */
struct Pending {
  Published published;
  Scope scope; // of the loads
};

/* What the threads of a running block share; hosts and agents have one of their own. */
struct HbBlock {
  uint64_t number;   // unique, from 1
  Clock base;        // what all threads knew at the last barrier
  uint64_t time;     // the latest of any thread
  uint64_t phase;    // the time at which the current phase began: earlier times are known to all
  unsigned threads;  // begun and not ended
  Identity who;
  Clock ended;       // what ended threads knew
  Clock fenced[4];   // what fences before the last barrier released, by Scope
  bool single;       // a host or an agent
};

struct HbActor {
  HbBlock *block;
  uint64_t line;    // of Clock
  uint64_t time;    // accesses have this time
  uint64_t epoch;   // line and time as the shadow memory keeps them, of the first thread of the warp
  uint32_t lane;    // this thread's bit in the warp
  bool accessed;    // since the last release
  bool fences;      // some of FENCED is set
  Identity who;
  Clock know;       // without its own line
  Clock fenced[4];  // by Scope: what the last fence of that scope released
  std::vector<Pending> pending;
  /* Whole lines that are known, by block number. */
  struct {
    uint64_t block = 0, time = 0;
  } cache[8];
};

/* An epoch is a line (40 bits) and a time (24 bits). */
constexpr unsigned TIME_BITS = 24;
constexpr uint64_t TIME_MASK = (uint64_t(1) << TIME_BITS) - 1;

/* Who the threads of a line are, living or ended. */
Identity hb_who(uint64_t line);

/* All accesses at EPOCH by the threads LANES after its line are known to ACTOR. */
bool hb_known_slow(HbActor *actor, uint64_t epoch, uint32_t lanes);
inline bool hb_known(HbActor *actor, uint64_t epoch, uint32_t lanes) {
  const uint64_t time = epoch & TIME_MASK;
  const uint64_t block = epoch >> (TIME_BITS + 11);
  if (block == actor->block->number) {
    if (time < actor->block->phase)
      return true;
    if (epoch >> TIME_BITS == actor->epoch >> TIME_BITS && lanes == actor->lane)
      return true;
  } else {
    const auto &c = actor->cache[block % 8];
    if (c.block == block && c.time >= time)
      return true;
  }
  return hb_known_slow(actor, epoch, lanes);
}

/* Does SCOPE, as seen from an actor, reach another one? */
bool hb_reaches(Scope scope, const Identity &from, const Identity &to);
/* What an atomic store of ORDER publishes: at most one for each scope, into OUT[0..3]. */
unsigned hb_publish(Order order, Scope scope, Published out[4]);

} // namespace emu

#endif
