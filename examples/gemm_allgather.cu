// SPDX-License-Identifier: Apache-2.0
//
// GEMM + AllGather, tensor-parallel by rows: rank r multiplies its rows of A by the whole of B,
// then every rank gathers all rows of C.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 $(pkg-config --cflags mpich) gemm_allgather.cu
//              -o gemm_allgather -lnccl -lcublas -lmpich       [-DUSE_BF16] [-DNO_CUBLAS]
//   run:   mpirun -np 4 ./gemm_allgather --m 2048 --n 2048 --k 2048 [--cublas]
//
// Shows: kernel, then collective on one stream; a warm-up loop with the same calls before the timed
// loop; the element type chosen by #ifdef.  m need not be divisible by the number of ranks.
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

#ifdef USE_BF16
typedef __nv_bfloat16 real;
#define NCCL_REAL_TYPE ncclBfloat16
#define CUDA_REAL_TYPE CUDA_R_16BF
#define REAL_ROUNDOFF (1.0 / 256)
#else
typedef float real;
#define NCCL_REAL_TYPE ncclFloat
#define CUDA_REAL_TYPE CUDA_R_32F
#define REAL_ROUNDOFF (1.0 / (1 << 24))
#endif

#define CUDACHECK(cmd)                                                                             \
  do {                                                                                             \
    cudaError_t err_ = (cmd);                                                                      \
    if (err_ != cudaSuccess) {                                                                     \
      fprintf(stderr, "%s:%d: CUDA error: %s\n", __FILE__, __LINE__, cudaGetErrorString(err_));    \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  } while (0)

#define NCCLCHECK(cmd)                                                                             \
  do {                                                                                             \
    ncclResult_t res_ = (cmd);                                                                     \
    if (res_ != ncclSuccess) {                                                                     \
      fprintf(stderr, "%s:%d: NCCL error: %s\n", __FILE__, __LINE__, ncclGetErrorString(res_));    \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  } while (0)

#define MPICHECK(cmd)                                                                              \
  do {                                                                                             \
    int mpi_ = (cmd);                                                                              \
    if (mpi_ != MPI_SUCCESS) {                                                                     \
      fprintf(stderr, "%s:%d: MPI error %d\n", __FILE__, __LINE__, mpi_);                          \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  } while (0)

#ifndef NO_CUBLAS
#define CUBLASCHECK(cmd)                                                                           \
  do {                                                                                             \
    cublasStatus_t st_ = (cmd);                                                                    \
    if (st_ != CUBLAS_STATUS_SUCCESS) {                                                            \
      fprintf(stderr, "%s:%d: cuBLAS error %d\n", __FILE__, __LINE__, (int)st_);                   \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  } while (0)
#endif

// The value of one input element: a hash of (seed, tensor, iteration, index), one of 255 numbers in
// (-1, 1) that float and bfloat16 hold exactly, so host and device agree to the bit.
__host__ __device__ inline float value(uint64_t seed, uint64_t tensor, uint64_t iter, uint64_t i) {
  uint64_t x = seed * 0x9E3779B97F4A7C15ull + (tensor << 56) + (iter << 40) + i;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  return (float)((int)(x % 255) - 127) * (1.0f / 128);
}

// dst[i] = element first + i of the tensor.
__global__ void fill(real *dst, size_t count, uint64_t seed, int tensor, int iter, size_t first) {
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
    dst[i] = (real)value(seed, tensor, iter, first + i);
}

#define TILE 16

// C[m x n] = A[m x k] * B[k x n], row major.
__global__ void gemm(const real *A, const real *B, real *C, int m, int n, int k) {
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
    C[(size_t)row * n + col] = (real)sum;
}

// Compares C with a reference computed in double: every element, or 4096 random ones if that is too
// much.  Returns the number of wrong elements.
static long verify(const std::vector<real> &C, int m, int n, int k, uint64_t seed, int iter,
                   int rank) {
  size_t total = (size_t)m * n;
  bool all = (double)total * k <= 1 << 24;
  size_t samples = all ? total : 4096;
  long wrong = 0;
  srand(seed + iter * 131 + rank);
  for (size_t s = 0; s < samples; s++) {
    size_t at = all ? s : ((size_t)rand() * RAND_MAX + rand()) % total;
    size_t i = at / n, j = at % n;
    double ref = 0, mag = 0;
    for (int l = 0; l < k; l++) {
      double p = (double)value(seed, 1, iter, i * k + l) * value(seed, 2, iter, (size_t)l * n + j);
      ref += p;
      mag += fabs(p);
    }
    double tol = 8 * sqrt((double)k) / (1 << 24) * mag + REAL_ROUNDOFF * fabs(ref);
    double got = (float)C[at];
    if (!(fabs(got - ref) <= tol)) {
      if (wrong++ < 3)
        fprintf(stderr, "rank %d iteration %d: C[%zu][%zu] is %g, expected %g\n", rank, iter, i, j,
                got, ref);
    }
  }
  return wrong;
}

static void usage(const char *name) {
  printf("usage: mpirun -np RANKS %s [--m M] [--n N] [--k K] [--iters I] [--warmup W] [--seed S] "
         "[--check-every N] [--cublas]\n",
         name);
}

int main(int argc, char **argv) {
  int m = 256, n = 256, k = 256, iters = 5, warmup = 2, every = 1, use_cublas = 0, help = 0;
  uint64_t seed = 1;
  const option opts[] = {
      {"m", required_argument, nullptr, 'm'},      {"n", required_argument, nullptr, 'n'},
      {"k", required_argument, nullptr, 'k'},      {"iters", required_argument, nullptr, 'i'},
      {"warmup", required_argument, nullptr, 'w'}, {"check-every", required_argument, nullptr, 'v'},
      {"seed", required_argument, nullptr, 's'},   {"cublas", no_argument, nullptr, 'c'},
      {"help", no_argument, nullptr, 'h'},         {nullptr, 0, nullptr, 0}};
  MPICHECK(MPI_Init(&argc, &argv));
  for (int c; (c = getopt_long(argc, argv, "h", opts, nullptr)) != -1;) {
    switch (c) {
    case 'm':
      m = atoi(optarg);
      break;
    case 'n':
      n = atoi(optarg);
      break;
    case 'k':
      k = atoi(optarg);
      break;
    case 'i':
      iters = atoi(optarg);
      break;
    case 'w':
      warmup = atoi(optarg);
      break;
    case 'v':
      every = atoi(optarg);
      break;
    case 's':
      seed = strtoull(optarg, nullptr, 0);
      break;
    case 'c':
      use_cublas = 1;
      break;
    case 'h':
      help = 1;
      break;
    default:
      help = 2;
    }
  }
#ifdef NO_CUBLAS
  if (use_cublas)
    help = 2;
#endif
  int rank, nranks, local, ndev;
  MPICHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  MPICHECK(MPI_Comm_size(MPI_COMM_WORLD, &nranks));
  if (help || m < 1 || n < 1 || k < 1 || iters < 1 || warmup < 0 || every < 1) {
    if (rank == 0)
      usage(argv[0]);
    MPICHECK(MPI_Finalize());
    return help == 1 ? 0 : 2;
  }

  // One GPU per process; processes of one node may share a GPU.
  MPI_Comm node;
  MPICHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
  MPICHECK(MPI_Comm_rank(node, &local));
  MPICHECK(MPI_Comm_free(&node));
  CUDACHECK(cudaGetDeviceCount(&ndev));
  CUDACHECK(cudaSetDevice(local % ndev));

  ncclUniqueId id;
  ncclComm_t comm;
  if (rank == 0)
    NCCLCHECK(ncclGetUniqueId(&id));
  MPICHECK(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
  NCCLCHECK(ncclCommInitRank(&comm, nranks, id, rank));

  // Every rank sends the same number of rows; the last ranks may own fewer (or none).
  int rows = (m + nranks - 1) / nranks;
  int first = std::min(rank * rows, m);
  int mine = std::min(rows, m - first);
  size_t part = (size_t)rows * n;
  real *A, *B, *Cpart, *C;
  CUDACHECK(cudaMalloc(&A, (size_t)rows * k * sizeof(real)));
  CUDACHECK(cudaMalloc(&B, (size_t)k * n * sizeof(real)));
  CUDACHECK(cudaMalloc(&Cpart, part * sizeof(real)));
  CUDACHECK(cudaMalloc(&C, part * nranks * sizeof(real)));
  cudaStream_t stream;
  cudaEvent_t start, stop;
  CUDACHECK(cudaStreamCreate(&stream));
  CUDACHECK(cudaEventCreate(&start));
  CUDACHECK(cudaEventCreate(&stop));
#ifndef NO_CUBLAS
  cublasHandle_t blas;
  CUBLASCHECK(cublasCreate(&blas));
  CUBLASCHECK(cublasSetStream(blas, stream));
  const float one = 1.0f, zero = 0.0f;
#endif
  dim3 block(TILE, TILE);
  dim3 grid((n + TILE - 1) / TILE, (rows + TILE - 1) / TILE);

  // Warm-up: the same calls as below, on other data.
  for (int w = 0; w < warmup; w++) {
    int iter = 1000 + w;
    fill<<<64, 256, 0, stream>>>(A, (size_t)mine * k, seed, 1, iter, (size_t)first * k);
    fill<<<64, 256, 0, stream>>>(B, (size_t)k * n, seed, 2, iter, 0);
    CUDACHECK(cudaMemsetAsync(Cpart, 0xFF, part * sizeof(real), stream));
    if (use_cublas) {
#ifndef NO_CUBLAS
      if (mine > 0)
        CUBLASCHECK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, mine, k, &one, B,
                                 CUDA_REAL_TYPE, n, A, CUDA_REAL_TYPE, k, &zero, Cpart,
                                 CUDA_REAL_TYPE, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
#endif
    } else {
      gemm<<<grid, block, 0, stream>>>(A, B, Cpart, mine, n, k);
      CUDACHECK(cudaGetLastError());
    }
    NCCLCHECK(ncclAllGather(Cpart, C, part, NCCL_REAL_TYPE, comm, stream));
  }
  CUDACHECK(cudaStreamSynchronize(stream));

  std::vector<real> host((size_t)m * n);
  std::vector<double> times;
  long wrong = 0;
  for (int iter = 0; iter < iters; iter++) {
    fill<<<64, 256, 0, stream>>>(A, (size_t)mine * k, seed, 1, iter, (size_t)first * k);
    fill<<<64, 256, 0, stream>>>(B, (size_t)k * n, seed, 2, iter, 0);
    CUDACHECK(cudaMemsetAsync(Cpart, 0xFF, part * sizeof(real), stream));
    CUDACHECK(cudaMemsetAsync(C, 0xFF, part * nranks * sizeof(real), stream));
    CUDACHECK(cudaStreamSynchronize(stream));
    MPICHECK(MPI_Barrier(MPI_COMM_WORLD));

    CUDACHECK(cudaEventRecord(start, stream));
    if (use_cublas) {
#ifndef NO_CUBLAS
      // Row-major C = A * B is column-major C' = B' * A'.
      if (mine > 0)
        CUBLASCHECK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, mine, k, &one, B,
                                 CUDA_REAL_TYPE, n, A, CUDA_REAL_TYPE, k, &zero, Cpart,
                                 CUDA_REAL_TYPE, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
#endif
    } else {
      gemm<<<grid, block, 0, stream>>>(A, B, Cpart, mine, n, k);
      CUDACHECK(cudaGetLastError());
    }
    NCCLCHECK(ncclAllGather(Cpart, C, part, NCCL_REAL_TYPE, comm, stream));
    CUDACHECK(cudaEventRecord(stop, stream));
    CUDACHECK(cudaStreamSynchronize(stream));

    float ms;
    CUDACHECK(cudaEventElapsedTime(&ms, start, stop));
    MPICHECK(MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD));
    times.push_back(ms);
    if (iter % every != 0 && iter != iters - 1)
      continue; // timed, not compared
    CUDACHECK(cudaMemcpy(host.data(), C, host.size() * sizeof(real), cudaMemcpyDeviceToHost));
    wrong += verify(host, m, n, k, seed, iter, rank);
  }

  MPICHECK(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  if (rank == 0) {
    std::sort(times.begin(), times.end());
    printf("gemm_allgather: ranks=%d m=%d n=%d k=%d type=%s gemm=%s\n", nranks, m, n, k,
           sizeof(real) == 2 ? "bf16" : "fp32", use_cublas ? "cublas" : "plain");
    printf("Time: %.4f ms (maximum over ranks, median of %d)\n", times[iters / 2], iters);
    printf("Verification: %s\n", wrong ? "FAIL" : "PASS");
  }

#ifndef NO_CUBLAS
  CUBLASCHECK(cublasDestroy(blas));
#endif
  CUDACHECK(cudaEventDestroy(start));
  CUDACHECK(cudaEventDestroy(stop));
  CUDACHECK(cudaFree(A));
  CUDACHECK(cudaFree(B));
  CUDACHECK(cudaFree(Cpart));
  CUDACHECK(cudaFree(C));
  NCCLCHECK(ncclCommDestroy(comm));
  CUDACHECK(cudaStreamDestroy(stream));
  MPICHECK(MPI_Finalize());
  return wrong ? 1 : 0;
}
