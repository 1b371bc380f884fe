// SPDX-License-Identifier: Apache-2.0
/* Collectives and transfers as operations of streams: each rank's operation starts when its stream
 * gets there, and all are done when the last has started. Every rank's buffers are accessed in the
 * name of its own operation; a rank's operation learns what those whose data it gets had done. */
#include "nccl_internal.h"
#include "nccl_reduce.h"

#include <algorithm>
#include <cstring>

namespace emu_nccl {

const char *kind_name(Kind kind) {
  static const char *const names[] = {
      "ncclAllReduce", "ncclBroadcast", "ncclReduce",  "ncclAllGather", "ncclReduceScatter",
      "ncclAlltoAll",  "ncclGather",    "ncclScatter", "ncclSend",      "ncclRecv"};
  return names[(int)kind];
}

namespace {

using Bytes = std::vector<unsigned char>;

size_t bytes_of(const Part &p) { return p.count * emu_nccl_type_size(p.type); }

bool has_root(Kind k) {
  return k == Kind::BROADCAST || k == Kind::REDUCE || k == Kind::GATHER || k == Kind::SCATTER;
}
bool reduces(Kind k) {
  return k == Kind::ALL_REDUCE || k == Kind::REDUCE || k == Kind::REDUCE_SCATTER;
}

// Elements-to-bytes of what a rank of N gives and gets.
size_t given(const Part &p, int n) {
  const bool root = p.comm->rank == p.root;
  switch (p.kind) {
  case Kind::BROADCAST:
    return root ? bytes_of(p) : 0;
  case Kind::SCATTER:
    return root ? bytes_of(p) * n : 0;
  case Kind::REDUCE_SCATTER:
  case Kind::ALL_TO_ALL:
    return bytes_of(p) * n;
  default:
    return bytes_of(p);
  }
}
size_t gotten(const Part &p, int n) {
  const bool root = p.comm->rank == p.root;
  switch (p.kind) {
  case Kind::REDUCE:
    return root ? bytes_of(p) : 0;
  case Kind::GATHER:
    return root ? bytes_of(p) * n : 0;
  case Kind::ALL_GATHER:
  case Kind::ALL_TO_ALL:
    return bytes_of(p) * n;
  default:
    return bytes_of(p);
  }
}

// A copy of SIZE bytes at FROM, read in the name of P's operation; zeros when that is forbidden.
Bytes fetch(const Part &p, const void *from, size_t size) {
  Bytes b(size);
  if (size)
    emu::as_operation(p.operation, [&] {
      if (emu::access_read(from, size, p.site))
        std::memcpy(b.data(), from, size);
    });
  return b;
}
void store(const Part &p, void *to, const Bytes &b) {
  if (!b.empty())
    emu::as_operation(p.operation, [&] {
      if (emu::access_write(to, b.size(), p.site))
        std::memcpy(to, b.data(), b.size());
    });
}

// The first thing in which the ranks' calls differ is reported; false then.
bool agree(const std::vector<PartRef> &parts) {
  const Part &a = *parts[0];
  for (const PartRef &ref : parts) {
    const Part &b = *ref;
    const char *kind = nullptr;
    std::string what;
    if (b.kind != a.kind) {
      kind = "collective-order";
      what = std::string("rank ") + std::to_string(a.comm->rank) + " calls " + kind_name(a.kind) +
             " where rank " + std::to_string(b.comm->rank) + " calls " + kind_name(b.kind);
    } else if (b.count != a.count || b.type != a.type) {
      kind = "collective-order";
      what = std::string(kind_name(a.kind)) + ": rank " + std::to_string(a.comm->rank) + " gives " +
             std::to_string(a.count) + " elements of type " + std::to_string(a.type) + ", rank " +
             std::to_string(b.comm->rank) + " " + std::to_string(b.count) + " of type " +
             std::to_string(b.type);
    } else if (has_root(a.kind) && b.root != a.root) {
      kind = "collective-order";
      what = std::string(kind_name(a.kind)) + ": the root is " + std::to_string(a.root) +
             " on rank " + std::to_string(a.comm->rank) + " and " + std::to_string(b.root) +
             " on rank " + std::to_string(b.comm->rank);
    } else if (reduces(a.kind) && b.op != a.op) {
      kind = "collective-order";
      what = std::string(kind_name(a.kind)) + ": ranks reduce by different operations";
    }
    if (kind) {
      emu::as_operation(b.operation, [&] {
        emu::finding(kind, what, b.site, a.site,
                     "the call of rank " + std::to_string(a.comm->rank));
      });
      return false;
    }
  }
  return true;
}

// Does rank R's result depend on what rank S gives?
bool depends(Kind k, int root, int r, int s) {
  switch (k) {
  case Kind::BROADCAST:
  case Kind::SCATTER:
    return s == root;
  case Kind::REDUCE:
  case Kind::GATHER:
    return r == root;
  default:
    return true;
  }
}

// All ranks are there: moves the data.
void run(const std::vector<PartRef> &parts) {
  const int n = (int)parts.size();
  const Part &a = *parts[0];
  std::vector<Bytes> in(n);
  std::vector<const void *> pointers(n), scalars(n);
  for (int r = 0; r < n; r++) {
    in[r] = fetch(*parts[r], parts[r]->send, given(*parts[r], n));
    if (parts[r]->device_scalar)
      parts[r]->scalar =
          fetch(*parts[r], parts[r]->device_scalar, emu_nccl_type_size(parts[r]->type));
    scalars[r] = parts[r]->scalar.data();
  }
  Bytes sum;
  if (reduces(a.kind)) {
    const size_t count = a.kind == Kind::REDUCE_SCATTER ? a.count * n : a.count;
    for (int r = 0; r < n; r++)
      pointers[r] = in[r].data();
    sum.resize(count * emu_nccl_type_size(a.type));
    emu_nccl_reduce(sum.data(), pointers.data(), n, count, a.type, a.op, scalars.data());
  }
  const size_t size = bytes_of(a);
  for (int r = 0; r < n; r++) {
    const Part &p = *parts[r];
    emu::Clock learnt;
    for (int s = 0; s < n; s++)
      if (s != r && depends(a.kind, a.root, r, s))
        learnt.join(parts[s]->clock);
    emu::as_operation(p.operation, [&] { emu::acquire(learnt); });
    Bytes out(gotten(p, n));
    for (int s = 0; !out.empty() && s < n; s++)
      switch (a.kind) {
      case Kind::ALL_GATHER:
      case Kind::GATHER:
        std::copy(in[s].begin(), in[s].end(), out.begin() + s * size);
        break;
      case Kind::ALL_TO_ALL:
        std::copy_n(in[s].begin() + r * size, size, out.begin() + s * size);
        break;
      default:
        break;
      }
    if (a.kind == Kind::ALL_REDUCE || a.kind == Kind::REDUCE)
      out.assign(sum.begin(), sum.begin() + out.size());
    else if (a.kind == Kind::REDUCE_SCATTER)
      out.assign(sum.begin() + r * size, sum.begin() + (r + 1) * size);
    else if (a.kind == Kind::BROADCAST)
      out = in[a.root];
    else if (a.kind == Kind::SCATTER)
      out.assign(in[a.root].begin() + r * size, in[a.root].begin() + (r + 1) * size);
    store(p, p.recv, out);
  }
}

void transfer(Part &send, Part &recv) {
  if (send.count != recv.count || send.type != recv.type) {
    emu::as_operation(recv.operation, [&] {
      emu::finding("collective-order",
                   "ncclRecv of " + std::to_string(recv.count) + " elements of type " +
                       std::to_string(recv.type) + " meets ncclSend of " +
                       std::to_string(send.count) + " of type " + std::to_string(send.type),
                   recv.site, send.site, "the ncclSend");
    });
  } else {
    const Bytes b = fetch(send, send.send, bytes_of(send));
    emu::as_operation(recv.operation, [&] { emu::acquire(send.clock); });
    store(recv, recv.recv, b);
  }
  send.done = recv.done = true;
  emu::progress();
}

// P's operation has started.
void arrive(const PartRef &p) {
  p->clock = emu::release();
  Clique &q = *p->comm->clique;
  const int n = (int)q.ranks.size();
  if (p->kind == Kind::SEND || p->kind == Kind::RECV) {
    const bool sends = p->kind == Kind::SEND;
    auto &[from, to] = q.transfers[sends ? std::make_pair(p->comm->rank, p->root)
                                         : std::make_pair(p->root, p->comm->rank)];
    auto &others = sends ? to : from;
    if (others.empty()) {
      (sends ? from : to).push_back(p);
      return;
    }
    const PartRef other = others.front();
    others.pop_front();
    transfer(sends ? *p : *other, sends ? *other : *p);
    return;
  }
  const uint64_t turn = p->comm->started++;
  std::vector<PartRef> &parts = q.collectives[turn];
  parts.resize(n);
  parts[p->comm->rank] = p;
  if (std::any_of(parts.begin(), parts.end(), [](const PartRef &r) { return !r; }))
    return;
  const std::vector<PartRef> all = std::move(parts);
  q.collectives.erase(turn);
  if (agree(all))
    run(all);
  for (const PartRef &r : all)
    r->done = true;
  emu::progress();
}

} // namespace

void issue(const std::vector<PartRef> &parts) {
  std::vector<std::pair<emu::Stream *, std::shared_ptr<std::vector<PartRef>>>> streams;
  for (const PartRef &p : parts) {
    auto i = std::find_if(streams.begin(), streams.end(),
                          [&](const auto &s) { return s.first == p->stream; });
    if (i == streams.end())
      i = streams.insert(streams.end(), {p->stream, std::make_shared<std::vector<PartRef>>()});
    i->second->push_back(p);
  }
  for (const auto &[stream, list] : streams) {
    const auto mine = list;
    const Part &first = *mine->front();
    auto finished = [mine] {
      return std::all_of(mine->begin(), mine->end(),
                         [](const PartRef &p) { return p->done || p->comm->aborted; });
    };
    emu::stream_enqueue(
        stream, kind_name(first.kind),
        [mine, finished](emu::Operation operation) {
          for (const PartRef &p : *mine)
            p->operation = operation;
          for (const PartRef &p : *mine)
            arrive(p);
          return finished();
        },
        [finished](emu::Operation) { return finished(); },
        std::string("waits for the other ranks in ") + kind_name(first.kind), first.site);
  }
}

} // namespace emu_nccl
