// SPDX-License-Identifier: Apache-2.0
/* Between the two halves of the engine, and to nobody else: the scheduler (actors, blocks, streams;
 * sched_*.cc) and the memory half (clocks, shadow memory, findings; memory_*.cc). */
#ifndef CUCOCC_EMULATOR_ENGINE_INTERNAL_H
#define CUCOCC_EMULATOR_ENGINE_INTERNAL_H

#include "engine.h"

namespace emu {

/* ---- clocks of actors: implemented by the memory half ------------------------------------------ */

struct HbActor; // the clock of one actor
struct HbBlock; // the base clock that the threads of a running block share

/* A HOST or AGENT actor begins, knowing START. */
HbActor *hb_actor_begin(const Clock &start, const Identity &who);
/* It ends: returns all that it did and knew, and frees it. */
Clock hb_actor_end(HbActor *actor);

/* A block of THREADS threads begins, all of them knowing START (what stream order implies). Costs
 * O(1) in the clock's size per thread: threads keep a base in common and only what they learnt
 * beyond it. */
HbBlock *hb_block_begin(const Clock &start, const Identity &who, unsigned threads);
HbActor *hb_thread_begin(HbBlock *block, const Identity &who);
/* A thread of the block has returned. */
void hb_thread_end(HbActor *thread);
/* All have: returns what the whole block did and knew, and frees it. */
Clock hb_block_end(HbBlock *block);
/* The scheduler found that THREADS of one block have met in a barrier: all learn from all. With
 * WHOLE every live thread of the block takes part, and the base clock is renewed. */
void hb_meet(HbBlock *block, HbActor *const *threads, unsigned count, bool whole);

/* ---- the running actor: implemented by the scheduler -------------------------------------------- */

/* The clock of the running actor; NULL outside of any (start-up). A plain global, so that the
 * instrumented accesses can read it without a call. */
extern HbActor *hb_current;

/* Called by the memory half at every plain access of the program (after its checks) and at every
 * atomic or volatile one: the scheduler may switch. VOLATILE or atomic loads are the bodies of
 * spinning loops: the scheduler must be fair to them. */
void sched_access(bool atomic_or_volatile, bool write, uintptr_t address, Site site);

/* Number of the schedule that runs: 0 is the plain one. */
unsigned sched_schedule();
uint64_t sched_seed();

/* ---- the memory half's start, end and findings ----------------------------------------------------- */

struct FindingRecord {
  std::string kind, message, who; // who: "rank 1, block 2, thread 3"
  std::string file, other_file;   // program places, resolved; empty when unknown
  unsigned line = 0, column = 0, other_line = 0;
  std::string other_text;
  uint64_t seed = 0;
  unsigned schedule = 0;
};
/* All findings so far, in order, each kind and pair of places once. */
const std::vector<FindingRecord> &findings();

/* Places of a loaded program copy: maps addresses of the shared object at PATH, loaded at BASE
 * (dlinfo), to lines. The copies of all ranks have the same lines, so places are compared by them. */
void sites_add_object(const std::string &path, uintptr_t base);

} // namespace emu

#endif
