// SPDX-License-Identifier: Apache-2.0
/* NCCL on the emulator's real scheduler, clocks and shadow memory: host functions, and kernels that
 * call the device interface, right ones and ones with a planted fault, each in several schedules.
 * Accesses of kernels are declared by ld() and st(). Prints TAP. */
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include "emulator/engine.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

extern "C" const char *__asan_default_options() {
  return "detect_leaks=0:detect_stack_use_after_return=0";
}

/* ---- findings, kept here ----------------------------------------------------------------------
 */

static std::set<std::string> found;
static std::string said;
namespace emu {
void finding(const char *kind, const std::string &message, Site, Site, const std::string &) {
  found.insert(kind);
  said += std::string("# ") + kind + ": " + message + "\n";
}
std::string self_text() { return "rank " + std::to_string(self().process); }
std::string who_text(const Identity &who) { return "device " + std::to_string(who.device); }
std::string site_text(Site) { return "somewhere"; }
void unsupported(const std::string &what, Site) {
  printf("Bail out! %s\n", what.c_str());
  exit(1);
}
void atomic_forget(uintptr_t) {}
} // namespace emu

/* ---- the program's side -----------------------------------------------------------------------
 */

static int count, failed;
static void ok(bool good, const std::string &name) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++count, name.c_str());
  if (!good)
    fputs(said.c_str(), stdout);
  failed += !good;
}

#define HERE ((emu::Site)__LINE__)
static void st_at(int *p, int v, emu::Site site) {
  if (emu::access_write(p, sizeof v, site))
    *p = v;
}
static int ld_at(const int *p, emu::Site site) {
  return emu::access_read(p, sizeof *p, site) ? *p : -1;
}
#define st(p, v) st_at(p, v, HERE)
#define ld(p) ld_at(p, HERE)

enum { RANKS = 3, THREADS = 32, WORDS = 4 * THREADS };

struct World {
  int n;
  ncclComm_t comm[8] = {};
  cudaStream_t stream[8] = {};
  int *memory[8] = {};
  ncclWindow_t win[8] = {};
  ncclDevComm dc[8];
  bool good = true;

  void check(bool b) { good &= b; }
  explicit World(int ranks = RANKS, bool asymmetric = false) : n(ranks) {
    check(ncclCommInitAll(comm, n, nullptr) == ncclSuccess);
    for (int r = 0; r < n; r++) {
      cudaSetDevice(r);
      check(cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking) == cudaSuccess);
      check(ncclMemAlloc((void **)&memory[r], WORDS * 4) == ncclSuccess);
      check(cudaMemset(memory[r], 0, WORDS * 4) == cudaSuccess);
      cudaDeviceSynchronize();
    }
    ncclGroupStart();
    for (int r = 0; r < n; r++)
      check(ncclCommWindowRegister(comm[r], memory[r], WORDS * (asymmetric && r ? 2 : 4), &win[r],
                                   0) == ncclSuccess);
    check(ncclGroupEnd() == ncclSuccess);
    ncclDevCommRequirements q;
    memset(&q, 0, sizeof q);
    q.lsaBarrierCount = 2;
    q.railGinBarrierCount = 2;
    q.ginSignalCount = 2;
    q.ginCounterCount = 2;
    q.ginForceEnable = true;
    ncclGroupStart();
    for (int r = 0; r < n; r++)
      check(ncclDevCommCreate(comm[r], &q, &dc[r]) == ncclSuccess);
    check(ncclGroupEnd() == ncclSuccess);
  }
  template <class K> void launch(unsigned blocks, K kernel) {
    for (int r = 0; r < n; r++) {
      cudaSetDevice(r);
      emu::cuda::launch(emu::cuda::Config(blocks, THREADS, 0, stream[r]), kernel, dc[r], win[r]);
    }
  }
  void sync() {
    for (int r = 0; r < n; r++) {
      cudaSetDevice(r);
      cudaStreamSynchronize(stream[r]);
    }
  }
};

using Main = std::function<bool()>;

// Runs MAIN in four schedules; it is right when MAIN returned true and EXPECT (kinds separated by
// |) says what was found: nothing else, and in at least one schedule that.
static void run(const char *name, const std::string &expect, Main main, int processes = 1) {
  bool result = true, seen = expect.empty();
  said.clear();
  for (unsigned schedule = 0; schedule < 4; schedule++) {
    found.clear();
    emu::RunOptions o;
    o.processes = processes;
    o.devices = 8;
    o.schedule = schedule;
    o.seed = 11 + schedule;
    const int status = emu::run_processes(o, [&](int) { return main() ? 0 : 3; });
    if (status == 3 || (status && expect.empty())) {
      said +=
          "# status " + std::to_string(status) + " in schedule " + std::to_string(schedule) + "\n";
      result = false;
    }
    for (const std::string &kind : found) {
      const bool wanted = ("|" + expect + "|").find("|" + kind + "|") != std::string::npos;
      seen |= wanted;
      result &= wanted;
    }
  }
  ok(result && seen, std::string(name) + (expect.empty() ? "" : ": " + expect));
}

constexpr auto RELAXED = cuda::memory_order_relaxed;
constexpr auto ACQUIRE = cuda::memory_order_acquire;
constexpr auto RELEASE = cuda::memory_order_release;
constexpr auto ACQ_REL = cuda::memory_order_acq_rel;
using Bar = ncclLsaBarrierSession<ncclCoopCta>;

static int next(const ncclDevComm &dc) { return (dc.rank + 1) % dc.nRanks; }
static int before(const ncclDevComm &dc) { return (dc.rank + dc.nRanks - 1) % dc.nRanks; }
static void world_barrier(ncclGin &gin, uint32_t index) {
  ncclCoopCta cta;
  ncclGinBarrierSession<ncclCoopCta> bar{cta, gin, ncclTeamWorld(gin.comm), gin.comm.railGinBarrier,
                                         index};
  bar.sync(cta, ACQ_REL, ncclGinFenceLevel::Relaxed);
}

/* ---- host functions ---------------------------------------------------------------------------
 */

static bool host_collectives() {
  World w;
  for (int r = 0; r < w.n; r++) {
    int v[4] = {r + 1, 10 * (r + 1), 3, 4};
    cudaSetDevice(r);
    cudaMemcpy(w.memory[r], v, sizeof v, cudaMemcpyHostToDevice);
  }
  ncclGroupStart();
  for (int r = 0; r < w.n; r++)
    w.check(ncclAllReduce(w.memory[r], w.memory[r] + 8, 2, ncclInt, ncclSum, w.comm[r],
                          w.stream[r]) == ncclSuccess);
  w.check(ncclGroupEnd() == ncclSuccess);
  ncclGroupStart();
  for (int r = 0; r < w.n; r++) {
    ncclSend(w.memory[r], 1, ncclInt, (r + 1) % w.n, w.comm[r], w.stream[r]);
    ncclRecv(w.memory[r] + 16, 1, ncclInt, (r + w.n - 1) % w.n, w.comm[r], w.stream[r]);
  }
  ncclGroupEnd();
  w.sync();
  for (int r = 0; r < w.n; r++) {
    int v[17];
    cudaSetDevice(r);
    cudaMemcpy(v, w.memory[r], sizeof v, cudaMemcpyDeviceToHost);
    w.check(v[8] == 6 && v[9] == 60 && v[16] == (r + w.n - 1) % w.n + 1);
  }
  return w.good;
}

static ncclUniqueId shared_id;
static bool ranks_as_processes() {
  const int me = emu::self().process, n = emu::process_count();
  bool good = true;
  emu::rendezvous("id", n, me, nullptr,
                  [](const std::vector<void *> &) { ncclGetUniqueId(&shared_id); },
                  {"waits for the identifier"});
  cudaSetDevice(me);
  ncclComm_t comm = nullptr, half = nullptr;
  good &= ncclCommInitRank(&comm, n, shared_id, me) == ncclSuccess && comm;
  int c = 0, r = 0;
  good &= ncclCommCount(comm, &c) == ncclSuccess && c == n;
  good &= ncclCommUserRank(comm, &r) == ncclSuccess && r == me;
  good &= ncclCommSplit(comm, me % 2, -me, &half, nullptr) == ncclSuccess && half;
  good &= ncclCommCount(half, &c) == ncclSuccess && c == n / 2;
  good &= ncclCommUserRank(half, &r) == ncclSuccess && r == (n - 1 - me) / 2;
  float *p;
  cudaMalloc(&p, 64);
  const float mine = (float)(me + 1);
  cudaMemcpy(p, &mine, 4, cudaMemcpyHostToDevice);
  const float two = 2;
  ncclRedOp_t op;
  good &= ncclRedOpCreatePreMulSum(&op, (void *)&two, ncclFloat, ncclScalarHostImmediate, half) ==
          ncclSuccess;
  good &= ncclAllReduce(p, p + 1, 1, ncclFloat, op, half, nullptr) == ncclSuccess;
  good &= ncclRedOpDestroy(op, half) == ncclSuccess;
  good &= ncclAllGather(p, p + 2, 1, ncclFloat, comm, nullptr) == ncclSuccess;
  cudaDeviceSynchronize();
  float v[6];
  cudaMemcpy(v, p, sizeof v, cudaMemcpyDeviceToHost);
  good &= v[1] == (me % 2 ? 12 : 8);
  for (int i = 0; i < n; i++)
    good &= v[2 + i] == i + 1;
  good &= ncclBroadcast(p, p, 1, ncclFloat, 9, comm, nullptr) == ncclInvalidArgument;
  good &= *ncclGetLastError(comm) != 0;
  return good;
}

int main() {
  run("collectives and transfers of one thread", "", host_collectives);
  run("ranks as processes, split, custom operation", "", ranks_as_processes, 4);
  run("asymmetric window", "asymmetric-window", [] {
    World w(2, true);
    return true;
  });
  run("order of collectives", "collective-order", [] {
    World w(2);
    ncclGroupStart();
    ncclAllReduce(w.memory[0], w.memory[0] + 8, 2, ncclInt, ncclSum, w.comm[0], w.stream[0]);
    ncclBroadcast(w.memory[1], w.memory[1] + 8, 2, ncclInt, 0, w.comm[1], w.stream[1]);
    ncclGroupEnd();
    w.sync();
    return true;
  });
  run("a rank that does not call", "deadlock", [] {
    World w(2);
    ncclAllReduce(w.memory[0], w.memory[0] + 8, 2, ncclInt, ncclSum, w.comm[0], w.stream[0]);
    w.sync();
    return true;
  });

  /* ---- load and store, barriers ----------------------------------------------------------------
   */

  auto push = [](cuda::memory_order entry, cuda::memory_order exit, bool leave_out) {
    return [=] {
      World w;
      w.launch(1, [=](ncclDevComm dc, ncclWindow_t a) {
        ncclCoopCta cta;
        Bar bar{cta, dc, ncclTeamTagLsa(), 0};
        for (int turn = 0; turn < 3; turn++) {
          bar.sync(cta, entry);
          st((int *)ncclGetLsaPointer(a, 4 * threadIdx.x, next(dc)), 100 * turn + 10 * dc.rank + 1);
          if (!leave_out)
            bar.sync(cta, exit);
          const int got = ld((int *)ncclGetLocalPointer(a, 4 * threadIdx.x));
          if (!leave_out && exit == ACQ_REL && entry == ACQ_REL &&
              got != 100 * turn + 10 * before(dc) + 1)
            emu::finding("wrong", std::to_string(got), 0);
        }
      });
      w.sync();
      return w.good;
    };
  };
  run("LSA: push between two barriers", "", push(ACQ_REL, ACQ_REL, false));
  run("LSA: no barrier behind the push", "race", push(ACQ_REL, ACQ_REL, true));
  run("LSA: relaxed barrier behind the push", "race", push(ACQ_REL, RELAXED, false));
  run("LSA: acquire alone behind the push", "race", push(ACQ_REL, ACQUIRE, false));
  run("LSA: release alone behind the push", "race", push(ACQ_REL, RELEASE, false));
  run("LSA: relaxed barrier before the push", "race", push(RELAXED, ACQ_REL, false));

  auto index = [](unsigned blocks, bool by_block) {
    return [=] {
      World w(2);
      w.launch(blocks, [=](ncclDevComm dc, ncclWindow_t) {
        Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), by_block ? blockIdx.x : 0};
        bar.sync(ncclCoopCta(), ACQ_REL);
      });
      w.sync();
      return w.good;
    };
  };
  run("LSA: an index for each block", "", index(2, true));
  run("LSA: two blocks on one index", "barrier-index", index(2, false));
  run("LSA: an index too large", "barrier-index", index(3, true));
  run("LSA: launches one after the other", "", [] {
    World w(2);
    for (int i = 0; i < 3; i++)
      w.launch(1, [](ncclDevComm dc, ncclWindow_t) {
        Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), 0};
        bar.sync(ncclCoopCta(), ACQ_REL);
      });
    w.sync();
    return w.good;
  });
  run("LSA: a rank that skips", "deadlock", [] {
    World w(2);
    w.launch(1, [](ncclDevComm dc, ncclWindow_t) {
      Bar bar{ncclCoopCta(), dc, ncclTeamTagLsa(), 0};
      if (dc.rank)
        bar.sync(ncclCoopCta(), ACQ_REL);
    });
    w.sync();
    return w.good;
  });
  run("LSA: a peer beyond the team", "out-of-window", [] {
    World w(2);
    w.launch(1, [](ncclDevComm dc, ncclWindow_t a) {
      st((int *)ncclGetLsaPointer(a, 4 * threadIdx.x, dc.lsaRank + 1 + (dc.lsaRank ? 0 : 1)), 1);
    });
    w.sync();
    return w.good;
  });

  /* ---- one-sided transfers ---------------------------------------------------------------------
   */

  enum Fault {
    NONE,
    NO_WAIT,
    RELAXED_WAIT,
    FLUSH_FOR_WAIT,
    SIGNAL_FIRST,
    OTHER_CONTEXT,
    OVERWRITTEN,
    OVERWRITTEN_AFTER_COUNTER,
    BEYOND,
    UNSYNCED_SOURCE,
    WRONG_SIGNAL,
    NO_SUCH_SIGNAL,
    REUSED
  };
  auto put = [](Fault fault) {
    return [=] {
      World w;
      w.launch(1, [=](ncclDevComm dc, ncclWindow_t a) {
        ncclCoopCta cta;
        ncclGin gin{dc, 0}, other{dc, 1};
        const ncclTeam world = ncclTeamWorld(dc);
        int *data = (int *)ncclGetLocalPointer(a, 0);
        ncclGin &signals = fault == OTHER_CONTEXT ? other : gin;
        const uint64_t base = signals.readSignal(0), used = gin.readCounter(0);
        world_barrier(gin, 0);
        const int turns = fault == REUSED ? 3 : 1;
        st(data + threadIdx.x, dc.rank + 1);
        if (fault != UNSYNCED_SOURCE)
          cta.sync();
        for (int turn = 1; turn <= turns; turn++) {
          if (threadIdx.x == 0) {
            const ncclGin_SignalInc inc{
                fault == NO_SUCH_SIGNAL ? 7u : (uint32_t)(fault == WRONG_SIGNAL)};
            const size_t at = fault == BEYOND ? WORDS * 4 - 64 : 4 * THREADS;
            if (fault == SIGNAL_FIRST)
              gin.signal(world, next(dc), inc);
            if (fault == SIGNAL_FIRST || fault == OTHER_CONTEXT)
              gin.put(world, next(dc), a, at, a, 0, 4 * THREADS);
            else
              gin.put(world, next(dc), a, at, a, 0, 4 * THREADS, inc, ncclGin_CounterInc{0});
            if (fault == OTHER_CONTEXT)
              other.signal(world, next(dc), inc);
            if (fault == OVERWRITTEN_AFTER_COUNTER)
              gin.waitCounter(ncclCoopThread(), 0, used + 1);
            if (fault == OVERWRITTEN || fault == OVERWRITTEN_AFTER_COUNTER)
              st(data, 99);
          }
          if (fault == FLUSH_FOR_WAIT) {
            gin.flush(cta);
            Bar bar{cta, dc, ncclTeamTagLsa(), 0};
            bar.sync(cta, ACQ_REL);
          } else if (fault != NO_WAIT)
            signals.waitSignal(cta, 0, base + turn, 64, fault == RELAXED_WAIT ? RELAXED : ACQUIRE);
          const int got = ld(data + THREADS + threadIdx.x);
          if (fault == NONE && got != before(dc) + 1)
            emu::finding("wrong", std::to_string(got), 0);
          gin.flush(cta);
        }
      });
      w.sync();
      return w.good;
    };
  };
  run("GIN: put, signal, wait", "", put(NONE));
  run("GIN: no wait", "race", put(NO_WAIT));
  run("GIN: relaxed wait", "race", put(RELAXED_WAIT));
  run("GIN: a flush is no delivery", "race", put(FLUSH_FOR_WAIT));
  run("GIN: the signal before the put", "race", put(SIGNAL_FIRST));
  run("GIN: the signal on another context", "race", put(OTHER_CONTEXT));
  run("GIN: source overwritten", "missing-flush", put(OVERWRITTEN));
  run("GIN: source overwritten after its counter", "", put(OVERWRITTEN_AFTER_COUNTER));
  run("GIN: beyond the window", "out-of-window", put(BEYOND));
  run("GIN: source without a block barrier", "race", put(UNSYNCED_SOURCE));
  run("GIN: another signal", "deadlock", put(WRONG_SIGNAL));
  run("GIN: a signal that is not there", "signal-index|deadlock", put(NO_SUCH_SIGNAL));
  run("GIN: landing overwritten before it was read", "race", put(REUSED));
  auto two = [](uint64_t least) {
    return [=] {
      World w;
      w.launch(1, [=](ncclDevComm dc, ncclWindow_t a) {
        ncclCoopCta cta;
        ncclGin gin{dc, 0};
        const ncclTeam world = ncclTeamWorld(dc);
        int *data = (int *)ncclGetLocalPointer(a, 0);
        world_barrier(gin, 0);
        st(data + threadIdx.x, dc.rank + 1);
        cta.sync();
        if (threadIdx.x == 0) {
          gin.put(world, next(dc), a, 4 * THREADS, a, 0, 64, ncclGin_SignalInc{0});
          gin.put(world, next(dc), a, 4 * THREADS + 64, a, 64, 64, ncclGin_SignalInc{0});
          while (gin.readSignal(0, 64, RELAXED) < 2) { // both are there, but nobody knows
          }
        }
        gin.waitSignal(cta, 0, least);
        ld(data + THREADS + threadIdx.x);
        gin.flush(cta);
      });
      w.sync();
      return w.good;
    };
  };
  run("GIN: a wait for both of two puts", "", two(2));
  run("GIN: a wait for one of two puts, when both have come", "race", two(1));
  run("GIN: values, sums of signals, reset, shadows", "", [] {
    World w;
    w.launch(1, [](ncclDevComm dc, ncclWindow_t a) {
      ncclCoopCta cta;
      ncclGin gin{dc, 0};
      const ncclTeam world = ncclTeamWorld(dc);
      world_barrier(gin, 0);
      if (threadIdx.x == 0)
        gin.putValue(world, next(dc), a, 0, dc.rank + 5, ncclGin_SignalAdd{1, 40});
      uint64_t first = 7, delta = 0;
      gin.waitSignalFollowShadow(cta, 1, uint64_t(40), &first, &delta);
      if (first != 0 || delta != 40)
        emu::finding("wrong", "shadow", 0);
      if (ld((int *)ncclGetLocalPointer(a, 0)) != before(dc) + 5)
        emu::finding("wrong", "value", 0);
      cta.sync();
      if (threadIdx.x == 0)
        gin.resetSignal(1);
      cta.sync();
      if (gin.readSignal(1) != 0)
        emu::finding("wrong", "reset", 0);
    });
    w.sync();
    return w.good;
  });
  printf("1..%d\n", count);
  return failed != 0;
}
