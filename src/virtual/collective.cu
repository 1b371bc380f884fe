// SPDX-License-Identifier: Apache-2.0
/* The host collectives, sends and receives: kernels that move data through the arena of the
 * communicator, which every rank has mapped. A CTA of one rank meets the same CTA of the others.
 * Made to be right and simple: chunks go from the sender to staging memory, everybody meets, the
 * receivers take them. */
#include "virtual.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cuda/atomic>

namespace vnccl {

constexpr int kCtas = 8, kThreads = 256;
constexpr size_t kStage = 131072; // staging bytes of one CTA
constexpr size_t kSlot = 32768;   // of a message's chunk; two for every pair of ranks

// ---- the arena, the same on every rank
// -------------------------------------------------------------------

struct Layout {
  int n;
  __host__ __device__ size_t flag(int cta, int from) const {
    return ((size_t)cta * kMaxRanks + from) * 4;
  }
  __host__ __device__ size_t epoch(int cta) const { return flag(kCtas, 0) + (size_t)cta * 4; }
  // 0 chunks that came from a peer, 1 chunks that a peer took, 2 chunks sent to it, 3 chunks taken
  // from it
  __host__ __device__ size_t counter(int kind, int peer) const {
    return epoch(kCtas) + ((size_t)kind * kMaxRanks + peer) * 4;
  }
  __host__ __device__ size_t stage(int cta) const { return 65536 + (size_t)cta * kStage; }
  __host__ __device__ size_t slot(int from, int i) const {
    return stage(kCtas) + ((size_t)from * 2 + i) * kSlot;
  }
  __host__ __device__ size_t bytes() const { return slot(n, 0); }
};
static_assert((kCtas + 5) * kMaxRanks * 4 <= 65536,
              "flags and counters lie before the staging memory");

size_t arena_bytes(int n) { return Layout{n}.bytes(); }

using Word = cuda::atomic_ref<uint32_t, cuda::thread_scope_system>;

__device__ inline char *place(const Arena &a, int rank, size_t at) {
  return a.flat + rank * a.stride + at;
}
__device__ inline Word word(const Arena &a, int rank, size_t at) {
  return Word(*(uint32_t *)place(a, rank, at));
}

// What any rank's CTA did before is visible to every rank's CTA of the same number after.
__device__ inline void meet(const Arena &a, const Layout &l) {
  const int b = blockIdx.x;
  __threadfence_system();
  __syncthreads();
  const uint32_t next = word(a, a.me, l.epoch(b)).load(cuda::memory_order_relaxed) + 1;
  for (int p = threadIdx.x; p < a.n; p += blockDim.x)
    word(a, p, l.flag(b, a.me)).store(next, cuda::memory_order_release);
  for (int p = threadIdx.x; p < a.n; p += blockDim.x)
    while ((int32_t)(word(a, a.me, l.flag(b, p)).load(cuda::memory_order_acquire) - next) < 0) {
    }
  __syncthreads();
  if (threadIdx.x == 0)
    word(a, a.me, l.epoch(b)).store(next, cuda::memory_order_relaxed);
  __syncthreads();
}

__device__ inline void copy(char *to, const char *from, size_t bytes) {
  size_t done = 0;
  if (((uintptr_t)to | (uintptr_t)from) % 16 == 0) {
    for (size_t i = threadIdx.x; i < bytes / 16; i += blockDim.x)
      ((int4 *)to)[i] = ((const int4 *)from)[i];
    done = bytes / 16 * 16;
  }
  for (size_t i = done + threadIdx.x; i < bytes; i += blockDim.x)
    to[i] = from[i];
}

// ---- reductions: in double, or in 64-bit integers
// -----------------------------------------------------------

template <class A> __device__ A combine(A a, A b, int op) {
  switch (op) {
  case ncclProd:
    return a * b;
  case ncclMax:
    return a < b ? b : a;
  case ncclMin:
    return b < a ? b : a;
  default:
    return a + b;
  }
}

template <class T, class A>
__device__ void reduce_as(T *to, char *const *from, int n, size_t count, int op) {
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) {
    A x = (A)((const T *)from[0])[i];
    for (int p = 1; p < n; p++)
      x = combine<A>(x, (A)((const T *)from[p])[i], op);
    if (op == ncclAvg)
      x = x / (A)n;
    to[i] = (T)x;
  }
}

// The short floating-point types convert by way of float.
template <class T>
__device__ void reduce_short(T *to, char *const *from, int n, size_t count, int op) {
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) {
    float x = (float)((const T *)from[0])[i];
    for (int p = 1; p < n; p++)
      x = combine<float>(x, (float)((const T *)from[p])[i], op);
    to[i] = (T)(op == ncclAvg ? x / (float)n : x);
  }
}

__device__ void reduce(char *to, char *const *from, int n, size_t count, int type, int op) {
  switch (type) {
  case ncclInt8:
    return reduce_as<int8_t, int64_t>((int8_t *)to, from, n, count, op);
  case ncclUint8:
    return reduce_as<uint8_t, uint64_t>((uint8_t *)to, from, n, count, op);
  case ncclInt32:
    return reduce_as<int32_t, int64_t>((int32_t *)to, from, n, count, op);
  case ncclUint32:
    return reduce_as<uint32_t, uint64_t>((uint32_t *)to, from, n, count, op);
  case ncclInt64:
    return reduce_as<int64_t, int64_t>((int64_t *)to, from, n, count, op);
  case ncclUint64:
    return reduce_as<uint64_t, uint64_t>((uint64_t *)to, from, n, count, op);
  case ncclFloat32:
    return reduce_as<float, double>((float *)to, from, n, count, op);
  case ncclFloat64:
    return reduce_as<double, double>((double *)to, from, n, count, op);
  case ncclFloat16:
    return reduce_short((__half *)to, from, n, count, op);
  case ncclBfloat16:
    return reduce_short((__nv_bfloat16 *)to, from, n, count, op);
  case ncclFloat8e4m3:
    return reduce_short((__nv_fp8_e4m3 *)to, from, n, count, op);
  case ncclFloat8e5m2:
    return reduce_short((__nv_fp8_e5m2 *)to, from, n, count, op);
  }
}

// ---- collectives
// -----------------------------------------------------------------------------------------

struct Collective {
  Arena arena;
  const char *send;
  char *recv;
  size_t count, size; // elements of a part; bytes of an element
  int type, op, root;
  bool gives, takes;     // does this rank send, does it receive
  bool many_sent;        // one part for each rank, not one for all
  bool reduces, gathers; // what is received: the reduction, all ranks' parts, or the root's part
};

__global__ void __launch_bounds__(kThreads) collective(Collective c) {
  __shared__ char *from[kMaxRanks];
  const Layout l{c.arena.n};
  const int n = c.arena.n, me = c.arena.me, b = blockIdx.x, pieces = c.many_sent ? n : 1;
  const size_t per = (c.count + gridDim.x - 1) / gridDim.x;
  const size_t begin = per * b < c.count ? per * b : c.count,
               end = begin + per < c.count ? begin + per : c.count;
  const size_t step = kStage / (c.size * pieces);
  for (size_t at = begin; at < end; at += step) {
    const size_t len = end - at < step ? end - at : step, bytes = len * c.size;
    if (c.gives)
      for (int p = 0; p < pieces; p++)
        copy(place(c.arena, me, l.stage(b)) + p * bytes, c.send + (p * c.count + at) * c.size,
             bytes);
    meet(c.arena, l); // everything is staged
    for (int p = threadIdx.x; p < n; p += blockDim.x)
      from[p] = place(c.arena, p, l.stage(b)) + (c.many_sent ? me * bytes : 0);
    __syncthreads();
    if (c.takes && c.reduces)
      reduce(c.recv + at * c.size, from, n, len, c.type, c.op);
    else if (c.takes && c.gathers)
      for (int p = 0; p < n; p++)
        copy(c.recv + (p * c.count + at) * c.size, from[p], bytes);
    else if (c.takes)
      copy(c.recv + at * c.size, from[c.root], bytes);
    meet(c.arena, l); // everything is taken
  }
}

size_t type_size(ncclDataType_t t) {
  switch (t) {
  case ncclInt8:
  case ncclUint8:
  case ncclFloat8e4m3:
  case ncclFloat8e5m2:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclUint32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
  case ncclUint64:
  case ncclFloat64:
    return 8;
  default:
    return 0;
  }
}

// Calls of a communicator run one after the other, whatever their streams.
static ncclResult_t in_order(ncclComm *c, cudaStream_t stream,
                             const std::function<void()> &launch) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  V_CUDA(cudaStreamIsCapturing(stream, &status));
  const bool plain = status == cudaStreamCaptureStatusNone;
  if (plain && c->launched && c->last_stream != stream)
    V_CUDA(cudaStreamWaitEvent(stream, c->last, 0));
  launch();
  V_CUDA(cudaGetLastError());
  if (plain) {
    V_CUDA(cudaEventRecord(c->last, stream));
    c->last_stream = stream;
    c->launched = true;
  }
  return ncclSuccess;
}

ncclResult_t launch_call(ncclComm *c, const Call &x) {
  if (x.count == 0)
    return ncclSuccess;
  Collective k{};
  k.arena = c->arena;
  k.send = (const char *)x.send;
  k.recv = (char *)x.recv;
  k.count = x.count;
  k.size = type_size(x.type);
  k.type = x.type;
  k.op = x.op;
  k.root = x.root;
  k.gives = k.takes = true;
  const bool root = c->rank == x.root;
  switch (x.kind) {
  case Kind::all_reduce:
    k.reduces = true;
    break;
  case Kind::reduce:
    k.reduces = true, k.takes = root;
    break;
  case Kind::reduce_scatter:
    k.reduces = k.many_sent = true;
    break;
  case Kind::all_gather:
    k.gathers = true;
    break;
  case Kind::gather:
    k.gathers = true, k.takes = root;
    break;
  case Kind::all_to_all:
    k.gathers = k.many_sent = true;
    break;
  case Kind::broadcast:
    k.gives = root;
    break;
  case Kind::scatter:
    k.gives = root, k.many_sent = true;
    break;
  }
  DeviceGuard g(c->device);
  // The number of CTAs must be the same on all ranks: it depends on the size alone.
  const int ctas = (int)std::min<size_t>(kCtas, (x.count * k.size + 16383) / 16384);
  return in_order(c, x.stream, [&] { collective<<<ctas, kThreads, 0, x.stream>>>(k); });
}

// ---- sends and receives
// ------------------------------------------------------------------------------------

struct Op {
  char *buffer;
  size_t bytes;
};

// CTA 2 p sends to rank p, CTA 2 p + 1 receives from it: messages of a pair in order, pairs side by
// side.
__global__ void __launch_bounds__(kThreads)
    messages(Arena a, const Op *ops, const uint32_t *first) {
  const Layout l{a.n};
  const int peer = blockIdx.x / 2;
  const bool sends = blockIdx.x % 2 == 0;
  const size_t mine = l.counter(sends ? 2 : 3, peer);
  uint32_t chunk = word(a, a.me, mine).load(cuda::memory_order_relaxed);
  for (uint32_t i = first[blockIdx.x]; i < first[blockIdx.x + 1]; i++)
    for (size_t at = 0; at < ops[i].bytes; at += kSlot, chunk++) {
      const size_t len = ops[i].bytes - at < kSlot ? ops[i].bytes - at : kSlot;
      if (threadIdx.x == 0) { // a free slot, or a full one
        Word w = word(a, a.me, l.counter(sends ? 1 : 0, peer));
        while ((int32_t)(w.load(cuda::memory_order_acquire) - (sends ? chunk - 1 : chunk + 1)) <
               0) {
        }
      }
      __syncthreads();
      if (sends)
        copy(place(a, peer, l.slot(a.me, chunk % 2)), ops[i].buffer + at, len);
      else
        copy(ops[i].buffer + at, place(a, a.me, l.slot(peer, chunk % 2)), len);
      __threadfence_system();
      __syncthreads();
      if (threadIdx.x == 0)
        word(a, peer, l.counter(sends ? 0 : 1, a.me)).store(chunk + 1, cuda::memory_order_release);
    }
  __syncthreads();
  if (threadIdx.x == 0)
    word(a, a.me, mine).store(chunk, cuda::memory_order_relaxed);
}

constexpr size_t kOpBytes = (size_t)4 << 20; // pinned memory for the messages of launches in flight

ncclResult_t launch_messages(ncclComm *c, const std::vector<Message> &all) {
  DeviceGuard g(c->device);
  if (!c->ops)
    V_CUDA(cudaHostAlloc(&c->ops, kOpBytes, cudaHostAllocMapped | cudaHostAllocPortable));
  const int ctas = 2 * c->n;
  size_t bytes = ((ctas + 1) * sizeof(uint32_t) + 15) / 16 * 16 + all.size() * sizeof(Op);
  if (bytes > kOpBytes)
    return fail(ncclInvalidUsage, "%zu messages in one group", all.size());
  if (c->ops_used + bytes > kOpBytes) { // begin again when nothing reads it any more
    if (c->launched)
      V_CUDA(cudaEventSynchronize(c->last));
    c->ops_used = 0;
  }
  uint32_t *first = (uint32_t *)((char *)c->ops + c->ops_used);
  Op *ops = (Op *)((char *)first + ((ctas + 1) * sizeof(uint32_t) + 15) / 16 * 16);
  c->ops_used += (bytes + 15) / 16 * 16;
  uint32_t k = 0;
  for (int b = 0; b < ctas; b++) {
    first[b] = k;
    for (auto &m : all)
      if (m.peer == b / 2 && m.send == (b % 2 == 0))
        ops[k++] = Op{(char *)m.buffer, m.bytes};
  }
  first[ctas] = k;
  // Calls on several streams meet on the first one.
  cudaStream_t stream = all[0].stream;
  std::vector<cudaStream_t> others;
  for (auto &m : all)
    if (m.stream != stream && std::find(others.begin(), others.end(), m.stream) == others.end())
      others.push_back(m.stream);
  auto wait_for = [&](cudaStream_t waits, cudaStream_t before) -> ncclResult_t {
    cudaEvent_t e;
    V_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    V_CUDA(cudaEventRecord(e, before));
    V_CUDA(cudaStreamWaitEvent(waits, e, 0));
    V_CUDA(cudaEventDestroy(e));
    return ncclSuccess;
  };
  for (cudaStream_t s : others)
    V_NCCL(wait_for(stream, s));
  V_NCCL(
      in_order(c, stream, [&] { messages<<<ctas, kThreads, 0, stream>>>(c->arena, ops, first); }));
  for (cudaStream_t s : others)
    V_NCCL(wait_for(s, stream));
  return ncclSuccess;
}

ncclResult_t load_kernels() {
  cudaFuncAttributes a;
  V_CUDA(cudaFuncGetAttributes(&a, collective));
  V_CUDA(cudaFuncGetAttributes(&a, messages));
  return ncclSuccess;
}

} // namespace vnccl
