// SPDX-License-Identifier: Apache-2.0
//
// GEMM + ReduceScatter, tensor-parallel by the inner dimension: rank r multiplies its columns of A
// by its rows of B, the partial products are summed over ranks and every rank keeps its rows of C.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 $(pkg-config --cflags mpich) gemm_reduce_scatter.cu
//              -o gemm_reduce_scatter -lnccl -lcublas -lmpich          [-DNO_CUBLAS]
//   run:   mpirun -np 4 ./gemm_reduce_scatter --m 2048 --n 2048 --k 8192 [--bf16] [--cublas]
//
// Shows: the element type as a template parameter with a type map to NCCL's, a helper function used
// by the warm-up and the timed loop, padding rows, an inner dimension that does not divide evenly.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <getopt.h>
#include <mpi.h>
#include <nccl.h>
#ifndef NO_CUBLAS
#include <cublas_v2.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(api, good, text, call)                                                               \
  do {                                                                                             \
    auto status_ = (call);                                                                         \
    if (status_ != good) {                                                                         \
      fprintf(stderr, "[%s:%d] %s error: %s\n", __FILE__, __LINE__, api, text);                    \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  } while (0)
#define CUDA_SAFE_CALL(call) CHECK("CUDA", cudaSuccess, cudaGetErrorString(status_), call)
#define NCCL_SAFE_CALL(call) CHECK("NCCL", ncclSuccess, ncclGetErrorString(status_), call)
#define MPI_SAFE_CALL(call) CHECK("MPI", MPI_SUCCESS, #call, call)
#ifndef NO_CUBLAS
#define CUBLAS_SAFE_CALL(call) CHECK("cuBLAS", CUBLAS_STATUS_SUCCESS, #call, call)
#endif

template <typename T> struct TypeMap;
template <> struct TypeMap<float> {
  static constexpr ncclDataType_t nccl = ncclFloat32;
  static constexpr cudaDataType cuda = CUDA_R_32F;
  static constexpr double roundoff = 1.0 / (1 << 24);
};
template <> struct TypeMap<__nv_bfloat16> {
  static constexpr ncclDataType_t nccl = ncclBfloat16;
  static constexpr cudaDataType cuda = CUDA_R_16BF;
  static constexpr double roundoff = 1.0 / 256;
};

// The value of one input element: a hash of (seed, tensor, iteration, index), one of 255 numbers in
// (-1, 1) that float and bfloat16 hold exactly, so host and device agree to the bit.
__host__ __device__ inline float value(uint64_t seed, uint64_t tensor, uint64_t iter, uint64_t i) {
  uint64_t x = seed * 0x9E3779B97F4A7C15ull + (tensor << 56) + (iter << 40) + i;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  return (float)((int)(x % 255) - 127) * (1.0f / 128);
}

// dst = rows [r0, r0 + nr) and columns [c0, c0 + nc) of a matrix that is `width` wide.
template <typename T>
__global__ void fill(T *dst, size_t width, size_t r0, size_t nr, size_t c0, size_t nc,
                     uint64_t seed, int tensor, int iter) {
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < nr * nc; i += stride)
    dst[i] = (T)value(seed, tensor, iter, (r0 + i / nc) * width + c0 + i % nc);
}

#define TILE 16

// C[m x n] = A[m x k] * B[k x n], row major.
template <typename T> __global__ void gemm(const T *A, const T *B, T *C, int m, int n, int k) {
  __shared__ float a[TILE][TILE];
  __shared__ float b[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y;
  int col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int k0 = 0; k0 < k; k0 += TILE) {
    int ka = k0 + threadIdx.x, kb = k0 + threadIdx.y;
    a[threadIdx.y][threadIdx.x] = row < m && ka < k ? (float)A[(size_t)row * k + ka] : 0.0f;
    b[threadIdx.y][threadIdx.x] = kb < k && col < n ? (float)B[(size_t)kb * n + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; i++)
      sum += a[threadIdx.y][i] * b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n)
    C[(size_t)row * n + col] = (T)sum;
}

struct Config {
  int m = 256, n = 256, k = 256, iters = 5, warmup = 2, every = 1;
  bool cublas = false, bf16 = false;
  uint64_t seed = 1;
};

// Rows [first, first + rows) of C against double: all, or 4096 random elements.
template <typename T>
static long verify(const std::vector<T> &C, const Config &c, int first, int rows, int iter,
                   int rank, int nranks) {
  size_t total = (size_t)rows * c.n;
  bool all = (double)total * c.k <= 1 << 24;
  long wrong = 0;
  srand(c.seed + iter * 131 + rank);
  for (size_t s = 0; total > 0 && s < (all ? total : 4096); s++) {
    size_t at = all ? s : ((size_t)rand() * RAND_MAX + rand()) % total;
    size_t i = first + at / c.n, j = at % c.n;
    double ref = 0, mag = 0;
    // Partial products and partial sums are rounded to T: bound each by the sum of magnitudes.
    for (int r = 0, l = 0; r < nranks; r++) {
      int end = l + c.k / nranks + (r < c.k % nranks);
      double part = 0;
      for (; l < end; l++) {
        double p = (double)value(c.seed, 1, iter, i * c.k + l) *
                   value(c.seed, 2, iter, (size_t)l * c.n + j);
        part += p;
        mag += fabs(p) * 8 * sqrt((double)c.k) / (1 << 24);
      }
      ref += part;
      mag += 2 * TypeMap<T>::roundoff * fabs(part) * (nranks > 1 ? nranks : 1);
    }
    double got = (float)C[at];
    if (!(fabs(got - ref) <= mag) && wrong++ < 3)
      fprintf(stderr, "rank %d iteration %d: C[%zu][%zu] is %g, expected %g\n", rank, iter, i, j,
              got, ref);
  }
  return wrong;
}

// Everything one rank owns.
template <typename T> struct Problem {
  ncclComm_t comm;
  cudaStream_t stream;
#ifndef NO_CUBLAS
  cublasHandle_t blas;
#endif
  T *A, *B, *partial, *C;
  int my_k, rows, nranks;
};

// partial = A * B, then C = my rows of the sum of all ranks' partial.
template <typename T> static void step(const Problem<T> &p, const Config &c) {
  if (c.cublas) {
#ifndef NO_CUBLAS
    const float one = 1.0f, zero = 0.0f;
    // Row-major C = A * B is column-major C' = B' * A'.
    CUBLAS_SAFE_CALL(cublasGemmEx(p.blas, CUBLAS_OP_N, CUBLAS_OP_N, c.n, c.m, p.my_k, &one, p.B,
                                  TypeMap<T>::cuda, c.n, p.A, TypeMap<T>::cuda, p.my_k, &zero,
                                  p.partial, TypeMap<T>::cuda, c.n, CUBLAS_COMPUTE_32F,
                                  CUBLAS_GEMM_DEFAULT));
#endif
  } else {
    dim3 block(TILE, TILE), grid((c.n + TILE - 1) / TILE, (c.m + TILE - 1) / TILE);
    gemm<T><<<grid, block, 0, p.stream>>>(p.A, p.B, p.partial, c.m, c.n, p.my_k);
    CUDA_SAFE_CALL(cudaGetLastError());
  }
  // Rows beyond m pad the last ranks' part; they must not be garbage when they are summed.
  size_t used = (size_t)c.m * c.n, padded = (size_t)p.rows * p.nranks * c.n;
  if (padded > used)
    CUDA_SAFE_CALL(cudaMemsetAsync(p.partial + used, 0, (padded - used) * sizeof(T), p.stream));
  NCCL_SAFE_CALL(ncclReduceScatter(p.partial, p.C, (size_t)p.rows * c.n, TypeMap<T>::nccl, ncclSum,
                                   p.comm, p.stream));
}

template <typename T> static long run(const Config &c, int rank, int nranks, ncclComm_t comm) {
  Problem<T> p;
  p.comm = comm;
  p.nranks = nranks;
  p.my_k = c.k / nranks + (rank < c.k % nranks);
  int k0 = rank * (c.k / nranks) + std::min(rank, c.k % nranks);
  p.rows = (c.m + nranks - 1) / nranks;
  int first = std::min(rank * p.rows, c.m), mine = std::min(p.rows, c.m - first);
  size_t part = (size_t)p.rows * c.n;
  CUDA_SAFE_CALL(cudaMalloc(&p.A, (size_t)c.m * p.my_k * sizeof(T)));
  CUDA_SAFE_CALL(cudaMalloc(&p.B, (size_t)p.my_k * c.n * sizeof(T)));
  CUDA_SAFE_CALL(cudaMalloc(&p.partial, part * nranks * sizeof(T)));
  CUDA_SAFE_CALL(cudaMalloc(&p.C, part * sizeof(T)));
  CUDA_SAFE_CALL(cudaStreamCreate(&p.stream));
#ifndef NO_CUBLAS
  CUBLAS_SAFE_CALL(cublasCreate(&p.blas));
  CUBLAS_SAFE_CALL(cublasSetStream(p.blas, p.stream));
#endif

  auto prepare = [&](int iter) { // new data, poisoned outputs
    fill<T><<<64, 256, 0, p.stream>>>(p.A, c.k, 0, c.m, k0, p.my_k, c.seed, 1, iter);
    fill<T><<<64, 256, 0, p.stream>>>(p.B, c.n, k0, p.my_k, 0, c.n, c.seed, 2, iter);
    CUDA_SAFE_CALL(cudaGetLastError());
    CUDA_SAFE_CALL(cudaMemsetAsync(p.partial, 0xFF, part * nranks * sizeof(T), p.stream));
    CUDA_SAFE_CALL(cudaMemsetAsync(p.C, 0xFF, part * sizeof(T), p.stream));
    CUDA_SAFE_CALL(cudaStreamSynchronize(p.stream));
    MPI_SAFE_CALL(MPI_Barrier(MPI_COMM_WORLD));
  };

  for (int w = 0; w < c.warmup; w++) {
    prepare(1000 + w);
    step(p, c);
  }
  CUDA_SAFE_CALL(cudaStreamSynchronize(p.stream));

  std::vector<T> host(part);
  std::vector<double> times;
  long wrong = 0;
  for (int iter = 0; iter < c.iters; iter++) {
    prepare(iter);
    double t0 = MPI_Wtime();
    step(p, c);
    CUDA_SAFE_CALL(cudaStreamSynchronize(p.stream));
    double ms = (MPI_Wtime() - t0) * 1e3;
    MPI_SAFE_CALL(MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    times.push_back(ms);
    if (iter % c.every != 0 && iter != c.iters - 1)
      continue; // timed, not compared
    CUDA_SAFE_CALL(cudaMemcpy(host.data(), p.C, part * sizeof(T), cudaMemcpyDeviceToHost));
    wrong += verify<T>(host, c, first, mine, iter, rank, nranks);
  }
  MPI_SAFE_CALL(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  if (rank == 0) {
    std::sort(times.begin(), times.end());
    printf("gemm_reduce_scatter: ranks=%d m=%d n=%d k=%d type=%s gemm=%s\n", nranks, c.m, c.n, c.k,
           c.bf16 ? "bf16" : "fp32", c.cublas ? "cublas" : "plain");
    printf("Time: %.4f ms (maximum over ranks, median of %d)\n", times[c.iters / 2], c.iters);
    printf("Verification: %s\n", wrong ? "FAIL" : "PASS");
  }
#ifndef NO_CUBLAS
  CUBLAS_SAFE_CALL(cublasDestroy(p.blas));
#endif
  CUDA_SAFE_CALL(cudaFree(p.A));
  CUDA_SAFE_CALL(cudaFree(p.B));
  CUDA_SAFE_CALL(cudaFree(p.partial));
  CUDA_SAFE_CALL(cudaFree(p.C));
  CUDA_SAFE_CALL(cudaStreamDestroy(p.stream));
  return wrong;
}

int main(int argc, char **argv) {
  Config c;
  int help = 0;
  const option opts[] = {{"m", required_argument, nullptr, 'm'},
                         {"n", required_argument, nullptr, 'n'},
                         {"k", required_argument, nullptr, 'k'},
                         {"iters", required_argument, nullptr, 'i'},
                         {"warmup", required_argument, nullptr, 'w'},
                         {"seed", required_argument, nullptr, 's'},
                         {"cublas", no_argument, nullptr, 'c'},
                         {"bf16", no_argument, nullptr, 'b'},
                         {"help", no_argument, nullptr, 'h'},
                         {"check-every", required_argument, nullptr, 'v'},
                         {nullptr, 0, nullptr, 0}};
  MPI_SAFE_CALL(MPI_Init(&argc, &argv));
  for (int o; (o = getopt_long(argc, argv, "h", opts, nullptr)) != -1;) {
    switch (o) {
    case 'm':
      c.m = atoi(optarg);
      break;
    case 'n':
      c.n = atoi(optarg);
      break;
    case 'k':
      c.k = atoi(optarg);
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
    case 'c':
      c.cublas = true;
      break;
    case 'b':
      c.bf16 = true;
      break;
    case 'h':
      help = 1;
      break;
    default:
      help = 2;
    }
  }
#ifdef NO_CUBLAS
  if (c.cublas)
    help = 2;
#endif
  int rank, nranks, local, ndev;
  MPI_SAFE_CALL(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  MPI_SAFE_CALL(MPI_Comm_size(MPI_COMM_WORLD, &nranks));
  if (help || c.m < 1 || c.n < 1 || c.k < nranks || c.iters < 1 || c.warmup < 0 || c.every < 1) {
    if (rank == 0)
      printf("usage: mpirun -np RANKS %s [--m M] [--n N] [--k K (at least RANKS)] [--iters I] "
             "[--warmup W] [--seed S] [--check-every N] [--bf16] [--cublas]\n",
             argv[0]);
    MPI_SAFE_CALL(MPI_Finalize());
    return help == 1 ? 0 : 2;
  }
  MPI_Comm node;
  MPI_SAFE_CALL(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
  MPI_SAFE_CALL(MPI_Comm_rank(node, &local));
  MPI_SAFE_CALL(MPI_Comm_free(&node));
  CUDA_SAFE_CALL(cudaGetDeviceCount(&ndev));
  CUDA_SAFE_CALL(cudaSetDevice(local % ndev));
  ncclUniqueId id;
  ncclComm_t comm;
  if (rank == 0)
    NCCL_SAFE_CALL(ncclGetUniqueId(&id));
  MPI_SAFE_CALL(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
  NCCL_SAFE_CALL(ncclCommInitRank(&comm, nranks, id, rank));

  long wrong =
      c.bf16 ? run<__nv_bfloat16>(c, rank, nranks, comm) : run<float>(c, rank, nranks, comm);

  NCCL_SAFE_CALL(ncclCommDestroy(comm));
  MPI_SAFE_CALL(MPI_Finalize());
  return wrong ? 1 : 0;
}
