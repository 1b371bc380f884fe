// SPDX-License-Identifier: Apache-2.0
/* NCCL's host functions for communicators, groups, memory and reduction operations. */
#include "nccl_group.h"
#include "nccl_reduce.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace emu_nccl;

namespace {

uint64_t cliques; // numbers given to communicators so far
std::string process_error;

ncclResult_t fail(ncclResult_t r, ncclComm *comm, const std::string &why) {
  (comm ? comm->last_error : process_error) = why;
  return r;
}

struct Joining { // what a rank brings to the making of a communicator
  ncclComm_t *out;
  int device, process, color, key;
};

// A communicator of the ranks in JOINING, in that order.
void make_clique(const std::vector<Joining *> &joining) {
  auto clique = std::make_shared<Clique>();
  clique->id = ++cliques;
  for (Joining *j : joining) {
    ncclComm *c = new ncclComm;
    c->clique = clique;
    c->rank = (int)clique->ranks.size();
    c->device = j->device;
    c->process = j->process;
    clique->ranks.push_back(c);
  }
  for (size_t r = 0; r < joining.size(); r++)
    *joining[r]->out = clique->ranks[r];
}

ncclResult_t init(ncclComm_t *out, int n, const ncclUniqueId &id, int rank, int device,
                  emu::Site site) {
  if (!out || n < 1 || rank < 0 || rank >= n)
    return fail(ncclInvalidArgument, nullptr,
                "rank " + std::to_string(rank) + " of " + std::to_string(n) + " ranks");
  *out = nullptr;
  auto mine = std::make_shared<Joining>(Joining{out, device, emu::self().process, 0, 0});
  meet(
      "init " + std::string(id.internal, sizeof id.internal), n, rank, mine,
      [](const std::vector<std::shared_ptr<void>> &all) {
        std::vector<Joining *> joining;
        for (const auto &j : all)
          joining.push_back(static_cast<Joining *>(j.get()));
        make_clique(joining);
      },
      "ncclCommInitRank", site);
  return ncclSuccess;
}

bool custom(int op) { return op >= ncclNumOps; }

struct CustomOp {
  int type;
  std::vector<unsigned char> value;
  const void *device_value;
  bool live;
};
// By communicator; the operation's number is its index here and ncclNumOps.
std::map<ncclComm *, std::vector<CustomOp>> custom_ops;

ncclResult_t collective(Kind kind, const void *send, void *recv, size_t count, int type, int op,
                        int root, ncclComm *comm, cudaStream_t stream, emu::Site site) {
  if (!comm)
    return fail(ncclInvalidArgument, nullptr, "the communicator is NULL");
  const int n = (int)comm->clique->ranks.size();
  const std::string name = kind_name(kind);
  if (!emu_nccl_type_size(type))
    return fail(ncclInvalidArgument, comm, name + ": unknown data type " + std::to_string(type));
  if (root < -1 || root >= n)
    return fail(ncclInvalidArgument, comm,
                name + ": there is no rank " + std::to_string(root) + " in the communicator");
  auto p = std::make_shared<Part>();
  p->kind = kind;
  p->comm = comm;
  p->send = send;
  p->recv = recv;
  p->count = count;
  p->type = type;
  p->op = op;
  p->root = root;
  p->site = site;
  if (custom(op)) {
    const std::vector<CustomOp> &ops = custom_ops[comm];
    const size_t i = (size_t)op - ncclNumOps;
    if (i >= ops.size() || !ops[i].live || ops[i].type != type)
      return fail(ncclInvalidArgument, comm, name + ": no such reduction operation for the type");
    p->scalar = ops[i].value;
    p->device_scalar = ops[i].device_value;
    p->op = EMU_NCCL_PREMUL;
  } else if (op < 0)
    return fail(ncclInvalidArgument, comm, name + ": unknown reduction operation");
  // A stream handle means one of the communicator's device, whichever is current.
  const int device = emu::current_device();
  emu::set_current_device(comm->device);
  p->stream = emu::stream_of(stream);
  emu::set_current_device(device);
  if (emu::stream_capturing(p->stream))
    emu::unsupported(name + " in a stream that is being captured", site);
  submit(p);
  return ncclSuccess;
}

} // namespace

/* A function of NCCL under its own name, and under the one that profilers wrap. */
#define API(result, name, arguments)                                                               \
  result p##name arguments __attribute__((alias(#name)));                                          \
  result name arguments

extern "C" {

API(ncclResult_t, ncclGetVersion, (int *version)) {
  if (!version)
    return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
API(const char *, ncclGetErrorString, (ncclResult_t r)) {
  switch (r) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error";
  case ncclSystemError:
    return "unhandled system error";
  case ncclInternalError:
    return "internal error";
  case ncclInvalidArgument:
    return "invalid argument";
  case ncclInvalidUsage:
    return "invalid usage";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  case ncclInProgress:
    return "operation in progress";
  default:
    return "unknown result code";
  }
}
API(const char *, ncclGetLastError, (ncclComm_t comm)) {
  return comm ? comm->last_error.c_str() : process_error.c_str();
}

API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id)) {
  static uint64_t ids;
  if (!id)
    return ncclInvalidArgument;
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "%llu", (unsigned long long)++ids);
  return ncclSuccess;
}
API(ncclResult_t, ncclCommInitRank, (ncclComm_t * out, int n, ncclUniqueId id, int rank)) {
  return init(out, n, id, rank, emu::current_device(), EMU_SITE());
}
API(ncclResult_t, ncclCommInitRankConfig,
    (ncclComm_t * out, int n, ncclUniqueId id, int rank, ncclConfig_t *)) {
  return init(out, n, id, rank, emu::current_device(), EMU_SITE());
}
API(ncclResult_t, ncclCommInitRankScalable,
    (ncclComm_t * out, int n, int rank, int nids, ncclUniqueId *ids, ncclConfig_t *)) {
  if (nids < 1 || !ids)
    return ncclInvalidArgument;
  return init(out, n, ids[0], rank, emu::current_device(), EMU_SITE());
}
API(ncclResult_t, ncclCommInitAll, (ncclComm_t * out, int n, const int *devices)) {
  if (!out || n < 1 || (!devices && n > emu::device_count()))
    return fail(ncclInvalidArgument, nullptr, "ncclCommInitAll: that many devices do not exist");
  std::vector<Joining> joining;
  for (int r = 0; r < n; r++) {
    const int device = devices ? devices[r] : r;
    if (device < 0 || device >= emu::device_count())
      return fail(ncclInvalidArgument, nullptr,
                  "ncclCommInitAll: no device " + std::to_string(device));
    joining.push_back({out + r, device, emu::self().process, 0, 0});
  }
  for (int r = 0; r < n; r++)
    for (int s = 0; s < r; s++)
      if (joining[s].device == joining[r].device)
        return fail(ncclInvalidUsage, nullptr, "ncclCommInitAll: a device is named twice");
  std::vector<Joining *> pointers;
  for (Joining &j : joining)
    pointers.push_back(&j);
  make_clique(pointers);
  return ncclSuccess;
}
API(ncclResult_t, ncclCommSplit,
    (ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *)) {
  if (!comm || !out || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
    return fail(ncclInvalidArgument, comm, "ncclCommSplit: bad color or NULL");
  *out = nullptr;
  auto mine = std::make_shared<Joining>(Joining{out, comm->device, comm->process, color, key});
  meet(
      "split " + std::to_string(comm->clique->id) + " " + std::to_string(comm->meetings++),
      (int)comm->clique->ranks.size(), comm->rank, mine,
      [](const std::vector<std::shared_ptr<void>> &all) {
        std::map<int, std::vector<Joining *>> colors;
        for (const auto &j : all)
          colors[static_cast<Joining *>(j.get())->color].push_back(static_cast<Joining *>(j.get()));
        colors.erase(NCCL_SPLIT_NOCOLOR);
        for (auto &[ignored, joining] : colors) {
          std::stable_sort(joining.begin(), joining.end(),
                           [](Joining *a, Joining *b) { return a->key < b->key; });
          make_clique(joining);
        }
      },
      "ncclCommSplit", EMU_SITE());
  return ncclSuccess;
}
API(ncclResult_t, ncclCommFinalize, (ncclComm_t comm)) {
  return comm ? ncclSuccess : ncclInvalidArgument;
}
/* What was issued may still run: the memory of a communicator is kept. */
API(ncclResult_t, ncclCommDestroy, (ncclComm_t comm)) {
  custom_ops.erase(comm);
  return ncclSuccess;
}
API(ncclResult_t, ncclCommAbort, (ncclComm_t comm)) {
  if (comm) {
    comm->aborted = true;
    emu::progress();
  }
  return ncclSuccess;
}
API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *error)) {
  if (!comm || !error)
    return ncclInvalidArgument;
  *error = ncclSuccess;
  return ncclSuccess;
}
API(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count)) {
  if (!comm || !count)
    return ncclInvalidArgument;
  *count = (int)comm->clique->ranks.size();
  return ncclSuccess;
}
API(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device)) {
  if (!comm || !device)
    return ncclInvalidArgument;
  *device = comm->device;
  return ncclSuccess;
}
API(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank)) {
  if (!comm || !rank)
    return ncclInvalidArgument;
  *rank = comm->rank;
  return ncclSuccess;
}

API(ncclResult_t, ncclMemAlloc, (void **out, size_t size)) {
  if (!out || !size)
    return fail(ncclInvalidArgument, nullptr, "ncclMemAlloc: NULL or no bytes");
  // Windows begin at multiples of 4096 within an allocation: align that too.
  *out = emu::memory_alloc(emu::current_device(), size, emu::MemoryKind::DEVICE, EMU_SITE(), 4096);
  return *out ? ncclSuccess : fail(ncclUnhandledCudaError, nullptr, "ncclMemAlloc: no memory left");
}
API(ncclResult_t, ncclMemFree, (void *p)) {
  return !p || emu::memory_free(p, EMU_SITE())
             ? ncclSuccess
             : fail(ncclInvalidArgument, nullptr, "ncclMemFree: not from ncclMemAlloc");
}
API(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void *p, size_t, void **handle)) {
  if (!comm || !handle)
    return ncclInvalidArgument;
  *handle = p;
  return ncclSuccess;
}
API(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *)) {
  return comm ? ncclSuccess : ncclInvalidArgument;
}

API(ncclResult_t, ncclRedOpCreatePreMulSum,
    (ncclRedOp_t * op, void *scalar, ncclDataType_t type, ncclScalarResidence_t residence,
     ncclComm_t comm)) {
  const size_t size = emu_nccl_type_size(type);
  if (!op || !scalar || !comm || !size)
    return fail(ncclInvalidArgument, comm, "ncclRedOpCreatePreMulSum: NULL or unknown type");
  CustomOp c{type, {}, nullptr, true};
  if (residence == ncclScalarHostImmediate)
    c.value.assign((unsigned char *)scalar, (unsigned char *)scalar + size);
  else
    c.device_value = scalar;
  custom_ops[comm].push_back(c);
  *op = (ncclRedOp_t)(ncclNumOps + (int)custom_ops[comm].size() - 1);
  return ncclSuccess;
}
API(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
  std::vector<CustomOp> &ops = custom_ops[comm];
  const size_t i = (size_t)op - ncclNumOps;
  if (op < ncclNumOps || i >= ops.size() || !ops[i].live)
    return fail(ncclInvalidArgument, comm, "ncclRedOpDestroy: no such operation");
  ops[i].live = false;
  return ncclSuccess;
}

API(ncclResult_t, ncclReduce,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
     ncclComm_t comm, cudaStream_t stream)) {
  return collective(Kind::REDUCE, send, recv, count, type, op, root, comm, stream, EMU_SITE());
}
API(ncclResult_t, ncclBcast,
    (void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
     cudaStream_t stream)) {
  return collective(Kind::BROADCAST, buffer, buffer, count, type, 0, root, comm, stream,
                    EMU_SITE());
}
API(ncclResult_t, ncclBroadcast,
    (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
     cudaStream_t stream)) {
  return collective(Kind::BROADCAST, send, recv, count, type, 0, root, comm, stream, EMU_SITE());
}
API(ncclResult_t, ncclAllReduce,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
     ncclComm_t comm, cudaStream_t stream)) {
  return collective(Kind::ALL_REDUCE, send, recv, count, type, op, -1, comm, stream, EMU_SITE());
}
API(ncclResult_t, ncclReduceScatter,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
     ncclComm_t comm, cudaStream_t stream)) {
  return collective(Kind::REDUCE_SCATTER, send, recv, count, type, op, -1, comm, stream,
                    EMU_SITE());
}
API(ncclResult_t, ncclAllGather,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
     cudaStream_t stream)) {
  return collective(Kind::ALL_GATHER, send, recv, count, type, 0, -1, comm, stream, EMU_SITE());
}
API(ncclResult_t, ncclAlltoAll,
    (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
     cudaStream_t stream)) {
  return collective(Kind::ALL_TO_ALL, send, recv, count, type, 0, -1, comm, stream, EMU_SITE());
}
API(ncclResult_t, ncclGather,
    (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
     cudaStream_t stream)) {
  return collective(Kind::GATHER, send, recv, count, type, 0, root, comm, stream, EMU_SITE());
}
API(ncclResult_t, ncclScatter,
    (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
     cudaStream_t stream)) {
  return collective(Kind::SCATTER, send, recv, count, type, 0, root, comm, stream, EMU_SITE());
}
API(ncclResult_t, ncclSend,
    (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
     cudaStream_t stream)) {
  return collective(Kind::SEND, send, nullptr, count, type, 0, peer, comm, stream, EMU_SITE());
}
API(ncclResult_t, ncclRecv,
    (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
     cudaStream_t stream)) {
  return collective(Kind::RECV, nullptr, recv, count, type, 0, peer, comm, stream, EMU_SITE());
}

API(ncclResult_t, ncclGroupStart, (void)) {
  group_start();
  return ncclSuccess;
}
API(ncclResult_t, ncclGroupEnd, (void)) { return group_end(); }
}
