// ---- cucocc runtime ---------------------------------------------------------------------------------
// SPDX-License-Identifier: Apache-2.0
// Device-initiated collectives over NCCL windows (LSA). Every entry has the signature of the host call
// that it stands for. What cannot run on the device (no peer access, ranks on several nodes, operations
// made at run time) goes to the host call, on all ranks alike, and rank 0 says so once.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <nccl.h>
#if !defined(NCCL_VERSION_CODE) || NCCL_VERSION_CODE < 22807
#error "this program needs NCCL 2.28.7 or newer (the device API)"
#endif
#include <nccl_device.h>

#include <cuda/atomic>

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
#include <thread>
#include <type_traits>
#include <vector>

#ifndef CUCOCC_RUNTIME
#define CUCOCC_RUNTIME
namespace cucocc {
inline namespace v1 {

constexpr int kMaxCtas = 64;            // barriers of a device communicator: one per CTA
constexpr int kMaxPeers = 128;          // ranks of an LSA team
constexpr int kMaxWindows = 512;        // user allocations registered with one communicator
constexpr size_t kStageBytes = 1 << 18; // staging slice of one CTA
constexpr size_t kSmallBytes = 1 << 16; // most bytes from one rank to another in a small collective
constexpr int kSmallRanks = 16;         // most ranks of one

// ---- memory layout of a communicator's arena, the same on every rank -----------------------------------

// Where an operand lives: in a registered window, or nowhere that peers can see (window < 0).
struct Operand {
  int window;
  size_t offset;
};
// What a rank tells its peers at the entry of a collective.
struct alignas(16) Published {
  Operand send, recv;
};
// A receive that its rank offers to the sender.
struct alignas(16) Post {
  size_t offset, bytes;
  int window;
  uint32_t epoch; // written last
};

constexpr int kP2pChannels = 8; // CTAs for each of sending and receiving; the same in every program
constexpr int kP2pSlots = 2;    // staging slots per pair and channel

struct Layout {
  int n;
  __host__ __device__ size_t published(int cta, int rank) const {
    return ((size_t)cta * n + rank) * sizeof(Published);
  }
  __host__ __device__ size_t post(int peer, int channel) const {
    return published(kMaxCtas, 0) + ((size_t)peer * kP2pChannels + channel) * sizeof(Post);
  }
  // 32-bit counters: 0 chunks that arrived from a peer, 1 chunks that a peer took; private to this rank:
  // 2 posts made, 3 chunks seen, 4 posts taken, 5 chunks sent, 6 acknowledgements expected.
  __host__ __device__ size_t counter(int kind, int peer, int channel) const {
    return post(n, 0) + (((size_t)kind * n + peer) * kP2pChannels + channel) * 4;
  }
  __host__ __device__ size_t stage(int cta) const {
    return (counter(7, 0, 0) + 4095) / 4096 * 4096 + (size_t)cta * kStageBytes;
  }
  __host__ __device__ size_t slot_bytes() const {
    size_t b = ((size_t)16 << 20) / ((size_t)n * kP2pChannels * kP2pSlots) / 16 * 16;
    return b > 131072 ? 131072 : b;
  }
  __host__ __device__ size_t slot(int peer, int channel, int i) const {
    return stage(kMaxCtas) + (((size_t)peer * kP2pChannels + channel) * kP2pSlots + i) * slot_bytes();
  }
  // 64-bit words of the small collectives from rank FROM: kSmallBytes / 4 of data and a token.
  __host__ __device__ size_t small(int parity, int from) const {
    return (slot(n, 0, 0) + 15) / 16 * 16 + ((size_t)parity * n + from) * (kSmallBytes / 4 + 1) * 8;
  }
  size_t size() const { return n <= kSmallRanks ? small(2, 0) : slot(n, 0, 0); }
};

// ---- device side ---------------------------------------------------------------------------------------

// The arguments of a collective's kernel.
struct Call {
  ncclDevComm dc;
  ncclWindow_t arena;
  const ncclWindow_t *windows; // by index, the same windows on every rank
  Layout layout;
  const char *send;
  char *recv;
  Operand s, r;
  size_t bytes;  // of one rank's part
  size_t stride; // from one rank's part to the next, where a buffer has a part for each
  int root;
  uint32_t epoch; // of a small collective, counted from 1; the same on every rank
};

// The part [begin, end) of N bytes that CTA B of COUNT works on: the same on every rank.
struct Slice {
  size_t begin, end;
};
__device__ inline Slice cta_slice(size_t n, int b, int count) {
  size_t per = (n / 16 + count - 1) / count * 16;
  if (per == 0)
    per = 16;
  size_t lo = per * b, hi = lo + per;
  if (b == count - 1 || hi > n)
    hi = n;
  return Slice{lo < n ? lo : n, hi};
}

template <class V> __device__ void copy_as(char *dst, const char *src, size_t bytes) {
  const size_t n = bytes / sizeof(V), step = blockDim.x;
  V *d = (V *)dst;
  const V *s = (const V *)src;
  size_t i = threadIdx.x;
  for (; i + 3 * step < n; i += 4 * step) { // four loads in flight
    V a = s[i], b = s[i + step], c = s[i + 2 * step], e = s[i + 3 * step];
    d[i] = a;
    d[i + step] = b;
    d[i + 2 * step] = c;
    d[i + 3 * step] = e;
  }
  for (; i < n; i += step)
    d[i] = s[i];
  for (size_t k = n * sizeof(V) + threadIdx.x; k < bytes; k += step)
    dst[k] = src[k];
}

// Copies with all threads of the CTA, in the widest accesses that both addresses allow.
__device__ inline void copy(char *dst, const char *src, size_t bytes) {
  if (dst == src)
    return;
  const uintptr_t bits = (uintptr_t)dst | (uintptr_t)src;
  if (bits % 16 == 0)
    copy_as<int4>(dst, src, bytes);
  else if (bits % 8 == 0)
    copy_as<int2>(dst, src, bytes);
  else if (bits % 4 == 0)
    copy_as<int>(dst, src, bytes);
  else
    copy_as<char>(dst, src, bytes);
}

template <class V> __device__ void spread_as(char *const *to, int n_to, const char *src, size_t bytes) {
  const size_t n = bytes / sizeof(V), step = blockDim.x;
  const V *s = (const V *)src;
  size_t i = threadIdx.x;
  for (; i + 3 * step < n; i += 4 * step) { // four loads in flight
    V a = s[i], b = s[i + step], c = s[i + 2 * step], e = s[i + 3 * step];
    for (int p = 0; p < n_to; p++) {
      V *d = (V *)to[p];
      d[i] = a;
      d[i + step] = b;
      d[i + 2 * step] = c;
      d[i + 3 * step] = e;
    }
  }
  for (; i < n; i += step) {
    V a = s[i];
    for (int p = 0; p < n_to; p++)
      ((V *)to[p])[i] = a;
  }
  for (size_t k = n * sizeof(V) + threadIdx.x; k < bytes; k += step)
    for (int p = 0; p < n_to; p++)
      to[p][k] = src[k];
}

// Copies to N_TO places, reading once; a place that is SRC itself gets its own bytes again.
__device__ inline void spread(char *const *to, int n_to, const char *src, size_t bytes) {
  uintptr_t bits = (uintptr_t)src;
  for (int p = 0; p < n_to; p++)
    bits |= (uintptr_t)to[p];
  if (bits % 16 == 0)
    spread_as<int4>(to, n_to, src, bytes);
  else if (bits % 4 == 0)
    spread_as<int>(to, n_to, src, bytes);
  else
    spread_as<char>(to, n_to, src, bytes);
}

// One CTA's view of a collective: CTA b works with CTA b of every peer, through barrier b.
struct Session {
  const Call &call;
  const int n, me;
  ncclCoopCta cta;
  ncclLsaBarrierSession<ncclCoopCta> barrier;

  __device__ explicit Session(const Call &c)
      : call(c), n(c.dc.lsaSize), me(c.dc.lsaRank), barrier(cta, c.dc, ncclTeamTagLsa(), blockIdx.x) {}
  // Everything that any rank's CTA b did before is visible to every rank's CTA b after.
  __device__ void sync() { barrier.sync(cta, cuda::memory_order_acq_rel); }

  // Tells every peer where this rank's operands are. Call before the first sync().
  __device__ void publish() {
    for (int p = threadIdx.x; p < n; p += blockDim.x)
      *(Published *)ncclGetLsaPointer(call.arena, call.layout.published(blockIdx.x, me), p) =
          Published{call.s, call.r};
  }
  // What rank P told (after a sync).
  __device__ const Published &told(int p) const {
    return *(const Published *)ncclGetLocalPointer(call.arena, call.layout.published(blockIdx.x, p));
  }
  __device__ bool all_sends_visible() const {
    for (int p = 0; p < n; p++)
      if (told(p).send.window < 0)
        return false;
    return true;
  }
  __device__ bool all_recvs_visible() const {
    for (int p = 0; p < n; p++)
      if (told(p).recv.window < 0)
        return false;
    return true;
  }
  __device__ char *peer(const Operand &o, int p) const {
    return (char *)ncclGetLsaPointer(call.windows[o.window], o.offset, p);
  }
  __device__ const char *peer_send(int p) const { return peer(told(p).send, p); }
  __device__ char *peer_recv(int p) const { return peer(told(p).recv, p); }
  // This CTA's staging slice on rank P.
  __device__ char *stage(int p) const {
    return (char *)ncclGetLsaPointer(call.arena, call.layout.stage(blockIdx.x), p);
  }
  __device__ char *my_stage() const { return stage(me); }
  // Bytes staged at a time when this CTA's staging slice is divided among PARTS; CHUNK (0 = no limit)
  // is the directive's.
  __device__ size_t stage_bytes(int parts, size_t chunk) const {
    const size_t most = kStageBytes / parts / 16 * 16;
    return chunk && chunk < most ? chunk : most;
  }
};

// ---- device side: small collectives ----------------------------------------------------------------------
//
// Every 64-bit word carries 32 bits of data and the epoch, in one atomic store, so that it needs neither a
// barrier before nor a fence: the receiver waits for the word itself. Slots alternate by the epoch's parity.
// A slot may be written again two epochs later: by then its owner has sent something in the epoch between,
// which it begins after it has read the slot. (NCCL's LL protocol is the model.)

struct Small {
  const Call &call;
  const int n, me;
  const size_t first, step; // words of this thread

  __device__ explicit Small(const Call &c)
      : call(c), n(c.dc.lsaSize), me(c.dc.lsaRank), first((size_t)blockIdx.x * blockDim.x + threadIdx.x),
        step((size_t)gridDim.x * blockDim.x) {}
  // Word I for rank P.
  __device__ void put(int p, size_t i, uint32_t data) const {
    uint64_t *slot = (uint64_t *)ncclGetLsaPointer(call.arena, call.layout.small(call.epoch % 2, me), p) + i;
    cuda::atomic_ref<uint64_t, cuda::thread_scope_system>(*slot).store(
        (uint64_t)call.epoch << 32 | data, cuda::memory_order_relaxed);
  }
  // Word I from rank P.
  __device__ uint32_t get(int p, size_t i) const {
    uint64_t *slot = (uint64_t *)ncclGetLocalPointer(call.arena, call.layout.small(call.epoch % 2, p)) + i, v;
    do
      v = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>(*slot).load(cuda::memory_order_relaxed);
    while ((uint32_t)(v >> 32) != call.epoch);
    return (uint32_t)v;
  }
  // Word I of BYTES bytes in memory; what lies beyond the end is 0.
  static __device__ uint32_t load(const char *from, size_t i, size_t bytes) {
    if ((uintptr_t)from % 4 == 0 && i * 4 + 4 <= bytes)
      return ((const uint32_t *)from)[i];
    uint32_t v = 0;
    for (size_t k = 0; k < 4 && i * 4 + k < bytes; k++)
      v |= (uint32_t)(unsigned char)from[i * 4 + k] << (8 * k);
    return v;
  }
  static __device__ void store(char *to, size_t i, size_t bytes, uint32_t v) {
    if ((uintptr_t)to % 4 == 0 && i * 4 + 4 <= bytes)
      ((uint32_t *)to)[i] = v;
    else
      for (size_t k = 0; k < 4 && i * 4 + k < bytes; k++)
        to[i * 4 + k] = (char)(v >> (8 * k));
  }
  // Where not everybody sends to everybody: a word from each rank to each, for the slots' sake.
  __device__ void tokens() const {
    if (blockIdx.x == 0)
      for (int p = threadIdx.x; p < n; p += blockDim.x) {
        put(p, kSmallBytes / 4, 0);
        get(p, kSmallBytes / 4);
      }
  }

  __device__ void all_gather() const {
    const size_t words = (call.bytes + 3) / 4;
    char *own = call.recv + me * call.stride;
    for (size_t i = first; i < words; i += step) {
      const uint32_t v = load(call.send, i, call.bytes);
      for (int d = 1; d < n; d++)
        put((me + d) % n, i, v);
      if (own != call.send)
        store(own, i, call.bytes, v);
    }
    for (int d = 1; d < n; d++)
      for (size_t i = first; i < words; i += step)
        store(call.recv + (me + d) % n * call.stride, i, call.bytes, get((me + d) % n, i));
  }
  __device__ void all_to_all() const {
    const size_t words = (call.bytes + 3) / 4;
    for (int d = 0; d < n; d++) {
      const int p = (me + d) % n;
      for (size_t i = first; i < words; i += step) {
        const uint32_t v = load(call.send + p * call.stride, i, call.bytes);
        if (d)
          put(p, i, v);
        else
          store(call.recv + p * call.stride, i, call.bytes, v);
      }
    }
    for (int d = 1; d < n; d++)
      for (size_t i = first; i < words; i += step)
        store(call.recv + (me + d) % n * call.stride, i, call.bytes, get((me + d) % n, i));
  }
  __device__ void broadcast() const {
    const size_t words = (call.bytes + 3) / 4;
    for (size_t i = first; i < words; i += step) {
      if (me != call.root) {
        store(call.recv, i, call.bytes, get(call.root, i));
        continue;
      }
      const uint32_t v = load(call.send, i, call.bytes);
      for (int d = 1; d < n; d++)
        put((me + d) % n, i, v);
      if (call.recv != call.send)
        store(call.recv, i, call.bytes, v);
    }
    tokens();
  }
};

// ---- host side: state ------------------------------------------------------------------------------------

struct Comm {
  ncclComm_t comm = nullptr;
  int rank = 0, n = 0, device = 0;
  bool on_device = false; // agreed by all ranks
  const char *why_not = "";
  int sms = 0; // least over the ranks
  Layout layout{};
  ncclDevComm dc{};
  bool has_dc = false;
  void *arena = nullptr;
  ncclWindow_t arena_window = nullptr;
  ncclWindow_t *windows = nullptr; // device memory, kMaxWindows entries
  std::vector<ncclWindow_t> window_list;
  std::vector<void *> waiting;     // allocations not yet offered to the other ranks
  std::vector<ncclComm_t> siblings; // ranks of the same communicator that this thread owns
  cudaStream_t setup = nullptr, last_stream = nullptr;
  cudaStream_t side = nullptr; // of the pipelined placements
  cudaEvent_t last = nullptr;
  bool used = false;
  uint32_t epoch = 0; // small collectives so far
  std::thread::id owner;
};

struct Allocation {
  size_t size;
  int device;
  uint64_t serial;
  std::thread::id owner;
  std::vector<std::pair<ncclComm_t, int>> windows; // communicator, index in its window list
};

struct State {
  std::mutex lock; // guards the tables; never held across a call that may wait for other ranks
  std::map<ncclComm_t, std::shared_ptr<Comm>> comms;
  std::vector<ncclComm_t> order; // creation order
  std::map<uintptr_t, Allocation> allocations;
  uint64_t serial = 0;
};
inline State &state() {
  static State &s = *new State; // never destroyed: user destructors may still free memory
  return s;
}

// A first launch under lazy loading can wait for the GPU while a peer's kernel spins on it.
inline const int kEagerLoading = setenv("CUDA_MODULE_LOADING", "EAGER", 0);

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

inline std::shared_ptr<Comm> find_comm(ncclComm_t comm) {
  std::lock_guard<std::mutex> g(state().lock);
  auto it = state().comms.find(comm);
  return it == state().comms.end() ? nullptr : it->second;
}

inline size_t type_size(ncclDataType_t t) {
  switch (t) {
  case ncclInt8: case ncclUint8: case ncclFloat8e4m3: case ncclFloat8e5m2: return 1;
  case ncclFloat16: case ncclBfloat16: return 2;
  case ncclInt32: case ncclUint32: case ncclFloat32: return 4;
  case ncclInt64: case ncclUint64: case ncclFloat64: return 8;
  default: return 0;
  }
}

// ---- host side: setting up -----------------------------------------------------------------------------

using CommList = std::vector<std::shared_ptr<Comm>>;

inline bool cuda_ok(cudaError_t e) { return e == cudaSuccess; }

// The least of VALUE over the ranks, on each of LIST (ranks of one or more communicators that this
// thread owns), by host calls. values[i] belongs to list[i].
inline bool agree_min(CommList &list, std::vector<int> &values) {
  bool ok = true;
  for (size_t i = 0; i < list.size(); i++) {
    DeviceGuard g(list[i]->device);
    ok &= cuda_ok(cudaMemcpyAsync(list[i]->windows, &values[i], sizeof(int), cudaMemcpyHostToDevice,
                                  list[i]->setup));
    ok &= cuda_ok(cudaStreamSynchronize(list[i]->setup));
  }
  ok &= ncclGroupStart() == ncclSuccess;
  for (auto &c : list)
    ok &= ncclAllReduce(c->windows, c->windows, 1, ncclInt32, ncclMin, c->comm, c->setup) == ncclSuccess;
  ok &= ncclGroupEnd() == ncclSuccess;
  for (size_t i = 0; i < list.size(); i++) {
    DeviceGuard g(list[i]->device);
    ok &= cuda_ok(cudaMemcpyAsync(&values[i], list[i]->windows, sizeof(int), cudaMemcpyDeviceToHost,
                                  list[i]->setup));
    ok &= cuda_ok(cudaStreamSynchronize(list[i]->setup));
  }
  return ok;
}

// Registers the allocations that wait on each of LIST, in order, where all ranks have one of the same
// size: a collective step. The others stay unregistered and are staged.
inline void register_waiting(CommList &list) {
  constexpr int kBatch = 63;
  struct Row {
    uint64_t count, size[kBatch];
  };
  std::vector<std::vector<Row>> rows(list.size());
  std::vector<void *> buffers(list.size(), nullptr);
  bool ok = true;
  for (size_t i = 0; i < list.size(); i++) {
    Comm &c = *list[i];
    DeviceGuard g(c.device);
    Row mine{};
    {
      std::lock_guard<std::mutex> l(state().lock);
      mine.count = std::min<size_t>(c.waiting.size(), kBatch);
      for (size_t k = 0; k < mine.count; k++) {
        auto it = state().allocations.find((uintptr_t)c.waiting[k]);
        mine.size[k] = it == state().allocations.end() ? 0 : it->second.size;
      }
    }
    rows[i].resize(c.n);
    ok &= cuda_ok(cudaMalloc(&buffers[i], sizeof(Row) * c.n));
    ok &= cuda_ok(cudaMemcpyAsync((Row *)buffers[i] + c.rank, &mine, sizeof mine, cudaMemcpyHostToDevice,
                                  c.setup));
    ok &= cuda_ok(cudaStreamSynchronize(c.setup));
  }
  ok &= ncclGroupStart() == ncclSuccess;
  for (size_t i = 0; i < list.size(); i++)
    ok &= ncclAllGather((Row *)buffers[i] + list[i]->rank, buffers[i], sizeof(Row), ncclUint8,
                        list[i]->comm, list[i]->setup) == ncclSuccess;
  ok &= ncclGroupEnd() == ncclSuccess;
  size_t most = 0;
  for (size_t i = 0; i < list.size(); i++) {
    Comm &c = *list[i];
    DeviceGuard g(c.device);
    ok &= cuda_ok(cudaMemcpyAsync(rows[i].data(), buffers[i], sizeof(Row) * c.n, cudaMemcpyDeviceToHost,
                                  c.setup));
    ok &= cuda_ok(cudaStreamSynchronize(c.setup));
    cudaFree(buffers[i]);
    for (auto &r : rows[i])
      most = std::max<size_t>(most, r.count);
  }
  for (size_t k = 0; ok && k < most; k++) {
    std::vector<ncclWindow_t> window(list.size(), nullptr);
    std::vector<char> same(list.size(), 1);
    for (size_t i = 0; i < list.size(); i++)
      for (auto &r : rows[i])
        same[i] &= k < r.count && r.size[k] != 0 && r.size[k] == rows[i][0].size[k] &&
                   list[i]->window_list.size() < (size_t)kMaxWindows;
    ncclGroupStart();
    for (size_t i = 0; i < list.size(); i++)
      if (same[i])
        ncclCommWindowRegister(list[i]->comm, list[i]->waiting[k], rows[i][0].size[k], &window[i],
                               NCCL_WIN_COLL_SYMMETRIC);
    ncclGroupEnd();
    for (size_t i = 0; i < list.size(); i++) {
      if (!same[i])
        continue;
      Comm &c = *list[i];
      int index = (int)c.window_list.size();
      c.window_list.push_back(window[i]); // the index advances alike on every rank
      if (!window[i])
        continue;
      std::lock_guard<std::mutex> l(state().lock);
      auto it = state().allocations.find((uintptr_t)c.waiting[k]);
      if (it != state().allocations.end())
        it->second.windows.push_back({c.comm, index});
    }
  }
  for (auto &p : list) {
    Comm &c = *p;
    DeviceGuard g(c.device);
    if (!c.window_list.empty())
      cudaMemcpyAsync(c.windows, c.window_list.data(), c.window_list.size() * sizeof(ncclWindow_t),
                      cudaMemcpyHostToDevice, c.setup);
    cudaStreamSynchronize(c.setup);
    c.waiting.clear();
  }
}

// Makes communicators usable from kernels: collective over their ranks; HANDLES are the ranks that this
// thread owns. Afterwards every one has an entry, on the device or not.
inline void attach(const std::vector<ncclComm_t> &handles) {
  CommList list;
  for (ncclComm_t h : handles) {
    auto c = std::make_shared<Comm>();
    c->comm = h;
    c->owner = std::this_thread::get_id();
    if (ncclCommCount(h, &c->n) != ncclSuccess || ncclCommUserRank(h, &c->rank) != ncclSuccess ||
        ncclCommCuDevice(h, &c->device) != ncclSuccess)
      continue;
    c->layout = Layout{c->n};
    list.push_back(c);
  }
  std::vector<int> good(list.size(), 1);
  for (size_t i = 0; i < list.size(); i++) {
    Comm &c = *list[i];
    DeviceGuard g(c.device);
    bool ok = cuda_ok(cudaStreamCreateWithFlags(&c.setup, cudaStreamNonBlocking)) &&
              cuda_ok(cudaEventCreateWithFlags(&c.last, cudaEventDisableTiming)) &&
              cuda_ok(cudaMalloc((void **)&c.windows, kMaxWindows * sizeof(ncclWindow_t)));
    ok = ok && ncclMemAlloc(&c.arena, c.layout.size()) == ncclSuccess &&
         cuda_ok(cudaMemsetAsync(c.arena, 0, c.layout.size(), c.setup)) &&
         cuda_ok(cudaStreamSynchronize(c.setup));
    int sms = 0;
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, c.device);
    good[i] = ok && c.n <= kMaxPeers ? sms : 0;
  }
  const char *why = "its memory cannot be set up";
  bool all = agree_min(list, good);
  for (size_t i = 0; i < list.size(); i++) {
    list[i]->sms = good[i];
    all &= good[i] > 0;
  }
  if (all) {
    why = "NCCL's device API is not available here (no peer access between all GPUs?)";
    ncclGroupStart();
    for (auto &c : list)
      ncclCommWindowRegister(c->comm, c->arena, c->layout.size(), &c->arena_window,
                             NCCL_WIN_COLL_SYMMETRIC);
    bool registered = ncclGroupEnd() == ncclSuccess;
    ncclGroupStart();
    std::vector<ncclResult_t> made(list.size(), ncclInternalError);
    for (size_t i = 0; i < list.size(); i++) {
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
      ncclDevCommRequirements need = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
      ncclDevCommRequirements need;
      memset(&need, 0, sizeof need);
#endif
      need.lsaBarrierCount = kMaxCtas;
      made[i] = ncclDevCommCreate(list[i]->comm, &need, &list[i]->dc);
    }
    bool created = ncclGroupEnd() == ncclSuccess;
    for (size_t i = 0; i < list.size(); i++) {
      Comm &c = *list[i];
      c.has_dc = created && made[i] == ncclSuccess;
      good[i] = registered && c.has_dc && c.arena_window ? (c.dc.lsaSize == c.n ? 2 : 1) : 0;
    }
    all = agree_min(list, good);
    for (size_t i = 0; i < list.size(); i++) {
      list[i]->on_device = all && good[i] == 2;
      if (good[i] == 1)
        why = "its ranks are not all within reach of loads and stores (several nodes?)";
    }
  }
  for (auto &c : list) {
    if (!c->on_device && c->rank == 0)
      fprintf(stderr, "cucocc: a communicator of %d ranks uses host calls: %s\n", c->n, why);
    for (auto &d : list)
      c->siblings.push_back(d->comm);
    std::lock_guard<std::mutex> l(state().lock);
    if (state().comms.count(c->comm) == 0)
      state().order.push_back(c->comm);
    state().comms[c->comm] = c;
    if (!c->on_device)
      continue;
    std::vector<std::pair<uint64_t, void *>> mine;
    for (auto &a : state().allocations)
      if (a.second.device == c->device && a.second.owner == c->owner)
        mine.push_back({a.second.serial, (void *)a.first});
    std::sort(mine.begin(), mine.end());
    for (auto &m : mine)
      c->waiting.push_back(m.second);
  }
  CommList ready;
  for (auto &c : list)
    if (c->on_device)
      ready.push_back(c);
  if (!ready.empty())
    register_waiting(ready);
}

// Undoes attach() for one rank, before its communicator goes.
inline void detach(ncclComm_t comm) {
  std::shared_ptr<Comm> c;
  {
    std::lock_guard<std::mutex> l(state().lock);
    auto it = state().comms.find(comm);
    if (it == state().comms.end())
      return;
    c = it->second;
    state().comms.erase(it);
    auto &o = state().order;
    o.erase(std::remove(o.begin(), o.end(), comm), o.end());
    for (auto &a : state().allocations) {
      auto &w = a.second.windows;
      w.erase(std::remove_if(w.begin(), w.end(), [&](auto &x) { return x.first == comm; }), w.end());
    }
  }
  DeviceGuard g(c->device);
  if (c->used)
    cudaEventSynchronize(c->last); // our kernels leave only when no peer needs this memory any more
  if (c->has_dc)
    ncclDevCommDestroy(comm, &c->dc);
  for (ncclWindow_t w : c->window_list)
    if (w)
      ncclCommWindowDeregister(comm, w);
  if (c->arena_window)
    ncclCommWindowDeregister(comm, c->arena_window);
  if (c->arena)
    ncclMemFree(c->arena);
  cudaFree(c->windows);
  cudaEventDestroy(c->last);
  cudaStreamDestroy(c->setup);
  if (c->side)
    cudaStreamDestroy(c->side);
}

// ---- host side: groups and launches ----------------------------------------------------------------------

// One call waiting for the end of its group.
struct Pending {
  ncclComm_t comm;
  cudaStream_t stream;
  bool collective;
  std::function<ncclResult_t(Comm &)> launch; // on the device
  std::function<ncclResult_t()> host;         // the NCCL call itself
  // point to point
  bool send;
  int peer;
  char *buffer;
  size_t bytes;
  ncclResult_t (*p2p)(Comm &, std::vector<Pending> &);
};
struct Thread {
  int depth = 0;
  std::vector<Pending> calls;
  std::vector<ncclComm_t *> created; // by calls inside the group: valid when it ends
};
inline Thread &this_thread_state() {
  static thread_local Thread t;
  return t;
}

// The operand at P as the peers see it.
inline Operand locate(Comm &c, const void *p, size_t bytes) {
  std::lock_guard<std::mutex> l(state().lock);
  auto &table = state().allocations;
  auto it = table.upper_bound((uintptr_t)p);
  if (it == table.begin())
    return Operand{-1, 0};
  --it;
  size_t offset = (uintptr_t)p - it->first;
  if (offset > it->second.size || bytes > it->second.size - offset)
    return Operand{-1, 0};
  for (auto &w : it->second.windows)
    if (w.first == c.comm)
      return Operand{w.second, offset};
  return Operand{-1, 0};
}

// Memory [lo, hi).
struct Span {
  uintptr_t lo, hi;
};

// The operands of a collective: BYTES per part, SEND_PARTS and RECV_PARTS of them one after the other.
struct Parts {
  const void *send; // null where this rank has none
  size_t send_parts;
  void *recv;
  size_t recv_parts, bytes;
};
// What bytes [at, at + len) of every part are.
inline void spans_of(const void *buffer, size_t parts, size_t bytes, size_t at, size_t len,
                     std::vector<Span> &out) {
  for (size_t p = 0; buffer && p < parts; p++)
    out.push_back({(uintptr_t)buffer + p * bytes + at, (uintptr_t)buffer + p * bytes + at + len});
}

// The kernel arguments for bytes [at, at + len) of every part.
inline Call make_call(Comm &c, const Parts &p, size_t at, size_t len, int root) {
  Call call{};
  call.dc = c.dc;
  call.arena = c.arena_window;
  call.windows = c.windows;
  call.layout = c.layout;
  call.send = p.send ? (const char *)p.send + at : nullptr;
  call.recv = p.recv ? (char *)p.recv + at : nullptr;
  call.s = p.send ? locate(c, call.send, (p.send_parts - 1) * p.bytes + len) : Operand{-1, 0};
  call.r = p.recv ? locate(c, call.recv, (p.recv_parts - 1) * p.bytes + len) : Operand{-1, 0};
  call.bytes = len;
  call.stride = p.bytes;
  call.root = root;
  return call;
}

// The deferred placement: everything at once, where the caller's stream is.
struct Whole {
  Whole(Comm &, cudaStream_t stream) : stream_(stream) {}
  cudaStream_t stream() const { return stream_; }
  static constexpr bool kPieces = false;
  template <class Piece> ncclResult_t run(const Parts &p, Piece piece) { return piece(0, p.bytes, stream_); }
  void before(const std::vector<Span> &, const std::vector<Span> &) {}
  void after(std::vector<Span>, std::vector<Span>) {}
  void end() {}

private:
  cudaStream_t stream_;
};

// How many CTAs for BYTES of work, of at most WANTED: the same on every rank.
inline int grid_size(const Comm &c, size_t bytes, int wanted) {
  size_t useful = (bytes + 16383) / 16384;
  return (int)std::max<size_t>(1, std::min<size_t>({useful, (size_t)wanted, (size_t)c.sms, (size_t)kMaxCtas}));
}

// Is BYTES from each rank to each a small collective? If so, CALL gets its epoch. The same on every rank.
inline bool is_small(Comm &c, size_t bytes, Call &call) {
  if (c.n > kSmallRanks || bytes > kSmallBytes || bytes * c.n > 8 * kSmallBytes)
    return false;
  c.epoch = c.epoch == UINT32_MAX ? 2 : c.epoch + 1; // 0 is the memory's first value; parity goes on
  call.epoch = c.epoch;
  return true;
}
inline int small_grid(size_t bytes) { return (int)std::max<size_t>(1, std::min<size_t>(32, (bytes / 4 + 511) / 512)); }

// Calls of one communicator run in call order, also on different streams.
inline ncclResult_t in_order(Comm &c, cudaStream_t stream, const std::function<void()> &launch) {
  DeviceGuard g(c.device);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &capture);
  const bool plain = capture == cudaStreamCaptureStatusNone;
  if (plain && c.used && stream != c.last_stream)
    cudaStreamWaitEvent(stream, c.last, 0);
  launch();
  cudaError_t e = cudaGetLastError();
  if (e != cudaSuccess) {
    fprintf(stderr, "cucocc: launch failed: %s\n", cudaGetErrorString(e));
    return ncclUnhandledCudaError;
  }
  if (plain) {
    cudaEventRecord(c.last, stream);
    c.last_stream = stream;
    c.used = true;
  }
  return ncclSuccess;
}

// Runs what a thread's outermost group holds.
inline ncclResult_t flush(std::vector<Pending> calls) {
  ncclResult_t result = ncclSuccess;
  auto note = [&](ncclResult_t r) {
    if (r != ncclSuccess && result == ncclSuccess)
      result = r;
  };
  std::vector<ncclComm_t> unknown; // communicators from elsewhere: their first collective attaches them
  for (auto &p : calls)
    if (p.collective && !find_comm(p.comm) &&
        std::find(unknown.begin(), unknown.end(), p.comm) == unknown.end())
      unknown.push_back(p.comm);
  if (!unknown.empty())
    attach(unknown);
  std::vector<std::pair<std::shared_ptr<Comm>, std::vector<Pending>>> p2p;
  std::vector<Pending *> host;
  for (auto &p : calls) {
    auto c = find_comm(p.comm);
    if (!c || !c->on_device) {
      host.push_back(&p);
    } else if (p.collective) {
      note(p.launch(*c));
    } else {
      auto it = std::find_if(p2p.begin(), p2p.end(), [&](auto &x) { return x.first == c; });
      if (it == p2p.end())
        it = p2p.insert(p2p.end(), {c, {}});
      it->second.push_back(p);
    }
  }
  for (auto &x : p2p)
    note(x.second[0].p2p(*x.first, x.second));
  if (!host.empty()) {
    note(ncclGroupStart());
    for (Pending *p : host)
      note(p->host());
    note(ncclGroupEnd());
  }
  return result;
}

inline ncclResult_t submit(Pending p) {
  Thread &t = this_thread_state();
  if (t.depth > 0) {
    t.calls.push_back(std::move(p));
    return ncclSuccess;
  }
  std::vector<Pending> one;
  one.push_back(std::move(p));
  return flush(std::move(one));
}

// A collective: LAUNCH on the device, or HOST.
inline ncclResult_t submit_collective(ncclComm_t comm, cudaStream_t stream,
                                      std::function<ncclResult_t(Comm &)> launch,
                                      std::function<ncclResult_t()> host) {
  if (!comm)
    return host(); // reports the error
  Pending p{};
  p.comm = comm;
  p.stream = stream;
  p.collective = true;
  p.launch = std::move(launch);
  p.host = std::move(host);
  return submit(std::move(p));
}

inline ncclResult_t group_start() {
  this_thread_state().depth++;
  return ncclGroupStart();
}

inline ncclResult_t group_end() {
  Thread &t = this_thread_state();
  ncclResult_t r = ncclGroupEnd();
  if (t.depth == 0 || --t.depth > 0)
    return r;
  std::vector<Pending> calls;
  calls.swap(t.calls);
  std::vector<ncclComm_t *> created;
  created.swap(t.created);
  if (r != ncclSuccess)
    return r;
  std::vector<ncclComm_t> handles;
  for (ncclComm_t *c : created)
    if (*c)
      handles.push_back(*c);
  if (!handles.empty())
    attach(handles);
  return flush(std::move(calls));
}

// ---- host side: communicators ----------------------------------------------------------------------------

inline ncclResult_t created(ncclComm_t *comm, ncclResult_t r) {
  Thread &t = this_thread_state();
  if (r == ncclSuccess && t.depth > 0)
    t.created.push_back(comm);
  else if (r == ncclSuccess && *comm)
    attach({*comm});
  return r;
}
// A non-blocking communicator is not ready when its creation returns: it keeps to host calls.
inline bool blocking(const ncclConfig_t *config) { return !config || config->blocking != 0; }
inline void keep_on_host(ncclComm_t comm) {
  auto c = std::make_shared<Comm>();
  c->comm = comm;
  std::lock_guard<std::mutex> l(state().lock);
  state().comms[comm] = c;
}

inline ncclResult_t comm_init_rank(ncclComm_t *comm, int n, ncclUniqueId id, int rank) {
  return created(comm, ncclCommInitRank(comm, n, id, rank));
}
inline ncclResult_t comm_init_rank_config(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                          ncclConfig_t *config) {
  ncclResult_t r = ncclCommInitRankConfig(comm, n, id, rank, config);
  if (blocking(config))
    return created(comm, r);
  if (*comm)
    keep_on_host(*comm);
  return r;
}
inline ncclResult_t comm_init_rank_scalable(ncclComm_t *comm, int n, int rank, int ids, ncclUniqueId *id,
                                            ncclConfig_t *config) {
  ncclResult_t r = ncclCommInitRankScalable(comm, n, rank, ids, id, config);
  if (blocking(config))
    return created(comm, r);
  if (*comm)
    keep_on_host(*comm);
  return r;
}
inline ncclResult_t comm_init_all(ncclComm_t *comms, int n, const int *devices) {
  ncclResult_t r = ncclCommInitAll(comms, n, devices);
  if (r == ncclSuccess)
    attach(std::vector<ncclComm_t>(comms, comms + n));
  return r;
}
inline ncclResult_t comm_split(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config) {
  ncclResult_t r = ncclCommSplit(comm, color, key, child, config);
  if (blocking(config))
    return created(child, r);
  if (*child)
    keep_on_host(*child);
  return r;
}
inline ncclResult_t comm_finalize(ncclComm_t comm) {
  detach(comm);
  return ncclCommFinalize(comm);
}
inline ncclResult_t comm_destroy(ncclComm_t comm) {
  detach(comm);
  return ncclCommDestroy(comm);
}
inline ncclResult_t comm_abort(ncclComm_t comm) {
  {
    std::lock_guard<std::mutex> l(state().lock); // kernels may hang: leave their memory alone
    state().comms.erase(comm);
  }
  return ncclCommAbort(comm);
}

// ---- host side: symmetric memory -------------------------------------------------------------------------

inline cudaError_t symmetric_malloc_bytes(void **p, size_t bytes) {
  if (bytes == 0)
    return cudaMalloc(p, bytes);
  Allocation a{};
  a.size = bytes;
  a.owner = std::this_thread::get_id();
  cudaGetDevice(&a.device);
  if (ncclMemAlloc(p, bytes) != ncclSuccess) {
    cudaGetLastError();
    cudaError_t e = cudaMalloc(p, bytes); // its error, and staging where it works
    if (e != cudaSuccess)
      return e;
    a.size = 0;
  }
  std::vector<CommList> ready; // communicators all of whose ranks here have something waiting
  {
    std::lock_guard<std::mutex> l(state().lock);
    a.serial = state().serial++;
    if (a.size)
      state().allocations[(uintptr_t)*p] = a;
    for (ncclComm_t h : state().order) {
      auto c = state().comms[h];
      if (!c->on_device || c->device != a.device || c->owner != a.owner)
        continue;
      c->waiting.push_back(*p);
      CommList all;
      for (ncclComm_t s : c->siblings) {
        auto it = state().comms.find(s);
        if (it != state().comms.end() && !it->second->waiting.empty())
          all.push_back(it->second);
      }
      if (all.size() == c->siblings.size())
        ready.push_back(all);
    }
  }
  for (auto &list : ready)
    register_waiting(list);
  return cudaSuccess;
}
template <class T> cudaError_t symmetric_malloc(T **p, size_t bytes) {
  return symmetric_malloc_bytes((void **)p, bytes);
}

inline cudaError_t symmetric_free(void *p) {
  Allocation a{};
  {
    std::lock_guard<std::mutex> l(state().lock);
    auto it = state().allocations.find((uintptr_t)p);
    if (it == state().allocations.end() || !p)
      a.size = 0;
    else
      a = it->second, state().allocations.erase(it);
    for (auto &c : state().comms) {
      auto &w = c.second->waiting;
      w.erase(std::remove(w.begin(), w.end(), p), w.end());
    }
  }
  if (!a.size)
    return cudaFree(p);
  DeviceGuard g(a.device);
  cudaError_t e = cudaDeviceSynchronize(); // as cudaFree does
  for (auto &w : a.windows) {
    auto c = find_comm(w.first);
    if (!c)
      continue;
    ncclCommWindowDeregister(c->comm, c->window_list[w.second]);
    c->window_list[w.second] = nullptr; // the index is not used again
  }
  return ncclMemFree(p) == ncclSuccess ? e : cudaErrorInvalidValue;
}

} // namespace v1
} // namespace cucocc
#endif
// cucocc-section: overlap
#ifndef CUCOCC_RUNTIME_OVERLAP
#define CUCOCC_RUNTIME_OVERLAP
namespace cucocc {
inline namespace v1 {

// Pieces of a collective run on a stream of their own beside parts of the kernels before and after it. What
// waits for what is found here, from the bytes that each part may touch: a piece waits for the parts that
// wrote what it sends or still use what it receives into; a part waits for the pieces whose data it uses.

inline bool meet(const std::vector<Span> &a, const std::vector<Span> &b) {
  for (auto &x : a)
    for (auto &y : b)
      if (x.lo < y.hi && y.lo < x.hi)
        return true;
  return false;
}

// What a block of a kernel may touch behind one pointer: from P + BASE + sum of coef[d] * blockIdx.d,
// EXTENT bytes. Not KNOWN: anything in the memory that P points into.
struct Touch {
  const void *p;
  bool read, write, known;
  long long coef[3], base, extent;
};

// The whole allocation of P, or all memory when it is not one of the known.
inline Span allocation_of(const void *p) {
  std::lock_guard<std::mutex> l(state().lock);
  auto &table = state().allocations;
  auto it = table.upper_bound((uintptr_t)p);
  if (it != table.begin() && (uintptr_t)p < (--it)->first + it->second.size)
    return Span{it->first, it->first + it->second.size};
  return Span{0, UINTPTR_MAX};
}

// What blocks FIRST .. FIRST + COUNT - 1 of dimension D, and all of the others', may touch.
inline Span touched(const Touch &t, const dim3 &grid, int d, unsigned first, unsigned count) {
  if (!t.known)
    return allocation_of(t.p);
  const unsigned size[3] = {grid.x, grid.y, grid.z};
  long long lo = t.base, hi = t.base;
  for (int k = 0; k < 3; k++) {
    const long long a = k == d ? first : 0, b = k == d ? (long long)first + count - 1 : (long long)size[k] - 1;
    lo += t.coef[k] * (t.coef[k] < 0 ? b : a);
    hi += t.coef[k] * (t.coef[k] < 0 ? a : b);
  }
  return Span{(uintptr_t)((long long)(uintptr_t)t.p + lo), (uintptr_t)((long long)(uintptr_t)t.p + hi + t.extent)};
}

struct Work { // something on a stream, done when its event is
  std::vector<Span> reads, writes;
  cudaEvent_t done;
};
// Does A have to come after B?
inline bool conflict(const std::vector<Span> &reads, const std::vector<Span> &writes, const Work &b) {
  return meet(reads, b.writes) || meet(writes, b.writes) || meet(writes, b.reads);
}

struct Track { // what a stream did since BASE that a region may not have to wait for as a whole
  cudaEvent_t base = nullptr;
  uint64_t since = 0;
  std::vector<Work> work;
  int waited = -1; // index in WORK
  std::vector<cudaStream_t> links; // streams whose work it waited for, known in parts as well
};
struct Overlap {
  uint64_t now = 0;
  std::map<cudaEvent_t, std::pair<cudaStream_t, uint64_t>> recorded; // the program's events
  std::map<std::pair<int, cudaStream_t>, Track> before;              // by region and stream
  std::map<std::pair<int, cudaStream_t>, std::vector<Work>> flights; // pieces not waited for yet
  std::map<int, std::vector<cudaEvent_t>> spare;                     // by device
};
inline Overlap &overlap() {
  static thread_local Overlap &o = *new Overlap; // never destroyed, as the state
  return o;
}
inline cudaEvent_t mark(cudaStream_t stream) {
  int device = 0;
  cudaGetDevice(&device);
  auto &spare = overlap().spare[device];
  cudaEvent_t e = nullptr;
  if (spare.empty()) {
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
  } else {
    e = spare.back();
    spare.pop_back();
  }
  cudaEventRecord(e, stream);
  return e;
}
// E is not waited for any more (waits that were enqueued are not disturbed when it is used again).
inline void unmark(cudaEvent_t e) {
  int device = 0;
  cudaGetDevice(&device);
  if (e)
    overlap().spare[device].push_back(e);
}
inline void clear(Track &t) {
  unmark(t.base);
  for (auto &w : t.work)
    unmark(w.done);
  t = Track{};
}

// What a launch is to the regions around it.
struct Role {
  int feeds[4]; // regions that send what it writes; 0 = no more
  int uses[4];  // regions that receive what it reads
  bool first;   // nothing before it in the same chain
  int parts;    // to be cut into
  int ctas;     // that communicate beside it
};

struct Regions {
  int ids[4]; // 0 = no more
};
inline void set_base(Track &t, cudaStream_t stream) {
  t.base = mark(stream);
  t.since = ++overlap().now;
}

// A chain of launches before REGION begins anew.
inline void chain_begins(int region) {
  for (auto &t : overlap().before)
    if (t.first.first == region)
      clear(t.second);
}
// Work enters the chains of ROLE: ENQUEUE puts it on STREAM.
template <class Enqueue>
void tracked(const Role &role, bool first, cudaStream_t stream, std::vector<Span> reads,
             std::vector<Span> writes, Enqueue enqueue) {
  for (int r : role.feeds) {
    if (!r)
      continue;
    if (first && role.first)
      chain_begins(r);
    Track &t = overlap().before[{r, stream}];
    if (!t.base)
      set_base(t, stream);
  }
  enqueue();
  for (int r : role.feeds)
    if (r)
      overlap().before[{r, stream}].work.push_back({reads, writes, mark(stream)});
}

inline cudaError_t event_record(const Regions &, cudaEvent_t e, cudaStream_t stream = 0) {
  overlap().recorded[e] = {stream, ++overlap().now};
  return cudaEventRecord(e, stream);
}
// A stream waits for the launches of a chain on another stream, by an event that was recorded behind them.
// The pieces of REGIONS need not: they wait for the parts that they need, and for what STREAM did so far.
inline cudaError_t stream_wait_event(const Regions &regions, cudaStream_t stream, cudaEvent_t e,
                                     unsigned flags = 0) {
  Overlap &o = overlap();
  auto rec = o.recorded.find(e);
  for (int r : regions.ids) {
    if (!r)
      continue;
    Track &t = o.before[{r, stream}];
    bool behind = false;
    if (rec != o.recorded.end() && rec->second.first != stream) {
      auto chain = o.before.find({r, rec->second.first});
      behind = chain != o.before.end() && chain->second.base && chain->second.since < rec->second.second;
    }
    if (!behind)
      clear(t); // the event stands for something else: its wait counts
    else if (!t.base)
      set_base(t, stream);
    if (behind)
      t.links.push_back(rec->second.first);
  }
  return cudaStreamWaitEvent(stream, e, flags);
}
inline cudaError_t memset_async(const Role &role, void *p, int value, size_t bytes, cudaStream_t stream = 0) {
  cudaError_t e = cudaSuccess;
  tracked(role, true, stream, {}, {Span{(uintptr_t)p, (uintptr_t)p + bytes}},
          [&] { e = cudaMemsetAsync(p, value, bytes, stream); });
  return e;
}

// Launches a kernel in parts: LAUNCH(parts_grid, first_block) is one of them.
template <class Launch>
void launch_parts(const Role &role, dim3 grid, cudaStream_t stream, const std::vector<Touch> &touch,
                  Launch launch) {
  const unsigned size[3] = {grid.x, grid.y, grid.z};
  std::vector<Work> flights;
  for (int r : role.uses)
    for (auto &f : overlap().flights) {
      if (!r || f.first.first != r)
        continue;
      if (f.first.second == stream)
        flights.insert(flights.end(), f.second.begin(), f.second.end());
      else
        for (auto &w : f.second) // another stream than was to be expected: as if it had waited
          cudaStreamWaitEvent(f.first.second, w.done, 0), unmark(w.done);
      f.second.clear();
    }
  // Along the dimension in which neighbours are farthest apart in memory.
  int d = 0;
  long long most = -1;
  for (int k = 0; k < 3; k++)
    for (auto &t : touch)
      if (size[k] > 1 && t.known && std::abs(t.coef[k]) >= most) {
        most = std::abs(t.coef[k]);
        d = k;
      }
  struct Part {
    unsigned first, count;
    int need; // index of the last piece to wait for, -1 = none
    std::vector<Span> reads, writes;
  };
  auto part = [&](unsigned first, unsigned count) {
    Part p{first, count, -1, {}, {}};
    for (auto &t : touch) {
      const Span s = touched(t, grid, d, first, count);
      if (t.read)
        p.reads.push_back(s);
      if (t.write)
        p.writes.push_back(s);
    }
    for (size_t i = 0; i < flights.size(); i++)
      if (conflict(p.reads, p.writes, flights[i]))
        p.need = (int)i;
    return p;
  };
  std::vector<Part> parts;
  const unsigned n = size[d], wanted = role.parts < 1 ? 1 : (unsigned)role.parts;
  const bool valid = grid.x && grid.y && grid.z;
  if (valid && !flights.empty()) {
    const unsigned step = (n + 1023) / 1024;
    std::vector<Part> runs;
    for (unsigned i = 0; i < n; i += step) {
      Part p = part(i, std::min(step, n - i));
      if (!runs.empty() && runs.back().need == p.need)
        runs.back().count += p.count;
      else
        runs.push_back(p);
    }
    std::stable_sort(runs.begin(), runs.end(), [](const Part &a, const Part &b) { return a.need < b.need; });
    const unsigned per = (n + wanted - 1) / wanted;
    for (auto &r : runs) {
      const unsigned cuts = role.feeds[0] ? (r.count + per - 1) / per : 1;
      for (unsigned k = 0; k < cuts; k++) {
        const unsigned a = (unsigned)((uint64_t)r.count * k / cuts), b = (unsigned)((uint64_t)r.count * (k + 1) / cuts);
        parts.push_back(part(r.first + a, b - a));
      }
    }
  } else if (valid) {
    const unsigned cuts = role.feeds[0] ? std::min(wanted, n) : 1;
    for (unsigned k = 0; k < cuts; k++) {
      const unsigned a = (unsigned)((uint64_t)n * k / cuts), b = (unsigned)((uint64_t)n * (k + 1) / cuts);
      parts.push_back(part(a, b - a));
    }
  } else {
    parts.push_back(Part{0, n, -1, {}, {}}); // CUDA reports what is wrong
  }
  int waited = -1;
  bool first = true;
  for (auto &p : parts) {
    for (; waited < p.need; waited++) // of one communicator the last would do
      cudaStreamWaitEvent(stream, flights[waited + 1].done, 0);
    unsigned count[3] = {grid.x, grid.y, grid.z}, from[3] = {0, 0, 0};
    count[d] = p.count;
    from[d] = p.first;
    tracked(role, first, stream, p.reads, p.writes, [&] {
      launch(dim3(count[0], count[1], count[2]), make_uint3(from[0], from[1], from[2]));
    });
    first = false;
  }
  for (; waited < (int)flights.size() - 1; waited++)
    cudaStreamWaitEvent(stream, flights[waited + 1].done, 0);
  for (auto &f : flights)
    unmark(f.done);
}

// A variant of a kernel may use as much shared memory as the kernel was allowed.
template <class F, class G> void same_attributes(F *kernel, G *variant, size_t shared) {
  cudaFuncAttributes a{};
  if (shared > 48 * 1024 && cudaFuncGetAttributes(&a, (const void *)kernel) == cudaSuccess)
    cudaFuncSetAttribute((const void *)variant, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         a.maxDynamicSharedSizeBytes);
}

// The pipelined placement: PIECE bytes of every part at a time (at most MOST pieces), on the
// communicator's side stream. LATE: a launch that follows waits for the pieces; else the stream does.
template <int REGION, size_t PIECE, int MOST, bool LATE> struct Pieces {
  static constexpr bool kPieces = true;

  Pieces(Comm &c, cudaStream_t stream) : c_(c), guard_(c.device), user_(stream) {
    if (!c.side) {
      int least = 0, greatest = 0;
      cudaDeviceGetStreamPriorityRange(&least, &greatest);
      cudaStreamCreateWithPriority(&c.side, cudaStreamNonBlocking, greatest);
    }
    Overlap &o = overlap();
    Track &mine = o.before[{REGION, stream}];
    const bool whole = !mine.base; // what this stream did so far is not known in parts
    if (whole)
      set_base(mine, stream);
    std::vector<cudaStream_t> from{stream};
    if (!whole)
      from.insert(from.end(), mine.links.begin(), mine.links.end());
    for (cudaStream_t s : from) {
      Track &t = o.before[{REGION, s}];
      if (t.base) {
        cudaStreamWaitEvent(c.side, t.base, 0);
        tracks_.push_back(std::move(t));
      }
      t = Track{};
    }
  }
  cudaStream_t stream() const { return c_.side; }

  // READS is sent, WRITES is received into, by what comes next.
  void before(const std::vector<Span> &reads, const std::vector<Span> &writes) {
    for (auto &t : tracks_)
      for (int i = (int)t.work.size() - 1; i > t.waited; i--)
        if (conflict(reads, writes, t.work[i])) {
          cudaStreamWaitEvent(c_.side, t.work[i].done, 0);
          t.waited = i; // and with it everything before
        }
  }
  void after(std::vector<Span> reads, std::vector<Span> writes) {
    flights_.push_back({std::move(reads), std::move(writes), mark(c_.side)});
  }
  void end() {
    if (!LATE) {
      if (!flights_.empty())
        cudaStreamWaitEvent(user_, flights_.back().done, 0);
      for (auto &f : flights_)
        unmark(f.done);
    } else {
      auto &list = overlap().flights[{REGION, user_}];
      list.insert(list.end(), flights_.begin(), flights_.end());
    }
    flights_.clear();
    for (auto &t : tracks_)
      clear(t);
    tracks_.clear();
  }

  template <class Piece> ncclResult_t run(const Parts &p, Piece piece) {
    const size_t most = PIECE ? (p.bytes + PIECE - 1) / PIECE : MOST, count = std::min<size_t>(most, MOST);
    const size_t per = ((p.bytes + count - 1) / count + 15) / 16 * 16;
    ncclResult_t r = ncclSuccess;
    for (size_t at = 0; at < p.bytes && r == ncclSuccess; at += per) {
      const size_t len = std::min(per, p.bytes - at);
      std::vector<Span> reads, writes;
      spans_of(p.send, p.send_parts, p.bytes, at, len, reads);
      spans_of(p.recv, p.recv_parts, p.bytes, at, len, writes);
      before(reads, writes);
      r = piece(at, len, c_.side);
      after(std::move(reads), std::move(writes));
    }
    end();
    return r;
  }

private:
  Comm &c_;
  DeviceGuard guard_;
  cudaStream_t user_;
  std::vector<Track> tracks_;
  std::vector<Work> flights_;
};

} // namespace v1
} // namespace cucocc
#endif
// cucocc-section: blas needs overlap
#ifndef CUCOCC_RUNTIME_BLAS
#define CUCOCC_RUNTIME_BLAS
namespace cucocc {
inline namespace v1 {

inline long long blas_bytes(cudaDataType_t t) {
  switch (t) {
  case CUDA_R_8I: case CUDA_R_8U: case CUDA_R_8F_E4M3: case CUDA_R_8F_E5M2: return 1;
  case CUDA_R_16F: case CUDA_R_16BF: return 2;
  case CUDA_R_32F: case CUDA_R_32I: return 4;
  case CUDA_R_64F: return 8;
  default: return 0;
  }
}

// C = alpha * op(A) * op(B) + beta * C (column-major), in parts of whole columns of C. The names of cuBLAS
// are found where the program calls this.
template <class Handle, class Operation, class Compute, class Algorithm>
auto gemm_ex(const Role &role, Handle handle, Operation op_a, Operation op_b, int m, int n, int k,
             const void *alpha, const void *a, cudaDataType_t a_type, int lda, const void *b,
             cudaDataType_t b_type, int ldb, const void *beta, void *c, cudaDataType_t c_type, int ldc,
             Compute compute, Algorithm algorithm) {
  constexpr int kUnit = 128; // columns
  cudaStream_t stream = nullptr;
  auto status = cublasGetStream_v2(handle, &stream);
  const long long sa = blas_bytes(a_type), sb = blas_bytes(b_type), sc = blas_bytes(c_type);
  const bool known = sa && sb && sc && m > 0 && n > 0 && k > 0, plain_a = (int)op_a == 0, plain_b = (int)op_b == 0;
  const long long b_column = (plain_b ? ldb : 1) * sb, c_column = ldc * sc;
  const unsigned units = known ? (unsigned)((n + kUnit - 1) / kUnit) : 1;
  // One wave of a persistent GEMM that found some SMs taken would become two.
  int target = 0, device = 0, sms = 0;
  cublasGetSmCountTarget(handle, &target);
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  if (role.ctas && !target && role.ctas < sms)
    cublasSetSmCountTarget(handle, sms - role.ctas);
  launch_parts(
      role, dim3(1, units, 1), stream,
      {
          {a, true, false, known, {0, 0, 0}, 0, (long long)lda * (plain_a ? k : m) * sa},
          {b, true, false, known, {0, kUnit * b_column, 0}, 0,
           plain_b ? kUnit * b_column : ((long long)ldb * (k - 1) + kUnit) * sb},
          {c, true, true, known, {0, kUnit * c_column, 0}, 0, kUnit * c_column},
      },
      [&](dim3 count, uint3 first) {
        const int from = (int)first.y * kUnit, columns = known ? std::min((int)count.y * kUnit, n - from) : n;
        auto s = cublasGemmEx(handle, op_a, op_b, m, columns, k, alpha, a, a_type, lda,
                              (const char *)b + from * b_column, b_type, ldb, beta,
                              (char *)c + from * c_column, c_type, ldc, compute, algorithm);
        if (s)
          status = s;
      });
  cublasSetSmCountTarget(handle, target);
  return status;
}

} // namespace v1
} // namespace cucocc
#endif
// cucocc-section: reduce
#ifndef CUCOCC_RUNTIME_REDUCE
#define CUCOCC_RUNTIME_REDUCE
namespace cucocc {
inline namespace v1 {

// What sums are kept in: float for the short floating-point types, else the type itself.
template <class T> struct Accumulator { using type = T; };
template <> struct Accumulator<__half> { using type = float; };
template <> struct Accumulator<__nv_bfloat16> { using type = float; };
template <> struct Accumulator<__nv_fp8_e4m3> { using type = float; };
template <> struct Accumulator<__nv_fp8_e5m2> { using type = float; };
template <class T> using Acc = typename Accumulator<T>::type;

struct Sum {
  template <class A> static __device__ A apply(A a, A b) { return (A)(a + b); }
  template <class A> static __device__ A finish(A a, int) { return a; }
};
struct Prod {
  template <class A> static __device__ A apply(A a, A b) { return (A)(a * b); }
  template <class A> static __device__ A finish(A a, int) { return a; }
};
struct Min {
  template <class A> static __device__ A apply(A a, A b) { return b < a ? b : a; }
  template <class A> static __device__ A finish(A a, int) { return a; }
};
struct Max {
  template <class A> static __device__ A apply(A a, A b) { return a < b ? b : a; }
  template <class A> static __device__ A finish(A a, int) { return a; }
};
struct Avg {
  template <class A> static __device__ A apply(A a, A b) { return (A)(a + b); }
  template <class A> static __device__ A finish(A a, int n) { return (A)(a / (A)n); }
};

template <class T> struct alignas(16) Pack {
  T v[16 / sizeof(T)];
};

// Packs FIRST, FIRST + blockDim.x, ... (N of them) of all.
template <class T, class Op, int N>
__device__ void reduce_packs(char *const *to, int n_to, const char *const *from, int n_from, size_t first) {
  constexpr int kPer = 16 / sizeof(T);
  const size_t step = blockDim.x;
  Pack<T> x[N];
  Acc<T> acc[N][kPer];
  for (int p = 0; p < n_from; p++) {
#pragma unroll
    for (int j = 0; j < N; j++)
      x[j] = ((const Pack<T> *)from[p])[first + j * step];
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
      for (int k = 0; k < kPer; k++)
        acc[j][k] = p == 0 ? (Acc<T>)x[j].v[k] : Op::apply(acc[j][k], (Acc<T>)x[j].v[k]);
  }
#pragma unroll
  for (int j = 0; j < N; j++)
#pragma unroll
    for (int k = 0; k < kPer; k++)
      x[j].v[k] = (T)Op::finish(acc[j][k], n_from);
  for (int p = 0; p < n_to; p++)
#pragma unroll
    for (int j = 0; j < N; j++)
      ((Pack<T> *)to[p])[first + j * step] = x[j];
}

// OUT(i-th byte range) = OP over ranks 0..n-1 of FROM[p], in rank order: the same bits on every rank.
// BYTES is a multiple of sizeof(T). FROM and TO are arrays of n_from and n_to addresses.
template <class T, class Op>
__device__ void reduce(char *const *to, int n_to, const char *const *from, int n_from, size_t bytes) {
  uintptr_t bits = 0;
  for (int p = 0; p < n_from; p++)
    bits |= (uintptr_t)from[p];
  for (int p = 0; p < n_to; p++)
    bits |= (uintptr_t)to[p];
  const size_t packs = bits % 16 == 0 ? bytes / 16 : 0, count = bytes / sizeof(T);
  constexpr int kPer = 16 / sizeof(T), kFlight = sizeof(T) == 1 ? 2 : 4; // loads in flight
  const size_t step = blockDim.x;
  size_t i = threadIdx.x;
  for (; i + (kFlight - 1) * step < packs; i += kFlight * step)
    reduce_packs<T, Op, kFlight>(to, n_to, from, n_from, i);
  for (; i < packs; i += step)
    reduce_packs<T, Op, 1>(to, n_to, from, n_from, i);
  for (size_t i = packs * kPer + threadIdx.x; i < count; i += blockDim.x) {
    Acc<T> acc = (Acc<T>)((const T *)from[0])[i];
    for (int p = 1; p < n_from; p++)
      acc = Op::apply(acc, (Acc<T>)((const T *)from[p])[i]);
    T x = (T)Op::finish(acc, n_from);
    for (int p = 0; p < n_to; p++)
      ((T *)to[p])[i] = x;
  }
}

// Small reductions: of word groups that hold whole elements.
template <class T, class Op> struct SmallReduce : Small {
  static constexpr int kBytes = sizeof(T) < 4 ? 4 : (int)sizeof(T), kWords = kBytes / 4, kElements = kBytes / (int)sizeof(T);
  using Small::Small;
  // Sends groups U of FROM to rank P.
  __device__ void send(int p, const char *from, size_t u) const {
    for (int k = 0; k < kWords; k++)
      put(p, u * kWords + k, load(from, u * kWords + k, call.bytes));
  }
  // Group U of all ranks, this one's from OWN, in rank order: the same bits on every rank.
  __device__ void receive(const char *own, char *to, size_t u) const {
    Acc<T> acc[kElements];
    uint32_t w[kWords];
    T e[kElements];
    for (int p = 0; p < n; p++) {
      for (int k = 0; k < kWords; k++)
        w[k] = p == me ? load(own, u * kWords + k, call.bytes) : get(p, u * kWords + k);
      memcpy(e, w, sizeof w);
      for (int k = 0; k < kElements; k++)
        acc[k] = p == 0 ? (Acc<T>)e[k] : Op::apply(acc[k], (Acc<T>)e[k]);
    }
    for (int k = 0; k < kElements; k++)
      e[k] = (T)Op::finish(acc[k], n);
    memcpy(w, e, sizeof w);
    for (int k = 0; k < kWords; k++)
      store(to, u * kWords + k, call.bytes, w[k]);
  }
  __device__ void all_reduce() const {
    const size_t groups = (call.bytes + kBytes - 1) / kBytes;
    for (size_t u = first; u < groups; u += step)
      for (int d = 1; d < n; d++)
        send((me + d) % n, call.send, u);
    for (size_t u = first; u < groups; u += step)
      receive(call.send, call.recv, u);
  }
  __device__ void reduce_scatter() const {
    const size_t groups = (call.bytes + kBytes - 1) / kBytes;
    for (int d = 1; d < n; d++)
      for (size_t u = first; u < groups; u += step)
        send((me + d) % n, call.send + (me + d) % n * call.stride, u);
    for (size_t u = first; u < groups; u += step)
      receive(call.send + me * call.stride, call.recv, u);
  }
};

template <class T> struct Tag { using type = T; };
// Calls f(Tag<T>, Tag<Op>) for the run-time TYPE and OP; a static T or Op (not void) is used as it is.
template <class Op, class F> ncclResult_t with_type(ncclDataType_t type, F &&f) {
  switch (type) {
  case ncclInt8: return f(Tag<int8_t>{}, Tag<Op>{});
  case ncclUint8: return f(Tag<uint8_t>{}, Tag<Op>{});
  case ncclInt32: return f(Tag<int32_t>{}, Tag<Op>{});
  case ncclUint32: return f(Tag<uint32_t>{}, Tag<Op>{});
  case ncclInt64: return f(Tag<int64_t>{}, Tag<Op>{});
  case ncclUint64: return f(Tag<uint64_t>{}, Tag<Op>{});
  case ncclFloat16: return f(Tag<__half>{}, Tag<Op>{});
  case ncclBfloat16: return f(Tag<__nv_bfloat16>{}, Tag<Op>{});
  case ncclFloat32: return f(Tag<float>{}, Tag<Op>{});
  case ncclFloat64: return f(Tag<double>{}, Tag<Op>{});
  case ncclFloat8e4m3: return f(Tag<__nv_fp8_e4m3>{}, Tag<Op>{});
  case ncclFloat8e5m2: return f(Tag<__nv_fp8_e5m2>{}, Tag<Op>{});
  default: return ncclInvalidArgument;
  }
}
template <class T, class Op, class F>
ncclResult_t with_types(ncclDataType_t type, ncclRedOp_t op, F &&f) {
  if constexpr (!std::is_void<T>::value && !std::is_void<Op>::value) {
    return f(Tag<T>{}, Tag<Op>{});
  } else if constexpr (!std::is_void<Op>::value) {
    return with_type<Op>(type, f);
  } else if constexpr (!std::is_void<T>::value) {
    switch (op) {
    case ncclSum: return f(Tag<T>{}, Tag<Sum>{});
    case ncclProd: return f(Tag<T>{}, Tag<Prod>{});
    case ncclMin: return f(Tag<T>{}, Tag<Min>{});
    case ncclMax: return f(Tag<T>{}, Tag<Max>{});
    case ncclAvg: return f(Tag<T>{}, Tag<Avg>{});
    default: return ncclInvalidArgument;
    }
  } else {
    switch (op) {
    case ncclSum: return with_type<Sum>(type, f);
    case ncclProd: return with_type<Prod>(type, f);
    case ncclMin: return with_type<Min>(type, f);
    case ncclMax: return with_type<Max>(type, f);
    case ncclAvg: return with_type<Avg>(type, f);
    default: return ncclInvalidArgument;
    }
  }
}
template <class T> struct TypeCode;
template <> struct TypeCode<int8_t> { static constexpr ncclDataType_t value = ncclInt8; };
template <> struct TypeCode<uint8_t> { static constexpr ncclDataType_t value = ncclUint8; };
template <> struct TypeCode<int32_t> { static constexpr ncclDataType_t value = ncclInt32; };
template <> struct TypeCode<uint32_t> { static constexpr ncclDataType_t value = ncclUint32; };
template <> struct TypeCode<int64_t> { static constexpr ncclDataType_t value = ncclInt64; };
template <> struct TypeCode<uint64_t> { static constexpr ncclDataType_t value = ncclUint64; };
template <> struct TypeCode<__half> { static constexpr ncclDataType_t value = ncclFloat16; };
template <> struct TypeCode<__nv_bfloat16> { static constexpr ncclDataType_t value = ncclBfloat16; };
template <> struct TypeCode<float> { static constexpr ncclDataType_t value = ncclFloat32; };
template <> struct TypeCode<double> { static constexpr ncclDataType_t value = ncclFloat64; };
template <> struct TypeCode<__nv_fp8_e4m3> { static constexpr ncclDataType_t value = ncclFloat8e4m3; };
template <> struct TypeCode<__nv_fp8_e5m2> { static constexpr ncclDataType_t value = ncclFloat8e5m2; };
template <class Op> struct OpCode;
template <> struct OpCode<Sum> { static constexpr ncclRedOp_t value = ncclSum; };
template <> struct OpCode<Prod> { static constexpr ncclRedOp_t value = ncclProd; };
template <> struct OpCode<Min> { static constexpr ncclRedOp_t value = ncclMin; };
template <> struct OpCode<Max> { static constexpr ncclRedOp_t value = ncclMax; };
template <> struct OpCode<Avg> { static constexpr ncclRedOp_t value = ncclAvg; };

// Can a region made for T and Op (void: decided at run time) do this call? Operations made by the program
// cannot run on the device, and compiling with other options than cucocc saw can change the type. All
// ranks of a call pass the same type and operation, so all answer alike.
template <class T, class Op> bool handles(ncclDataType_t type, ncclRedOp_t op) {
  bool yes = (int)op >= (int)ncclSum && (int)op <= (int)ncclAvg;
  if constexpr (!std::is_void<T>::value)
    yes = yes && type == TypeCode<T>::value;
  if constexpr (!std::is_void<Op>::value)
    yes = yes && op == OpCode<Op>::value;
  static std::atomic<bool> said{false};
  if (!yes && !said.exchange(true))
    fprintf(stderr, "cucocc: a reduction of type %d by operation %d uses the host call: it was not "
                    "translated for these\n", (int)type, (int)op);
  return yes;
}

} // namespace v1
} // namespace cucocc
#endif
// cucocc-section: p2p
#ifndef CUCOCC_RUNTIME_P2P
#define CUCOCC_RUNTIME_P2P
namespace cucocc {
inline namespace v1 {

constexpr int kP2pBatch = 32; // sends, and receives, of one launch

struct P2pOp {
  char *buffer;
  size_t bytes;
  int peer;
  Operand at; // receives
};
struct P2pCall {
  ncclDevComm dc;
  ncclWindow_t arena;
  const ncclWindow_t *windows;
  Layout layout;
  int sends, receives;
  P2pOp send[kP2pBatch], receive[kP2pBatch];
};

static_assert(sizeof(P2pCall) <= 4096, "kernel arguments are limited to 4 KiB");

using Counter = cuda::atomic_ref<uint32_t, cuda::thread_scope_system>;

// Waits until *F has reached V, in a comparison that survives wrap-around.
__device__ inline void wait_for(uint32_t *f, uint32_t v) {
  Counter a(*f);
  while ((int32_t)(a.load(cuda::memory_order_acquire) - v) < 0) {
  }
}
__device__ inline void announce(uint32_t *f, uint32_t v) {
  Counter(*f).store(v, cuda::memory_order_release);
}

// An empty slice still takes one chunk: the sender must have seen the offer before the next is made.
__device__ inline uint32_t chunks_of(const Slice &s, size_t step) {
  const uint32_t n = (uint32_t)((s.end - s.begin + step - 1) / step);
  return n ? n : 1;
}

// One channel (CTA) of a rank: it moves slice CHANNEL of every message.
struct P2p {
  const P2pCall &call;
  const int channel, me;

  __device__ P2p(const P2pCall &c, int ch) : call(c), channel(ch), me(c.dc.lsaRank) {}

  __device__ uint32_t *mine(int kind, int peer) const {
    return (uint32_t *)ncclGetLocalPointer(call.arena, call.layout.counter(kind, peer, channel));
  }
  __device__ uint32_t *theirs(int kind, int peer) const {
    return (uint32_t *)ncclGetLsaPointer(call.arena, call.layout.counter(kind, me, channel), peer);
  }

  // Waits for the receiver's offer, then stores the data in its window or through its staging slots.
  // Returns only when the receiver needs nothing of this rank any more.
  __device__ void send(const P2pOp &op) const {
    __shared__ Post offer;
    const Post *post = (const Post *)ncclGetLocalPointer(call.arena, call.layout.post(op.peer, channel));
    uint32_t *taken = mine(4, op.peer), *sent = mine(5, op.peer), *acks = mine(6, op.peer);
    if (threadIdx.x == 0) {
      wait_for((uint32_t *)&post->epoch, *taken + 1);
      offer = *post;
    }
    __syncthreads();
    const uint32_t first = *sent, first_ack = *acks;
    const Slice s = cta_slice(offer.bytes, channel, kP2pChannels);
    uint32_t chunks = 1;
    if (offer.window >= 0 || offer.bytes == 0) {
      const size_t end = s.end < op.bytes ? s.end : op.bytes;
      if (s.begin < end)
        copy((char *)ncclGetLsaPointer(call.windows[offer.window], offer.offset, op.peer) + s.begin,
             op.buffer + s.begin, end - s.begin);
      __syncthreads();
      if (threadIdx.x == 0)
        announce(theirs(0, op.peer), first + 1);
    } else {
      const size_t step = call.layout.slot_bytes();
      chunks = chunks_of(s, step);
      for (uint32_t k = 0; k < chunks; k++) {
        const size_t lo = s.begin + k * step;
        size_t hi = lo + step < s.end ? lo + step : s.end;
        if (hi > op.bytes)
          hi = op.bytes;
        if (k >= kP2pSlots && threadIdx.x == 0)
          wait_for(mine(1, op.peer), first_ack + k - kP2pSlots + 1);
        __syncthreads();
        if (lo < hi)
          copy((char *)ncclGetLsaPointer(call.arena, call.layout.slot(me, channel, k % kP2pSlots), op.peer),
               op.buffer + lo, hi - lo);
        __syncthreads();
        if (threadIdx.x == 0)
          announce(theirs(0, op.peer), first + k + 1);
      }
      if (threadIdx.x == 0)
        wait_for(mine(1, op.peer), first_ack + chunks);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      *taken += 1;
      *sent = first + chunks;
      if (offer.window < 0 && offer.bytes != 0)
        *acks = first_ack + chunks;
    }
    __syncthreads();
  }

  // Offers the buffer to the sender and waits for the data.
  __device__ void receive(const P2pOp &op) const {
    uint32_t *posts = mine(2, op.peer), *seen = mine(3, op.peer);
    if (threadIdx.x == 0) {
      Post *post = (Post *)ncclGetLsaPointer(call.arena, call.layout.post(me, channel), op.peer);
      post->offset = op.at.offset;
      post->bytes = op.bytes;
      post->window = op.at.window;
      announce(&post->epoch, *posts + 1);
    }
    __syncthreads();
    const uint32_t first = *seen;
    uint32_t chunks = 1;
    if (op.at.window >= 0 || op.bytes == 0) {
      if (threadIdx.x == 0)
        wait_for(mine(0, op.peer), first + 1);
    } else {
      const Slice s = cta_slice(op.bytes, channel, kP2pChannels);
      const size_t step = call.layout.slot_bytes();
      chunks = chunks_of(s, step);
      for (uint32_t k = 0; k < chunks; k++) {
        const size_t lo = s.begin + k * step, hi = lo + step < s.end ? lo + step : s.end;
        if (threadIdx.x == 0)
          wait_for(mine(0, op.peer), first + k + 1);
        __syncthreads();
        copy(op.buffer + lo,
             (const char *)ncclGetLocalPointer(call.arena, call.layout.slot(op.peer, channel, k % kP2pSlots)),
             hi - lo);
        __syncthreads();
        // The sender counts what was taken of its chunks; a direct message has none.
        if (threadIdx.x == 0) {
          uint32_t *ack = theirs(1, op.peer);
          announce(ack, Counter(*ack).load(cuda::memory_order_relaxed) + 1);
        }
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      *posts += 1;
      *seen = first + chunks;
    }
    __syncthreads();
  }
};

// All messages of a launch: even CTAs send, odd CTAs receive, so that neither waits behind the other.
__device__ inline void exchange(const P2pCall &call) {
  P2p p2p(call, blockIdx.x / 2);
  if (blockIdx.x % 2 == 0)
    for (int i = 0; i < call.sends; i++)
      p2p.send(call.send[i]);
  else
    for (int i = 0; i < call.receives; i++)
      p2p.receive(call.receive[i]);
}

// Launches the messages of one group on one communicator, in the order of the distance between sender
// and receiver (and of the calls for each pair). All ranks follow that order, so the two sides of the
// nearest pending message are always both at work: no cyclic wait.
// PLACE is the placement: Whole, or pieces that take turns with the computation.
template <class Place, class Launch>
ncclResult_t launch_p2p(Comm &c, std::vector<Pending> &calls, Launch launch) {
  struct Entry {
    int distance, k;
    Pending *p;
  };
  std::vector<Entry> list;
  std::map<std::pair<bool, int>, int> seen;
  for (auto &p : calls) {
    if (p.peer < 0 || p.peer >= c.n)
      return ncclInvalidArgument;
    int distance = p.send ? (p.peer - c.rank + c.n) % c.n : (c.rank - p.peer + c.n) % c.n;
    list.push_back({distance, seen[{p.send, p.peer}]++, &p});
  }
  std::stable_sort(list.begin(), list.end(), [](const Entry &a, const Entry &b) {
    return a.distance != b.distance ? a.distance < b.distance : a.k < b.k;
  });
  // Calls on several streams meet on the first one.
  cudaStream_t stream = calls[0].stream;
  std::vector<cudaStream_t> others;
  for (auto &p : calls)
    if (p.stream != stream && std::find(others.begin(), others.end(), p.stream) == others.end())
      others.push_back(p.stream);
  DeviceGuard g(c.device);
  Place place(c, stream);
  for (cudaStream_t s : others) {
    cudaEvent_t e;
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    cudaEventRecord(e, s);
    cudaStreamWaitEvent(place.stream(), e, 0);
    cudaEventDestroy(e);
  }
  ncclResult_t r = ncclSuccess;
  for (size_t i = 0; i < list.size() && r == ncclSuccess;) {
    std::vector<Span> sent, received;
    P2pCall call{};
    call.dc = c.dc;
    call.arena = c.arena_window;
    call.windows = c.windows;
    call.layout = c.layout;
    // Whole steps only: cut where neither list would overflow, at the same key for both.
    while (i < list.size()) {
      size_t end = i;
      int sends = call.sends, receives = call.receives;
      while (end < list.size() && list[end].distance == list[i].distance && list[end].k == list[i].k) {
        (list[end].p->send ? sends : receives)++;
        end++;
      }
      if (sends > kP2pBatch || receives > kP2pBatch)
        break;
      if (Place::kPieces && call.sends + call.receives > 0)
        break;
      for (; i < end; i++) {
        Pending &p = *list[i].p;
        P2pOp op{p.buffer, p.bytes, p.peer, {-1, 0}};
        if (!p.send && p.bytes)
          op.at = locate(c, p.buffer, p.bytes);
        (p.send ? sent : received).push_back({(uintptr_t)p.buffer, (uintptr_t)p.buffer + p.bytes});
        if (p.send)
          call.send[call.sends++] = op;
        else
          call.receive[call.receives++] = op;
      }
    }
    place.before(sent, received);
    r = in_order(c, place.stream(), [&] { launch(call, place.stream()); });
    place.after(std::move(sent), std::move(received));
  }
  place.end();
  for (cudaStream_t s : others)
    cudaStreamWaitEvent(s, c.last, 0);
  return r;
}

inline ncclResult_t submit_p2p(bool send, void *buffer, size_t count, ncclDataType_t type, int peer,
                               ncclComm_t comm, cudaStream_t stream,
                               ncclResult_t (*launch)(Comm &, std::vector<Pending> &)) {
  auto host = [=] {
    return send ? ncclSend(buffer, count, type, peer, comm, stream)
                : ncclRecv(buffer, count, type, peer, comm, stream);
  };
  if (!comm || type_size(type) == 0)
    return host(); // reports the error
  Pending p{};
  p.comm = comm;
  p.stream = stream;
  p.host = host;
  p.send = send;
  p.peer = peer;
  p.buffer = (char *)buffer;
  p.bytes = count * type_size(type);
  p.p2p = launch;
  return submit(std::move(p));
}

} // namespace v1
} // namespace cucocc
#endif
// cucocc-section: end
