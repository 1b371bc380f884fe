// SPDX-License-Identifier: Apache-2.0
/* Virtual ranks: a double of NCCL's host API for N ranks on one GPU.
 *
 * Built as libnccl.so.2 against the headers of one NCCL (2.28.7 and later of 2.28, or 2.30), it
 * stands in for the library: the program and NCCL's device headers are unchanged. Ranks are threads
 * of one process, processes, or all owned by one thread. What it does not model it refuses with an
 * error and a sentence on standard error. It is for verifying results, never for measuring.
 *
 *   rendezvous.cu  ranks of a communicator find each other, meet, and exchange memory
 *   memory.cu      ncclMemAlloc, the flat address range in which every rank's memory is mapped,
 * windows devcomm.cu     ncclDevComm in the layout of the headers gin.cu         the proxy queue,
 * served by a thread of each rank collective.cu  the host collectives, sends and receives api.cu
 * communicators, groups, everything else of nccl.h
 *
 * Environment: CUCOCC_VIRTUAL_LSA, ranks of one LSA team (all; a divisor of the number of ranks
 * makes "nodes", so that GIN is needed between them); CUCOCC_VIRTUAL_TIMEOUT, seconds to wait for
 * another rank in a collective step of the host (60). */
#ifndef CUCOCC_VIRTUAL_VIRTUAL_H
#define CUCOCC_VIRTUAL_VIRTUAL_H

#include <cuda.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <nccl_device/gin/proxy/gin_proxy_device_host_common.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#if NCCL_VERSION_CODE < 22807 || (NCCL_VERSION_CODE >= 22900 && NCCL_VERSION_CODE < 23003) ||      \
    NCCL_VERSION_CODE >= 23100
#error "virtual ranks know the structures of NCCL 2.28.7 to 2.28.x and of 2.30.3 to 2.30.x only"
#endif
#define VIRTUAL_2_30 (NCCL_VERSION_CODE >= 23003)

namespace vnccl {

constexpr int kMaxRanks = 64;
constexpr size_t kStride = (size_t)64
                           << 30; // of a rank's part of the flat range; a multiple of 4 GiB
constexpr size_t kGranularity = (size_t)2 << 20;

/* The CUDA driver, found at run time: nothing is linked but the runtime. */
struct Driver {
  CUresult (*MemCreate)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                        unsigned long long);
  CUresult (*MemRelease)(CUmemGenericAllocationHandle);
  CUresult (*MemMap)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
  CUresult (*MemUnmap)(CUdeviceptr, size_t);
  CUresult (*MemSetAccess)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
  CUresult (*MemAddressReserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
  CUresult (*MemAddressFree)(CUdeviceptr, size_t);
  CUresult (*MemExportToShareableHandle)(void *, CUmemGenericAllocationHandle,
                                         CUmemAllocationHandleType, unsigned long long);
  CUresult (*MemImportFromShareableHandle)(CUmemGenericAllocationHandle *, void *,
                                           CUmemAllocationHandleType);
};
/* The entry points; ends the program with a sentence when the driver lacks one. */
const Driver &driver();

/* Notes an error: it is printed once on standard error and returned by ncclGetLastError. Returns
 * CODE. */
ncclResult_t fail(ncclResult_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *last_error();

/* Memory of one rank. */
struct Physical {
  CUmemGenericAllocationHandle handle = 0;
  size_t size = 0;
};

/* What the ranks of a communicator share: a file that all map. */
struct Segment {
  std::atomic<uint64_t> arrivals;
  struct {
    int pid;
    char uuid[16];
    char blob[192]; // what a rank says in a collective step
  } rank[kMaxRanks];
};

struct Window {
  ncclComm *comm;
  size_t offset;        // of its first byte in each rank's part of the flat range
  size_t map, map_size; // where the allocation is mapped, and how much of the range it took
  size_t size;
  void *user;
  std::vector<Physical> parts; // by rank
  ncclWindow_vidmem host;      // a copy of what the device sees
  ncclWindow_t device;
};

/* The proxy of one device communicator on one rank. */
struct Gin {
  ncclComm *comm;
  int contexts, signals, counters;
  std::string path;                // of the file with all ranks' signals
  uint64_t *all_signals = nullptr; // by rank, padded to pages; then by context
  size_t rank_bytes = 0;
  ncclGinProxyGfd_t *queues = nullptr; // pinned: by context, peer and slot
  uint32_t *consumed = nullptr;        // pinned: by context and peer
  uint64_t *counts = nullptr;          // pinned: by context
  void *device_memory = nullptr; // producer indices, offsets, shadows and the context structures
  ncclGinProxyGpuCtx_t *device_contexts = nullptr;
  uint64_t *shadows = nullptr;
  bool registered = false;
  std::vector<uint32_t> seen; // by context and peer
  std::atomic<bool> stop{false};
  std::thread thread;
  ~Gin();
};

/* Memory of the library's own collectives, the same on every rank. */
struct Arena {
  char *flat; // of rank 0
  size_t stride;
  int n, me;
};

} // namespace vnccl

struct ncclComm {
  std::string path; // of the segment
  int n = 0, rank = 0, device = 0;
  int lsa = 0; // ranks of an LSA team
  vnccl::Segment *segment = nullptr;
  uint64_t round = 0; // meetings of this rank so far
  uint32_t steps = 0; // exchanges of memory so far
  int socket = -1;
  std::map<std::pair<int, uint32_t>, int> arrived; // descriptors by (sender, exchange)
  int splits = 0, devcomms = 0;
  char *flat = nullptr;
  size_t used = 0; // bytes of each rank's part that are mapped
  std::vector<std::unique_ptr<vnccl::Window>> windows;
  std::vector<vnccl::Physical> arena_parts;
  vnccl::Arena arena{};
  void *table = nullptr; // ncclDevCommWindowTable, in device memory
  cudaStream_t setup = nullptr;
  cudaEvent_t last = nullptr;
  cudaStream_t last_stream = nullptr;
  bool launched = false;
  void *ops = nullptr; // pinned: the messages of sends and receives
  size_t ops_used = 0;
  uint32_t *abort_flag = nullptr;
  std::map<void *, std::unique_ptr<vnccl::Gin>> gins; // by resource window
  std::map<void *, vnccl::Window *> resources;        // of device communicators, by resource window
  ncclResult_t async = ncclSuccess;

  bool local(int r) const; // is rank R in this process?
};

namespace vnccl {

// ---- rendezvous
// ----------------------------------------------------------------------------------------

/* A step that all ranks of a communicator do together. publish() says what this rank has to say;
 * complete() runs when all have, and answers alike on every rank. It may add steps to follow. */
struct Step {
  ncclComm *comm;
  explicit Step(ncclComm *c) : comm(c) {}
  virtual ~Step() = default;
  virtual void publish() = 0;
  virtual ncclResult_t complete(std::vector<std::unique_ptr<Step>> &follow) = 0;
};
/* Runs steps of ranks that this thread owns; the k-th steps of all communicators together. */
ncclResult_t run_steps(std::vector<std::unique_ptr<Step>> steps);

/* A fresh path for a segment, at most 100 characters. */
std::string new_path();
/* Maps the segment and opens the socket; the rank has not met anybody yet. */
ncclResult_t open_segment(ncclComm *comm);
void close_segment(ncclComm *comm);

/* Offers this rank's memory to the others, between publish() and complete(); collect() then gives
 * all ranks' memory, by rank. SIZES are theirs. */
ncclResult_t offer(ncclComm *comm, const Physical &mine);
ncclResult_t collect(ncclComm *comm, const Physical &mine, const std::vector<size_t> &sizes,
                     std::vector<Physical> &parts);

// ---- memory
// --------------------------------------------------------------------------------------------

ncclResult_t make_physical(size_t bytes, Physical &out);
ncclResult_t map_at(char *address, const Physical &p);
/* Maps all parts at OFFSET of the ranks' parts of the flat range, except where a rank's bit is in
 * DONE. */
ncclResult_t map_parts(ncclComm *comm, size_t offset, const std::vector<Physical> &parts,
                       int except);
void unmap_parts(ncclComm *comm, size_t offset, std::vector<Physical> &parts);
/* The structures that the device reads for a window at OFFSET. */
ncclResult_t describe_window(Window &w);
/* Writes the table of windows that device code searches. */
ncclResult_t refresh_windows(ncclComm *comm);
/* The window whose device structure is at WINDOW, or null. */
Window *window_of(ncclWindow_t window);
void forget_window(ncclWindow_t window);
std::unique_ptr<Step> new_window_step(ncclComm *comm, void *user, size_t size, ncclWindow_t *out);
ncclResult_t drop_window(ncclComm *comm, ncclWindow_t window);

// ---- device communicators
// ------------------------------------------------------------------------------

std::unique_ptr<Step> new_devcomm_step(ncclComm *comm, const ncclDevCommRequirements *need,
                                       ncclDevComm *out);
ncclResult_t drop_devcomm(ncclComm *comm, const ncclDevComm *dc);

/* GIN of one device communicator: CONTEXTS queues a peer, SIGNALS and COUNTERS a context. Peers'
 * signals are in the file PATH, which all ranks map. */
ncclResult_t new_gin(ncclComm *comm, const std::string &path, int contexts, int signals,
                     int counters, std::unique_ptr<Gin> &out);
void start_gin(Gin &gin);
/* *AT += VALUE in device memory, at once as seen by all; returns when done. */
cudaError_t add_on_device(uint64_t *at, uint64_t value, cudaStream_t stream);

// ---- collectives
// ---------------------------------------------------------------------------------------

size_t arena_bytes(int n);
/* Loads the kernels, so that no first launch waits for another rank's. */
ncclResult_t load_kernels();

enum class Kind {
  all_reduce,
  reduce_scatter,
  reduce,
  all_gather,
  gather,
  all_to_all,
  broadcast,
  scatter
};
struct Call {
  Kind kind;
  const void *send;
  void *recv;
  size_t count; // elements of one part
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  cudaStream_t stream;
};
struct Message {
  bool send;
  void *buffer;
  size_t bytes;
  int peer;
  cudaStream_t stream;
};
size_t type_size(ncclDataType_t t); // 0: not a type
ncclResult_t launch_call(ncclComm *comm, const Call &call);
ncclResult_t launch_messages(ncclComm *comm, const std::vector<Message> &messages);

/* The calling thread's device is DEVICE while this lives. */
struct DeviceGuard {
  int before = -1;
  explicit DeviceGuard(int device) {
    if (cudaGetDevice(&before) == cudaSuccess && before != device)
      cudaSetDevice(device);
    else
      before = -1;
  }
  ~DeviceGuard() {
    if (before >= 0)
      cudaSetDevice(before);
  }
};

#define V_CUDA(e)                                                                                  \
  do {                                                                                             \
    cudaError_t r_ = (e);                                                                          \
    if (r_ != cudaSuccess)                                                                         \
      return ::vnccl::fail(ncclUnhandledCudaError, "%s: %s", #e, cudaGetErrorString(r_));          \
  } while (0)
#define V_DRIVER(e)                                                                                \
  do {                                                                                             \
    CUresult r_ = (e);                                                                             \
    if (r_ != CUDA_SUCCESS)                                                                        \
      return ::vnccl::fail(ncclUnhandledCudaError, "%s: CUDA error %d", #e, (int)r_);              \
  } while (0)
#define V_NCCL(e)                                                                                  \
  do {                                                                                             \
    ncclResult_t r_ = (e);                                                                         \
    if (r_ != ncclSuccess)                                                                         \
      return r_;                                                                                   \
  } while (0)

} // namespace vnccl
#endif
