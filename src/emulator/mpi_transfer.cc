// SPDX-License-Identifier: Apache-2.0
/* MPI's messages. A standard send of up to EAGER bytes is buffered, a longer one waits for its receiver, as
 * MPI libraries do; messages between two ranks keep their order. */
#include "mpi_internal.h"

#include <cstring>
#include <deque>
#include <map>

using namespace emu;
using namespace emu::mpi;

struct EmuMpiRequest {
  bool receive = false, done = false;
  char *buffer = nullptr; // of a receive
  size_t capacity = 0;
  int source = 0, tag = 0; // asked for; then of the message
  uint64_t comm = 0;
  size_t bytes = 0;
  int error = MPI_SUCCESS;
  Clock clock; // of the other side
  std::string what;
  Site site = 0;
};

namespace {

constexpr size_t EAGER = 65536;

struct Message {
  int source, tag;
  std::vector<char> data;
  Clock clock;
  EmuMpiRequest *sender; // waits for the receiver; NULL when buffered
};

/* Of a process in a communicator. */
struct Mailbox {
  std::deque<Message> messages;
  std::deque<EmuMpiRequest *> receives;
};

std::map<std::pair<uint64_t, int>, Mailbox> boxes; // by communicator and rank in it

bool matches(const EmuMpiRequest &r, int source, int tag) {
  return (r.source == MPI_ANY_SOURCE || r.source == source) && (r.tag == MPI_ANY_TAG || r.tag == tag);
}

/* Hands the message over. The receiver's writes are declared when it completes the request. */
void deliver(EmuMpiRequest *r, Message &m) {
  r->bytes = m.data.size();
  r->source = m.source;
  r->tag = m.tag;
  if (m.data.size() > r->capacity) {
    r->error = MPI_ERR_TRUNCATE;
    r->bytes = r->capacity;
  }
  if (r->bytes)
    memcpy(r->buffer, m.data.data(), r->bytes);
  r->clock = m.clock;
  r->done = true;
  if (m.sender)
    m.sender->done = true;
  progress();
}

EmuMpiRequest *start_send(const char *call, const void *buffer, int n, MPI_Datatype type, int dest, int tag,
                          MPI_Comm comm, bool synchronous, Site site, int *error) {
  EmuMpiComm *c = comm_of(comm, call, site);
  *error = MPI_SUCCESS;
  if (!c)
    *error = MPI_ERR_COMM;
  else if (dest != MPI_PROC_NULL && (dest < 0 || (size_t)dest >= c->members.size()))
    *error = raise(MPI_ERR_RANK, call, "there is no rank " + std::to_string(dest), site);
  else if (!type_size(type))
    *error = raise(MPI_ERR_TYPE, call, "this is no type", site);
  else if (n < 0)
    *error = raise(MPI_ERR_COUNT, call, "negative count", site);
  if (*error)
    return nullptr;
  auto *r = new EmuMpiRequest;
  const size_t bytes = (size_t)n * type_size(type);
  r->what = std::string("waits in ") + call + " for rank " + std::to_string(dest) + " to receive";
  r->site = site;
  r->done = true;
  if (dest == MPI_PROC_NULL)
    return r;
  reads(buffer, bytes, site);
  maybe_switch();
  const char *from = (const char *)buffer;
  Message m = {c->rank, tag, std::vector<char>(from, from + bytes), release(), nullptr};
  if (synchronous || bytes > EAGER) {
    r->done = false;
    m.sender = r;
  }
  Mailbox &box = boxes[{c->id, dest}];
  for (auto it = box.receives.begin(); it != box.receives.end(); ++it)
    if (matches(**it, m.source, m.tag)) {
      EmuMpiRequest *receiver = *it;
      box.receives.erase(it);
      deliver(receiver, m);
      return r;
    }
  box.messages.push_back(std::move(m));
  progress();
  return r;
}

EmuMpiRequest *start_receive(const char *call, void *buffer, int n, MPI_Datatype type, int source, int tag,
                             MPI_Comm comm, Site site, int *error) {
  EmuMpiComm *c = comm_of(comm, call, site);
  *error = MPI_SUCCESS;
  if (!c)
    *error = MPI_ERR_COMM;
  else if (source != MPI_PROC_NULL && source != MPI_ANY_SOURCE &&
           (source < 0 || (size_t)source >= c->members.size()))
    *error = raise(MPI_ERR_RANK, call, "there is no rank " + std::to_string(source), site);
  else if (!type_size(type))
    *error = raise(MPI_ERR_TYPE, call, "this is no type", site);
  else if (n < 0)
    *error = raise(MPI_ERR_COUNT, call, "negative count", site);
  if (*error)
    return nullptr;
  auto *r = new EmuMpiRequest;
  r->receive = true;
  r->buffer = (char *)buffer;
  r->capacity = (size_t)n * type_size(type);
  r->source = source;
  r->tag = tag;
  r->comm = c->id;
  r->what = std::string("waits in ") + call + " for a message from " +
            (source == MPI_ANY_SOURCE ? std::string("any rank") : "rank " + std::to_string(source)) +
            (tag == MPI_ANY_TAG ? std::string() : " with tag " + std::to_string(tag));
  r->site = site;
  if (source == MPI_PROC_NULL) {
    r->tag = MPI_ANY_TAG;
    r->done = true;
    return r;
  }
  Mailbox &box = boxes[{c->id, c->rank}];
  for (auto it = box.messages.begin(); it != box.messages.end(); ++it)
    if (matches(*r, it->source, it->tag)) {
      deliver(r, *it);
      box.messages.erase(it);
      return r;
    }
  box.receives.push_back(r);
  return r;
}

/* Ends a request that is done. */
int complete(MPI_Request *request, MPI_Status *status, const char *call) {
  EmuMpiRequest *r = *request;
  acquire(r->clock);
  if (r->receive && r->bytes)
    writes(r->buffer, r->bytes, r->site);
  if (status) {
    status->MPI_SOURCE = r->source;
    status->MPI_TAG = r->tag;
    status->MPI_ERROR = r->error;
    status->emu_bytes = r->bytes;
  }
  const int error = r->error;
  const Site site = r->site;
  delete r;
  *request = MPI_REQUEST_NULL;
  return error ? raise(error, call, "the message is longer than the buffer", site) : MPI_SUCCESS;
}

void empty(MPI_Status *status) {
  if (status)
    *status = MPI_Status{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS, 0};
}

int wait_for(MPI_Request *request, MPI_Status *status, const char *call) {
  EmuMpiRequest *r = *request;
  if (!r) {
    empty(status);
    return MPI_SUCCESS;
  }
  if (!r->done)
    wait_until([r] { return r->done; }, {r->what, r->site});
  return complete(request, status, call);
}

int send(const char *call, const void *buffer, int n, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
         bool synchronous, Site site) {
  int error;
  MPI_Request r = start_send(call, buffer, n, type, dest, tag, comm, synchronous, site, &error);
  return error ? error : wait_for(&r, nullptr, call);
}

} // namespace

extern "C" {

int MPI_Send(const void *buffer, int n, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  return send("MPI_Send", buffer, n, type, dest, tag, comm, false, EMU_SITE());
}
int MPI_Ssend(const void *buffer, int n, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  return send("MPI_Ssend", buffer, n, type, dest, tag, comm, true, EMU_SITE());
}
int MPI_Rsend(const void *buffer, int n, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  return send("MPI_Rsend", buffer, n, type, dest, tag, comm, false, EMU_SITE());
}
int MPI_Isend(const void *buffer, int n, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request) {
  int error;
  *request = start_send("MPI_Isend", buffer, n, type, dest, tag, comm, false, EMU_SITE(), &error);
  return error;
}
int MPI_Recv(void *buffer, int n, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status) {
  int error;
  MPI_Request r = start_receive("MPI_Recv", buffer, n, type, source, tag, comm, EMU_SITE(), &error);
  return error ? error : wait_for(&r, status, "MPI_Recv");
}
int MPI_Irecv(void *buffer, int n, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request) {
  int error;
  *request = start_receive("MPI_Irecv", buffer, n, type, source, tag, comm, EMU_SITE(), &error);
  return error;
}
int MPI_Sendrecv(const void *sent, int n, MPI_Datatype st, int dest, int stag, void *recv, int m,
                 MPI_Datatype rt, int source, int rtag, MPI_Comm comm, MPI_Status *status) {
  int error;
  MPI_Request in = start_receive("MPI_Sendrecv", recv, m, rt, source, rtag, comm, EMU_SITE(), &error);
  if (error)
    return error;
  MPI_Request out = start_send("MPI_Sendrecv", sent, n, st, dest, stag, comm, false, EMU_SITE(), &error);
  if (error)
    return error;
  error = wait_for(&in, status, "MPI_Sendrecv");
  const int other = wait_for(&out, nullptr, "MPI_Sendrecv");
  return error ? error : other;
}
int MPI_Sendrecv_replace(void *buffer, int n, MPI_Datatype type, int dest, int stag, int source, int rtag,
                         MPI_Comm comm, MPI_Status *status) {
  const char *from = (const char *)buffer;
  std::vector<char> copy(from, from + (n > 0 ? (size_t)n * type_size(type) : 0));
  return MPI_Sendrecv(copy.data(), n, type, dest, stag, buffer, n, type, source, rtag, comm, status);
}

static const Message *look(EmuMpiComm *c, int source, int tag) {
  EmuMpiRequest asked;
  asked.source = source;
  asked.tag = tag;
  for (auto &m : boxes[{c->id, c->rank}].messages)
    if (matches(asked, m.source, m.tag))
      return &m;
  return nullptr;
}
int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
  EmuMpiComm *c = comm_of(comm, "MPI_Iprobe", EMU_SITE());
  if (!c)
    return MPI_ERR_COMM;
  poll(EMU_SITE(), "waits for a message");
  const Message *m = look(c, source, tag);
  *flag = m != nullptr;
  if (m && status)
    *status = MPI_Status{m->source, m->tag, MPI_SUCCESS, m->data.size()};
  return MPI_SUCCESS;
}
int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status) {
  EmuMpiComm *c = comm_of(comm, "MPI_Probe", EMU_SITE());
  if (!c)
    return MPI_ERR_COMM;
  wait_until([=] { return look(c, source, tag) != nullptr; }, {"waits in MPI_Probe for a message", EMU_SITE()});
  const Message *m = look(c, source, tag);
  if (status)
    *status = MPI_Status{m->source, m->tag, MPI_SUCCESS, m->data.size()};
  return MPI_SUCCESS;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) { return wait_for(request, status, "MPI_Wait"); }
int MPI_Waitall(int n, MPI_Request *requests, MPI_Status *statuses) {
  int error = MPI_SUCCESS;
  for (int i = 0; i < n; i++)
    if (wait_for(&requests[i], statuses ? &statuses[i] : nullptr, "MPI_Waitall") != MPI_SUCCESS)
      error = MPI_ERR_IN_STATUS;
  return error;
}
int MPI_Waitany(int n, MPI_Request *requests, int *index, MPI_Status *status) {
  std::vector<MPI_Request> open(requests, requests + n);
  auto ready = [open] {
    bool any = false;
    for (MPI_Request r : open) {
      any |= r != nullptr;
      if (r && r->done)
        return true;
    }
    return !any;
  };
  if (!ready())
    wait_until(ready, {"waits in MPI_Waitany for a request", EMU_SITE()});
  for (int i = 0; i < n; i++)
    if (requests[i] && requests[i]->done) {
      *index = i;
      return complete(&requests[i], status, "MPI_Waitany");
    }
  *index = MPI_UNDEFINED;
  empty(status);
  return MPI_SUCCESS;
}
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
  if (*request && !(*request)->done)
    poll((*request)->site, (*request)->what.c_str());
  *flag = !*request || (*request)->done;
  if (!*request)
    empty(status);
  return *flag && *request ? complete(request, status, "MPI_Test") : MPI_SUCCESS;
}
int MPI_Testall(int n, MPI_Request *requests, int *flag, MPI_Status *statuses) {
  *flag = 1;
  for (int i = 0; i < n; i++)
    if (requests[i] && !requests[i]->done) {
      *flag = 0;
      poll(requests[i]->site, requests[i]->what.c_str());
      return MPI_SUCCESS;
    }
  return MPI_Waitall(n, requests, statuses);
}
int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count) {
  const size_t size = type_size(type);
  *count = !size || status->emu_bytes % size ? MPI_UNDEFINED : (int)(status->emu_bytes / size);
  return MPI_SUCCESS;
}

} // extern "C"
