// SPDX-License-Identifier: Apache-2.0
/* MPI: begin and end, communicators, types and operations. */
#include "mpi_internal.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

using namespace emu;

namespace {

struct State {
  bool initialised = false, finalised = false, returns_errors = false;
  int provided = MPI_THREAD_SINGLE;
  EmuMpiComm world, own;
  std::vector<std::unique_ptr<EmuMpiComm>> comms;
  std::vector<size_t> types;              // made by the program
  std::vector<MPI_User_function *> ops; // the same
};

State &state() {
  static const char key = 0;
  auto &p = process_local(&key);
  if (!p) {
    auto s = std::make_shared<State>();
    s->world.id = 0;
    s->world.rank = s->own.rank = 0;
    s->world.rank = self().process;
    for (int i = 0; i < process_count(); i++)
      s->world.members.push_back(i);
    s->own.id = ~(uint64_t)0 - (uint64_t)self().process;
    s->own.members = {self().process};
    p = s;
  }
  return *static_cast<State *>(p.get());
}

struct Split {
  const char *call;
  int color, key;
  uint64_t id;
  int rank;
  std::vector<int> members;
};

} // namespace

namespace emu {
namespace mpi {

int raise(int code, const char *call, const std::string &what, Site site) {
  if (code == MPI_SUCCESS || (state().returns_errors && code != MPI_ERR_OTHER))
    return code;
  finding("mpi-error", std::string(call) + ": " + what, site);
  fprintf(stderr, "%s: %s\n", call, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, code);
}

EmuMpiComm *comm_of(MPI_Comm comm, const char *call, Site site) {
  State &s = state();
  if (!s.initialised || s.finalised) {
    raise(MPI_ERR_OTHER, call, s.initialised ? "called after MPI_Finalize" : "called before MPI_Init", site);
    return nullptr;
  }
  if (comm == MPI_COMM_WORLD)
    return &s.world;
  if (comm == MPI_COMM_SELF)
    return &s.own;
  for (auto &c : s.comms)
    if (c.get() == comm)
      return comm;
  raise(MPI_ERR_COMM, call, "this is no communicator", site);
  return nullptr;
}

MPI_Comm split(EmuMpiComm *comm, const char *call, int color, int key, Site site) {
  static uint64_t next_id = 1;
  Split mine = {call, color, key, 0, 0, {}};
  const int n = (int)comm->members.size();
  rendezvous(
      "MPI communicator " + std::to_string(comm->id), n, comm->rank, &mine,
      [&](const std::vector<void *> &all) {
        std::vector<std::pair<std::pair<int, int>, int>> order; // color, key, rank
        for (int r = 0; r < n; r++) {
          auto *s = static_cast<Split *>(all[(size_t)r]);
          if (strcmp(s->call, call))
            finding("collective-order",
                    std::string(call) + " meets " + s->call + " of rank " + std::to_string(r), site);
          if (s->color != MPI_UNDEFINED)
            order.push_back({{s->color, s->key}, r});
        }
        std::sort(order.begin(), order.end());
        for (size_t a = 0; a < order.size();) {
          size_t b = a;
          std::vector<int> members;
          for (; b < order.size() && order[b].first.first == order[a].first.first; b++)
            members.push_back(comm->members[(size_t)order[b].second]);
          for (size_t i = a; i < b; i++) {
            auto *s = static_cast<Split *>(all[(size_t)order[i].second]);
            s->id = next_id;
            s->rank = (int)(i - a);
            s->members = members;
          }
          next_id++;
          a = b;
        }
      },
      {"waits in " + std::string(call) + " for other ranks", site});
  if (mine.members.empty())
    return MPI_COMM_NULL;
  State &s = state();
  s.comms.emplace_back(new EmuMpiComm{mine.id, mine.rank, mine.members});
  return s.comms.back().get();
}

/* ---- types and operations ------------------------------------------------------------------------------ */

size_t type_size(MPI_Datatype type) {
  static const size_t sizes[EMU_MPI_TYPES] = {
      0,
      1, 1, 1, 1, 1, sizeof(wchar_t),
      2, 2, 4, 4, sizeof(long), sizeof(long), 8, 8,
      4, 8, sizeof(long double),
      1, 2, 4, 8, 1, 2, 4, 8,
      1, 1, 8, 8, 8,
      8, 8, 16, 16};
  if (type > 0 && type < EMU_MPI_TYPES)
    return sizes[type];
  const size_t at = (size_t)type - EMU_MPI_TYPES;
  return type >= EMU_MPI_TYPES && at < state().types.size() ? state().types[at] : 0;
}

void reads(const void *buffer, size_t size, Site site) {
  if (size && memory_find(buffer))
    access_read(buffer, size, site);
}
void writes(void *buffer, size_t size, Site site) {
  if (size && memory_find(buffer))
    access_write(buffer, size, site);
}

template <class T> static bool arithmetic(MPI_Op op, T *in, T *out, int n) {
  for (int i = 0; i < n; i++)
    switch (op) {
    case MPI_MAX: out[i] = std::max(in[i], out[i]); break;
    case MPI_MIN: out[i] = std::min(in[i], out[i]); break;
    case MPI_SUM: out[i] = (T)(in[i] + out[i]); break;
    case MPI_PROD: out[i] = (T)(in[i] * out[i]); break;
    case MPI_LAND: out[i] = (T)(in[i] && out[i]); break;
    case MPI_LOR: out[i] = (T)(in[i] || out[i]); break;
    case MPI_LXOR: out[i] = (T)(!in[i] != !out[i]); break;
    case MPI_REPLACE: out[i] = in[i]; break;
    case MPI_NO_OP: break;
    default: return false;
    }
  return true;
}
template <class T> static bool integral(MPI_Op op, void *in, void *out, int n) {
  T *a = (T *)in, *b = (T *)out;
  if (op != MPI_BAND && op != MPI_BOR && op != MPI_BXOR)
    return arithmetic(op, a, b, n);
  for (int i = 0; i < n; i++)
    b[i] = (T)(op == MPI_BAND ? (a[i] & b[i]) : op == MPI_BOR ? (a[i] | b[i]) : (a[i] ^ b[i]));
  return true;
}
template <class T> static bool located(MPI_Op op, void *in, void *out, int n) {
  struct Pair {
    T value;
    int index;
  } *a = (Pair *)in, *b = (Pair *)out;
  if (op != MPI_MAXLOC && op != MPI_MINLOC)
    return false;
  for (int i = 0; i < n; i++) {
    const bool better = op == MPI_MAXLOC ? a[i].value > b[i].value : a[i].value < b[i].value;
    if (better || (a[i].value == b[i].value && a[i].index < b[i].index))
      b[i] = a[i];
  }
  return true;
}

bool combine(MPI_Op op, MPI_Datatype type, void *in, void *inout, int count) {
  if (op >= EMU_MPI_OPS) {
    const size_t at = (size_t)(op - EMU_MPI_OPS);
    if (at >= state().ops.size() || !state().ops[at])
      return false;
    state().ops[at](in, inout, &count, &type);
    return true;
  }
  switch (type) {
  case MPI_CHAR:
  case MPI_SIGNED_CHAR:
  case MPI_INT8_T: return integral<int8_t>(op, in, inout, count);
  case MPI_UNSIGNED_CHAR:
  case MPI_BYTE:
  case MPI_C_BOOL:
  case MPI_CXX_BOOL:
  case MPI_UINT8_T: return integral<uint8_t>(op, in, inout, count);
  case MPI_SHORT:
  case MPI_INT16_T: return integral<int16_t>(op, in, inout, count);
  case MPI_UNSIGNED_SHORT:
  case MPI_UINT16_T: return integral<uint16_t>(op, in, inout, count);
  case MPI_INT:
  case MPI_INT32_T: return integral<int32_t>(op, in, inout, count);
  case MPI_UNSIGNED:
  case MPI_UINT32_T: return integral<uint32_t>(op, in, inout, count);
  case MPI_LONG:
  case MPI_LONG_LONG_INT:
  case MPI_INT64_T:
  case MPI_AINT:
  case MPI_OFFSET:
  case MPI_COUNT: return integral<int64_t>(op, in, inout, count);
  case MPI_UNSIGNED_LONG:
  case MPI_UNSIGNED_LONG_LONG:
  case MPI_UINT64_T: return integral<uint64_t>(op, in, inout, count);
  case MPI_FLOAT: return arithmetic(op, (float *)in, (float *)inout, count);
  case MPI_DOUBLE: return arithmetic(op, (double *)in, (double *)inout, count);
  case MPI_LONG_DOUBLE: return arithmetic(op, (long double *)in, (long double *)inout, count);
  case MPI_2INT: return located<int>(op, in, inout, count);
  case MPI_FLOAT_INT: return located<float>(op, in, inout, count);
  case MPI_DOUBLE_INT: return located<double>(op, in, inout, count);
  case MPI_LONG_INT: return located<long>(op, in, inout, count);
  default: return false;
  }
}

} // namespace mpi
} // namespace emu

using namespace emu::mpi;

extern "C" {

/* ---- begin and end ------------------------------------------------------------------------------------- */

int MPI_Init_thread(int *, char ***, int required, int *provided) {
  State &s = state();
  if (s.initialised)
    return raise(MPI_ERR_OTHER, "MPI_Init", "called a second time", EMU_SITE());
  s.initialised = true;
  s.provided = required;
  if (provided)
    *provided = required;
  return MPI_SUCCESS;
}
int MPI_Init(int *argc, char ***argv) {
  int provided;
  return MPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
}
int MPI_Initialized(int *flag) {
  *flag = state().initialised;
  return MPI_SUCCESS;
}
int MPI_Finalize(void) {
  EmuMpiComm *c = comm_of(MPI_COMM_WORLD, "MPI_Finalize", EMU_SITE());
  if (!c)
    return MPI_ERR_OTHER;
  rendezvous("MPI_Finalize", (int)c->members.size(), c->rank, nullptr, nullptr,
             {"waits in MPI_Finalize for other ranks", EMU_SITE()});
  state().finalised = true;
  return MPI_SUCCESS;
}
int MPI_Finalized(int *flag) {
  *flag = state().finalised;
  return MPI_SUCCESS;
}
int MPI_Query_thread(int *provided) {
  *provided = state().provided;
  return MPI_SUCCESS;
}
int MPI_Is_thread_main(int *flag) {
  *flag = 1;
  return MPI_SUCCESS;
}
int MPI_Abort(MPI_Comm, int code) { abort_all(code & 0xff ? code & 0xff : 1); }
double MPI_Wtime(void) { return 1e-9 * (double)now_ns(); }
double MPI_Wtick(void) { return 1e-9; }
int MPI_Get_processor_name(char *name, int *length) {
  *length = snprintf(name, MPI_MAX_PROCESSOR_NAME, "emulated");
  return MPI_SUCCESS;
}
int MPI_Get_version(int *version, int *subversion) {
  *version = MPI_VERSION;
  *subversion = MPI_SUBVERSION;
  return MPI_SUCCESS;
}
int MPI_Get_library_version(char *version, int *length) {
  *length = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, "cucocc emulator");
  return MPI_SUCCESS;
}
int MPI_Error_string(int code, char *string, int *length) {
  static const char *const names[] = {"no error",      "bad buffer",       "bad count", "bad type",
                                      "bad tag",       "bad communicator", "bad rank",  "bad root",
                                      "bad operation", "bad argument",     "message truncated",
                                      "other error",   "error in status",  "bad request"};
  *length = snprintf(string, MPI_MAX_ERROR_STRING, "%s",
                     code >= 0 && code < MPI_ERR_LASTCODE ? names[code] : "unknown error");
  return MPI_SUCCESS;
}
int MPI_Error_class(int code, int *cls) {
  *cls = code;
  return MPI_SUCCESS;
}
int MPI_Comm_set_errhandler(MPI_Comm, MPI_Errhandler handler) {
  state().returns_errors = handler == MPI_ERRORS_RETURN;
  return MPI_SUCCESS;
}
int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function *, MPI_Errhandler *) {
  unsupported("MPI_Comm_create_errhandler()", EMU_SITE());
}
int MPI_Errhandler_free(MPI_Errhandler *handler) {
  *handler = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}
int MPI_Info_create(MPI_Info *info) {
  *info = 1;
  return MPI_SUCCESS;
}
int MPI_Info_set(MPI_Info, const char *, const char *) { return MPI_SUCCESS; }
int MPI_Info_free(MPI_Info *info) {
  *info = MPI_INFO_NULL;
  return MPI_SUCCESS;
}

/* ---- communicators -------------------------------------------------------------------------------------- */

int MPI_Comm_rank(MPI_Comm comm, int *rank) {
  EmuMpiComm *c = comm_of(comm, "MPI_Comm_rank", EMU_SITE());
  if (!c)
    return MPI_ERR_COMM;
  *rank = c->rank;
  return MPI_SUCCESS;
}
int MPI_Comm_size(MPI_Comm comm, int *size) {
  EmuMpiComm *c = comm_of(comm, "MPI_Comm_size", EMU_SITE());
  if (!c)
    return MPI_ERR_COMM;
  *size = (int)c->members.size();
  return MPI_SUCCESS;
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out) {
  EmuMpiComm *c = comm_of(comm, "MPI_Comm_split", EMU_SITE());
  if (!c)
    return MPI_ERR_COMM;
  *out = split(c, "MPI_Comm_split", color, key, EMU_SITE());
  return MPI_SUCCESS;
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info, MPI_Comm *out) {
  EmuMpiComm *c = comm_of(comm, "MPI_Comm_split_type", EMU_SITE());
  if (!c)
    return MPI_ERR_COMM;
  *out = split(c, "MPI_Comm_split_type", type == MPI_UNDEFINED ? MPI_UNDEFINED : 0, key, EMU_SITE());
  return MPI_SUCCESS;
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out) {
  EmuMpiComm *c = comm_of(comm, "MPI_Comm_dup", EMU_SITE());
  if (!c)
    return MPI_ERR_COMM;
  *out = split(c, "MPI_Comm_dup", 0, c->rank, EMU_SITE());
  return MPI_SUCCESS;
}
int MPI_Comm_free(MPI_Comm *comm) {
  EmuMpiComm *c = comm_of(*comm, "MPI_Comm_free", EMU_SITE());
  if (!c)
    return MPI_ERR_COMM;
  if (c->id == 0 || *comm == MPI_COMM_SELF)
    return raise(MPI_ERR_COMM, "MPI_Comm_free", "this communicator cannot be freed", EMU_SITE());
  auto &all = state().comms;
  all.erase(std::find_if(all.begin(), all.end(), [c](auto &p) { return p.get() == c; }));
  *comm = MPI_COMM_NULL;
  return MPI_SUCCESS;
}
int MPI_Comm_compare(MPI_Comm a, MPI_Comm b, int *result) {
  EmuMpiComm *x = comm_of(a, "MPI_Comm_compare", EMU_SITE());
  EmuMpiComm *y = comm_of(b, "MPI_Comm_compare", EMU_SITE());
  if (!x || !y)
    return MPI_ERR_COMM;
  std::vector<int> s = x->members, t = y->members;
  std::sort(s.begin(), s.end());
  std::sort(t.begin(), t.end());
  *result = x->id == y->id               ? MPI_IDENT
            : x->members == y->members ? MPI_CONGRUENT
            : s == t                     ? MPI_SIMILAR
                                         : MPI_UNEQUAL;
  return MPI_SUCCESS;
}
int MPI_Comm_set_name(MPI_Comm, const char *) { return MPI_SUCCESS; }

/* ---- types and operations ------------------------------------------------------------------------------- */

int MPI_Type_size(MPI_Datatype type, int *size) {
  *size = (int)type_size(type);
  return *size ? MPI_SUCCESS : raise(MPI_ERR_TYPE, "MPI_Type_size", "this is no type", EMU_SITE());
}
int MPI_Type_contiguous(int count, MPI_Datatype old, MPI_Datatype *out) {
  if (count < 0 || !type_size(old))
    return raise(MPI_ERR_TYPE, "MPI_Type_contiguous", "bad type or count", EMU_SITE());
  state().types.push_back((size_t)count * type_size(old));
  *out = EMU_MPI_TYPES + (int)state().types.size() - 1;
  return MPI_SUCCESS;
}
int MPI_Type_commit(MPI_Datatype *) { return MPI_SUCCESS; }
int MPI_Type_free(MPI_Datatype *type) {
  *type = MPI_DATATYPE_NULL;
  return MPI_SUCCESS;
}
int MPI_Op_create(MPI_User_function *f, int, MPI_Op *op) {
  state().ops.push_back(f);
  *op = EMU_MPI_OPS + (int)state().ops.size() - 1;
  return MPI_SUCCESS;
}
int MPI_Op_free(MPI_Op *op) {
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

} // extern "C"
