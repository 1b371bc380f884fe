// SPDX-License-Identifier: Apache-2.0
//
// GEMM + AllReduce, tensor-parallel by the inner dimension, in chunks of rows: while the compute
// stream multiplies one chunk, the communication stream sums the previous one over ranks, in place.
// Then bias and ReLU.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 $(pkg-config --cflags mpich) gemm_allreduce.cu
//              -o gemm_allreduce -lnccl -lcublas -lmpich               [-DNO_CUBLAS]
//   run:   mpirun -np 4 ./gemm_allreduce --m 4096 --n 4096 --k 8192 --chunks 8 [--cublas]
//
// Shows: a loop over chunks with pointer + offset operands, an event per chunk between two streams,
// an in-place collective; bfloat16 inputs with float output.
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

template <typename Status>
static void check(Status status, Status good, const char *call, const char *file, int line) {
  if (status != good) {
    fprintf(stderr, "%s:%d: %s returned %d\n", file, line, call, (int)status);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
}
#define checkCuda(call) check((call), cudaSuccess, #call, __FILE__, __LINE__)
#define checkNCCL(call) check((call), ncclSuccess, #call, __FILE__, __LINE__)
#define checkMPI(call) check((call), MPI_SUCCESS, #call, __FILE__, __LINE__)
#define checkCublas(call) check((call), CUBLAS_STATUS_SUCCESS, #call, __FILE__, __LINE__)

typedef __nv_bfloat16 bf16;

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
__global__ void fill(bf16 *dst, size_t width, size_t r0, size_t nr, size_t c0, size_t nc,
                     uint64_t seed, int tensor, int iter) {
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < nr * nc; i += stride)
    dst[i] = __float2bfloat16(value(seed, tensor, iter, (r0 + i / nc) * width + c0 + i % nc));
}

__global__ void fill_bias(float *bias, int n, uint64_t seed, int iter) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < n)
    bias[j] = value(seed, 3, iter, j);
}

#define TILE 32 // a block of 32 x 8 threads computes a 32 x 32 tile, four rows a thread

// C[m x n] = A[m x k] * B[k x n], row major.
__global__ void gemm(const bf16 *A, const bf16 *B, float *C, int m, int n, int k) {
  __shared__ float a[TILE][TILE + 1], b[TILE][TILE];
  int col = blockIdx.x * TILE + threadIdx.x, row0 = blockIdx.y * TILE;
  float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int k0 = 0; k0 < k; k0 += TILE) {
    for (int y = threadIdx.y; y < TILE; y += 8) {
      int row = row0 + y, ka = k0 + threadIdx.x, kb = k0 + y;
      a[y][threadIdx.x] = row < m && ka < k ? __bfloat162float(A[(size_t)row * k + ka]) : 0.0f;
      b[y][threadIdx.x] = kb < k && col < n ? __bfloat162float(B[(size_t)kb * n + col]) : 0.0f;
    }
    __syncthreads();
    for (int i = 0; i < TILE; i++)
      for (int y = 0; y < 4; y++)
        sum[y] += a[threadIdx.y + 8 * y][i] * b[i][threadIdx.x];
    __syncthreads();
  }
  for (int y = 0; y < 4; y++) {
    int row = row0 + threadIdx.y + 8 * y;
    if (row < m && col < n)
      C[(size_t)row * n + col] = sum[y];
  }
}

__global__ void bias_relu(const float *C, const float *bias, float *out, int m, int n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < (size_t)m * n) {
    float v = C[i] + bias[i % n];
    out[i] = v < 0.0f ? 0.0f : v; // keeps a NaN
  }
}

struct Config {
  int m = 128, n = 128, k = 128, chunks = 4, iters = 5, warmup = 2, every = 1;
  bool cublas = false;
  uint64_t seed = 1;
};

// All of the result against double, or 4096 random elements.
static long verify(const std::vector<float> &out, const Config &c, int iter, int rank, int nranks) {
  size_t total = (size_t)c.m * c.n;
  bool all = (double)total * c.k <= 1 << 24;
  long wrong = 0;
  srand(c.seed + iter * 131 + rank);
  for (size_t s = 0; s < (all ? total : 4096); s++) {
    size_t at = all ? s : ((size_t)rand() * RAND_MAX + rand()) % total;
    size_t i = at / c.n, j = at % c.n;
    double ref = value(c.seed, 3, iter, j), mag = fabs(ref);
    for (int l = 0; l < c.k; l++) {
      double p =
          (double)value(c.seed, 1, iter, i * c.k + l) * value(c.seed, 2, iter, (size_t)l * c.n + j);
      ref += p;
      mag += fabs(p);
    }
    ref = std::max(ref, 0.0);
    double got = out[at], tol = (8 * sqrt((double)c.k) + 2 * nranks) / (1 << 24) * mag;
    if (!(fabs(got - ref) <= tol) && wrong++ < 3)
      fprintf(stderr, "rank %d iteration %d: element (%zu, %zu) is %g, expected %g\n", rank, iter,
              i, j, got, ref);
  }
  return wrong;
}

int main(int argc, char **argv) {
  Config c;
  int help = 0;
  const option opts[] = {{"m", required_argument, nullptr, 'm'},
                         {"n", required_argument, nullptr, 'n'},
                         {"k", required_argument, nullptr, 'k'},
                         {"chunks", required_argument, nullptr, 'x'},
                         {"iters", required_argument, nullptr, 'i'},
                         {"warmup", required_argument, nullptr, 'w'},
                         {"seed", required_argument, nullptr, 's'},
                         {"cublas", no_argument, nullptr, 'c'},
                         {"help", no_argument, nullptr, 'h'},
                         {"check-every", required_argument, nullptr, 'v'},
                         {nullptr, 0, nullptr, 0}};
  checkMPI(MPI_Init(&argc, &argv));
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
    case 'x':
      c.chunks = atoi(optarg);
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
  checkMPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  checkMPI(MPI_Comm_size(MPI_COMM_WORLD, &nranks));
  if (help || c.m < 1 || c.n < 1 || c.k < nranks || c.chunks < 1 || c.iters < 1 || c.warmup < 0 ||
      c.every < 1) {
    if (rank == 0)
      printf("usage: mpirun -np RANKS %s [--m M] [--n N] [--k K (at least RANKS)] [--chunks C] "
             "[--iters I] [--warmup W] [--seed S] [--check-every N] [--cublas]\n",
             argv[0]);
    checkMPI(MPI_Finalize());
    return help == 1 ? 0 : 2;
  }
  MPI_Comm node;
  checkMPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
  checkMPI(MPI_Comm_rank(node, &local));
  checkMPI(MPI_Comm_free(&node));
  checkCuda(cudaGetDeviceCount(&ndev));
  checkCuda(cudaSetDevice(local % ndev));
  ncclUniqueId id;
  ncclComm_t comm;
  if (rank == 0)
    checkNCCL(ncclGetUniqueId(&id));
  checkMPI(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
  checkNCCL(ncclCommInitRank(&comm, nranks, id, rank));

  int my_k = c.k / nranks + (rank < c.k % nranks);
  int k0 = rank * (c.k / nranks) + std::min(rank, c.k % nranks);
  size_t total = (size_t)c.m * c.n;
  bf16 *A, *B;
  float *C, *bias, *out;
  checkCuda(cudaMalloc(&A, (size_t)c.m * my_k * sizeof(bf16)));
  checkCuda(cudaMalloc(&B, (size_t)my_k * c.n * sizeof(bf16)));
  checkCuda(cudaMalloc(&C, total * sizeof(float)));
  checkCuda(cudaMalloc(&bias, c.n * sizeof(float)));
  checkCuda(cudaMalloc(&out, total * sizeof(float)));
  cudaStream_t compute_stream, comm_stream;
  checkCuda(cudaStreamCreateWithFlags(&compute_stream, cudaStreamNonBlocking));
  checkCuda(cudaStreamCreateWithFlags(&comm_stream, cudaStreamNonBlocking));
  std::vector<cudaEvent_t> ready(c.chunks);
  for (auto &e : ready)
    checkCuda(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  cudaEvent_t start, stop, reduced;
  checkCuda(cudaEventCreate(&start));
  checkCuda(cudaEventCreate(&stop));
  checkCuda(cudaEventCreateWithFlags(&reduced, cudaEventDisableTiming));
#ifndef NO_CUBLAS
  cublasHandle_t blas;
  checkCublas(cublasCreate(&blas));
  checkCublas(cublasSetStream(blas, compute_stream));
  const float one = 1.0f, zero = 0.0f;
#endif

  int chunk_rows = (c.m + c.chunks - 1) / c.chunks;
  std::vector<float> host(total), times;
  long wrong = 0;
  for (int it = 0; it < c.warmup + c.iters; it++) {
    // New data, poisoned outputs.
    fill<<<64, 256, 0, compute_stream>>>(A, c.k, 0, c.m, k0, my_k, c.seed, 1, it);
    fill<<<64, 256, 0, compute_stream>>>(B, c.n, k0, my_k, 0, c.n, c.seed, 2, it);
    fill_bias<<<(c.n + 255) / 256, 256, 0, compute_stream>>>(bias, c.n, c.seed, it);
    checkCuda(cudaMemsetAsync(C, 0xFF, total * sizeof(float), compute_stream));
    checkCuda(cudaMemsetAsync(out, 0xFF, total * sizeof(float), compute_stream));
    checkCuda(cudaStreamSynchronize(compute_stream));
    checkMPI(MPI_Barrier(MPI_COMM_WORLD));

    checkCuda(cudaEventRecord(start, compute_stream));
    for (int ch = 0; ch < c.chunks; ch++) {
      int first = ch * chunk_rows, rows = std::min(chunk_rows, c.m - first);
      if (rows <= 0)
        break;
      float *part = C + (size_t)first * c.n;
      if (c.cublas) {
#ifndef NO_CUBLAS
        // Row-major C = A * B is column-major C' = B' * A'.
        checkCublas(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, c.n, rows, my_k, &one, B,
                                 CUDA_R_16BF, c.n, A + (size_t)first * my_k, CUDA_R_16BF, my_k,
                                 &zero, part, CUDA_R_32F, c.n, CUBLAS_COMPUTE_32F,
                                 CUBLAS_GEMM_DEFAULT));
#endif
      } else {
        dim3 block(TILE, 8), grid((c.n + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
        gemm<<<grid, block, 0, compute_stream>>>(A + (size_t)first * my_k, B, part, rows, c.n,
                                                 my_k);
        checkCuda(cudaGetLastError());
      }
      checkCuda(cudaEventRecord(ready[ch], compute_stream));
      checkCuda(cudaStreamWaitEvent(comm_stream, ready[ch], 0));
      checkNCCL(
          ncclAllReduce(part, part, (size_t)rows * c.n, ncclFloat, ncclSum, comm, comm_stream));
    }
    checkCuda(cudaEventRecord(reduced, comm_stream));
    checkCuda(cudaStreamWaitEvent(compute_stream, reduced, 0));
    bias_relu<<<(unsigned)((total + 255) / 256), 256, 0, compute_stream>>>(C, bias, out, c.m, c.n);
    checkCuda(cudaGetLastError());
    checkCuda(cudaEventRecord(stop, compute_stream));
    checkCuda(cudaStreamSynchronize(compute_stream));
    if (it < c.warmup)
      continue;

    float ms;
    checkCuda(cudaEventElapsedTime(&ms, start, stop));
    checkMPI(MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD));
    times.push_back(ms);
    if (it % c.every != 0 && it != c.warmup && it != c.warmup + c.iters - 1)
      continue; // timed, not compared
    checkCuda(cudaMemcpy(host.data(), out, total * sizeof(float), cudaMemcpyDeviceToHost));
    wrong += verify(host, c, it, rank, nranks);
  }

  checkMPI(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  if (rank == 0) {
    std::sort(times.begin(), times.end());
    printf("gemm_allreduce: ranks=%d m=%d n=%d k=%d chunks=%d gemm=%s\n", nranks, c.m, c.n, c.k,
           c.chunks, c.cublas ? "cublas" : "plain");
    printf("Time: %.4f ms (maximum over ranks, median of %d)\n", times[c.iters / 2], c.iters);
    printf("Verification: %s\n", wrong ? "FAIL" : "PASS");
  }
#ifndef NO_CUBLAS
  checkCublas(cublasDestroy(blas));
#endif
  for (auto &e : ready)
    checkCuda(cudaEventDestroy(e));
  checkCuda(cudaEventDestroy(start));
  checkCuda(cudaEventDestroy(stop));
  checkCuda(cudaEventDestroy(reduced));
  checkCuda(cudaFree(A));
  checkCuda(cudaFree(B));
  checkCuda(cudaFree(C));
  checkCuda(cudaFree(bias));
  checkCuda(cudaFree(out));
  checkNCCL(ncclCommDestroy(comm));
  checkCuda(cudaStreamDestroy(compute_stream));
  checkCuda(cudaStreamDestroy(comm_stream));
  checkMPI(MPI_Finalize());
  return wrong ? 1 : 0;
}
