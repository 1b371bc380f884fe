// SPDX-License-Identifier: Apache-2.0
/* Communicators, groups and the entry points of the collectives. */
#include "virtual.h"

#include <unistd.h>

using namespace vnccl;

namespace {

// ---- groups: what a thread has asked for and not yet begun
// ----------------------------------------------

struct Pending {
  ncclComm *comm;
  bool message;
  Call call;
  Message m;
};
struct Thread {
  int depth = 0;
  std::vector<std::unique_ptr<Step>> steps;
  std::vector<Pending> calls;
};
thread_local Thread self;

ncclResult_t flush() {
  std::vector<std::unique_ptr<Step>> steps = std::move(self.steps);
  std::vector<Pending> calls = std::move(self.calls);
  self.steps.clear();
  self.calls.clear();
  V_NCCL(run_steps(std::move(steps)));
  ncclResult_t result = ncclSuccess;
  auto note = [&](ncclResult_t r) {
    if (r != ncclSuccess && result == ncclSuccess)
      result = r;
  };
  std::vector<std::pair<ncclComm *, std::vector<Message>>> messages;
  for (auto &p : calls) {
    if (!p.message) {
      note(launch_call(p.comm, p.call));
      continue;
    }
    auto it =
        std::find_if(messages.begin(), messages.end(), [&](auto &x) { return x.first == p.comm; });
    if (it == messages.end())
      it = messages.insert(messages.end(), {p.comm, {}});
    it->second.push_back(p.m);
  }
  for (auto &x : messages)
    note(launch_messages(x.first, x.second));
  return result;
}

ncclResult_t add(std::unique_ptr<Step> step) {
  self.steps.push_back(std::move(step));
  return self.depth ? ncclSuccess : flush();
}
ncclResult_t add(Pending p) {
  self.calls.push_back(p);
  return self.depth ? ncclSuccess : flush();
}

// ---- communicators
// -----------------------------------------------------------------------------------------

// The memory of the library's own collectives, once the ranks know each other.
struct ArenaStep : Step {
  Physical mine;
  explicit ArenaStep(ncclComm *c) : Step(c) {}
  ncclResult_t prepare() {
    V_NCCL(make_physical(arena_bytes(comm->n), mine));
    char *at = comm->flat + comm->rank * kStride;
    V_NCCL(map_at(at, mine));
    V_CUDA(cudaMemsetAsync(at, 0, mine.size, comm->setup));
    V_CUDA(cudaStreamSynchronize(comm->setup));
    return offer(comm, mine);
  }
  void publish() override { comm->segment->rank[comm->rank].blob[0] = prepare() == ncclSuccess; }
  ncclResult_t complete(std::vector<std::unique_ptr<Step>> &) override {
    for (int r = 0; r < comm->n; r++)
      if (!comm->segment->rank[r].blob[0])
        return fail(ncclUnhandledCudaError, "rank %d has no memory for its communicator", r);
    if (comm->rank == 0)
      unlink(comm->path.c_str()); // all have mapped it
    V_NCCL(collect(comm, mine, std::vector<size_t>(comm->n, mine.size), comm->arena_parts));
    V_NCCL(map_parts(comm, 0, comm->arena_parts, comm->rank));
    comm->used = mine.size;
    comm->arena = Arena{comm->flat, kStride, comm->n, comm->rank};
    return ncclSuccess;
  }
};

struct JoinStep : Step {
  ncclComm_t *out;
  JoinStep(ncclComm *c, ncclComm_t *o) : Step(c), out(o) {}
  struct Said {
    bool good;
    char uuid[16];
  };
  ncclResult_t prepare(Said &said) {
    cudaDeviceProp p;
    V_CUDA(cudaGetDeviceProperties(&p, comm->device));
    memcpy(said.uuid, &p.uuid, sizeof said.uuid);
    V_CUDA(cudaStreamCreateWithFlags(&comm->setup, cudaStreamNonBlocking));
    V_CUDA(cudaEventCreateWithFlags(&comm->last, cudaEventDisableTiming));
    V_CUDA(
        cudaHostAlloc((void **)&comm->abort_flag, 64, cudaHostAllocMapped | cudaHostAllocPortable));
    memset(comm->abort_flag, 0, 64);
    CUdeviceptr at = 0;
    V_DRIVER(driver().MemAddressReserve(&at, comm->n * kStride, 0, 0, 0));
    comm->flat = (char *)at;
    V_NCCL(refresh_windows(comm));
    return load_kernels();
  }
  void publish() override {
    if (open_segment(comm) != ncclSuccess)
      return;
    Said said{};
    said.good = prepare(said) == ncclSuccess;
    memcpy(comm->segment->rank[comm->rank].blob, &said, sizeof said);
  }
  ncclResult_t complete(std::vector<std::unique_ptr<Step>> &follow) override {
    Said mine;
    memcpy(&mine, comm->segment->rank[comm->rank].blob, sizeof mine);
    for (int r = 0; r < comm->n; r++) {
      Said s;
      memcpy(&s, comm->segment->rank[r].blob, sizeof s);
      if (!s.good)
        return fail(ncclUnhandledCudaError, "rank %d cannot be set up", r);
      if (memcmp(s.uuid, mine.uuid, sizeof s.uuid) != 0)
        return fail(ncclInvalidUsage,
                    "ranks %d and %d are on different GPUs: virtual ranks share one", comm->rank,
                    r);
    }
    *out = comm;
    follow.push_back(std::make_unique<ArenaStep>(comm));
    return ncclSuccess;
  }
};

ncclResult_t join(ncclComm_t *out, const std::string &path, int n, int rank,
                  std::unique_ptr<Step> *step) {
  if (!out || n < 1 || n > kMaxRanks || rank < 0 || rank >= n)
    return fail(ncclInvalidArgument, "rank %d of %d (at most %d)", rank, n, kMaxRanks);
  *out = nullptr;
  auto *c = new ncclComm; // lives until ncclCommDestroy
  c->path = path;
  c->n = n;
  c->rank = rank;
  V_CUDA(cudaGetDevice(&c->device));
  const char *lsa = getenv("CUCOCC_VIRTUAL_LSA");
  c->lsa = lsa ? atoi(lsa) : n;
  if (c->lsa < 1 || n % c->lsa != 0)
    c->lsa = n; // communicators of another size: one team
  *step = std::make_unique<JoinStep>(c, out);
  return ncclSuccess;
}

struct SplitStep : Step {
  int color, key;
  ncclComm_t *out;
  SplitStep(ncclComm *c, int co, int k, ncclComm_t *o) : Step(c), color(co), key(k), out(o) {}
  void publish() override {
    int said[2] = {color, key};
    memcpy(comm->segment->rank[comm->rank].blob, said, sizeof said);
  }
  ncclResult_t complete(std::vector<std::unique_ptr<Step>> &follow) override {
    const int number = comm->splits++;
    *out = nullptr;
    if (color == NCCL_SPLIT_NOCOLOR)
      return ncclSuccess;
    std::vector<std::pair<int, int>> members; // key, rank in the parent
    for (int r = 0; r < comm->n; r++) {
      int said[2];
      memcpy(said, comm->segment->rank[r].blob, sizeof said);
      if (said[0] == color)
        members.push_back({said[1], r});
    }
    std::sort(members.begin(), members.end());
    int rank = 0;
    while (members[rank].second != comm->rank)
      rank++;
    std::unique_ptr<Step> step;
    V_NCCL(join(out, comm->path + "." + std::to_string(number) + "." + std::to_string(color),
                (int)members.size(), rank, &step));
    follow.push_back(std::move(step));
    return ncclSuccess;
  }
};

ncclResult_t close(ncclComm *c) {
  if (!c)
    return ncclSuccess;
  DeviceGuard g(c->device);
  if (c->launched)
    cudaEventSynchronize(c->last);
  while (!c->resources.empty()) {
    ncclDevComm d;
    d.resourceWindow = (ncclWindow_t)c->resources.begin()->first;
    V_NCCL(drop_devcomm(c, &d));
  }
  while (!c->windows.empty())
    V_NCCL(drop_window(c, c->windows.back()->device));
  if (!c->arena_parts.empty()) {
    driver().MemRelease(c->arena_parts[c->rank].handle);
    unmap_parts(c, 0, c->arena_parts);
  }
  if (c->flat)
    driver().MemAddressFree((CUdeviceptr)c->flat, c->n * kStride);
  cudaFree(c->table);
  cudaFreeHost(c->ops);
  cudaFreeHost(c->abort_flag);
  if (c->last)
    cudaEventDestroy(c->last);
  if (c->setup)
    cudaStreamDestroy(c->setup);
  close_segment(c);
  delete c;
  return ncclSuccess;
}

ncclResult_t collective(ncclComm *c, Kind kind, const void *send, void *recv, size_t count,
                        ncclDataType_t type, ncclRedOp_t op, int root, cudaStream_t stream) {
  if (!c)
    return fail(ncclInvalidArgument, "a collective without a communicator");
  if (type_size(type) == 0)
    return fail(ncclInvalidArgument, "data type %d", (int)type);
  if ((int)op < 0 || (int)op > (int)ncclAvg)
    return fail(ncclInvalidUsage, "reductions made by the program are not modelled (operation %d)",
                (int)op);
  if (root < 0 || root >= c->n)
    return fail(ncclInvalidArgument, "root %d of %d ranks", root, c->n);
  Pending p{};
  p.comm = c;
  p.call = Call{kind, send, recv, count, type, op, root, stream};
  return add(p);
}

ncclResult_t message(ncclComm *c, bool send, void *buffer, size_t count, ncclDataType_t type,
                     int peer, cudaStream_t stream) {
  if (!c || type_size(type) == 0 || peer < 0 || peer >= c->n)
    return fail(ncclInvalidArgument, "a message of type %d to or from rank %d", (int)type, peer);
  Pending p{};
  p.comm = c;
  p.message = true;
  p.m = Message{send, buffer, count * type_size(type), peer, stream};
  return add(p);
}

ncclResult_t refuse(const char *call) { return fail(ncclInvalidUsage, "%s is not modelled", call); }

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }

const char *ncclGetErrorString(ncclResult_t r) {
  switch (r) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error (virtual ranks)";
  case ncclSystemError:
    return "unhandled system error (virtual ranks)";
  case ncclInternalError:
    return "internal error (virtual ranks)";
  case ncclInvalidArgument:
    return "invalid argument (virtual ranks)";
  case ncclInvalidUsage:
    return "invalid usage (virtual ranks)";
  default:
    return "error (virtual ranks)";
  }
}
const char *ncclGetLastError(ncclComm_t) { return last_error(); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *e) {
  return *e = comm->async, ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int *n) { return *n = comm->n, ncclSuccess; }
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *d) {
  return *d = comm->device, ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *r) {
  return *r = comm->rank, ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "%s", new_path().c_str());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank) {
  std::unique_ptr<Step> step;
  id.internal[sizeof id.internal - 1] = 0;
  if (id.internal[0] != '/')
    return fail(ncclInvalidArgument, "the unique identifier is not one of virtual ranks");
  V_NCCL(join(comm, id.internal, n, rank, &step));
  return add(std::move(step));
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *) {
  return ncclCommInitRank(comm, n, id, rank);
}
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int n, int rank, int, ncclUniqueId *ids,
                                      ncclConfig_t *) {
  return ncclCommInitRank(comm, n, ids[0], rank);
}
ncclResult_t ncclCommInitAll(ncclComm_t *comms, int n, const int *devices) {
  int before, count;
  V_CUDA(cudaGetDevice(&before));
  V_CUDA(cudaGetDeviceCount(&count));
  ncclUniqueId id;
  V_NCCL(ncclGetUniqueId(&id));
  V_NCCL(ncclGroupStart());
  ncclResult_t r = ncclSuccess;
  for (int i = 0; i < n && r == ncclSuccess; i++) {
    cudaSetDevice(devices ? devices[i] : i % count);
    r = ncclCommInitRank(&comms[i], n, id, i);
  }
  cudaSetDevice(before);
  ncclResult_t end = ncclGroupEnd();
  return r == ncclSuccess ? end : r;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *) {
  if (!comm || !out)
    return fail(ncclInvalidArgument, "ncclCommSplit without its arguments");
  return add(std::make_unique<SplitStep>(comm, color, key, out));
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm && comm->launched) {
    DeviceGuard g(comm->device);
    V_CUDA(cudaEventSynchronize(comm->last));
  }
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return close(comm); }
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm && comm->abort_flag)
    __atomic_store_n(comm->abort_flag, 1, __ATOMIC_RELEASE);
  return ncclSuccess; // kernels may hang: their memory stays
}

ncclResult_t ncclCommRegister(const ncclComm_t, void *, size_t, void **handle) {
  return *handle = nullptr, ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t, void *) { return ncclSuccess; }
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t size,
                                    ncclWindow_t *window, int) {
  if (!comm || !window)
    return fail(ncclInvalidArgument, "a window without a communicator");
  return add(new_window_step(comm, buffer, size, window));
}
ncclResult_t ncclDevCommCreate(ncclComm_t comm, ncclDevCommRequirements_t const *need,
                               ncclDevComm_t *out) {
  if (!comm || !need || !out)
    return fail(ncclInvalidArgument, "ncclDevCommCreate without its arguments");
#if VIRTUAL_2_30
  if (need->size != sizeof *need || need->magic != NCCL_API_MAGIC)
    return fail(ncclInvalidArgument, "the requirements were not initialised");
#endif
  return add(new_devcomm_step(comm, need, out));
}
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, ncclDevComm_t const *dc) {
  return drop_devcomm(comm, dc);
}

ncclResult_t ncclGroupStart(void) { return self.depth++, ncclSuccess; }
ncclResult_t ncclGroupEnd(void) {
  if (self.depth == 0)
    return fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  return --self.depth ? ncclSuccess : flush();
}
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *) { return refuse("ncclGroupSimulateEnd"); }

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t,
                                      ncclComm_t) {
  return refuse("ncclRedOpCreatePreMulSum");
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) { return refuse("ncclRedOpDestroy"); }
ncclResult_t ncclCommShrink(ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int) {
  return refuse("ncclCommShrink");
}

ncclResult_t ncclAllReduce(const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o,
                           ncclComm_t c, cudaStream_t q) {
  return collective(c, Kind::all_reduce, s, r, n, t, o, 0, q);
}
ncclResult_t ncclReduceScatter(const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o,
                               ncclComm_t c, cudaStream_t q) {
  return collective(c, Kind::reduce_scatter, s, r, n, t, o, 0, q);
}
ncclResult_t ncclReduce(const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o, int root,
                        ncclComm_t c, cudaStream_t q) {
  return collective(c, Kind::reduce, s, r, n, t, o, root, q);
}
ncclResult_t ncclAllGather(const void *s, void *r, size_t n, ncclDataType_t t, ncclComm_t c,
                           cudaStream_t q) {
  return collective(c, Kind::all_gather, s, r, n, t, ncclSum, 0, q);
}
ncclResult_t ncclBroadcast(const void *s, void *r, size_t n, ncclDataType_t t, int root,
                           ncclComm_t c, cudaStream_t q) {
  return collective(c, Kind::broadcast, s, r, n, t, ncclSum, root, q);
}
ncclResult_t ncclBcast(void *b, size_t n, ncclDataType_t t, int root, ncclComm_t c,
                       cudaStream_t q) {
  return collective(c, Kind::broadcast, b, b, n, t, ncclSum, root, q);
}
ncclResult_t ncclAlltoAll(const void *s, void *r, size_t n, ncclDataType_t t, ncclComm_t c,
                          cudaStream_t q) {
  return collective(c, Kind::all_to_all, s, r, n, t, ncclSum, 0, q);
}
ncclResult_t ncclGather(const void *s, void *r, size_t n, ncclDataType_t t, int root, ncclComm_t c,
                        cudaStream_t q) {
  return collective(c, Kind::gather, s, r, n, t, ncclSum, root, q);
}
ncclResult_t ncclScatter(const void *s, void *r, size_t n, ncclDataType_t t, int root, ncclComm_t c,
                         cudaStream_t q) {
  return collective(c, Kind::scatter, s, r, n, t, ncclSum, root, q);
}
ncclResult_t ncclSend(const void *b, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
                      cudaStream_t q) {
  return message(c, true, (void *)b, n, t, peer, q);
}
ncclResult_t ncclRecv(void *b, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t q) {
  return message(c, false, b, n, t, peer, q);
}

#if VIRTUAL_2_30
ncclResult_t ncclPutSignal(const void *, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int,
                           int, unsigned int, ncclComm_t, cudaStream_t) {
  return refuse("ncclPutSignal");
}
ncclResult_t ncclSignal(int, int, int, unsigned int, ncclComm_t, cudaStream_t) {
  return refuse("ncclSignal");
}
ncclResult_t ncclWaitSignal(int, ncclWaitSignalDesc_t *, ncclComm_t, cudaStream_t) {
  return refuse("ncclWaitSignal");
}
#endif

} // extern "C"
