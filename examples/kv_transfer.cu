// SPDX-License-Identifier: Apache-2.0
//
// KV-cache transfer between prefill and decode: even ranks project keys and values layer by layer
// and send each layer to the next odd rank, in blocks; that rank puts the blocks where its page
// table says and runs one query of attention over them. With an odd number of ranks the last one is
// idle.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 $(pkg-config --cflags mpich) kv_transfer.cu
//              -o kv_transfer -lnccl -lmpich                  [-DUSE_CUBLAS ... -lcublas]
//   run:   mpirun -np 2 ./kv_transfer --seq 4096 --kv 1024 --hidden 2048 --layers 4 [--block 64]
//
// Shows: one-sided roles (only sends on one rank, only receives on its peer), many transfers in one
// group at offsets from a page table, two streams with an event per layer, half precision. With
// -DUSE_CUBLAS the projections run at the rate of the tensor cores.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <getopt.h>
#include <mpi.h>
#include <nccl.h>
#ifdef USE_CUBLAS
#include <cublas_v2.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#define CHECK_CUDA(call)                                                                           \
  do {                                                                                             \
    const cudaError_t error = (call);                                                              \
    if (error != cudaSuccess) {                                                                    \
      fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(error));                \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  } while (0)
#define CHECK_NCCL(call)                                                                           \
  if ((call) != ncclSuccess) {                                                                     \
    fprintf(stderr, "%s:%d %s failed\n", __FILE__, __LINE__, #call);                               \
    MPI_Abort(MPI_COMM_WORLD, 2);                                                                  \
  }
#define CHECK_CUBLAS(call)                                                                         \
  if ((call) != CUBLAS_STATUS_SUCCESS) {                                                           \
    fprintf(stderr, "%s:%d %s failed\n", __FILE__, __LINE__, #call);                               \
    MPI_Abort(MPI_COMM_WORLD, 2);                                                                  \
  }
#define CHECK_MPI(call)                                                                            \
  if ((call) != MPI_SUCCESS) {                                                                     \
    fprintf(stderr, "%s:%d %s failed\n", __FILE__, __LINE__, #call);                               \
    exit(2);                                                                                       \
  }

enum { X = 1, WK = 2, WV = 3, QUERY = 4 }; // tensors, for value()

// One input element, a multiple of 1/128 in (-1, 1): exact in half, the same on host and device.
__host__ __device__ inline float value(uint64_t seed, uint64_t tensor, uint64_t iter,
                                       uint64_t layer, uint64_t i) {
  uint64_t x = seed * 0x9E3779B97F4A7C15ull + (tensor << 60) + (iter << 50) + (layer << 40) + i;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  return (float)((int)(x % 255) - 127) * (1.0f / 128);
}

__global__ void fill(__half *dst, size_t count, uint64_t seed, int tensor, int iter, int layer) {
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
    dst[i] = __float2half(value(seed, tensor, iter, layer, i));
}

#ifndef USE_CUBLAS
#define TILE 16

// out[m x n] = x[m x k] * w[k x n], row major, float accumulation.
__global__ void project(const __half *x, const __half *w, __half *out, int m, int n, int k) {
  __shared__ float a[TILE][TILE], b[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int k0 = 0; k0 < k; k0 += TILE) {
    int ka = k0 + threadIdx.x, kb = k0 + threadIdx.y;
    a[threadIdx.y][threadIdx.x] = row < m && ka < k ? __half2float(x[(size_t)row * k + ka]) : 0.0f;
    b[threadIdx.y][threadIdx.x] = kb < k && col < n ? __half2float(w[(size_t)kb * n + col]) : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; i++)
      sum += a[threadIdx.y][i] * b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n)
    out[(size_t)row * n + col] = __float2half(sum);
}
#endif

// One warp per token: score[t] = q . K[t] / sqrt(kv), K found through the page table.
__global__ void scores(const __half *q, const __half *cache, const int *page, float *score, int seq,
                       int block, int kv) {
  int t = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  float sum = 0.0f;
  if (t < seq) {
    const __half *row = cache + ((size_t)page[t / block] * block + t % block) * kv;
    for (int d = lane; d < kv; d += 32)
      sum += __half2float(q[d]) * __half2float(row[d]);
  }
  for (int d = 16; d > 0; d /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (t < seq && lane == 0)
    score[t] = sum / sqrtf((float)kv);
}

// Block of 128 columns: out[d] = sum_t softmax(score)[t] * V[t][d].
__global__ void attend(const float *score, const __half *cache, const int *page, float *out,
                       int seq, int block, int kv) {
  __shared__ float part[128];
  float top = -INFINITY, sum = 0.0f, acc = 0.0f;
  for (int t = threadIdx.x; t < seq; t += 128)
    top = fmaxf(top, score[t]);
  part[threadIdx.x] = top;
  __syncthreads();
  for (int i = 0; i < 128; i++)
    top = fmaxf(top, part[i]);
  int d = blockIdx.x * 128 + threadIdx.x;
  if (d >= kv)
    return;
  for (int t = 0; t < seq; t++) {
    float p = expf(score[t] - top);
    sum += p;
    acc += p * __half2float(cache[((size_t)page[t / block] * block + t % block) * kv + d]);
  }
  out[d] = acc / sum;
}

struct Config {
  int seq = 100, kv = 64, hidden = 64, layers = 2, block = 16, iters = 5, warmup = 2, every = 1;
  uint64_t seed = 1;
};

// Compares one layer of the paged cache with X * W, all elements or 2048 random ones.
static long verify_cache(const std::vector<__half> &cache, const std::vector<int> &page,
                         const Config &c, int tensor, uint64_t seed, int iter, int layer,
                         int rank) {
  size_t total = (size_t)c.seq * c.kv;
  bool all = (double)total * c.hidden <= 1 << 22;
  long wrong = 0;
  srand(seed + iter * 131 + layer * 7 + tensor);
  for (size_t s = 0; s < (all ? total : 2048); s++) {
    size_t at = all ? s : ((size_t)rand() * RAND_MAX + rand()) % total;
    size_t t = at / c.kv, d = at % c.kv;
    double ref = 0, mag = 0;
    for (int i = 0; i < c.hidden; i++) {
      double p = (double)value(seed, X, iter, layer, t * c.hidden + i) *
                 value(seed, tensor, 0, layer, (size_t)i * c.kv + d);
      ref += p;
      mag += fabs(p);
    }
    size_t place = ((size_t)page[t / c.block] * c.block + t % c.block) * c.kv + d;
    double got = __half2float(cache[place]);
    double tol = 8 * sqrt((double)c.hidden) / (1 << 24) * mag + fabs(ref) / 2048 + 1e-7;
    if (!(fabs(got - ref) <= tol) && wrong++ < 3)
      fprintf(stderr, "rank %d iteration %d layer %d: %c[%zu][%zu] is %g, expected %g\n", rank,
              iter, layer, tensor == WK ? 'K' : 'V', t, d, got, ref);
  }
  return wrong;
}

// Compares the attention output with softmax(q K / sqrt(kv)) V over the cache as it was received.
static long verify_attention(const float *out, const std::vector<__half> &kc,
                             const std::vector<__half> &vc, const std::vector<int> &page,
                             const Config &c, uint64_t seed, int iter, int layer, int rank) {
  std::vector<double> w(c.seq), o(c.kv), mag(c.kv);
  double top = -1e30, sum = 0, err = 0, u = 1.0 / (1 << 24);
  auto row = [&](int t) { return ((size_t)page[t / c.block] * c.block + t % c.block) * c.kv; };
  for (int t = 0; t < c.seq; t++) {
    double dot = 0, abs = 0;
    for (int d = 0; d < c.kv; d++) {
      double p = (double)value(seed, QUERY, iter, layer, d) * __half2float(kc[row(t) + d]);
      dot += p;
      abs += fabs(p);
    }
    w[t] = dot / sqrt((double)c.kv);
    err = std::max(err, 8 * u * abs + 4 * u * fabs(w[t])); // 8 sqrt(kv) u * abs / sqrt(kv)
    top = std::max(top, w[t]);
  }
  for (int t = 0; t < c.seq; t++) {
    double p = exp(w[t] - top);
    sum += p;
    for (int d = 0; d < c.kv; d++) {
      o[d] += p * __half2float(vc[row(t) + d]);
      mag[d] += p * fabs(__half2float(vc[row(t) + d]));
    }
  }
  long wrong = 0;
  for (int d = 0; d < c.kv; d++) {
    double tol = (4 * err + (64 + 8 * sqrt((double)c.seq)) * u) * mag[d] / sum + 1e-7;
    if (!(fabs(out[d] - o[d] / sum) <= tol) && wrong++ < 3)
      fprintf(stderr, "rank %d iteration %d layer %d: output %d is %g, expected %g\n", rank, iter,
              layer, d, out[d], o[d] / sum);
  }
  return wrong;
}

int main(int argc, char **argv) {
  Config c;
  int help = 0;
  const option opts[] = {{"seq", required_argument, nullptr, 'n'},
                         {"kv", required_argument, nullptr, 'k'},
                         {"hidden", required_argument, nullptr, 'd'},
                         {"layers", required_argument, nullptr, 'l'},
                         {"block", required_argument, nullptr, 'b'},
                         {"iters", required_argument, nullptr, 'i'},
                         {"warmup", required_argument, nullptr, 'w'},
                         {"seed", required_argument, nullptr, 's'},
                         {"help", no_argument, nullptr, 'h'},
                         {"check-every", required_argument, nullptr, 'v'},
                         {nullptr, 0, nullptr, 0}};
  CHECK_MPI(MPI_Init(&argc, &argv));
  for (int o; (o = getopt_long(argc, argv, "h", opts, nullptr)) != -1;) {
    switch (o) {
    case 'n':
      c.seq = atoi(optarg);
      break;
    case 'k':
      c.kv = atoi(optarg);
      break;
    case 'd':
      c.hidden = atoi(optarg);
      break;
    case 'l':
      c.layers = atoi(optarg);
      break;
    case 'b':
      c.block = atoi(optarg);
      break;
    case 'i':
      c.iters = atoi(optarg);
      break;
    case 'w':
      c.warmup = atoi(optarg);
      break;
    case 'v':
      c.every = atoi(optarg);
      break;
    case 's':
      c.seed = strtoull(optarg, nullptr, 0);
      break;
    case 'h':
      help = 1;
      break;
    default:
      help = 2;
    }
  }
  int rank, nranks, local, ndev;
  CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &nranks));
  if (help || c.seq < 1 || c.kv < 1 || c.hidden < 1 || c.layers < 1 || c.block < 1 || c.iters < 1 ||
      c.warmup < 0 || c.every < 1) {
    if (rank == 0)
      printf("usage: mpirun -np RANKS %s [--seq S] [--kv D] [--hidden H] [--layers L] [--block B] "
             "[--iters I] [--warmup W] [--seed S] [--check-every N]\n",
             argv[0]);
    CHECK_MPI(MPI_Finalize());
    return help == 1 ? 0 : 2;
  }
  MPI_Comm node;
  CHECK_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
  CHECK_MPI(MPI_Comm_rank(node, &local));
  CHECK_MPI(MPI_Comm_free(&node));
  CHECK_CUDA(cudaGetDeviceCount(&ndev));
  CHECK_CUDA(cudaSetDevice(local % ndev));
  ncclUniqueId id;
  ncclComm_t comm;
  if (rank == 0) {
    CHECK_NCCL(ncclGetUniqueId(&id));
  }
  CHECK_MPI(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
  CHECK_NCCL(ncclCommInitRank(&comm, nranks, id, rank));

  bool idle = nranks % 2 == 1 && rank == nranks - 1;
  bool prefill = !idle && rank % 2 == 0, decode = !idle && rank % 2 == 1;
  int peer = prefill ? rank + 1 : rank - 1;
  uint64_t seed = c.seed + (rank / 2) * 1000; // the two of a pair agree on their data

  int blocks = (c.seq + c.block - 1) / c.block;
  size_t x_count = (size_t)c.seq * c.hidden, w_count = (size_t)c.hidden * c.kv;
  size_t layer_count = (size_t)blocks * c.block * c.kv; // of K or V, whole blocks
  __half *x, *wk, *wv, *k_cache, *v_cache, *query;
  float *score, *out;
  int *page_d;
  CHECK_CUDA(cudaMalloc(&x, c.layers * x_count * sizeof(__half)));
  CHECK_CUDA(cudaMalloc(&wk, c.layers * w_count * sizeof(__half)));
  CHECK_CUDA(cudaMalloc(&wv, c.layers * w_count * sizeof(__half)));
  CHECK_CUDA(cudaMalloc(&k_cache, c.layers * layer_count * sizeof(__half)));
  CHECK_CUDA(cudaMalloc(&v_cache, c.layers * layer_count * sizeof(__half)));
  CHECK_CUDA(cudaMalloc(&query, c.layers * c.kv * sizeof(__half)));
  CHECK_CUDA(cudaMalloc(&score, c.seq * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&out, c.layers * c.kv * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&page_d, blocks * sizeof(int)));
  cudaStream_t compute, transfer;
  CHECK_CUDA(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreateWithFlags(&transfer, cudaStreamNonBlocking));
  std::vector<cudaEvent_t> done(c.layers);
  for (cudaEvent_t &e : done)
    CHECK_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
#ifdef USE_CUBLAS
  cublasHandle_t blas;
  CHECK_CUBLAS(cublasCreate(&blas));
  CHECK_CUBLAS(cublasSetStream(blas, compute));
  const float one = 1.0f, zero = 0.0f;
#endif
  if (prefill)
    for (int l = 0; l < c.layers; l++) {
      fill<<<64, 256, 0, compute>>>(wk + l * w_count, w_count, seed, WK, 0, l);
      fill<<<64, 256, 0, compute>>>(wv + l * w_count, w_count, seed, WV, 0, l);
    }

  std::vector<int> page(blocks);
  std::iota(page.begin(), page.end(), 0);
  std::vector<__half> host_k(layer_count), host_v(layer_count);
  std::vector<float> host_out((size_t)c.layers * c.kv);
  std::vector<double> times;
  std::mt19937 rng(c.seed + rank);
  long wrong = 0;
  for (int iter = -c.warmup; iter < c.iters; iter++) {
    int data = iter < 0 ? 900 - iter : iter; // other data and other pages in each iteration
    std::shuffle(page.begin(), page.end(), rng);
    CHECK_CUDA(cudaMemcpyAsync(page_d, page.data(), blocks * sizeof(int), cudaMemcpyHostToDevice,
                               compute));
    for (int l = 0; l < c.layers; l++) {
      if (prefill)
        fill<<<64, 256, 0, compute>>>(x + l * x_count, x_count, seed, X, data, l);
      if (decode)
        fill<<<1, 256, 0, compute>>>(query + l * c.kv, c.kv, seed, QUERY, data, l);
    }
    CHECK_CUDA(cudaMemsetAsync(k_cache, 0xFF, c.layers * layer_count * sizeof(__half), compute));
    CHECK_CUDA(cudaMemsetAsync(v_cache, 0xFF, c.layers * layer_count * sizeof(__half), compute));
    CHECK_CUDA(cudaMemsetAsync(out, 0xFF, c.layers * c.kv * sizeof(float), compute));
    CHECK_CUDA(cudaStreamSynchronize(compute));
    CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
    double t0 = MPI_Wtime();

    if (prefill) {
#ifndef USE_CUBLAS
      dim3 threads(TILE, TILE), grid((c.kv + TILE - 1) / TILE, (c.seq + TILE - 1) / TILE);
#endif
      for (int l = 0; l < c.layers; l++) {
        __half *k = k_cache + l * layer_count, *v = v_cache + l * layer_count;
#ifdef USE_CUBLAS
        // Row-major K = X * W is column-major K' = W' * X'.
        CHECK_CUBLAS(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, c.kv, c.seq, c.hidden, &one,
                                  wk + l * w_count, CUDA_R_16F, c.kv, x + l * x_count, CUDA_R_16F,
                                  c.hidden, &zero, k, CUDA_R_16F, c.kv, CUBLAS_COMPUTE_32F,
                                  CUBLAS_GEMM_DEFAULT));
        CHECK_CUBLAS(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, c.kv, c.seq, c.hidden, &one,
                                  wv + l * w_count, CUDA_R_16F, c.kv, x + l * x_count, CUDA_R_16F,
                                  c.hidden, &zero, v, CUDA_R_16F, c.kv, CUBLAS_COMPUTE_32F,
                                  CUBLAS_GEMM_DEFAULT));
#else
        project<<<grid, threads, 0, compute>>>(x + l * x_count, wk + l * w_count, k, c.seq, c.kv,
                                               c.hidden);
        project<<<grid, threads, 0, compute>>>(x + l * x_count, wv + l * w_count, v, c.seq, c.kv,
                                               c.hidden);
        CHECK_CUDA(cudaGetLastError());
#endif
        CHECK_CUDA(cudaEventRecord(done[l], compute));
        CHECK_CUDA(cudaStreamWaitEvent(transfer, done[l], 0));
        CHECK_NCCL(ncclGroupStart());
        for (int b = 0; b < blocks; b++) {
          size_t at = (size_t)b * c.block * c.kv;
          size_t count = (size_t)std::min(c.block, c.seq - b * c.block) * c.kv;
          CHECK_NCCL(ncclSend(k + at, count, ncclHalf, peer, comm, transfer));
          CHECK_NCCL(ncclSend(v + at, count, ncclHalf, peer, comm, transfer));
        }
        CHECK_NCCL(ncclGroupEnd());
      }
    } else if (decode) {
      for (int l = 0; l < c.layers; l++) {
        __half *k = k_cache + l * layer_count, *v = v_cache + l * layer_count;
        CHECK_NCCL(ncclGroupStart());
        for (int b = 0; b < blocks; b++) {
          size_t at = (size_t)page[b] * c.block * c.kv;
          size_t count = (size_t)std::min(c.block, c.seq - b * c.block) * c.kv;
          CHECK_NCCL(ncclRecv(k + at, count, ncclHalf, peer, comm, transfer));
          CHECK_NCCL(ncclRecv(v + at, count, ncclHalf, peer, comm, transfer));
        }
        CHECK_NCCL(ncclGroupEnd());
        CHECK_CUDA(cudaEventRecord(done[l], transfer));
        CHECK_CUDA(cudaStreamWaitEvent(compute, done[l], 0));
        scores<<<(c.seq + 3) / 4, 128, 0, compute>>>(query + l * c.kv, k, page_d, score, c.seq,
                                                     c.block, c.kv);
        attend<<<(c.kv + 127) / 128, 128, 0, compute>>>(score, v, page_d, out + l * c.kv, c.seq,
                                                        c.block, c.kv);
        CHECK_CUDA(cudaGetLastError());
      }
    }
    CHECK_CUDA(cudaStreamSynchronize(transfer));
    CHECK_CUDA(cudaStreamSynchronize(compute));
    double ms = (MPI_Wtime() - t0) * 1e3;
    if (iter < 0)
      continue;

    CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    times.push_back(ms);
    if (!decode || (iter % c.every != 0 && iter != c.iters - 1))
      continue; // timed, not compared
    CHECK_CUDA(
        cudaMemcpy(host_out.data(), out, host_out.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int l = 0; l < c.layers; l++) {
      CHECK_CUDA(cudaMemcpy(host_k.data(), k_cache + l * layer_count, layer_count * sizeof(__half),
                            cudaMemcpyDeviceToHost));
      CHECK_CUDA(cudaMemcpy(host_v.data(), v_cache + l * layer_count, layer_count * sizeof(__half),
                            cudaMemcpyDeviceToHost));
      wrong += verify_cache(host_k, page, c, WK, seed, data, l, rank);
      wrong += verify_cache(host_v, page, c, WV, seed, data, l, rank);
      wrong += verify_attention(&host_out[l * c.kv], host_k, host_v, page, c, seed, data, l, rank);
    }
  }

  CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  if (rank == 0) {
    std::sort(times.begin(), times.end());
    printf("kv_transfer: ranks=%d pairs=%d seq=%d kv=%d hidden=%d layers=%d block=%d\n", nranks,
           nranks / 2, c.seq, c.kv, c.hidden, c.layers, c.block);
    printf("Time: %.4f ms (maximum over ranks, median of %d)\n", times[c.iters / 2], c.iters);
    printf("Verification: %s%s\n", wrong ? "FAIL" : "PASS",
           nranks < 2 ? " (one rank is idle: nothing was transferred)" : "");
  }
#ifdef USE_CUBLAS
  CHECK_CUBLAS(cublasDestroy(blas));
#endif
  for (cudaEvent_t &e : done)
    CHECK_CUDA(cudaEventDestroy(e));
  CHECK_CUDA(cudaFree(x));
  CHECK_CUDA(cudaFree(wk));
  CHECK_CUDA(cudaFree(wv));
  CHECK_CUDA(cudaFree(k_cache));
  CHECK_CUDA(cudaFree(v_cache));
  CHECK_CUDA(cudaFree(query));
  CHECK_CUDA(cudaFree(score));
  CHECK_CUDA(cudaFree(out));
  CHECK_CUDA(cudaFree(page_d));
  CHECK_NCCL(ncclCommDestroy(comm));
  CHECK_CUDA(cudaStreamDestroy(compute));
  CHECK_CUDA(cudaStreamDestroy(transfer));
  CHECK_MPI(MPI_Finalize());
  return wrong ? 1 : 0;
}
