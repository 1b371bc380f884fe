// SPDX-License-Identifier: Apache-2.0
/* The emulator's engine: one OS thread on which everything else is a fiber. Host threads of all
 * ranks, CUDA threads, copies and collectives are actors; the scheduler decides from a seed who
 * runs. The CUDA runtime, the NCCL and the MPI shims are built on this header only.
 *
 * Nothing here is thread-safe and nothing has to be: no actor is interrupted between two calls that
 * may switch (those are marked "may switch"). */
#ifndef CUCOCC_EMULATOR_ENGINE_H
#define CUCOCC_EMULATOR_ENGINE_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace emu {

/* ---- who is running -----------------------------------------------------------------------------
 */

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct Block; // a running CUDA block
struct Stream;
struct Event;

enum class ActorKind { HOST, THREAD, AGENT };

/* HOST: a thread of a process; THREAD: a CUDA thread; AGENT: an operation of a stream (copy,
 * collective) or an engine such as a NIC. */
struct Identity {
  ActorKind kind;
  int process;    // index of the program's copy: the MPI rank, 0 in single-process programs
  int device;     // device on which a THREAD or an AGENT runs; the current device of a HOST actor
  Dim3 block_idx; // THREAD only, as are the following
  Dim3 thread_idx;
  unsigned block;        // linear index in the grid
  unsigned thread;       // linear index in the block
  const void *block_key; // unique for each running block; NULL for others
};
/* The running actor. */
Identity self();
/* How many emulated devices there are (all on one host), and how many processes run. */
int device_count();
int process_count();
/* Current device of the running HOST actor. */
int current_device();
void set_current_device(int device);

/* Storage of the current process, made at first use: KEY is the address of any static object. */
std::shared_ptr<void> &process_local(const void *key);
/* The same of the running actor (a host thread's NCCL group, for one). */
std::shared_ptr<void> &actor_local(const void *key);

/* ---- program places
 * ------------------------------------------------------------------------------ */

/* A place in the program: the address of an instruction, 0 when unknown. */
using Site = uintptr_t;
/* The place from which the program called the shim function that contains this macro's use. Inline
 * shim functions: their own frames are passed over when a place is printed, so any address of the
 * inlined code serves. */
#define EMU_SITE() (reinterpret_cast<::emu::Site>(__builtin_return_address(0)))
/* "file.cu:12" for messages. */
std::string site_text(Site site);

/* ---- waiting
 * -------------------------------------------------------------------------------------- */

/* Why an actor waits; printed when there is a deadlock. WHAT reads "waits for ...". */
struct WaitReason {
  std::string what;
  Site site = 0;
};

/* May switch. Blocks the running HOST or THREAD actor until READY returns true. READY is called by
 * the scheduler whenever anything in the program has progressed; it must be cheap and have no side
 * effect that a second call would repeat. When no actor can run any more this is a deadlock, which
 * is reported with every waiting actor's reason. */
void wait_until(const std::function<bool()> &ready, const WaitReason &reason);

/* May switch. One look at something that another actor may change: the body of a spinning loop.
 * When all actors only poll and nothing progresses this is a deadlock as well. SITE: the loop. */
void poll(Site site, const char *what);

/* Something has changed that a waiting actor may wait for. Stores by the program, the end of an
 * operation and actors that end count by themselves. */
void progress();

/* May switch: lets others run, if the schedule says so. Call it before an action whose order
 * against other actors matters. */
void maybe_switch();

/* Virtual time in nanoseconds; advances with the work done. */
uint64_t now_ns();

/* A reproducible random number below LIMIT of the schedule; 0 in the plain schedule (number 0). */
uint64_t choose(uint64_t limit);
/* True in schedules that delay and reorder deliveries. */
bool perturbed();

/* Ends the program's current process as exit(STATUS) would. Does not return. */
[[noreturn]] void process_exit(int status);
/* The same for all processes (MPI_Abort). Does not return. */
[[noreturn]] void abort_all(int status);

/* ---- clocks
 * ---------------------------------------------------------------------------------------- */

enum class Scope { THREAD, BLOCK, DEVICE, SYSTEM };
enum class Order { RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST };

/* A vector clock: what has happened before. Cheap to copy. Its lines are actors: that of thread T of
 * the running block with number B (hosts and agents count as blocks of one thread) is B * 2048 + T +
 * 1; B * 2048 stands for all threads of B together. */
class Clock {
public:
  void join(const Clock &other);
  bool empty() const { return !base_ && !v_; }
  void clear() {
    base_.reset();
    v_.reset();
  }
  /* How far LINE is known, by itself or as one of its block's threads. */
  uint64_t get(uint64_t line) const;
  void raise(uint64_t line, uint64_t time);
  /* All of this clock is contained in OTHER. */
  bool before(const Clock &other) const;
  size_t size() const { return (base_ ? base_->size() : 0) + (v_ ? v_->size() : 0); }
  using Entries = std::vector<std::pair<uint64_t, uint64_t>>; // sorted by line
  /* All of it in one list; NULL when empty. */
  const Entries *entries();
  /* The same clock in the same memory: nothing new. */
  bool same(const Clock &other) const { return base_ == other.base_ && v_ == other.v_; }
  /* Makes all of it the part that copies keep in common, however they grow. */
  void settle();

  static uint64_t whole_line(uint64_t block) { return block << 11; }
  static uint64_t thread_line(uint64_t block, unsigned thread) { return (block << 11) + thread + 1; }

private:
  /* The union of both. BASE_ is never changed once shared; V_ is copied before a change when it is
   * shared. */
  std::shared_ptr<const Entries> base_;
  std::shared_ptr<Entries> v_;
  void flatten();
};

/* What the running actor has done and knows, as of now; and a new time of its own begins: later
 * accesses are not covered by the returned clock (a release). */
Clock release();
/* The same without beginning a new time: for tests of order. */
Clock knowledge();
/* The running actor now knows CLOCK (an acquire). */
void acquire(const Clock &clock);

/* A published clock with the scope at which it was published and by whom. */
struct Published {
  Clock clock;
  Scope scope = Scope::SYSTEM;
  int device = -1;
  const void *block = nullptr;
};
/* The running actor's release at SCOPE. */
Published publish(Scope scope);
/* Would an acquire by the running actor at SCOPE synchronise with PUBLISHED? (Host and agents count
 * as their own device at system scope.) */
bool visible(const Published &published, Scope scope);
/* Acquires when visible; returns whether it was. */
bool acquire(const Published &published, Scope scope);
/* What an atomic store of ORDER by the running actor publishes: its release or, when ORDER is
 * relaxed, what its last fence released (nothing without one). */
Published publish(Order order, Scope scope);
/* What an atomic load of ORDER learns: as acquire() or, when ORDER is relaxed, only at the running
 * actor's next fence. Returns whether PUBLISHED was visible. */
bool acquire(const Published &published, Order order, Scope scope);

/* A fence of the running actor: later relaxed stores publish what it has done until now as far as
 * SCOPE reaches; it learns what its earlier relaxed loads saw published. */
void fence(Order order, Scope scope);

/* A barrier among the threads of a block (cooperation level), by the running THREAD actor.
 * May switch. */
void sync_block(Site site);               // __syncthreads
void sync_warp(unsigned mask, Site site); // __syncwarp
/* All COUNT threads that pass the same KEY (any address or number) meet; the barrier is
 * reusable. For cooperation levels that are neither a warp nor the block. */
void sync_group(const void *key, unsigned count, Site site);

/* ---- memory
 * ----------------------------------------------------------------------------------------- */

enum class MemoryKind { DEVICE, PINNED, MANAGED, SHARED, LOCAL, GLOBAL_VARIABLE };

struct Allocation {
  uintptr_t base;
  size_t size;
  int device; // -1: pinned host memory
  int process;
  MemoryKind kind;
  uint64_t id;      // unique, never reused
  unsigned windows; // how often it is registered as a window (kept by the NCCL shim)
  bool freed;       // kept for reports
  Site allocated_at, freed_at;
};

/* Memory of DEVICE, of at least SIZE bytes, never written; NULL when there is none left.
 * Alignment 512, more when ALIGN asks for it. */
void *memory_alloc(int device, size_t size, MemoryKind kind, Site site, size_t align = 512);
/* Ends an allocation. The address range is not reused for some time. False: no base of one. */
bool memory_free(void *base, Site site);
/* The allocation, live or freed, that contains ADDRESS, or NULL. Valid until it is freed. */
Allocation *memory_find(const void *address);
/* Symmetric windows: an access beyond [BASE, BASE+SIZE) that hits no other allocation is reported
 * as "out-of-window". */
void memory_mark_window(void *base, size_t size, bool registered);

/* Declares that the running actor accesses memory, as the program's own loads and stores do by
 * themselves: checks bounds, life time, initialisation and races. What a shim moves must be
 * declared by these. Return false when a finding forbids the access (outside of any allocation). */
bool access_read(const void *address, size_t size, Site site);
bool access_write(const void *address, size_t size, Site site);
/* As memcpy and memset with both declared. */
bool copy_checked(void *to, const void *from, size_t size, Site site);
bool set_checked(void *to, int byte, size_t size, Site site);
/* An atomic access of the running actor at SCOPE; conflicts with plain accesses, and with atomics
 * whose scope does not reach. */
void access_atomic(const void *address, size_t size, Scope scope, bool write, Site site);
/* Atomic operations by the running actor on any memory, with all that belongs to them: the switch
 * of the scheduler, bounds, alignment, races, and what the location publishes (the release of the
 * store that wrote it and of the read-modify-writes that followed it). SIZE is 1, 2, 4, 8 or 16
 * bytes. May switch before the access. False when a finding forbids the access. */
bool atomic_load(const void *address, size_t size, void *value, Order order, Scope scope,
                 Site site);
bool atomic_store(void *address, size_t size, const void *value, Order order, Scope scope,
                  Site site);
/* CHANGE makes the new value from the old one, in place; OLD gets the old one. */
bool atomic_rmw(void *address, size_t size, const std::function<void(void *value)> &change,
                void *old, Order order, Scope scope, Site site);
/* Stores DESIRED when the value is *EXPECTED, else *EXPECTED becomes the value. Returns whether it
 * stored. */
bool atomic_cas(void *address, size_t size, void *expected, const void *desired, Order success,
                Order failure, Scope scope, Site site);

/* Called before every plain or declared write to registered memory, NULL to remove: for sources of
 * puts that are still being read. */
using WriteHook = void (*)(uintptr_t address, size_t size, Site site);
void set_write_hook(WriteHook hook);

/* ---- findings
 * ------------------------------------------------------------------------------------------ */

/* KIND is one of the short names that reports begin with: race, stale-wait, uninit-read,
 * out-of-window, misaligned, use-after-free, missing-flush, barrier-index, collective-order,
 * asymmetric-window, deadlock, residency, ... Reported once for the same kind and sites. The place
 * and the running actor's rank, block and thread are added. OTHER_SITE with OTHER_TEXT: the other
 * side ("the write by rank 1, block 0, thread 3"). */
void finding(const char *kind, const std::string &message, Site site, Site other_site = 0,
             const std::string &other_text = "");
/* "rank 1, block 2, thread 3" of the running actor. */
std::string self_text();
/* What the program uses and the emulator does not model: reported as such, and the run ends. */
[[noreturn]] void unsupported(const std::string &what, Site site);

/* ---- streams
 * -------------------------------------------------------------------------------------------- */

/* The stream behind a cudaStream_t value of the current device and process (0, 1 and 2 are the
 * default streams). */
Stream *stream_of(const void *cuda_stream);
int stream_device(const Stream *stream);
/* True while the stream is being captured into a graph: not modelled by the NCCL shim. */
bool stream_capturing(const Stream *stream);

/* An operation of a stream. It starts when everything before it in the stream is done; START is
 * then called once as an AGENT actor of that stream, whose clock knows all that stream order
 * implies. START returns true when the operation is done; otherwise op_done() ends it later. START
 * must not block or poll, but may declare accesses. */
struct Operation {
  uint64_t id;
};
using OpStart = std::function<bool(Operation)>;
Operation stream_enqueue(Stream *stream, const char *name, OpStart start, Site site);
/* A second step for operations that are not done by START: CHECK is called as AGENT of the stream
 * when something progressed, until it returns true, which ends the operation. WAITS is printed in
 * deadlock reports. For collectives: START registers this rank's arrival, CHECK is true when all
 * have arrived. */
Operation stream_enqueue(Stream *stream, const char *name, OpStart start,
                         std::function<bool(Operation)> check, std::string waits, Site site);
/* Runs BODY as the agent of OPERATION, which must have started and not ended: to act for another
 * rank's operation, e.g. when the last rank has arrived and moves everybody's data. */
void as_operation(Operation operation, const std::function<void()> &body);
/* May switch. Blocks the HOST actor until all work of the stream is done (and acquires it). */
void stream_synchronize(Stream *stream, Site site);

/* A stream of DEVICE, made by the current process. NONBLOCKING: the legacy default stream does not
 * wait for it, nor it for that one. PRIORITY: as CUDA's, lower is more urgent. */
Stream *stream_create(int device, bool nonblocking, int priority);
/* What is in the stream still runs; the handle is not used again. */
void stream_destroy(Stream *stream);
/* May switch. Is all work of the stream done? It acquires it then. */
bool stream_query(Stream *stream, Site site);
/* May switch. Blocks the HOST actor until all streams of its current device are done. */
void device_synchronize(Site site);

/* Events. An event that was never recorded counts as complete. */
Event *event_create(int device);
void event_destroy(Event *event);
void event_record(Event *event, Stream *stream, Site site);
/* Later operations of STREAM wait for the last record of EVENT. */
void stream_wait_event(Stream *stream, Event *event, Site site);
/* May switch. Has the last record completed? It acquires it then. */
bool event_query(Event *event, Site site);
/* May switch. Blocks the HOST actor until it has. */
void event_synchronize(Event *event, Site site);
/* Virtual time in nanoseconds at which the last record completed. */
uint64_t event_time(const Event *event);

/* A kernel as an operation of a stream. */
struct LaunchConfig {
  Dim3 grid, block;
  size_t shared_bytes = 0;
  bool cooperative = false; // all blocks are resident at the same time
  const char *name = "kernel";
  unsigned max_blocks_per_sm = 1; // what threads and shared memory allow
  std::function<void()> body;     // run by every THREAD actor
  /* Called when a block becomes resident: returns what block_end and thread_user get. */
  std::function<void *(const Dim3 &block_idx)> block_begin;
  /* Called when all threads of a block have returned. */
  void (*block_end)(void *block) = nullptr;
  /* What the switch hook gets while this thread (its linear index) runs. */
  void *(*thread_user)(void *block, unsigned thread) = nullptr;
};
Operation stream_launch(Stream *stream, LaunchConfig config, Site site);
/* HOOK is called whenever another actor runs: with thread_user's value for THREAD actors, else with
 * NULL. */
void set_switch_hook(void (*hook)(void *user));

/* ---- processes and host threads ---------------------------------------------------------------
 */

struct RunOptions {
  int processes = 1, devices = 1;
  uint64_t seed = 1;
  unsigned schedule = 0;        // 0: plain, others perturbed
  unsigned resident_blocks = 0; // of each device; 0: 132 times a launch's max_blocks_per_sm
  std::function<void(int process)> exiting; // called as the process's last act: its atexit()
};
/* Runs MAIN as the first host thread of each process until all processes have ended or there is a
 * deadlock, which is reported as a finding unless a process has failed before. Returns the largest
 * exit status, 70 after a deadlock; STATUS, when not NULL, gets each process's. */
int run_processes(const RunOptions &options, const std::function<int(int process)> &main,
                  std::vector<int> *status = nullptr);
/* A further host thread of the running process; it knows what its maker has done. Threads that are
 * left when their process ends are dropped. Memory of the handle lives as long as the process. */
struct HostThread;
HostThread *host_thread_start(std::function<void *()> body);
/* May switch. Waits for its end, which it acquires; its result. */
void *host_thread_join(HostThread *thread, Site site);
HostThread *host_thread_self();
/* Ends the running host thread. */
[[noreturn]] void host_thread_exit(void *result);

/* A further actor with a clock of its own, e.g. the NIC of a rank. Its accesses are ordered only by
 * acquire() and release() made inside as_agent(). */
struct Agent;
Agent *agent_new(int process, int device, const std::string &name);
void agent_delete(Agent *agent);
void as_agent(Agent *agent, const std::function<void()> &body);
/* Runs BODY on the engine when the schedule wants to: at the earliest after the running actor
 * switches; at the latest before a deadlock would be reported. Not before DELAY other steps in
 * perturbed schedules. For deliveries. BODY runs as AGENT. */
void later(Agent *agent, uint64_t delay, std::function<void()> body);

/* ---- meeting of host actors
 * ------------------------------------------------------------------------------ */

/* May switch. A collective call of COUNT host actors, each contributing DATA under the same KEY
 * (one meeting at a time per key; the next begins when all have left). INDEX: 0 .. COUNT-1, unique.
 * When all are there, LAST is called once, by the last to arrive, with all contributions in index
 * order; then everybody returns. Clocks are joined all to all. */
void rendezvous(const std::string &key, int count, int index, void *data,
                const std::function<void(const std::vector<void *> &)> &last,
                const WaitReason &reason);

} // namespace emu

#endif
