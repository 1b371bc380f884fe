// SPDX-License-Identifier: Apache-2.0
/* What the CUDA shim's files share. */
#ifndef CUCOCC_EMULATOR_CUDA_INTERNAL_H
#define CUCOCC_EMULATOR_CUDA_INTERNAL_H

#include "engine.h"
#include "include/cuda_runtime_api.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace emu {
namespace cuda {

/* ---- errors -------------------------------------------------------------------------------------
 */

/* Keeps E as the running host thread's last error, unless it is cudaSuccess; returns E. */
cudaError_t done(cudaError_t e);
/* The error that a kernel left on DEVICE of the current process for ever, or cudaSuccess. */
cudaError_t sticky_error(int device);
void set_sticky_error(int device, cudaError_t e);
/* Calls that fail because of an earlier kernel return that error. */
#define EMU_CHECK_STICKY()                                                                         \
  do {                                                                                             \
    const cudaError_t sticky_ = ::emu::cuda::sticky_error(::emu::current_device());                \
    if (sticky_ != cudaSuccess)                                                                    \
      return ::emu::cuda::done(sticky_);                                                           \
  } while (0)

/* ---- the devices' properties
 * --------------------------------------------------------------------- */

/* An H200 in what programs ask for. */
enum {
  SMS = 132,
  THREADS_PER_BLOCK = 1024,
  THREADS_PER_SM = 2048,
  BLOCKS_PER_SM = 32,
  SHARED_PER_BLOCK = 48 << 10,
  SHARED_RESERVED = 1 << 10,
  SHARED_OPT_IN = 227 << 10,
  SHARED_PER_SM = 228 << 10
};
constexpr size_t DEVICE_MEMORY = (size_t)139 << 30;

/* Blocks of THREADS threads with SHARED bytes (static and dynamic) that an SM holds. */
int blocks_per_sm(unsigned threads, size_t shared);

/* ---- blocks
 * --------------------------------------------------------------------------------------- */

/* What lanes pass on to each other under one mask. The lanes of a mask make the same calls in the
 * same order, so each counts for itself; two sets of cells are enough, because a lane that writes
 * to one again has met all others since they read it. */
struct Exchange {
  unsigned mask = 0;
  unsigned turn[32] = {}; // of each lane
  struct {
    unsigned turn[32] = {}; // in which the lane gave the value
    uint64_t value[32];
  } cells[2];
};

/* Lanes that call __activemask() at one place. A GPU runs lanes together that are at the same
 * instruction; here those that get there while the others wait, have returned, or take too long. */
struct ActiveMask {
  Site site;
  unsigned arrived = 0;
  unsigned result[32] = {};
};

struct WarpState {
  unsigned lanes = 0;            // that exist
  unsigned exited = 0;           // that have returned
  unsigned blocked = 0;          // that wait in a barrier, a shuffle or a vote
  unsigned waits_under[32] = {}; // the mask under which a blocked lane waits; 0: for the block
  std::vector<std::unique_ptr<Exchange>> exchanges;
  std::vector<std::unique_ptr<ActiveMask>> actives;
};

struct GridState {
  Config config;
  int device = 0, process = 0;
  bool cooperative = false;
  uint64_t threads = 0;
  char barrier; // its address is the grid barrier's key

  explicit GridState(const Config &c) : config(c) {}
};

struct SharedVariable {
  const void *key;
  void *address;
};

struct BlockState {
  std::shared_ptr<GridState> grid;
  std::vector<WarpState> warps;
  std::vector<SharedVariable> shared;
  void *dynamic = nullptr;
  std::vector<ThreadState> threads;
  /* Reductions over the block: three turns, because the one before is still read while the next
   * is cleared. */
  struct {
    int count = 0, total = 0;
  } votes[3];
  std::vector<unsigned char> vote_turn; // of each thread
  unsigned live = 0, in_barrier = 0;    // threads that have not returned; that wait for the block
};

/* The running CUDA thread, or NULL outside of kernels; set at every switch. */
extern ThreadState *current_thread;
/* The same, where there must be one: else WHAT is reported as called by the host. */
ThreadState &thread_of(const char *what);

} // namespace cuda
} // namespace emu

#endif
