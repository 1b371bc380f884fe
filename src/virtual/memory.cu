// SPDX-License-Identifier: Apache-2.0
#include "virtual.h"

namespace vnccl {

// ncclMemAlloc's allocations of this process.
struct Allocation {
  Physical physical;
  int device;
};
static std::mutex allocations_lock;
static std::map<uintptr_t, Allocation> allocations;

static CUmemAllocationProp properties(int device) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = device;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return p;
}

ncclResult_t make_physical(size_t bytes, Physical &out) {
  int device;
  V_CUDA(cudaGetDevice(&device));
  CUmemAllocationProp p = properties(device);
  out.size = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  CUresult e = driver().MemCreate(&out.handle, out.size, &p, 0);
  if (e == CUDA_ERROR_OUT_OF_MEMORY)
    return fail(ncclUnhandledCudaError, "out of memory: %zu bytes", out.size);
  V_DRIVER(e);
  return ncclSuccess;
}

ncclResult_t map_at(char *address, const Physical &p) {
  int device;
  V_CUDA(cudaGetDevice(&device));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  V_DRIVER(driver().MemMap((CUdeviceptr)address, p.size, 0, p.handle, 0));
  V_DRIVER(driver().MemSetAccess((CUdeviceptr)address, p.size, &access, 1));
  return ncclSuccess;
}

ncclResult_t map_parts(ncclComm *c, size_t offset, const std::vector<Physical> &parts, int except) {
  for (int r = 0; r < c->n; r++)
    if (r != except)
      V_NCCL(map_at(c->flat + r * kStride + offset, parts[r]));
  return ncclSuccess;
}

void unmap_parts(ncclComm *c, size_t offset, std::vector<Physical> &parts) {
  for (int r = 0; r < (int)parts.size(); r++) {
    driver().MemUnmap((CUdeviceptr)(c->flat + r * kStride + offset), parts[r].size);
    if (r != c->rank && !c->local(r))
      driver().MemRelease(parts[r].handle); // it was imported
  }
  parts.clear();
}

// ---- windows
// -------------------------------------------------------------------------------------------

static std::mutex windows_lock;
static std::map<ncclWindow_t, Window *> windows; // of this process, by their device structure

ncclResult_t describe_window(Window &w) {
  const int first = w.comm->rank / w.comm->lsa * w.comm->lsa; // of this rank's LSA team
  memset(&w.host, 0, sizeof w.host);
  w.host.winHost = &w;
  w.host.lsaFlatBase = w.comm->flat + first * kStride + w.offset;
  w.host.lsaRank = w.comm->rank - first;
  w.host.worldRank = w.comm->rank;
  w.host.stride4G = (uint32_t)(kStride >> 32);
  for (auto &g : w.host.ginWins)
    g = (ncclGinWindow_t)&w;
#if VIRTUAL_2_30
  w.host.numSegments = 1;
#endif
  V_CUDA(cudaMalloc((void **)&w.device, sizeof w.host));
  V_CUDA(cudaMemcpyAsync(w.device, &w.host, sizeof w.host, cudaMemcpyHostToDevice, w.comm->setup));
  V_CUDA(cudaStreamSynchronize(w.comm->setup));
  std::lock_guard<std::mutex> g(windows_lock);
  windows[w.device] = &w;
  return ncclSuccess;
}

Window *window_of(ncclWindow_t window) {
  std::lock_guard<std::mutex> g(windows_lock);
  auto it = windows.find(window);
  return it == windows.end() ? nullptr : it->second;
}

void forget_window(ncclWindow_t window) {
  std::lock_guard<std::mutex> g(windows_lock);
  windows.erase(window);
}

// Device code finds windows by address in a list of tables; it is written anew as a whole.
ncclResult_t refresh_windows(ncclComm *c) {
  constexpr size_t per = 32, tables = 16;
  if (c->windows.size() > per * tables)
    return fail(ncclInvalidUsage, "more than %zu windows of one communicator", per * tables);
  std::vector<ncclDevCommWindowTable> t(tables);
  memset((void *)t.data(), 0, tables * sizeof t[0]);
  if (!c->table)
    V_CUDA(cudaMalloc(&c->table, tables * sizeof t[0]));
  for (size_t i = 0; i < c->windows.size(); i++) {
    auto &e = t[i / per].entries[i % per];
    e.base = (uintptr_t)c->windows[i]->user;
    e.size = c->windows[i]->size;
    e.window = c->windows[i]->device;
  }
  for (size_t i = 0; i + 1 < tables; i++)
    t[i].next = (ncclDevCommWindowTable *)c->table + i + 1;
  V_CUDA(
      cudaMemcpyAsync(c->table, t.data(), tables * sizeof t[0], cudaMemcpyHostToDevice, c->setup));
  V_CUDA(cudaStreamSynchronize(c->setup));
  return ncclSuccess;
}

struct WindowStep : Step {
  struct Said {
    bool good;
    size_t physical, offset, size;
  };
  void *user;
  size_t size;
  ncclWindow_t *out;
  Physical mine;

  WindowStep(ncclComm *c, void *u, size_t n, ncclWindow_t *o) : Step(c), user(u), size(n), out(o) {}

  void publish() override {
    Said said{false, 0, 0, size};
    {
      std::lock_guard<std::mutex> g(allocations_lock);
      auto it = allocations.upper_bound((uintptr_t)user);
      if (it != allocations.begin()) {
        --it;
        said.offset = (uintptr_t)user - it->first;
        said.good = said.offset + size <= it->second.physical.size;
        mine = it->second.physical;
      }
    }
    if (!said.good)
      fail(ncclInvalidArgument, "window of rank %d: %p does not come from ncclMemAlloc", comm->rank,
           user);
    else
      said.good = offer(comm, mine) == ncclSuccess;
    said.physical = mine.size;
    memcpy(comm->segment->rank[comm->rank].blob, &said, sizeof said);
  }

  ncclResult_t complete(std::vector<std::unique_ptr<Step>> &) override {
    std::vector<size_t> sizes;
    size_t most = 0;
    Said mine_said;
    memcpy(&mine_said, comm->segment->rank[comm->rank].blob, sizeof mine_said);
    for (int r = 0; r < comm->n; r++) {
      Said s;
      memcpy(&s, comm->segment->rank[r].blob, sizeof s);
      if (!s.good) {
        comm->steps++;
        return fail(ncclInvalidArgument, "rank %d has no memory for this window", r);
      }
      if (s.offset != mine_said.offset || s.size != mine_said.size) {
        comm->steps++;
        return fail(ncclInvalidArgument,
                    "ranks register different sizes or offsets: %zu at %zu, %zu at %zu",
                    mine_said.size, mine_said.offset, s.size, s.offset);
      }
      sizes.push_back(s.physical);
      most = std::max(most, s.physical);
    }
    auto w = std::make_unique<Window>();
    V_NCCL(collect(comm, mine, sizes, w->parts));
    if (comm->used + most > kStride)
      return fail(ncclInvalidUsage, "windows of more than %zu GiB", kStride >> 30);
    w->comm = comm;
    w->map = comm->used;
    w->map_size = most;
    w->offset = comm->used + mine_said.offset;
    w->size = size;
    w->user = user;
    comm->used += most;
    V_NCCL(map_parts(comm, w->map, w->parts, -1));
    V_NCCL(describe_window(*w));
    *out = w->device;
    comm->windows.push_back(std::move(w));
    return refresh_windows(comm);
  }
};

std::unique_ptr<Step> new_window_step(ncclComm *comm, void *user, size_t size, ncclWindow_t *out) {
  *out = nullptr;
  return std::make_unique<WindowStep>(comm, user, size, out);
}

ncclResult_t drop_window(ncclComm *c, ncclWindow_t window) {
  DeviceGuard g(c->device);
  for (size_t i = 0; i < c->windows.size(); i++)
    if (c->windows[i]->device == window) {
      unmap_parts(c, c->windows[i]->map,
                  c->windows[i]->parts); // the range itself is not used again
      forget_window(window);
      cudaFree(window);
      c->windows.erase(c->windows.begin() + (long)i);
      return refresh_windows(c);
    }
  return fail(ncclInvalidArgument, "no such window");
}

} // namespace vnccl

using namespace vnccl;

extern "C" {

ncclResult_t ncclMemAlloc(void **p, size_t bytes) {
  if (!p)
    return fail(ncclInvalidArgument, "ncclMemAlloc without a place for the address");
  V_CUDA(cudaFree(nullptr));
  Allocation a;
  V_CUDA(cudaGetDevice(&a.device));
  V_NCCL(make_physical(bytes ? bytes : 1, a.physical));
  CUdeviceptr at = 0;
  CUresult e = driver().MemAddressReserve(&at, a.physical.size, kGranularity, 0, 0);
  if (e != CUDA_SUCCESS || map_at((char *)at, a.physical) != ncclSuccess) {
    driver().MemRelease(a.physical.handle);
    return fail(ncclUnhandledCudaError, "ncclMemAlloc of %zu bytes", bytes);
  }
  *p = (void *)at;
  std::lock_guard<std::mutex> g(allocations_lock);
  allocations[(uintptr_t)at] = a;
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void *p) {
  if (!p)
    return ncclSuccess;
  Allocation a;
  {
    std::lock_guard<std::mutex> g(allocations_lock);
    auto it = allocations.find((uintptr_t)p);
    if (it == allocations.end())
      return fail(ncclInvalidArgument, "ncclMemFree of %p, which is not from ncclMemAlloc", p);
    a = it->second;
    allocations.erase(it);
  }
  DeviceGuard g(a.device);
  V_DRIVER(driver().MemUnmap((CUdeviceptr)p, a.physical.size));
  V_DRIVER(driver().MemAddressFree((CUdeviceptr)p, a.physical.size));
  V_DRIVER(driver().MemRelease(a.physical.handle));
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return window ? drop_window(comm, window) : ncclSuccess;
}

} // extern "C"
