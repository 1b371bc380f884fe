// SPDX-License-Identifier: Apache-2.0
#include "virtual.h"

#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <fcntl.h>
#include <random>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace vnccl {

static thread_local char error_text[512];

ncclResult_t fail(ncclResult_t code, const char *format, ...) {
  va_list v;
  va_start(v, format);
  vsnprintf(error_text, sizeof error_text, format, v);
  va_end(v);
  fprintf(stderr, "cucocc virtual ranks: %s\n", error_text);
  return code;
}
const char *last_error() { return error_text; }

const Driver &driver() {
  static const Driver d = [] {
    Driver x{};
    auto find = [](const char *name, void *slot) {
      void *f = nullptr;
      cudaDriverEntryPointQueryResult found;
      if (cudaGetDriverEntryPointByVersion(name, &f, 12000, cudaEnableDefault, &found) !=
              cudaSuccess ||
          !f) {
        fprintf(stderr, "cucocc virtual ranks: the CUDA driver has no %s\n", name);
        abort();
      }
      memcpy(slot, &f, sizeof f);
    };
    cudaFree(nullptr); // the entry points need an initialised driver
#define FIND(name) find("cu" #name, &x.name)
    FIND(MemCreate);
    FIND(MemRelease);
    FIND(MemMap);
    FIND(MemUnmap);
    FIND(MemSetAccess);
    FIND(MemAddressReserve);
    FIND(MemAddressFree);
    FIND(MemExportToShareableHandle);
    FIND(MemImportFromShareableHandle);
#undef FIND
    return x;
  }();
  return d;
}

std::string new_path() {
  std::random_device random;
  char text[100];
  snprintf(text, sizeof text, "%s/cucocc-%d-%08x%08x",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid(), random(), random());
  return text;
}

// ---- meeting
// -------------------------------------------------------------------------------------------

static void arrive(ncclComm *c) {
  c->round++;
  c->segment->arrivals.fetch_add(1, std::memory_order_acq_rel);
}

static ncclResult_t wait_for_all(ncclComm *c) {
  static const double limit = [] {
    const char *e = getenv("CUCOCC_VIRTUAL_TIMEOUT");
    return e ? atof(e) : 60.0;
  }();
  const auto begin = std::chrono::steady_clock::now();
  while (c->segment->arrivals.load(std::memory_order_acquire) < c->round * c->n) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > limit)
      return fail(ncclSystemError, "rank %d of %d waited %g s for the others", c->rank, c->n,
                  limit);
  }
  return ncclSuccess;
}

ncclResult_t run_steps(std::vector<std::unique_ptr<Step>> steps) {
  ncclResult_t result = ncclSuccess;
  while (!steps.empty()) {
    std::vector<std::unique_ptr<Step>> follow, later;
    std::vector<Step *> now; // the first step of each communicator
    for (auto &s : steps) {
      bool first = true;
      for (Step *x : now)
        first &= x->comm != s->comm;
      if (first)
        now.push_back(s.get());
    }
    for (Step *s : now) {
      DeviceGuard g(s->comm->device);
      s->publish();
      if (s->comm->segment)
        arrive(s->comm);
    }
    for (Step *s : now) {
      DeviceGuard g(s->comm->device);
      ncclResult_t r = s->comm->segment ? wait_for_all(s->comm) : ncclSystemError;
      if (r == ncclSuccess)
        r = s->complete(follow);
      if (r != ncclSuccess && result == ncclSuccess)
        result = r;
    }
    for (Step *s : now)
      if (s->comm->segment)
        arrive(s->comm);
    for (Step *s : now)
      if (s->comm->segment && wait_for_all(s->comm) != ncclSuccess)
        return ncclSystemError;
    for (auto &s : steps) {
      bool done = false;
      for (Step *x : now)
        done |= x == s.get();
      if (!done)
        later.push_back(std::move(s));
    }
    for (auto &s : follow)
      later.push_back(std::move(s));
    if (result != ncclSuccess)
      return result;
    steps = std::move(later);
  }
  return result;
}

// ---- the segment and the exchange of memory
// --------------------------------------------------------------

// Memory that ranks of this process offer: (segment, exchange, rank).
static std::mutex offers_lock;
static std::map<std::tuple<std::string, uint32_t, int>, Physical> offers;

static socklen_t address_of(const ncclComm *c, int rank, sockaddr_un &a) {
  memset(&a, 0, sizeof a);
  a.sun_family = AF_UNIX; // the abstract name space: nothing to remove afterwards
  int k = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%s.%d", c->path.c_str(), rank);
  return (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + k);
}

ncclResult_t open_segment(ncclComm *c) {
  int fd = open(c->path.c_str(), O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Segment)) != 0)
    return fail(ncclSystemError, "%s: %s", c->path.c_str(), strerror(errno));
  void *p = mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED)
    return fail(ncclSystemError, "%s: %s", c->path.c_str(), strerror(errno));
  c->segment = (Segment *)p;
  c->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un a;
  const socklen_t k = address_of(c, c->rank, a);
  if (c->socket < 0 || bind(c->socket, (sockaddr *)&a, k) != 0)
    return fail(ncclSystemError, "socket of rank %d: %s", c->rank, strerror(errno));
  c->segment->rank[c->rank].pid = (int)getpid();
  return ncclSuccess;
}

void close_segment(ncclComm *c) {
  if (c->socket >= 0)
    close(c->socket);
  for (auto &x : c->arrived)
    close(x.second);
  if (c->segment)
    munmap(c->segment, sizeof(Segment));
  c->segment = nullptr;
  c->socket = -1;
}

struct Note {
  int from;
  uint32_t step;
};

static bool send_descriptor(ncclComm *c, int to, uint32_t step, int fd, bool &full) {
  Note note{c->rank, step};
  iovec io{&note, sizeof note};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  sockaddr_un a;
  msghdr m{};
  m.msg_name = &a;
  m.msg_namelen = address_of(c, to, a);
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(h), &fd, sizeof fd);
  ssize_t k = sendmsg(c->socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
  full = k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS);
  return k == (ssize_t)sizeof note;
}

// Takes what has come; waits for something when WAIT is true.
static bool receive_descriptor(ncclComm *c, bool wait) {
  Note note;
  iovec io{&note, sizeof note};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr m{};
  m.msg_iov = &io;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  if (recvmsg(c->socket, &m, (wait ? 0 : MSG_DONTWAIT) | MSG_CMSG_CLOEXEC) != (ssize_t)sizeof note)
    return false;
  cmsghdr *h = CMSG_FIRSTHDR(&m);
  if (!h || h->cmsg_type != SCM_RIGHTS)
    return false;
  int fd;
  memcpy(&fd, CMSG_DATA(h), sizeof fd);
  c->arrived[{note.from, note.step}] = fd;
  return true;
}

ncclResult_t offer(ncclComm *c, const Physical &mine) {
  const uint32_t step = c->steps;
  int fd = -1;
  for (int r = 0; r < c->n; r++) {
    if (r == c->rank || c->segment->rank[r].pid == (int)getpid())
      continue;
    if (fd < 0)
      V_DRIVER(driver().MemExportToShareableHandle(&fd, mine.handle,
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    bool full = false;
    while (!send_descriptor(c, r, step, fd, full)) {
      if (!full)
        return fail(ncclSystemError, "rank %d cannot send to rank %d: %s", c->rank, r,
                    strerror(errno));
      if (!receive_descriptor(c, false)) // the others may be waiting for us to take theirs
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  if (fd >= 0)
    close(fd);
  std::lock_guard<std::mutex> g(offers_lock);
  offers[{c->path, step, c->rank}] = mine;
  return ncclSuccess;
}

ncclResult_t collect(ncclComm *c, const Physical &mine, const std::vector<size_t> &sizes,
                     std::vector<Physical> &parts) {
  const uint32_t step = c->steps++;
  parts.assign(c->n, Physical{});
  for (int r = 0; r < c->n; r++) {
    parts[r].size = sizes[r];
    if (r == c->rank) {
      parts[r] = mine;
    } else if (c->local(r)) {
      std::lock_guard<std::mutex> g(offers_lock);
      auto it = offers.find({c->path, step, r});
      if (it == offers.end())
        return fail(ncclInternalError, "rank %d offered no memory", r);
      parts[r] = it->second;
    } else {
      while (c->arrived.find({r, step}) == c->arrived.end())
        if (!receive_descriptor(c, true))
          return fail(ncclSystemError, "rank %d receives nothing: %s", c->rank, strerror(errno));
      const int fd = c->arrived[{r, step}];
      c->arrived.erase({r, step});
      CUresult e = driver().MemImportFromShareableHandle(&parts[r].handle, (void *)(intptr_t)fd,
                                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      close(fd);
      if (e != CUDA_SUCCESS)
        return fail(ncclUnhandledCudaError, "memory of rank %d cannot be mapped: CUDA error %d", r,
                    (int)e);
    }
  }
  // What this rank offered two exchanges ago has been taken by all.
  std::lock_guard<std::mutex> g(offers_lock);
  if (step >= 2)
    offers.erase({c->path, step - 2, c->rank});
  return ncclSuccess;
}

} // namespace vnccl

bool ncclComm::local(int r) const { return segment->rank[r].pid == (int)getpid(); }
