// SPDX-License-Identifier: Apache-2.0
/* What the files of the emulated NCCL share: communicators and what is issued to them. All ranks of
 * all processes live in one address space, so a communicator's ranks share one Clique. */
#ifndef CUCOCC_EMULATOR_NCCL_INTERNAL_H
#define CUCOCC_EMULATOR_NCCL_INTERNAL_H

#include "engine.h"
#include "include/nccl.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace emu_nccl {

enum class Kind {
  ALL_REDUCE,
  BROADCAST,
  REDUCE,
  ALL_GATHER,
  REDUCE_SCATTER,
  ALL_TO_ALL,
  GATHER,
  SCATTER,
  SEND,
  RECV
};

/* One rank's part in a collective, or one half of a transfer between two. */
struct Part {
  Kind kind;
  ncclComm *comm;
  const void *send;
  void *recv;
  size_t count; // elements, as the call counts them
  int type;     // ncclDataType_t
  int op;       // ncclRedOp_t; custom ones resolved to SCALAR
  int root;     // the peer of a transfer; -1 where there is none
  std::vector<unsigned char> scalar;
  const void *device_scalar = nullptr; // read when the operation starts
  emu::Stream *stream;
  emu::Site site;
  emu::Operation operation{};
  emu::Clock clock; // what this rank's operation published when it started
  bool done = false;
};
using PartRef = std::shared_ptr<Part>;

struct Clique {
  uint64_t id;
  std::vector<ncclComm *> ranks;
  std::map<uint64_t, std::vector<PartRef>> collectives; // by each rank's own count of them
  std::map<std::pair<int, int>, std::pair<std::deque<PartRef>, std::deque<PartRef>>>
      transfers; // (from, to) -> sends and receives that have not met
};

/* Enqueues PARTS as one operation per stream: what a group, or a call outside of any, issues. */
void issue(const std::vector<PartRef> &parts);
/* The call's name, as ncclAllReduce. */
const char *kind_name(Kind kind);

} // namespace emu_nccl

/* One rank of a communicator. */
struct ncclComm {
  std::shared_ptr<emu_nccl::Clique> clique;
  int rank, device, process;
  uint64_t started = 0;  // collectives whose operation has started
  uint64_t meetings = 0; // of all ranks, for splits, windows and device communicators
  bool aborted = false;
  std::string last_error;
};

#endif
