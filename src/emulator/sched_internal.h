// SPDX-License-Identifier: Apache-2.0
/* What the scheduler's files share. */
#ifndef CUCOCC_EMULATOR_SCHED_INTERNAL_H
#define CUCOCC_EMULATOR_SCHED_INTERNAL_H

#include "engine_internal.h"

#include <boost/context/fiber.hpp>

#include <deque>
#include <map>
#include <random>
#include <set>
#include <unordered_map>

namespace emu {

struct Process;
struct OpState;
struct Grid;
struct Actor;

struct Barrier {
  std::vector<Actor *> arrived;
  Clock clock; // of groups that span blocks
};

struct Block {
  Grid *grid;
  HbBlock *hb;
  Identity who;
  void *user = nullptr; // what block_begin returned
  unsigned threads, started = 0, ended = 0;
  Barrier all;
  std::map<std::pair<unsigned, unsigned>, Barrier> warps; // by warp and mask
  std::vector<uint32_t> exited;                           // lanes of each warp
};

enum class State { READY, POLLING, WAITING, ENDED };

struct Actor {
  Identity who;
  HbActor *hb = nullptr;
  State state = State::READY;
  boost::context::fiber fiber;
  bool inline_agent = false; // runs inside the scheduler: must not switch
  Process *process = nullptr;
  Block *block = nullptr;
  void *user = nullptr;
  std::function<bool()> ready; // WAITING on a condition; empty: until woken
  WaitReason reason;
  std::function<void()> body;
  unsigned accesses = 0, reads = 0, atomics = 0; // since its last switch; READS: since a write too
  uintptr_t last_address = 0;                    // of an atomic or volatile access
  std::unordered_map<const void *, std::shared_ptr<void>> local;
  struct {
    void *caught = nullptr;
    unsigned uncaught = 0;
  } exceptions;
};

struct HostThread {
  Actor *actor;
  std::function<void *()> body;
  void *result = nullptr;
  bool ended = false;
  Clock clock;
};

struct Process {
  int index;
  bool ended = false;
  int status = 0;
  unsigned speed = 0; // perturbed schedules: how often its actors are passed over, of 8
  std::vector<Actor *> actors;
  std::vector<Stream *> streams;
  std::map<int, Stream *> legacy, per_thread;
  std::unordered_map<const void *, std::shared_ptr<void>> local;
};

struct OpState {
  uint64_t id;
  std::string name, waits;
  Site site;
  Stream *stream;
  Clock start, end;
  std::vector<std::shared_ptr<OpState>> after;
  OpStart begin;
  std::function<bool(Operation)> check;
  std::unique_ptr<LaunchConfig> launch;
  std::unique_ptr<Grid> grid;
  Actor agent;
  bool started = false, done = false;
  uint64_t done_at = 0;
};

struct Grid {
  OpState *op;
  LaunchConfig config;
  uint64_t blocks;
  uint64_t next = 0, live = 0;
  std::vector<Block *> resident;
  std::vector<uint32_t> order; // of blocks, in perturbed schedules
  double weight = 1;           // of a block on its device
};

struct Stream {
  Process *process;
  int device;
  bool nonblocking, legacy = false, destroyed = false;
  std::deque<std::shared_ptr<OpState>> queue;
  std::shared_ptr<OpState> tail; // the last operation enqueued
};

struct Event {
  int device;
  std::shared_ptr<OpState> last;
};

struct Agent {
  Actor actor;
  std::string name;
};

struct Later {
  Agent *agent;
  uint64_t due;
  std::function<void()> body;
};

struct Scheduler {
  RunOptions options;
  std::mt19937_64 random;
  std::vector<std::unique_ptr<Process>> processes;
  std::vector<double> used; // of each device: the part that resident blocks take
  std::deque<Actor *> ready;
  std::vector<Actor *> polling, conditions;
  std::vector<Grid *> grids;
  std::vector<Later> laters;
  std::multiset<uint64_t> alarms; // virtual times at which somebody wants to look again
  Actor *current = nullptr;
  boost::context::fiber loop;
  uint64_t changes = 0, steps = 0, ticks = 0, operations = 0, checked = ~(uint64_t)0;
  void (*hook)(void *) = nullptr;
};
extern Scheduler *sched;

void sched_make_ready(Actor *a);
/* The running actor gives up the processor in STATE. */
void sched_suspend(State state);
void sched_spawn(Actor *a, std::function<void()> body);
/* Waits until READY or the virtual time UNTIL; READY's last answer. */
bool sched_wait_until(const std::function<bool()> &ready, uint64_t until, const WaitReason &reason);
/* BODY as A, inside the scheduler or another actor. */
void sched_inline(Actor *a, const std::function<void()> &body);
/* Starts and ends what can be started and ended; true when there was something. */
bool streams_step();
bool grids_step();
void grid_begin(OpState *op);
void op_finish(OpState *op);
void thread_ended(Actor *a);
std::string deadlock_operations(bool *residency);
void streams_drop(Process *p);
boost::context::stack_context stack_take(bool host);
void stack_give(boost::context::stack_context s);

} // namespace emu

#endif
