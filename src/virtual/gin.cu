// SPDX-License-Identifier: Apache-2.0
#include "virtual.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace vnccl {

constexpr uint32_t kQueue = 64; // descriptors in flight to one peer; a power of two

__global__ void add_value(unsigned long long *at, unsigned long long value) {
  atomicAdd_system(at, value);
}

cudaError_t add_on_device(uint64_t *at, uint64_t value, cudaStream_t stream) {
  add_value<<<1, 1, 0, stream>>>((unsigned long long *)at, value);
  cudaError_t e = cudaGetLastError();
  return e == cudaSuccess ? cudaStreamSynchronize(stream) : e;
}

ncclResult_t new_gin(ncclComm *c, const std::string &path, int contexts, int signals, int counters,
                     std::unique_ptr<Gin> &out) {
  auto g = std::make_unique<Gin>();
  g->comm = c;
  g->path = path;
  g->contexts = contexts;
  g->signals = signals;
  g->counters = counters;
  const size_t n = c->n, page = 65536, all = (size_t)contexts * std::max(signals, 1) * 8;
  g->rank_bytes = (all + page - 1) / page * page;
  int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)(g->rank_bytes * n)) != 0)
    return fail(ncclSystemError, "%s: %s", path.c_str(), strerror(errno));
  void *p = mmap(nullptr, g->rank_bytes * n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED)
    return fail(ncclSystemError, "%s: %s", path.c_str(), strerror(errno));
  g->all_signals = (uint64_t *)p;
  char *mine = (char *)p + c->rank * g->rank_bytes;
  // Only this rank's part is the GPU's; the peers' is written by the CPU.
  V_CUDA(cudaHostRegister(mine, g->rank_bytes, cudaHostRegisterMapped | cudaHostRegisterPortable));
  g->registered = true;
  uint64_t *signals_on_device;
  V_CUDA(cudaHostGetDevicePointer((void **)&signals_on_device, mine, 0));
  const unsigned flags = cudaHostAllocMapped | cudaHostAllocPortable;
  const size_t queue_bytes = (size_t)contexts * n * kQueue * sizeof(ncclGinProxyGfd_t);
  V_CUDA(cudaHostAlloc((void **)&g->queues, queue_bytes, flags));
  V_CUDA(cudaHostAlloc((void **)&g->consumed, (size_t)contexts * n * 4, flags));
  V_CUDA(cudaHostAlloc((void **)&g->counts, (size_t)contexts * std::max(counters, 1) * 8, flags));
  memset((void *)g->queues, 0, queue_bytes);
  memset(g->consumed, 0, (size_t)contexts * n * 4);
  memset(g->counts, 0, (size_t)contexts * std::max(counters, 1) * 8);
  g->seen.assign((size_t)contexts * n, 0);
  // Device memory, zero: offsets, shadows, then words by context and peer, then the context
  // structures.
  const size_t numbers = (size_t)contexts * std::max(signals, 1), words = (size_t)contexts * n;
  const size_t structs = (numbers * 16 + words * 12 + 127) / 128 * 128;
  const size_t bytes = structs + contexts * sizeof(ncclGinProxyGpuCtx_t);
  V_CUDA(cudaMalloc(&g->device_memory, bytes));
  V_CUDA(cudaMemsetAsync(g->device_memory, 0, bytes, c->setup));
  uint64_t *offsets = (uint64_t *)g->device_memory;
  g->shadows = offsets + numbers;
  uint32_t *produced = (uint32_t *)(g->shadows + numbers);
  g->device_contexts = (ncclGinProxyGpuCtx_t *)((char *)g->device_memory + structs);
  std::vector<ncclGinProxyGpuCtx_t> host(contexts);
  for (int i = 0; i < contexts; i++) {
    auto &x = host[i];
    memset(&x, 0, sizeof x);
    x.nranks = c->n;
    x.queueSize = kQueue;
    x.queues = g->queues + (size_t)i * n * kQueue;
    x.pis = produced + (size_t)i * n;
    x.cis = g->consumed + (size_t)i * n;
    x.counters = g->counts + (size_t)i * std::max(counters, 1);
    x.signals = signals_on_device + (size_t)i * std::max(signals, 1);
#if VIRTUAL_2_30
    x.signalOffsets = offsets + (size_t)i * std::max(signals, 1);
    x.lastIssuedGet = produced + words + (size_t)i * n;
    x.lastVisibleGet = produced + 2 * words + (size_t)i * n;
#endif
  }
  V_CUDA(cudaMemcpyAsync(g->device_contexts, host.data(), contexts * sizeof host[0],
                         cudaMemcpyHostToDevice, c->setup));
  V_CUDA(cudaStreamSynchronize(c->setup));
  out = std::move(g);
  return ncclSuccess;
}

static uint64_t *signal_of(Gin &g, int rank, int context, uint32_t id) {
  return (uint64_t *)((char *)g.all_signals + rank * g.rank_bytes) +
         (size_t)context * std::max(g.signals, 1) + id;
}

// One descriptor of CONTEXT to PEER.
static cudaError_t serve(Gin &g, int context, int peer, const ncclGinProxyQword_t *q,
                         cudaStream_t s) {
  const size_t n = q[ncclGinProxyGfdHeader].header.size;
#if VIRTUAL_2_30
  const unsigned op = q[ncclGinProxyGfdHeaderExt].headerExt.op;
#else
  const unsigned op = q[ncclGinProxyGfdHeader].header.op;
#endif
  const ncclComm *c = g.comm;
  auto place = [&](uint64_t window, uint64_t offset, int rank) {
    return c->flat + rank * kStride + ((Window *)window)->offset + offset;
  };
  const uint64_t dst = q[ncclGinProxyGfdDstHandle].dstHandle.dstHandle,
                 dst_at = q[ncclGinProxyGfdDstOff].dstOff.dstOff;
  const uint64_t value = q[ncclGinProxyGfdCompletion].completion.signalValLow |
                         (uint64_t)q[ncclGinProxyGfdSignalVal].signalVal.signalValLow2 << 16 |
                         (uint64_t)q[ncclGinProxyGfdSignalVal].signalVal.signalValHigh << 32;
  cudaError_t e = cudaSuccess;
#if VIRTUAL_2_30
  if (op & ncclGinProxyOpFlush)
    return e;
  if (op & ncclGinProxyOpVASignal)
    return add_on_device(
        (uint64_t *)place(q[ncclGinProxyGfdVASignalHandle].vaSignalHandle.vaSignalHandle,
                          q[ncclGinProxyGfdVASignalOff].vaSignalOff.vaSignalOff, peer),
        op & ncclGinProxyOpWithSignalInc ? 1 : value, s);
  if (op & ncclGinProxyOpGet) {
    if (n)
      e = cudaMemcpyAsync(place(dst, dst_at, c->rank),
                          place(q[ncclGinProxyGfdSrcHandle].srcHandle.srcHandle,
                                q[ncclGinProxyGfdSrcOff].srcOff.srcOff, peer),
                          n, cudaMemcpyDeviceToDevice, s);
    return e == cudaSuccess ? cudaStreamSynchronize(s) : e;
  }
#endif
  if (op & ncclGinProxyOpWithInline) {
    uint64_t v = q[ncclGinProxyGfdInlineLow].inlineLow.inlineValLow;
    if (n > 4)
      v |= (uint64_t)q[ncclGinProxyGfdInlineLow].inlineLow.inlineValLow2 << 32;
    if (n > 6)
      v |= (uint64_t)q[ncclGinProxyGfdInlineHigh].inlineHigh.inlineValHigh << 48;
    e = cudaMemcpyAsync(place(dst, dst_at, peer), &v, n, cudaMemcpyHostToDevice, s);
    if (e == cudaSuccess)
      e = cudaStreamSynchronize(s);
  } else if (n && dst) {
    e = cudaMemcpyAsync(place(dst, dst_at, peer),
                        place(q[ncclGinProxyGfdSrcHandle].srcHandle.srcHandle,
                              q[ncclGinProxyGfdSrcOff].srcOff.srcOff, c->rank),
                        n, cudaMemcpyDeviceToDevice, s);
    if (e == cudaSuccess)
      e = cudaStreamSynchronize(s);
  }
  if (op & (ncclGinProxyOpWithSignalInc | ncclGinProxyOpWithSignalAdd)) {
    const uint32_t id = q[ncclGinProxyGfdCompletion].completion.signalId;
    if (id >= (uint32_t)g.signals)
      fail(ncclInvalidArgument, "signal %u of %d", id, g.signals);
    else
      __atomic_fetch_add(signal_of(g, peer, context, id),
                         op & ncclGinProxyOpWithSignalInc ? 1 : value, __ATOMIC_RELEASE);
  }
  if (op & ncclGinProxyOpWithCounter) {
    const uint32_t id = q[ncclGinProxyGfdCompletion].completion.counterId;
    if (id >= (uint32_t)g.counters)
      fail(ncclInvalidArgument, "counter %u of %d", id, g.counters);
    else
      __atomic_fetch_add(&g.counts[(size_t)context * g.counters + id], 1, __ATOMIC_RELEASE);
  }
  return e;
}

static void work(Gin *gin) {
  Gin &g = *gin;
  ncclComm *c = g.comm;
  cudaStream_t s;
  if (cudaSetDevice(c->device) != cudaSuccess ||
      cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) != cudaSuccess) {
    fail(ncclUnhandledCudaError, "the GIN thread of rank %d cannot use the GPU", c->rank);
    return;
  }
  constexpr int words = sizeof(ncclGinProxyGfd_t) / sizeof(ncclGinProxyQword_t);
  while (true) {
    bool idle = true;
    for (int i = 0; i < g.contexts; i++)
      for (int peer = 0; peer < c->n; peer++) {
        const size_t at = (size_t)i * c->n + peer;
        auto *slot = &g.queues[at * kQueue + (g.seen[at] & (kQueue - 1))];
        if (!(__atomic_load_n(&slot->qword[0].raw, __ATOMIC_ACQUIRE) & 1))
          continue;
        idle = false;
        ncclGinProxyQword_t q[words]; // each word says by its lowest bit that it has been written
        for (int k = 0; k < words; k++)
          do
            q[k].raw = __atomic_load_n(&slot->qword[k].raw, __ATOMIC_ACQUIRE);
          while (!(q[k].raw & 1));
        for (int k = 0; k < words; k++)
          __atomic_store_n(&slot->qword[k].raw, 0, __ATOMIC_RELAXED);
        cudaError_t e = serve(g, i, peer, q, s);
        if (e != cudaSuccess)
          c->async = fail(ncclUnhandledCudaError, "GIN from rank %d to %d: %s", c->rank, peer,
                          cudaGetErrorString(e));
        __atomic_store_n(&g.consumed[at], ++g.seen[at], __ATOMIC_RELEASE);
      }
    if (idle && g.stop)
      break;
    if (idle)
      std::this_thread::yield();
  }
  cudaStreamDestroy(s);
}

void start_gin(Gin &g) { g.thread = std::thread(work, &g); }

Gin::~Gin() {
  stop = true;
  if (thread.joinable())
    thread.join();
  if (registered)
    cudaHostUnregister((char *)all_signals + comm->rank * rank_bytes);
  if (all_signals)
    munmap(all_signals, rank_bytes * comm->n);
  unlink(path.c_str()); // every rank has mapped it when the first goes
  cudaFreeHost(queues);
  cudaFreeHost(consumed);
  cudaFreeHost(counts);
  cudaFree(device_memory);
}

} // namespace vnccl
