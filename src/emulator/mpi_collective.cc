// SPDX-License-Identifier: Apache-2.0
/* MPI's collective calls: all ranks of a communicator meet, and the last to arrive moves the data. */
#include "mpi_internal.h"

#include <cstring>

using namespace emu;
using namespace emu::mpi;

namespace {

/* What one rank brings. Blocks are in bytes; SEND and RECV are NULL where the call has none. */
struct Part {
  const char *call = "";
  int root = 0;
  MPI_Op op = MPI_OP_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL; // of a reduction
  const char *send = nullptr;
  char *recv = nullptr;
  std::vector<size_t> send_at, send_size, recv_at, recv_size; // for each peer
  int count = 0;                                              // elements of a reduction
};

using Parts = std::vector<Part *>;

std::vector<char> bytes_of(const Part &p, size_t peer) {
  if (!p.send || !p.send_size[peer])
    return {};
  const char *from = p.send + p.send_at[peer];
  return std::vector<char>(from, from + p.send_size[peer]);
}

/* All ranks meet with their PART; MOVE runs once. */
int meet(EmuMpiComm *c, Part &part, Site site, const std::function<void(Parts &)> &move) {
  const std::string call = part.call;
  rendezvous(
      "MPI communicator " + std::to_string(c->id), (int)c->members.size(), c->rank, &part,
      [&](const std::vector<void *> &all) {
        Parts parts;
        bool good = true;
        for (size_t r = 0; r < all.size(); r++) {
          parts.push_back(static_cast<Part *>(all[r]));
          const Part &p = *parts.back(), &first = *parts[0];
          if (strcmp(p.call, first.call) || p.root != first.root || p.op != first.op ||
              p.count != first.count || p.type != first.type) {
            finding("collective-order",
                    std::string(p.call) + " of rank " + std::to_string(r) + " meets " + first.call +
                        " of rank 0" + (strcmp(p.call, first.call) ? "" : " with other arguments"),
                    site);
            good = false;
          }
        }
        if (good && move)
          move(parts);
      },
      {"waits in " + call + " for other ranks", site});
  return MPI_SUCCESS;
}

/* Every block of every rank goes where its receiver wants it. */
void exchange(Parts &parts) {
  std::vector<std::vector<std::vector<char>>> data(parts.size());
  for (size_t s = 0; s < parts.size(); s++)
    for (size_t r = 0; r < parts.size(); r++)
      data[s].push_back(bytes_of(*parts[s], r));
  for (size_t r = 0; r < parts.size(); r++)
    for (size_t s = 0; s < parts.size(); s++) {
      Part &p = *parts[r];
      const auto &block = data[s][r];
      if (!p.recv || block.empty())
        continue;
      if (block.size() > p.recv_size[s])
        finding("mpi-error", std::string(p.call) + ": rank " + std::to_string(r) + " gets " +
                                 std::to_string(block.size()) + " bytes from rank " +
                                 std::to_string(s) + " and has room for " +
                                 std::to_string(p.recv_size[s]),
                0);
      memcpy(p.recv + p.recv_at[s], block.data(), std::min(block.size(), p.recv_size[s]));
    }
}

void set_even(std::vector<size_t> &at, std::vector<size_t> &size, size_t n, size_t bytes) {
  for (size_t i = 0; i < n; i++) {
    at.push_back(i * bytes);
    size.push_back(bytes);
  }
}
void set_given(std::vector<size_t> &at, std::vector<size_t> &size, size_t n, const int *counts,
               const int *displs, size_t element) {
  for (size_t i = 0; i < n; i++) {
    at.push_back((size_t)displs[i] * element);
    size.push_back((size_t)counts[i] * element);
  }
}
/* The same block for everybody, or only for ROOT. */
void set_same(std::vector<size_t> &at, std::vector<size_t> &size, size_t n, size_t bytes, int root) {
  for (size_t i = 0; i < n; i++) {
    at.push_back(0);
    size.push_back(root < 0 || (size_t)root == i ? bytes : 0);
  }
}

size_t extent(const std::vector<size_t> &at, const std::vector<size_t> &size) {
  size_t e = 0;
  for (size_t i = 0; i < at.size(); i++)
    e = std::max(e, size[i] ? at[i] + size[i] : 0);
  return e;
}

/* Declares what is read, exchanges, declares what was written. */
int run_exchange(EmuMpiComm *c, Part &p, Site site) {
  if (p.send)
    reads(p.send, extent(p.send_at, p.send_size), site);
  if (p.recv)
    for (size_t i = 0; i < p.recv_at.size(); i++)
      writes(p.recv + p.recv_at[i], p.recv_size[i], site);
  return meet(c, p, site, exchange);
}

struct Check {
  EmuMpiComm *c;
  int error;
};
Check check(MPI_Comm comm, const char *call, int root, MPI_Datatype a, MPI_Datatype b, long count,
            Site site) {
  EmuMpiComm *c = comm_of(comm, call, site);
  if (!c)
    return {nullptr, MPI_ERR_COMM};
  if (root < 0 || (size_t)root >= c->members.size())
    return {nullptr, raise(MPI_ERR_ROOT, call, "there is no such root", site)};
  if (!type_size(a) || !type_size(b))
    return {nullptr, raise(MPI_ERR_TYPE, call, "this is no type", site)};
  if (count < 0)
    return {nullptr, raise(MPI_ERR_COUNT, call, "negative count", site)};
  return {c, MPI_SUCCESS};
}

/* RESULT of combining what all ranks sent, in rank order. */
std::vector<char> reduced(const Parts &parts, size_t first, size_t n) {
  const size_t element = type_size(parts[0]->type);
  std::vector<char> sum, next;
  for (size_t r = first; r < first + n; r++) {
    const size_t bytes = (size_t)parts[r]->count * element;
    next.assign(parts[r]->send, parts[r]->send + bytes);
    if (r > first)
      combine(parts[r]->op, parts[r]->type, sum.data(), next.data(), parts[r]->count);
    sum.swap(next);
  }
  return sum;
}

enum class Reduce { ROOT, ALL, SCATTER, SCAN, EXSCAN };

int reduce(const char *call, Reduce kind, const void *send, void *recv, int n, const int *counts,
           MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm, Site site) {
  Check k = check(comm, call, root, type, type, n, site);
  if (!k.c)
    return k.error;
  char probe[32] = {0}, other[32] = {0};
  if (op < EMU_MPI_OPS && (op <= 0 || !combine(op, type, probe, other, 1)))
    return raise(MPI_ERR_OP, call, "the operation does not fit the type", site);
  const size_t element = type_size(type);
  const bool in_place = send == MPI_IN_PLACE;
  Part p;
  p.call = call;
  p.root = root;
  p.op = op;
  p.type = type;
  p.count = n;
  std::vector<char> input; // the result may be written over it
  const char *from = (const char *)(in_place ? recv : send);
  reads(from, (size_t)n * element, site);
  input.assign(from, from + (size_t)n * element);
  p.send = input.data();
  p.recv = (char *)recv;
  size_t at = 0, mine = (size_t)n;
  if (kind == Reduce::SCATTER) {
    mine = (size_t)counts[k.c->rank];
    for (int r = 0; r < k.c->rank; r++)
      at += (size_t)counts[r];
  }
  if (kind == Reduce::ROOT && k.c->rank != root)
    mine = 0;
  if (kind == Reduce::EXSCAN && k.c->rank == 0)
    mine = 0;
  writes(recv, mine * element, site);
  std::vector<char> result(mine * element);
  p.recv = result.data();
  std::vector<size_t> where = {at * element, mine * element};
  p.recv_at = {where[0]};
  p.recv_size = {where[1]};
  meet(k.c, p, site, [kind](Parts &parts) {
    std::vector<char> all;
    if (kind != Reduce::SCAN && kind != Reduce::EXSCAN)
      all = reduced(parts, 0, parts.size());
    for (size_t r = 0; r < parts.size(); r++) {
      Part &q = *parts[r];
      if (kind == Reduce::SCAN)
        all = reduced(parts, 0, r + 1);
      else if (kind == Reduce::EXSCAN && r > 0)
        all = reduced(parts, 0, r);
      if (q.recv_size[0])
        memcpy(q.recv, all.data() + q.recv_at[0], q.recv_size[0]);
    }
  });
  if (mine)
    memcpy(recv, result.data(), mine * element);
  return MPI_SUCCESS;
}

} // namespace

extern "C" {

int MPI_Barrier(MPI_Comm comm) {
  EmuMpiComm *c = comm_of(comm, "MPI_Barrier", EMU_SITE());
  if (!c)
    return MPI_ERR_COMM;
  Part p;
  p.call = "MPI_Barrier";
  return meet(c, p, EMU_SITE(), nullptr);
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  const Site site = EMU_SITE();
  Check k = check(comm, "MPI_Bcast", root, type, type, count, site);
  if (!k.c)
    return k.error;
  const size_t n = k.c->members.size(), bytes = (size_t)count * type_size(type);
  Part p;
  p.call = "MPI_Bcast";
  p.root = root;
  if (k.c->rank == root) {
    p.send = (const char *)buffer;
    set_same(p.send_at, p.send_size, n, bytes, -1);
    p.send_size[(size_t)root] = 0;
  } else {
    p.recv = (char *)buffer;
    set_same(p.recv_at, p.recv_size, n, bytes, root);
  }
  return run_exchange(k.c, p, site);
}

static int gather(const char *call, const void *send, int n, MPI_Datatype st, void *recv,
                  const int *counts, const int *displs, int m, MPI_Datatype rt, int root, bool all,
                  MPI_Comm comm, Site site) {
  EmuMpiComm *known = comm_of(comm, call, site);
  if (!known)
    return MPI_ERR_COMM;
  const bool receives = all || known->rank == root, in_place = send == MPI_IN_PLACE;
  Check k = check(comm, call, root, in_place ? rt : st, receives ? rt : st, in_place ? m : n, site);
  if (!k.c)
    return k.error;
  const size_t ranks = k.c->members.size(), me = (size_t)k.c->rank;
  Part p;
  p.call = call;
  p.root = root;
  if (receives) {
    p.recv = (char *)recv;
    if (counts)
      set_given(p.recv_at, p.recv_size, ranks, counts, displs, type_size(rt));
    else
      set_even(p.recv_at, p.recv_size, ranks, (size_t)m * type_size(rt));
  }
  size_t bytes = (size_t)n * type_size(st);
  p.send = (const char *)send;
  if (in_place) {
    p.send = p.recv + p.recv_at[me];
    bytes = p.recv_size[me];
  }
  set_same(p.send_at, p.send_size, ranks, bytes, all ? -1 : root);
  if (in_place) {
    p.send_size[me] = 0;
    p.recv_size[me] = 0;
  }
  return run_exchange(k.c, p, site);
}

int MPI_Gather(const void *send, int n, MPI_Datatype st, void *recv, int m, MPI_Datatype rt, int root,
               MPI_Comm comm) {
  return gather("MPI_Gather", send, n, st, recv, nullptr, nullptr, m, rt, root, false, comm, EMU_SITE());
}
int MPI_Gatherv(const void *send, int n, MPI_Datatype st, void *recv, const int *counts,
                const int *displs, MPI_Datatype rt, int root, MPI_Comm comm) {
  static const int none[1024] = {0};
  return gather("MPI_Gatherv", send, n, st, recv, counts ? counts : none, displs ? displs : none, 0, rt,
                root, false, comm, EMU_SITE());
}
int MPI_Allgather(const void *send, int n, MPI_Datatype st, void *recv, int m, MPI_Datatype rt,
                  MPI_Comm comm) {
  return gather("MPI_Allgather", send, n, st, recv, nullptr, nullptr, m, rt, 0, true, comm, EMU_SITE());
}
int MPI_Allgatherv(const void *send, int n, MPI_Datatype st, void *recv, const int *counts,
                   const int *displs, MPI_Datatype rt, MPI_Comm comm) {
  return gather("MPI_Allgatherv", send, n, st, recv, counts, displs, 0, rt, 0, true, comm, EMU_SITE());
}

static int scatter(const char *call, const void *send, const int *counts, const int *displs, int n,
                   MPI_Datatype st, void *recv, int m, MPI_Datatype rt, int root, MPI_Comm comm,
                   Site site) {
  EmuMpiComm *known = comm_of(comm, call, site);
  if (!known)
    return MPI_ERR_COMM;
  const bool sends = known->rank == root, in_place = recv == MPI_IN_PLACE;
  Check k = check(comm, call, root, sends ? st : rt, in_place ? st : rt, in_place ? 0 : m, site);
  if (!k.c)
    return k.error;
  const size_t ranks = k.c->members.size();
  Part p;
  p.call = call;
  p.root = root;
  if (sends) {
    p.send = (const char *)send;
    if (counts)
      set_given(p.send_at, p.send_size, ranks, counts, displs, type_size(st));
    else
      set_even(p.send_at, p.send_size, ranks, (size_t)n * type_size(st));
    if (in_place)
      p.send_size[(size_t)root] = 0;
  }
  if (!in_place) {
    p.recv = (char *)recv;
    set_same(p.recv_at, p.recv_size, ranks, (size_t)m * type_size(rt), root);
  }
  return run_exchange(k.c, p, site);
}
int MPI_Scatter(const void *send, int n, MPI_Datatype st, void *recv, int m, MPI_Datatype rt, int root,
                MPI_Comm comm) {
  return scatter("MPI_Scatter", send, nullptr, nullptr, n, st, recv, m, rt, root, comm, EMU_SITE());
}
int MPI_Scatterv(const void *send, const int *counts, const int *displs, MPI_Datatype st, void *recv,
                 int m, MPI_Datatype rt, int root, MPI_Comm comm) {
  static const int none[1024] = {0};
  return scatter("MPI_Scatterv", send, counts ? counts : none, displs ? displs : none, 0, st, recv, m,
                 rt, root, comm, EMU_SITE());
}

int MPI_Alltoall(const void *send, int n, MPI_Datatype st, void *recv, int m, MPI_Datatype rt,
                 MPI_Comm comm) {
  const Site site = EMU_SITE();
  const bool in_place = send == MPI_IN_PLACE;
  Check k = check(comm, "MPI_Alltoall", 0, in_place ? rt : st, rt, m, site);
  if (!k.c)
    return k.error;
  const size_t ranks = k.c->members.size();
  Part p;
  p.call = "MPI_Alltoall";
  p.send = (const char *)(in_place ? recv : send);
  p.recv = (char *)recv;
  set_even(p.send_at, p.send_size, ranks, in_place ? (size_t)m * type_size(rt) : (size_t)n * type_size(st));
  set_even(p.recv_at, p.recv_size, ranks, (size_t)m * type_size(rt));
  return run_exchange(k.c, p, site);
}
int MPI_Alltoallv(const void *send, const int *scounts, const int *sdispls, MPI_Datatype st, void *recv,
                  const int *rcounts, const int *rdispls, MPI_Datatype rt, MPI_Comm comm) {
  const Site site = EMU_SITE();
  const bool in_place = send == MPI_IN_PLACE;
  Check k = check(comm, "MPI_Alltoallv", 0, in_place ? rt : st, rt, 0, site);
  if (!k.c)
    return k.error;
  const size_t ranks = k.c->members.size();
  Part p;
  p.call = "MPI_Alltoallv";
  p.send = (const char *)(in_place ? recv : send);
  p.recv = (char *)recv;
  set_given(p.send_at, p.send_size, ranks, in_place ? rcounts : scounts, in_place ? rdispls : sdispls,
            type_size(in_place ? rt : st));
  set_given(p.recv_at, p.recv_size, ranks, rcounts, rdispls, type_size(rt));
  return run_exchange(k.c, p, site);
}

int MPI_Reduce(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
  return reduce("MPI_Reduce", Reduce::ROOT, send, recv, n, nullptr, type, op, root, comm, EMU_SITE());
}
int MPI_Allreduce(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return reduce("MPI_Allreduce", Reduce::ALL, send, recv, n, nullptr, type, op, 0, comm, EMU_SITE());
}
int MPI_Reduce_scatter(const void *send, void *recv, const int *counts, MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm) {
  EmuMpiComm *c = comm_of(comm, "MPI_Reduce_scatter", EMU_SITE());
  int n = 0;
  for (size_t i = 0; c && i < c->members.size(); i++)
    n += counts[i];
  return reduce("MPI_Reduce_scatter", Reduce::SCATTER, send, recv, n, counts, type, op, 0, comm,
                EMU_SITE());
}
int MPI_Reduce_scatter_block(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm) {
  EmuMpiComm *c = comm_of(comm, "MPI_Reduce_scatter_block", EMU_SITE());
  std::vector<int> counts(c ? c->members.size() : 0, n);
  return reduce("MPI_Reduce_scatter_block", Reduce::SCATTER, send, recv, n * (int)counts.size(),
                counts.data(), type, op, 0, comm, EMU_SITE());
}
int MPI_Scan(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return reduce("MPI_Scan", Reduce::SCAN, send, recv, n, nullptr, type, op, 0, comm, EMU_SITE());
}
int MPI_Exscan(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return reduce("MPI_Exscan", Reduce::EXSCAN, send, recv, n, nullptr, type, op, 0, comm, EMU_SITE());
}

} // extern "C"
