// SPDX-License-Identifier: Apache-2.0
/* What nccl_device.h calls: the part of the emulated NCCL device interface that needs the
 * scheduler, the clocks or the peers' state. Implemented in nccl_device.cc, nccl_barrier.cc and
 * nccl_gin.cc. The headers themselves hold only what depends on the caller's thread group: who
 * calls, and the group's barriers around the calls. Threads of a device call these; none may be
 * called by the host. The place of a call is its return address: the headers' own functions are
 * always inlined. */
#ifndef CUCOCC_EMULATOR_NCCL_DEVICE_RT_H
#define CUCOCC_EMULATOR_NCCL_DEVICE_RT_H

#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

namespace emu_nccl {

/* Memory orders as this interface passes them: what the call publishes and what it learns. */
enum Order : int { RELAXED = 0, ACQUIRE = 1, RELEASE = 2, ACQ_REL = 3 };

/* The ranks of a team: member I is world rank `first + I * stride`. */
struct Members {
  int n, rank, first, stride;
};

struct DeviceComm; // one communicator's device side, seen from one rank

/* Address of OFFSET in the window at PEER (a world rank; -1: the caller's own part). A rank that
 * the caller cannot address, an offset beyond the window, or a deregistered window is a finding
 * when the address is used, not here. LSA: PEER counts in the LSA team. */
void *window_pointer(ncclWindow_t window, size_t offset, int peer, bool lsa);
int window_rank(ncclWindow_t window); // world rank of the rank whose handle this is
[[noreturn]] void *multimem();        // reported as not modelled
/* The window of DC that holds ADDRESS, or NULL. */
ncclWindow_t find_window(DeviceComm *dc, const void *address);

/* A barrier among TEAM over load/store memory. KEY tells the barriers of a communicator apart,
 * COUNT is the number of its indices. open() returns the epoch from which the session counts; it
 * and close() are called by every thread of the group, with LEADER in one of them. arrive() tells
 * member PEER that the caller's rank reached EPOCH + 1; wait() returns when member PEER reached
 * EPOCH. TIMEOUT: cycles, 0 for none; wait() returns false when they passed. */
struct LsaBarrier {
  DeviceComm *dc;
  Members team;
  uint32_t key, count, index, epoch;
};
void lsa_open(LsaBarrier &, bool leader);
void lsa_close(LsaBarrier &, bool leader);
void lsa_arrive(const LsaBarrier &, int peer, Order);
bool lsa_wait(const LsaBarrier &, int peer, Order, uint64_t timeout);

/* One-sided transfers. PEER is a world rank. A signal is {window, offset} when `window` is set. */
struct Signal {
  enum Kind { NONE, INC, ADD } kind;
  bool strong; // visible only after every earlier transfer of this context to this peer
  uint32_t id;
  uint64_t value;
  ncclWindow_t window;
  size_t offset;
};
struct Counter {
  bool used;
  uint32_t id;
};
void gin_check(DeviceComm *dc); // finding when GIN is not enabled
void gin_put(DeviceComm *dc, uint32_t context, int peer, ncclWindow_t to, size_t to_offset,
             ncclWindow_t from, size_t from_offset, size_t bytes, const Signal &, const Counter &);
void gin_put_value(DeviceComm *dc, uint32_t context, int peer, ncclWindow_t to, size_t to_offset,
                   const void *value, size_t bytes, const Signal &);
void gin_signal(DeviceComm *dc, uint32_t context, int peer, const Signal &);
void gin_get(DeviceComm *dc, uint32_t context, int peer, ncclWindow_t from, size_t from_offset,
             ncclWindow_t to, size_t to_offset, size_t bytes);
/* Returns when the sources of all puts and the targets of all gets of this context to PEER (-1: to
 * every peer) issued by the calling block are free or filled. */
void gin_flush(DeviceComm *dc, uint32_t context, int peer, Order);
uint64_t gin_read_signal(DeviceComm *dc, uint32_t context, const Signal &, int bits, Order);
void gin_wait_signal(DeviceComm *dc, uint32_t context, const Signal &, uint64_t least, int bits,
                     Order);
void gin_reset_signal(DeviceComm *dc, uint32_t context, const Signal &);
uint64_t *gin_shadow(DeviceComm *dc, uint32_t context, uint32_t id);
uint64_t gin_read_counter(DeviceComm *dc, uint32_t context, uint32_t id, int bits, Order);
void gin_wait_counter(DeviceComm *dc, uint32_t context, uint32_t id, uint64_t least, int bits,
                      Order);
void gin_reset_counter(DeviceComm *dc, uint32_t context, uint32_t id);

/* A barrier among TEAM over signals; as LsaBarrier. arrive() signals one member; wait() waits for
 * all others, and with FENCE for the puts that they issued before. */
struct GinBarrier {
  DeviceComm *dc;
  Members team;
  uint32_t key, count, index, context;
  uint32_t epoch;
};
void gin_open(GinBarrier &, bool leader);
void gin_close(GinBarrier &, bool leader);
void gin_arrive(const GinBarrier &, int peer, Order, bool fence);
bool gin_wait(const GinBarrier &, Order, uint64_t timeout);

/* Low-latency exchange: slots of up to 8 bytes tagged with an epoch. */
struct Exchange {
  DeviceComm *dc;
  Members team;
  uint32_t key, blocks, slots, block, pitch, epoch;
};
void exchange_open(Exchange &, bool leader);
void exchange_close(Exchange &, bool leader);
void exchange_send(const Exchange &, int peer, uint32_t slot, uint64_t word);
uint64_t exchange_recv(const Exchange &, uint32_t slot);

/* Storage of the calling block for one value that a thread group passes on. ID: which group. The
 * accesses are checked as those of shared memory. */
void *block_stash(int id, size_t bytes);
void stash_write(void *stash, const void *value, size_t bytes);
void stash_read(void *value, const void *stash, size_t bytes);
int lane(); // of the calling thread in its warp
int warp(); // of the calling thread's warp in its block
/* A block barrier of COUNT threads under a number of 0..15 other than that of __syncthreads(). */
void named_barrier(int id, int count);

} // namespace emu_nccl

#endif
