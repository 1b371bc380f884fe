// SPDX-License-Identifier: Apache-2.0
//
// The end of a tensor-parallel transformer block, layer by layer: every rank has a partial sum of
// the block's output in half precision, the sums are all-reduced, added to the residual, and
// normalised by the root mean square of each token.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 $(pkg-config --cflags mpich) rmsnorm_allreduce.cu
//              -o rmsnorm_allreduce -lnccl -lmpich
//   run:   mpirun -np 4 ./rmsnorm_allreduce --tokens 2048 --hidden 8192 --layers 8
//
// Shows: producer kernel -> AllReduce -> consumer kernel on one stream, small and latency-bound for
// few tokens, in a loop that uses the same buffers again in each layer.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <getopt.h>
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static int fail(const char *what, const char *why, int line) {
  fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, line, what, why);
  return MPI_Abort(MPI_COMM_WORLD, 2);
}
#define CUDA(x)                                                                                    \
  do {                                                                                             \
    cudaError_t err_;                                                                              \
    if ((err_ = (x)) != cudaSuccess)                                                               \
      fail(#x, cudaGetErrorString(err_), __LINE__);                                                \
  } while (0)
#define NCCL(x)                                                                                    \
  do {                                                                                             \
    ncclResult_t err_;                                                                             \
    if ((err_ = (x)) != ncclSuccess)                                                               \
      fail(#x, ncclGetErrorString(err_), __LINE__);                                                \
  } while (0)
#define MPI(x)                                                                                     \
  do {                                                                                             \
    if ((x) != MPI_SUCCESS)                                                                        \
      fail(#x, "failed", __LINE__);                                                                \
  } while (0)

enum { RESIDUAL = 1, GATE = 2, UP = 3, GAMMA = 4 }; // tensors, for value()
static const float EPS = 1e-5f;

// One input element, a multiple of 1/128 in (-1, 1): exact in half, the same on host and device.
__host__ __device__ inline float value(uint64_t seed, uint64_t tensor, uint64_t iter,
                                       uint64_t layer, uint64_t rank, uint64_t i) {
  uint64_t x = seed * 0x9E3779B97F4A7C15ull + (tensor << 61) + (iter << 51) + (layer << 43) +
               (rank << 36) + i;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  return (float)((int)(x % 255) - 127) * (1.0f / 128);
}

template <typename T>
__global__ void fill(T *dst, size_t count, uint64_t seed, int tensor, int iter, int layer,
                     int rank) {
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
    dst[i] = (T)value(seed, tensor, iter, layer, rank, i);
}

// This rank's share of the block's output: partial = silu(gate) * up.
__global__ void gated(const __half *gate, const __half *up, __half *partial, size_t count) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    float g = __half2float(gate[i]);
    partial[i] = __float2half(g / (1.0f + expf(-g)) * __half2float(up[i]));
  }
}

// One block of 256 threads per token: residual += sum; out = residual / rms(residual) * gamma.
__global__ void add_rmsnorm(const __half *sum, float *residual, const __half *gamma, __half *out,
                            int hidden) {
  __shared__ float part[8];
  size_t row = (size_t)blockIdx.x * hidden;
  float square = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    float x = residual[row + i] + __half2float(sum[row + i]);
    residual[row + i] = x;
    square += x * x;
  }
  for (int d = 16; d > 0; d /= 2)
    square += __shfl_xor_sync(0xffffffffu, square, d);
  if (threadIdx.x % 32 == 0)
    part[threadIdx.x / 32] = square;
  __syncthreads();
  square = 0.0f;
  for (int w = 0; w < 8; w++)
    square += part[w];
  float scale = rsqrtf(square / hidden + EPS);
  for (int i = threadIdx.x; i < hidden; i += blockDim.x)
    out[row + i] = __float2half(residual[row + i] * scale * __half2float(gamma[i]));
}

struct Config {
  int tokens = 16, hidden = 96, layers = 3, iters = 5, warmup = 2, every = 1;
  uint64_t seed = 1;
};

// Recomputes tokens through all layers in double: every token, or 8 random ones.
// out is [layers][tokens][hidden].
static long verify(const std::vector<__half> &out, const Config &c, int iter, int rank,
                   int nranks) {
  bool all = (double)c.tokens * c.hidden * c.layers * nranks <= 1 << 20;
  long wrong = 0;
  srand(c.seed + iter * 131 + rank);
  std::vector<double> x(c.hidden), slack(c.hidden);
  for (int s = 0; s < (all ? c.tokens : 8); s++) {
    int t = all ? s : rand() % c.tokens;
    for (int i = 0; i < c.hidden; i++) {
      x[i] = value(c.seed, RESIDUAL, iter, 0, 0, (size_t)t * c.hidden + i);
      slack[i] = 0;
    }
    for (int l = 0; l < c.layers; l++) {
      double square = 0, off = 0;
      for (int i = 0; i < c.hidden; i++) {
        size_t at = (size_t)t * c.hidden + i;
        double sum = 0, mag = 0;
        for (int r = 0; r < nranks; r++) {
          double g = value(c.seed, GATE, iter, l, r, at);
          double p = g / (1 + exp(-g)) * value(c.seed, UP, iter, l, r, at);
          sum += p;
          mag += fabs(p);
        }
        // One rounding to half for each part and one for each addition; tiny sums are subnormal.
        slack[i] += (nranks + 1) * mag / 2048 + nranks * 6e-8;
        x[i] += sum;
        square += x[i] * x[i];
        off += slack[i] * slack[i];
      }
      double rms = sqrt(square / c.hidden + EPS), rel = sqrt(off / c.hidden) / rms + 1e-5;
      for (int i = 0; i < c.hidden; i++) {
        double gamma = value(c.seed, GAMMA, 0, 0, 0, i), ref = x[i] / rms * gamma;
        double got = __half2float(out[((size_t)l * c.tokens + t) * c.hidden + i]);
        double tol = slack[i] / rms * fabs(gamma) + fabs(ref) * (1.0 / 2048 + 1.1 * rel) + 1e-7;
        if (!(fabs(got - ref) <= tol) && wrong++ < 3)
          fprintf(stderr, "rank %d iteration %d: layer %d token %d element %d is %g, expected %g\n",
                  rank, iter, l, t, i, got, ref);
      }
    }
  }
  return wrong;
}

int main(int argc, char **argv) {
  Config c;
  int help = 0;
  const option opts[] = {{"tokens", required_argument, nullptr, 't'},
                         {"hidden", required_argument, nullptr, 'd'},
                         {"layers", required_argument, nullptr, 'l'},
                         {"iters", required_argument, nullptr, 'i'},
                         {"warmup", required_argument, nullptr, 'w'},
                         {"seed", required_argument, nullptr, 's'},
                         {"check-every", required_argument, nullptr, 'v'},
                         {"help", no_argument, nullptr, 'h'},
                         {nullptr, 0, nullptr, 0}};
  MPI(MPI_Init(&argc, &argv));
  for (int o; (o = getopt_long(argc, argv, "h", opts, nullptr)) != -1;) {
    switch (o) {
    case 't':
      c.tokens = atoi(optarg);
      break;
    case 'd':
      c.hidden = atoi(optarg);
      break;
    case 'l':
      c.layers = atoi(optarg);
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
  MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  MPI(MPI_Comm_size(MPI_COMM_WORLD, &nranks));
  if (help || c.tokens < 1 || c.hidden < 1 || c.layers < 1 || c.layers > 255 || c.iters < 1 ||
      c.warmup < 0 || c.every < 1) {
    if (rank == 0)
      printf("usage: mpirun -np RANKS %s [--tokens T] [--hidden H] [--layers L (up to 255)] "
             "[--iters I] [--warmup W] [--seed S] [--check-every N]\n",
             argv[0]);
    MPI(MPI_Finalize());
    return help == 1 ? 0 : 2;
  }
  MPI_Comm node;
  MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
  MPI(MPI_Comm_rank(node, &local));
  MPI(MPI_Comm_free(&node));
  CUDA(cudaGetDeviceCount(&ndev));
  CUDA(cudaSetDevice(local % ndev));
  ncclUniqueId id;
  ncclComm_t comm;
  if (rank == 0)
    NCCL(ncclGetUniqueId(&id));
  MPI(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
  NCCL(ncclCommInitRank(&comm, nranks, id, rank));

  size_t count = (size_t)c.tokens * c.hidden, bytes = count * sizeof(__half);
  __half *gate, *up, *partial, *sum, *gamma, *out;
  float *residual;
  CUDA(cudaMalloc(&gate, c.layers * bytes));
  CUDA(cudaMalloc(&up, c.layers * bytes));
  CUDA(cudaMalloc(&partial, bytes));
  CUDA(cudaMalloc(&sum, bytes));
  CUDA(cudaMalloc(&gamma, c.hidden * sizeof(__half)));
  CUDA(cudaMalloc(&residual, count * sizeof(float)));
  CUDA(cudaMalloc(&out, c.layers * bytes));
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  cudaEvent_t start, stop;
  CUDA(cudaEventCreate(&start));
  CUDA(cudaEventCreate(&stop));
  fill<__half><<<8, 256, 0, stream>>>(gamma, c.hidden, c.seed, GAMMA, 0, 0, 0);

  std::vector<__half> host(c.layers * count);
  std::vector<float> times;
  long wrong = 0;
  const unsigned blocks = (unsigned)((count + 255) / 256);
  for (int iter = -c.warmup; iter < c.iters; iter++) {
    int data = iter < 0 ? 900 - iter : iter; // other data in each iteration
    for (int l = 0; l < c.layers; l++) {
      fill<__half><<<64, 256, 0, stream>>>(gate + l * count, count, c.seed, GATE, data, l, rank);
      fill<__half><<<64, 256, 0, stream>>>(up + l * count, count, c.seed, UP, data, l, rank);
    }
    fill<float><<<64, 256, 0, stream>>>(residual, count, c.seed, RESIDUAL, data, 0, 0);
    CUDA(cudaMemsetAsync(partial, 0xFF, bytes, stream));
    CUDA(cudaMemsetAsync(sum, 0xFF, bytes, stream));
    CUDA(cudaMemsetAsync(out, 0xFF, c.layers * bytes, stream));
    CUDA(cudaStreamSynchronize(stream));
    MPI(MPI_Barrier(MPI_COMM_WORLD));

    CUDA(cudaEventRecord(start, stream));
    for (int l = 0; l < c.layers; l++) {
      gated<<<blocks, 256, 0, stream>>>(gate + l * count, up + l * count, partial, count);
      NCCL(ncclAllReduce(partial, sum, count, ncclFloat16, ncclSum, comm, stream));
      add_rmsnorm<<<c.tokens, 256, 0, stream>>>(sum, residual, gamma, out + l * count, c.hidden);
    }
    CUDA(cudaEventRecord(stop, stream));
    CUDA(cudaGetLastError());
    CUDA(cudaStreamSynchronize(stream));
    if (iter < 0)
      continue;

    float ms;
    CUDA(cudaEventElapsedTime(&ms, start, stop));
    MPI(MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD));
    times.push_back(ms);
    if (iter % c.every != 0 && iter != c.iters - 1)
      continue; // timed, not compared
    CUDA(cudaMemcpy(host.data(), out, c.layers * bytes, cudaMemcpyDeviceToHost));
    wrong += verify(host, c, data, rank, nranks);
  }

  MPI(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  if (rank == 0) {
    std::sort(times.begin(), times.end());
    printf("rmsnorm_allreduce: ranks=%d tokens=%d hidden=%d layers=%d\n", nranks, c.tokens,
           c.hidden, c.layers);
    printf("Time: %.4f ms (maximum over ranks, median of %d)\n", times[c.iters / 2], c.iters);
    printf("Verification: %s\n", wrong ? "FAIL" : "PASS");
  }
  CUDA(cudaEventDestroy(start));
  CUDA(cudaEventDestroy(stop));
  CUDA(cudaFree(gate));
  CUDA(cudaFree(up));
  CUDA(cudaFree(partial));
  CUDA(cudaFree(sum));
  CUDA(cudaFree(gamma));
  CUDA(cudaFree(residual));
  CUDA(cudaFree(out));
  NCCL(ncclCommDestroy(comm));
  CUDA(cudaStreamDestroy(stream));
  MPI(MPI_Finalize());
  return wrong ? 1 : 0;
}
