// SPDX-License-Identifier: Apache-2.0
//
// Time of the emitted collectives beside NCCL's own, call by call. bench/gpu/latency.sh builds it:
// the runtime prelude and one region per collective stand before this text.
//
//   latency [--ranks N] [--mode threads|processes] [--sizes BYTES,...] [--reps R] [--calls K]
//   [--out JSON]
//
// Ranks are threads of one process or processes, rank r on GPU r modulo the number of GPUs. K calls
// are captured into a CUDA graph, so that what is timed is the device's work alone ("device"); the
// same calls made one by one on the stream give the time with launches ("calls"). Each is the time
// of all K calls by CUDA events, maximum over ranks, divided by K; reported is the median of R
// repetitions. Results are compared with NCCL's bit for bit before and after the timing (the inputs
// are small integers, so sums are exact).
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace {
constexpr int kRanks = 64, kReps = 64, kImpls = 2, kWays = 2; // emitted, NCCL; graph, calls
constexpr size_t kMost = (size_t)256 << 20;

struct Shared {
  ncclUniqueId id;
  pthread_barrier_t barrier;
  char now[200];
  float us[kRanks][kImpls][kWays][kReps];
  int graph_ok[kRanks], bad[kRanks];
  long wrong;
  int cases;
};
Shared *shared;
int n = 2, gpus = 1, reps = 15, calls = 50;
bool threads = true;
std::vector<size_t> sizes = {8, 64, 512, 4096, 16384, 65536};
const char *out_path = nullptr;

void hung(int) {
  char text[300];
  int k = snprintf(text, sizeof text, "no progress in: %s\n", shared->now);
  if (write(1, text, k) < 0)
    _exit(4);
  _exit(3);
}

#define CK(e)                                                                                      \
  do {                                                                                             \
    cudaError_t r_ = (e);                                                                          \
    if (r_ != cudaSuccess) {                                                                       \
      printf("%s:%d: %s in: %s\n", __FILE__, __LINE__, cudaGetErrorString(r_), shared->now);       \
      fflush(stdout);                                                                              \
      _exit(2);                                                                                    \
    }                                                                                              \
  } while (0)
#define NK(e)                                                                                      \
  do {                                                                                             \
    ncclResult_t r_ = (e);                                                                         \
    if (r_ != ncclSuccess) {                                                                       \
      printf("%s:%d: %s (%s) in: %s\n", __FILE__, __LINE__, ncclGetErrorString(r_),                \
             ncclGetLastError(nullptr), shared->now);                                              \
      fflush(stdout);                                                                              \
      _exit(2);                                                                                    \
    }                                                                                              \
  } while (0)

using Run = std::function<ncclResult_t(cudaStream_t)>;
struct Case {
  const char *name;
  size_t send_parts, recv_parts; // of BYTES each
  std::function<ncclResult_t(cudaStream_t, char *, size_t)>
      impl[kImpls]; // receive buffer, elements
};

void meet() { pthread_barrier_wait(&shared->barrier); }

__global__ void fill(float *p, size_t count, int seed) {
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += (size_t)gridDim.x * blockDim.x)
    p[i] = (float)((i * 7919 + seed * 104729 + i / 1000) % 1021);
}

struct Rank {
  int rank;
  ncclComm_t comm;
  cudaStream_t stream;
  cudaEvent_t start, stop;
  char *send, *recv, *reference;
  FILE *json;

  // The time of CALLS calls in microseconds a call, by graph or one by one.
  bool time(const Run &run, float *us, bool by_graph) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    if (by_graph) {
      bool ok = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
      for (int i = 0; ok && i < calls; i++)
        ok = run(stream) == ncclSuccess;
      ok = cudaStreamEndCapture(stream, &graph) == cudaSuccess && ok && graph;
      ok = ok && cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess;
      cudaGetLastError();
      shared->graph_ok[rank] = ok;
      meet();
      for (int r = 0; r < n; r++)
        ok = ok && shared->graph_ok[r];
      meet();
      if (!ok) {
        if (graph)
          cudaGraphDestroy(graph);
        return false;
      }
      CK(cudaGraphUpload(exec, stream));
      CK(cudaStreamSynchronize(stream));
    }
    for (int i = -2; i < reps; i++) {
      meet();
      alarm(60);
      CK(cudaEventRecord(start, stream));
      if (by_graph)
        CK(cudaGraphLaunch(exec, stream));
      else
        for (int k = 0; k < calls; k++)
          NK(run(stream));
      CK(cudaEventRecord(stop, stream));
      CK(cudaStreamSynchronize(stream));
      float ms = 0;
      CK(cudaEventElapsedTime(&ms, start, stop));
      if (i >= 0)
        us[i] = ms * 1e3f / calls;
    }
    meet(); // nobody destroys a graph while another rank runs
    if (by_graph) {
      CK(cudaGraphExecDestroy(exec));
      CK(cudaGraphDestroy(graph));
    }
    return true;
  }

  long compare(const Case &c, size_t count) {
    const size_t bytes = c.recv_parts * count * sizeof(float);
    std::vector<char> a(bytes), b(bytes);
    char *to[2] = {recv, reference};
    std::vector<char> *got[2] = {&a, &b};
    for (int k = 0; k < 2; k++) {
      CK(cudaMemsetAsync(to[k], 0xff, bytes, stream));
      CK(cudaStreamSynchronize(stream));
      meet();
      NK(c.impl[k](stream, to[k], count));
      CK(cudaStreamSynchronize(stream));
      CK(cudaMemcpyAsync(got[k]->data(), to[k], bytes, cudaMemcpyDeviceToHost, stream));
      CK(cudaStreamSynchronize(stream));
      meet();
    }
    return memcmp(a.data(), b.data(), bytes) != 0;
  }

  void measure(const Case &c, size_t bytes) {
    const size_t count = std::max<size_t>(1, bytes / sizeof(float));
    if (std::max(c.send_parts, c.recv_parts) * count * sizeof(float) > kMost)
      return;
    if (rank == 0)
      snprintf(shared->now, sizeof shared->now, "%s of %zu bytes, %d ranks", c.name, bytes, n);
    meet();
    alarm(60);
    long wrong = compare(c, count);
    bool ok[kImpls][kWays];
    for (int i = 0; i < kImpls; i++)
      for (int w = 0; w < kWays; w++) {
        char *to = i == 0 ? recv : reference;
        ok[i][w] = time([&](cudaStream_t s) { return c.impl[i](s, to, count); },
                        shared->us[rank][i][w], w == 0);
      }
    wrong += compare(c, count);
    __atomic_fetch_add(&shared->wrong, wrong, __ATOMIC_SEQ_CST);
    meet();
    if (rank != 0)
      return;
    double us[kImpls][kWays], low[kImpls][kWays], high[kImpls][kWays];
    for (int i = 0; i < kImpls; i++)
      for (int w = 0; w < kWays; w++) {
        std::vector<float> most(reps, 0.0f);
        for (int k = 0; k < reps; k++)
          for (int r = 0; r < n; r++)
            most[k] = std::max(most[k], shared->us[r][i][w][k]);
        std::sort(most.begin(), most.end());
        us[i][w] = ok[i][w] ? most[reps / 2] : -1;
        low[i][w] = ok[i][w] ? most[reps / 4] : -1;
        high[i][w] = ok[i][w] ? most[reps * 3 / 4] : -1;
      }
    printf("%-15s %9zu B  device: emitted %8.2f us, NCCL %8.2f us, ratio %.2f   calls: %8.2f %8.2f "
           "%s\n",
           c.name, bytes, us[0][0], us[1][0], us[0][0] / us[1][0], us[0][1], us[1][1],
           wrong ? "WRONG" : "");
    fflush(stdout);
    if (json) {
      fprintf(json, "%s\n  {\"call\": \"%s\", \"bytes\": %zu", shared->cases++ ? "," : "", c.name,
              bytes);
      const char *impl[] = {"emitted", "nccl"}, *way[] = {"device_us", "calls_us"};
      for (int i = 0; i < kImpls; i++)
        for (int w = 0; w < kWays; w++)
          if (ok[i][w])
            fprintf(json, ", \"%s_%s\": [%.3f, %.3f, %.3f]", impl[i], way[w], low[i][w], us[i][w],
                    high[i][w]);
      fprintf(json, ", \"wrong\": %ld}", wrong);
    }
  }

  void run() {
    if (rank == 0)
      snprintf(shared->now, sizeof shared->now, "set-up of %d ranks", n);
    alarm(60);
    CK(cudaSetDevice(rank % gpus));
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CK(cudaEventCreate(&start));
    CK(cudaEventCreate(&stop));
    meet();
    if (rank == 0)
      NK(ncclGetUniqueId(&shared->id));
    meet();
    NK(cucocc::comm_init_rank(&comm, n, shared->id, rank));
    size_t most = 0;
    for (size_t s : sizes)
      most = std::max(most, s);
    most = std::min(kMost, std::max<size_t>(most * n, 4096));
    CK(cucocc::symmetric_malloc(&send, most));
    CK(cucocc::symmetric_malloc(&recv, most));
    // NCCL's result goes to memory of the same kind, so that it may use its symmetric kernels too.
    CK(cucocc::symmetric_malloc(&reference, most));
    fill<<<64, 256, 0, stream>>>((float *)send, most / sizeof(float), rank + 1);
    CK(cudaStreamSynchronize(stream));
    auto c = cucocc::find_comm(comm);
    if (!c || !c->on_device || cucocc::locate(*c, send, 1).window < 0) {
      printf("rank %d: not on the device: nothing is measured\n", rank);
      fflush(stdout);
      _exit(2);
    }
    const int next = (rank + 1) % n, prev = (rank + n - 1) % n;
    const size_t parts = n;
    ncclComm_t m = comm;
    char *s = send;
    const ncclDataType_t f = ncclFloat;
    std::vector<Case> cases;
    auto add = [&](const char *name, size_t sp, size_t rp, auto emitted, auto nccl) {
      cases.push_back(Case{name, sp, rp, {emitted, nccl}});
    };
    add(
        "all_reduce", 1, 1,
        [=](cudaStream_t q, char *r, size_t k) {
          return cucocc::region_1::all_reduce(s, r, k, f, ncclSum, m, q);
        },
        [=](cudaStream_t q, char *r, size_t k) {
          return ncclAllReduce(s, r, k, f, ncclSum, m, q);
        });
    add(
        "all_gather", 1, parts,
        [=](cudaStream_t q, char *r, size_t k) {
          return cucocc::region_2::all_gather(s, r, k, f, m, q);
        },
        [=](cudaStream_t q, char *r, size_t k) { return ncclAllGather(s, r, k, f, m, q); });
    add(
        "reduce_scatter", parts, 1,
        [=](cudaStream_t q, char *r, size_t k) {
          return cucocc::region_3::reduce_scatter(s, r, k, f, ncclSum, m, q);
        },
        [=](cudaStream_t q, char *r, size_t k) {
          return ncclReduceScatter(s, r, k, f, ncclSum, m, q);
        });
    add(
        "broadcast", 1, 1,
        [=](cudaStream_t q, char *r, size_t k) {
          return cucocc::region_5::broadcast(s, r, k, f, 0, m, q);
        },
        [=](cudaStream_t q, char *r, size_t k) { return ncclBroadcast(s, r, k, f, 0, m, q); });
#if NCCL_VERSION_CODE >= 22800
    add(
        "all_to_all", parts, parts,
        [=](cudaStream_t q, char *r, size_t k) {
          return cucocc::region_8::all_to_all(s, r, k, f, m, q);
        },
        [=](cudaStream_t q, char *r, size_t k) { return ncclAlltoAll(s, r, k, f, m, q); });
#endif
    add(
        "ring_shift", 1, 1,
        [=](cudaStream_t q, char *r, size_t k) {
          cucocc::group_start();
          cucocc::region_10::send(s, k, f, next, m, q);
          cucocc::region_10::recv(r, k, f, prev, m, q);
          return cucocc::group_end();
        },
        [=](cudaStream_t q, char *r, size_t k) {
          ncclGroupStart();
          ncclSend(s, k, f, next, m, q);
          ncclRecv(r, k, f, prev, m, q);
          return ncclGroupEnd();
        });
    json = rank == 0 && out_path ? fopen(out_path, "w") : nullptr;
    if (json)
      fprintf(json,
              "{\"ranks\": %d, \"gpus\": %d, \"mode\": \"%s\", \"calls\": %d, \"reps\": %d, "
              "\"nccl\": %d, \"cases\": [",
              n, gpus, threads ? "threads" : "processes", calls, reps, NCCL_VERSION_CODE);
    for (auto &x : cases)
      for (size_t b : sizes)
        measure(x, b);
    if (json) {
      fprintf(json, "\n]}\n");
      fclose(json);
    }
    meet();
    alarm(60);
    NK(cucocc::comm_destroy(comm));
    meet();
  }
};

std::vector<size_t> list(const char *text) {
  std::vector<size_t> v;
  for (char *end; *text; text = *end ? end + 1 : end) {
    v.push_back(strtoull(text, &end, 0));
    if (end == text)
      break;
  }
  return v;
}
} // namespace

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    std::string a = argv[i];
    const char *v = i + 1 < argc ? argv[++i] : "";
    if (a == "--ranks")
      n = atoi(v);
    else if (a == "--mode")
      threads = std::string(v) == "threads";
    else if (a == "--sizes")
      sizes = list(v);
    else if (a == "--reps")
      reps = std::min(atoi(v), kReps);
    else if (a == "--calls")
      calls = atoi(v);
    else if (a == "--out")
      out_path = v;
    else
      n = 0;
  }
  if (n < 1 || n > kRanks || sizes.empty() || reps < 1 || calls < 1) {
    printf("usage: %s [--ranks N] [--mode threads|processes] [--sizes BYTES,...] [--reps R] "
           "[--calls K] [--out JSON]\n",
           argv[0]);
    return 2;
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  // Ranks on one GPU: every stream needs a hardware queue of its own, or one rank's kernel waits
  // behind another's.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  shared = (Shared *)mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    return 2;
  pthread_barrierattr_t attr;
  pthread_barrierattr_init(&attr);
  pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &attr, n);
  signal(SIGALRM, hung);
  if (threads) {
    CK(cudaGetDeviceCount(&gpus));
    if (n > gpus)
      setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
    std::vector<std::thread> all;
    for (int r = 0; r < n; r++)
      all.emplace_back([r] {
        Rank x{};
        x.rank = r;
        x.run();
      });
    for (auto &t : all)
      t.join();
  } else {
    std::vector<pid_t> pids;
    for (int r = 0; r < n; r++) {
      pid_t pid = fork();
      if (pid == 0) {
        CK(cudaGetDeviceCount(&gpus));
        if (n > gpus)
          setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
        Rank x{};
        x.rank = r;
        x.run();
        fflush(stdout);
        _exit(0);
      }
      pids.push_back(pid);
    }
    int bad = 0;
    for (int left = n; left > 0; left--) {
      int status = 0;
      pid_t pid = wait(&status);
      if (pid > 0 && status != 0) { // the others would wait for it for ever
        bad = 1;
        usleep(300000);
        for (pid_t p : pids)
          kill(p, SIGKILL);
      }
    }
    if (bad)
      return 3;
  }
  printf("%d ranks as %s: %ld comparisons with NCCL failed\n", n, threads ? "threads" : "processes",
         shared->wrong);
  fflush(stdout);
  _exit(shared->wrong ? 1 : 0); // no CUDA tear-down
}
