// SPDX-License-Identifier: Apache-2.0
//
// What the machine can do, for the cost model: the rates and latencies that bound every overlap.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 topology.cu -o topology -lnccl -lcublas
//   run:   topology [--gpus N] [--out spec/hardware/h200x2.json] [--name h200x2]
//
// One process drives all GPUs. Compute: bf16 GEMM with random data, device memory copy, launches.
// Links (with two GPUs or more, between GPU 0 and 1 and in a ring over all): copy engine, stores
// and loads through LSA pointers with 1 to 64 CTAs, both directions at once. Latencies: LSA
// barrier, one-way signal. How much a GEMM slows down while data moves. Times are medians; rates
// count 10^9 bytes or operations.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <unistd.h>

#include <cuda/atomic>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define CK(e)                                                                                      \
  do {                                                                                             \
    cudaError_t r_ = (e);                                                                          \
    if (r_ != cudaSuccess) {                                                                       \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(r_));                  \
      exit(2);                                                                                     \
    }                                                                                              \
  } while (0)
#define NK(e)                                                                                      \
  do {                                                                                             \
    ncclResult_t r_ = (e);                                                                         \
    if (r_ != ncclSuccess) {                                                                       \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, ncclGetErrorString(r_),              \
              ncclGetLastError(nullptr));                                                          \
      exit(2);                                                                                     \
    }                                                                                              \
  } while (0)
#define BK(e)                                                                                      \
  do {                                                                                             \
    if ((e) != CUBLAS_STATUS_SUCCESS) {                                                            \
      fprintf(stderr, "%s:%d: cuBLAS\n", __FILE__, __LINE__);                                      \
      exit(2);                                                                                     \
    }                                                                                              \
  } while (0)

constexpr size_t kBuffer = (size_t)1 << 30; // of the link measurements, on every GPU
constexpr int kCtaCounts[] = {1, 2, 4, 8, 16, 24, 32, 48, 64};
constexpr int kThreads = 512, kBarrierCtas = 64;

__global__ void empty() {}

__global__ void randomise(__nv_bfloat16 *p, size_t count, unsigned seed) {
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += (size_t)gridDim.x * blockDim.x) {
    unsigned long long x = (i + 1) * 0x9E3779B97F4A7C15ull + seed;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x ^= x >> 27;
    p[i] = __float2bfloat16((float)(x >> 40) * (1.0f / (1 << 23)) - 1.0f);
  }
}

// The kernel that users write first: what plain code reaches.
constexpr int kTile = 16;
__global__ void plain_gemm(const float *a, const float *b, float *c, int n) {
  __shared__ float x[kTile][kTile], y[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y, col = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += kTile) {
    x[threadIdx.y][threadIdx.x] = a[(size_t)row * n + k + threadIdx.x];
    y[threadIdx.y][threadIdx.x] = b[(size_t)(k + threadIdx.y) * n + col];
    __syncthreads();
    for (int i = 0; i < kTile; i++)
      sum += x[threadIdx.y][i] * y[i][threadIdx.x];
    __syncthreads();
  }
  c[(size_t)row * n + col] = sum;
}

__device__ void stream_copy(int4 *dst, const int4 *src, size_t count) {
  const size_t step = (size_t)gridDim.x * blockDim.x;
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i + 3 * step < count; i += 4 * step) { // four loads in flight
    int4 a = src[i], b = src[i + step], c = src[i + 2 * step], d = src[i + 3 * step];
    dst[i] = a;
    dst[i + step] = b;
    dst[i + 2 * step] = c;
    dst[i + 3 * step] = d;
  }
  for (; i < count; i += step)
    dst[i] = src[i];
}
// PUSH: this GPU's first half goes to the peer's second half; else the peer's first half comes to
// ours.
__global__ void __launch_bounds__(kThreads)
    move(ncclWindow_t w, int me, int peer, size_t half, size_t bytes, bool push) {
  const int from = push ? me : peer, to = push ? peer : me;
  stream_copy((int4 *)ncclGetLsaPointer(w, half, to), (const int4 *)ncclGetLsaPointer(w, 0, from),
              bytes / 16);
}

__global__ void barriers(ncclDevComm dc, int rounds) {
  ncclCoopCta cta;
  ncclLsaBarrierSession<ncclCoopCta> bar(cta, dc, ncclTeamTagLsa(), blockIdx.x);
  for (int i = 0; i < rounds; i++)
    bar.sync(cta, cuda::memory_order_acq_rel);
}

// Rank 0 and rank 1 answer each other ROUNDS times through a word in each other's memory.
// Both words hold BASE before and BASE + ROUNDS after.
__global__ void ping_pong(ncclWindow_t w, size_t at, int me, int peer, unsigned base, int rounds) {
  using Word = cuda::atomic_ref<unsigned, cuda::thread_scope_system>;
  Word mine(*(unsigned *)ncclGetLocalPointer(w, at)),
      theirs(*(unsigned *)ncclGetLsaPointer(w, at, peer));
  for (int i = 1; i <= rounds; i++) {
    if (me == 0)
      theirs.store(base + i, cuda::memory_order_release);
    while (mine.load(cuda::memory_order_acquire) != base + i) {
    }
    if (me != 0)
      theirs.store(base + i, cuda::memory_order_release);
  }
}

struct Gpu {
  int id;
  cudaStream_t stream, second;
  cudaEvent_t start, stop;
};

static float median(std::vector<float> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Milliseconds of WORK on the GPU's stream, median of REPS after one that is not counted.
static float time_on(Gpu &g, int reps, const std::function<void()> &work) {
  std::vector<float> all;
  CK(cudaSetDevice(g.id));
  for (int i = -1; i < reps; i++) {
    CK(cudaEventRecord(g.start, g.stream));
    work();
    CK(cudaEventRecord(g.stop, g.stream));
    CK(cudaStreamSynchronize(g.stream));
    float ms;
    CK(cudaEventElapsedTime(&ms, g.start, g.stop));
    if (i >= 0)
      all.push_back(ms);
  }
  return median(all);
}

// The same for work that starts on several GPUs at once: maximum over them.
static float time_all(std::vector<Gpu> &gpus, int reps, const std::function<void(Gpu &)> &work) {
  std::vector<float> all;
  for (int i = -1; i < reps; i++) {
    for (Gpu &g : gpus) {
      CK(cudaSetDevice(g.id));
      CK(cudaEventRecord(g.start, g.stream));
      work(g);
      CK(cudaEventRecord(g.stop, g.stream));
    }
    float most = 0;
    for (Gpu &g : gpus) {
      CK(cudaSetDevice(g.id));
      CK(cudaStreamSynchronize(g.stream));
      float ms;
      CK(cudaEventElapsedTime(&ms, g.start, g.stop));
      most = std::max(most, ms);
    }
    if (i >= 0)
      all.push_back(most);
  }
  return median(all);
}

struct Gemm {
  cublasHandle_t blas;
  __nv_bfloat16 *a, *b, *c;
  void run(int m, int n, int k) {
    const float one = 1, zero = 0;
    BK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b, CUDA_R_16BF, n, a,
                    CUDA_R_16BF, k, &zero, c, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F,
                    CUBLAS_GEMM_DEFAULT));
  }
};

static std::string text;
static const char *out;
// Adds a value to the output, which is written anew each time: a later failure loses nothing.
static void put(const char *key, const std::string &value) {
  text += std::string(text.empty() ? "" : ",\n") + "  \"" + key + "\": " + value;
  if (FILE *f = out ? fopen(out, "w") : nullptr) {
    fprintf(f, "{\n%s\n}\n", text.c_str());
    fclose(f);
  }
  printf("%-32s %s\n", key, value.c_str());
  fflush(stdout);
}
static std::string number(double x) {
  char s[40];
  snprintf(s, sizeof s, "%.5g", x);
  return s;
}
static std::string pairs(const std::vector<std::pair<double, double>> &v) {
  std::string s = "[";
  for (auto &p : v)
    s += (s.size() > 1 ? ", [" : "[") + number(p.first) + ", " + number(p.second) + "]";
  return s + "]";
}

int main(int argc, char **argv) {
  alarm(150);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  int n = 0;
  CK(cudaGetDeviceCount(&n));
  std::string name = "unnamed";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--gpus"))
      n = std::min(n, atoi(argv[i + 1]));
    else if (!strcmp(argv[i], "--out"))
      out = argv[i + 1];
    else if (!strcmp(argv[i], "--name"))
      name = argv[i + 1];
  }
  std::vector<Gpu> gpus(n);
  for (int i = 0; i < n; i++) {
    Gpu &g = gpus[i];
    g.id = i;
    CK(cudaSetDevice(i));
    CK(cudaStreamCreateWithFlags(&g.stream, cudaStreamNonBlocking));
    CK(cudaStreamCreateWithFlags(&g.second, cudaStreamNonBlocking));
    CK(cudaEventCreate(&g.start));
    CK(cudaEventCreate(&g.stop));
    // Load the kernels that wait for another GPU now: a first launch may itself wait for the GPU.
    cudaFuncAttributes attributes;
    CK(cudaFuncGetAttributes(&attributes, barriers));
    CK(cudaFuncGetAttributes(&attributes, ping_pong));
    CK(cudaFuncGetAttributes(&attributes, move));
  }
  Gpu &g0 = gpus[0];
  cudaDeviceProp prop;
  CK(cudaGetDeviceProperties(&prop, 0));
  put("name", "\"" + name + "\"");
  put("gpu", std::string("\"") + prop.name + "\"");
  put("gpus", number(n));
  put("sms", number(prop.multiProcessorCount));
  put("l2_mib", number(prop.l2CacheSize / 1048576.0));
  put("memory_gib", number(prop.totalGlobalMem / 1073741824.0));
  put("nccl", number(NCCL_VERSION_CODE));

  // ---- compute ----
  CK(cudaSetDevice(0));
  const size_t side = 8192;
  Gemm gemm;
  CK(cudaMalloc(&gemm.a, side * side * 2 * 2));
  CK(cudaMalloc(&gemm.b, side * side * 2 * 2));
  CK(cudaMalloc(&gemm.c, side * side * 2 * 2));
  randomise<<<1024, 256, 0, g0.stream>>>(gemm.a, side * side * 2, 1);
  randomise<<<1024, 256, 0, g0.stream>>>(gemm.b, side * side * 2, 2);
  BK(cublasCreate(&gemm.blas));
  BK(cublasSetStream(gemm.blas, g0.stream));
  std::vector<std::pair<double, double>> by_k, by_m;
  double full = 0;
  for (int k : {512, 1024, 2048, 4096, 8192}) {
    float ms = time_on(g0, 9, [&] {
      for (int i = 0; i < 4; i++)
        gemm.run(8192, 8192, k);
    });
    full = 2.0 * side * side * k * 4 / ms / 1e9;
    by_k.push_back({(double)k, full});
  }
  put("gemm_tflops_bf16", number(full));
  put("gemm_tflops_bf16_by_k", pairs(by_k)); // 8192 x 8192 x k
  for (int m : {256, 512, 1024, 2048, 4096, 8192}) {
    float ms = time_on(g0, 9, [&] {
      for (int i = 0; i < 4; i++)
        gemm.run(m, 8192, 2048);
    });
    by_m.push_back({(double)m, 2.0 * m * 8192 * 2048 * 4 / ms / 1e9});
  }
  put("gemm_tflops_bf16_by_rows", pairs(by_m)); // rows x 8192 x 2048: what chunking costs
  {
    const int m = 4096;
    dim3 block(kTile, kTile), grid(m / kTile, m / kTile);
    const float ms = time_on(g0, 5, [&] {
      plain_gemm<<<grid, block, 0, g0.stream>>>((float *)gemm.a, (float *)gemm.b, (float *)gemm.c,
                                                m);
    });
    put("plain_gemm_tflops_fp32", number(2.0 * m * m * m / ms / 1e9));
  }
  {
    char *a, *b;
    const size_t bytes = (size_t)4 << 30;
    CK(cudaMalloc(&a, bytes));
    CK(cudaMalloc(&b, bytes));
    float ms = time_on(
        g0, 7, [&] { CK(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, g0.stream)); });
    put("hbm_gbps", number(2.0 * bytes / ms / 1e6)); // bytes read plus bytes written
    CK(cudaFree(a));
    CK(cudaFree(b));
  }
  {
    const int many = 500;
    auto host = [&] {
      for (int i = 0; i < many; i++)
        empty<<<1, 32, 0, g0.stream>>>();
    };
    put("launch_us", number(time_on(g0, 9, host) * 1e3 / many)); // back to back on a stream
    std::vector<float> alone;
    for (int i = 0; i < 50; i++) { // one launch until the host knows that it ended
      auto t0 = std::chrono::steady_clock::now();
      empty<<<1, 32, 0, g0.stream>>>();
      CK(cudaStreamSynchronize(g0.stream));
      alone.push_back(
          std::chrono::duration<float, std::micro>(std::chrono::steady_clock::now() - t0).count());
    }
    put("launch_and_wait_us", number(median(alone)));
    cudaEvent_t turn;
    CK(cudaEventCreateWithFlags(&turn, cudaEventDisableTiming));
    const float hops = time_on(g0, 9, [&] { // one kernel here, the next on the other stream, ...
      for (int i = 0; i < many; i++) {
        cudaStream_t a = i % 2 ? g0.second : g0.stream, b = i % 2 ? g0.stream : g0.second;
        empty<<<1, 32, 0, a>>>();
        CK(cudaEventRecord(turn, a));
        CK(cudaStreamWaitEvent(b, turn, 0));
      }
    });
    put("launch_and_event_us", number(hops * 1e3 / many));
    CK(cudaEventDestroy(turn));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CK(cudaStreamBeginCapture(g0.stream, cudaStreamCaptureModeThreadLocal));
    host();
    CK(cudaStreamEndCapture(g0.stream, &graph));
    CK(cudaGraphInstantiate(&exec, graph, 0));
    put("launch_graph_us",
        number(time_on(g0, 9, [&] { CK(cudaGraphLaunch(exec, g0.stream)); }) * 1e3 / many));
    CK(cudaGraphExecDestroy(exec));
    CK(cudaGraphDestroy(graph));
  }

  if (n > 1) {
    // ---- links ----
    std::vector<ncclComm_t> comm(n);
    NK(ncclCommInitAll(comm.data(), n, nullptr));
    std::vector<void *> memory(n);
    std::vector<ncclWindow_t> window(n, nullptr);
    std::vector<ncclDevComm> dc(n);
    for (int i = 0; i < n; i++) {
      CK(cudaSetDevice(i));
      NK(ncclMemAlloc(&memory[i], 2 * kBuffer + 4096));
      CK(cudaMemset(memory[i], 0, 2 * kBuffer + 4096));
      randomise<<<1024, 256>>>((__nv_bfloat16 *)memory[i], kBuffer / 2, 3 + i);
      CK(cudaDeviceSynchronize());
    }
    NK(ncclGroupStart());
    for (int i = 0; i < n; i++)
      NK(ncclCommWindowRegister(comm[i], memory[i], 2 * kBuffer + 4096, &window[i],
                                NCCL_WIN_COLL_SYMMETRIC));
    NK(ncclGroupEnd());
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
    ncclDevCommRequirements need = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
    ncclDevCommRequirements need;
    memset(&need, 0, sizeof need);
#endif
    need.lsaBarrierCount = kBarrierCtas;
    NK(ncclGroupStart());
    for (int i = 0; i < n; i++)
      NK(ncclDevCommCreate(comm[i], &need, &dc[i]));
    NK(ncclGroupEnd());
    put("lsa_size", number(dc[0].lsaSize));
    if (dc[0].lsaSize < 2 || !window[0]) {
      fprintf(stderr, "no LSA team: links are not measured\n");
      n = 1;
    }
    if (n > 1) {
      for (int i = 0; i < n; i++) {
        CK(cudaSetDevice(i));
        for (int j = 0; j < n; j++)
          if (i != j) {
            cudaError_t e = cudaDeviceEnablePeerAccess(j, 0);
            if (e != cudaErrorPeerAccessAlreadyEnabled)
              CK(e);
            cudaGetLastError();
          }
      }
      auto half = [&](int i) { return (char *)memory[i] + kBuffer; };
      std::vector<char *> from(n), to(n); // ordinary memory, for the copy engines
      for (int i = 0; i < n; i++) {
        CK(cudaSetDevice(i));
        CK(cudaMalloc(&from[i], kBuffer));
        CK(cudaMalloc(&to[i], kBuffer));
        CK(cudaMemcpy(from[i], memory[i], kBuffer, cudaMemcpyDeviceToDevice));
        CK(cudaDeviceSynchronize());
      }
      // Copy engine, one direction, by size.
      std::vector<std::pair<double, double>> by_bytes;
      for (int shift : {12, 16, 18, 20, 22, 24, 26, 28, 30}) {
        const size_t bytes = (size_t)1 << shift;
        const int many = shift < 24 ? 32 : 2;
        float ms = time_on(g0, 7, [&] {
          for (int i = 0; i < many; i++)
            CK(cudaMemcpyPeerAsync(to[1], 1, from[0], 0, bytes, g0.stream));
        });
        by_bytes.push_back({(double)bytes, many * (double)bytes / ms / 1e6});
      }
      put("link_gbps_copy_engine", number(by_bytes.back().second));
      put("link_gbps_copy_engine_by_bytes", pairs(by_bytes));
      const float both = time_all(gpus, 5, [&](Gpu &g) {
        const int next = (g.id + 1) % n;
        CK(cudaMemcpyPeerAsync(to[next], next, from[g.id], g.id, kBuffer, g.stream));
      });
      put("link_gbps_copy_engine_ring",
          number(kBuffer / both / 1e6));  // all GPUs send to the next at once
      for (int way = 0; way < 3; way++) { // stores, loads, stores by all GPUs at once
        std::vector<std::pair<double, double>> by_ctas;
        for (int ctas : kCtaCounts) {
          const size_t bytes = std::min<size_t>(kBuffer, (size_t)ctas << 26);
          auto launch = [&](Gpu &g) {
            move<<<ctas, kThreads, 0, g.stream>>>(window[g.id], g.id, (g.id + 1) % n, kBuffer,
                                                  bytes, way != 1);
            CK(cudaGetLastError());
          };
          const float ms =
              way == 2 ? time_all(gpus, 5, launch) : time_on(g0, 5, [&] { launch(g0); });
          by_ctas.push_back({(double)ctas, bytes / ms / 1e6});
        }
        put(way == 0   ? "link_gbps_by_ctas"
            : way == 1 ? "link_gbps_load_by_ctas"
                       : "link_gbps_ring_by_ctas",
            pairs(by_ctas));
      }
      // Latencies: many rounds in one kernel.
      std::vector<std::pair<double, double>> by_ctas;
      for (int ctas : {1, 16, 64}) {
        const int rounds = 1000;
        const float ms = time_all(gpus, 5, [&](Gpu &g) {
          barriers<<<ctas, kThreads, 0, g.stream>>>(dc[g.id], rounds);
          CK(cudaGetLastError());
        });
        by_ctas.push_back({(double)ctas, ms * 1e3 / rounds});
      }
      put("barrier_us", number(by_ctas[1].second));
      put("barrier_us_by_ctas", pairs(by_ctas));
      {
        const int rounds = 1000;
        std::vector<Gpu> two(gpus.begin(), gpus.begin() + 2);
        unsigned base = 0;
        const float ms = time_all(two, 5, [&](Gpu &g) {
          ping_pong<<<1, 1, 0, g.stream>>>(window[g.id], 2 * kBuffer, g.id, 1 - g.id, base, rounds);
          base += g.id == 1 ? rounds : 0;
          CK(cudaGetLastError());
        });
        put("signal_us", number(ms * 1e3 / rounds / 2)); // one way
      }
      // What a GEMM loses while data moves: on the copy engine, and on CTAs beside it.
      const int products = 8;
      const float quiet = time_on(g0, 5, [&] {
        for (int i = 0; i < products; i++)
          gemm.run(8192, 8192, 4096);
      });
      auto slowed = [&](const std::function<void()> &traffic) {
        std::vector<float> all;
        cudaEvent_t a, b;
        CK(cudaEventCreate(&a));
        CK(cudaEventCreate(&b));
        for (int i = 0; i < 4; i++) {
          traffic();
          CK(cudaEventRecord(a, g0.stream));
          for (int k = 0; k < products; k++)
            gemm.run(8192, 8192, 4096);
          CK(cudaEventRecord(b, g0.stream));
          CK(cudaStreamSynchronize(g0.stream));
          CK(cudaStreamSynchronize(g0.second));
          float ms;
          CK(cudaEventElapsedTime(&ms, a, b));
          if (i > 0)
            all.push_back(ms);
        }
        CK(cudaEventDestroy(a));
        CK(cudaEventDestroy(b));
        return median(all) / quiet;
      };
      CK(cudaSetDevice(0));
      put("gemm_slowdown_copy_engine", number(slowed([&] {
            for (int i = 0; i < 8; i++)
              CK(cudaMemcpyPeerAsync(to[1], 1, from[0], 0, kBuffer, g0.second));
          })));
      std::vector<std::pair<double, double>> slow;
      for (int ctas : {4, 8, 16, 32}) {
        // about 12 ms of traffic
        const size_t bytes = std::min<size_t>(kBuffer, (size_t)ctas << 25);
        const int times = (int)std::max<size_t>(8, ((size_t)4 << 30) / bytes / 2);
        slow.push_back({(double)ctas, slowed([&] {
                          for (int i = 0; i < times; i++)
                            move<<<ctas, kThreads, 0, g0.second>>>(window[0], 0, 1, kBuffer, bytes,
                                                                   true);
                          CK(cudaGetLastError());
                        })});
      }
      put("gemm_slowdown_by_ctas", pairs(slow));
      // NCCL's own small calls, one after the other, and a large AllGather.
      for (bool p2p : {false, true}) {
        const int many = 50;
        CK(cudaSetDevice(0));
        std::vector<float> all;
        for (int i = 0; i < 7; i++) {
          CK(cudaEventRecord(g0.start, g0.stream));
          for (int k = 0; k < many; k++) {
            NK(ncclGroupStart());
            for (int r = 0; r < n; r++)
              if (p2p) {
                NK(ncclSend(memory[r], 16, ncclFloat, (r + 1) % n, comm[r], gpus[r].stream));
                NK(ncclRecv(half(r), 16, ncclFloat, (r + n - 1) % n, comm[r], gpus[r].stream));
              } else {
                NK(ncclAllReduce(memory[r], half(r), 16, ncclFloat, ncclSum, comm[r],
                                 gpus[r].stream));
              }
            NK(ncclGroupEnd());
          }
          CK(cudaSetDevice(0));
          CK(cudaEventRecord(g0.stop, g0.stream));
          for (Gpu &g : gpus) {
            CK(cudaSetDevice(g.id));
            CK(cudaStreamSynchronize(g.stream));
          }
          CK(cudaSetDevice(0));
          float ms;
          CK(cudaEventElapsedTime(&ms, g0.start, g0.stop));
          if (i > 1)
            all.push_back(ms);
        }
        put(p2p ? "nccl_small_p2p_us" : "nccl_small_allreduce_us",
            number(median(all) * 1e3 / many));
      }
      {
        const size_t part = (kBuffer / n) / 4 * 4;
        const float ms = time_all(gpus, 3, [&](Gpu &g) {
          if (g.id == 0)
            NK(ncclGroupStart());
          NK(ncclAllGather(memory[g.id], half(g.id), part / 4, ncclFloat, comm[g.id], g.stream));
          if (g.id == n - 1)
            NK(ncclGroupEnd());
        });
        put("nccl_allgather_gbps", number((n - 1) * part / ms / 1e6));
      }
    }
    for (int i = 0; i < (int)comm.size(); i++) {
      CK(cudaSetDevice(i));
      CK(cudaDeviceSynchronize());
    }
  }
  fflush(stdout);
  _Exit(0); // no tear-down of communicators
}
