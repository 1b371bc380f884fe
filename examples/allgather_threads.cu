// SPDX-License-Identifier: Apache-2.0
//
// One thread per GPU: each thread writes its slice of a table of row norms straight into the
// gathered vector, all-gathers it in place, and normalises its own rows by the largest norm of all
// ranks.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 allgather_threads.cu -o allgather_threads -lnccl
//   -lpthread run:   ./allgather_threads [--ranks 4] [--rows 1024 (per rank)] [--cols 512]
//
// Shows: std::thread with ncclCommInitRank and a shared unique id, an in-place AllGather (send
// buffer inside the receive buffer), checking with if ((x) != ncclSuccess).
#include <cuda_runtime.h>
#include <getopt.h>
#include <nccl.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#define CUDA_TRY(x)                                                                                \
  if ((x) != cudaSuccess) {                                                                        \
    fprintf(stderr, "%s:%d: CUDA call failed: %s\n", __FILE__, __LINE__, #x);                      \
    exit(2);                                                                                       \
  }

#define NCCL_TRY(x)                                                                                \
  if ((x) != ncclSuccess) {                                                                        \
    fprintf(stderr, "%s:%d: NCCL call failed: %s\n", __FILE__, __LINE__, #x);                      \
    exit(2);                                                                                       \
  }

struct Shared {
  int nranks = 0, ndev = 0, rows = 64, cols = 48, iters = 5, warmup = 2;
  unsigned seed = 1;
  ncclUniqueId id;
  pthread_barrier_t barrier;
  std::vector<std::vector<double>> times; // [rank][iteration], ms
  std::atomic<long> wrong{0};
};

// One block of 128 threads per row: norms[row] = Euclidean norm.
__global__ void row_norms(const float *x, float *norms, int cols) {
  __shared__ float part[4];
  const float *row = x + (size_t)blockIdx.x * cols;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x)
    sum += row[i] * row[i];
  for (int d = 16; d > 0; d /= 2)
    sum += __shfl_down_sync(0xffffffffu, sum, d);
  if (threadIdx.x % 32 == 0)
    part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0)
    norms[blockIdx.x] = sqrtf(part[0] + part[1] + part[2] + part[3]);
}

// One block of 128 threads per row: y = x / (largest of all norms).
__global__ void normalise(const float *x, const float *norms, int count, float *y, int cols) {
  __shared__ float part[4];
  float top = 0.0f;
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    top = norms[i] > top ? norms[i] : top;
  for (int d = 16; d > 0; d /= 2)
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
  if (threadIdx.x % 32 == 0)
    part[threadIdx.x / 32] = top;
  __syncthreads();
  top = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
  for (int i = threadIdx.x; i < cols; i += blockDim.x)
    y[(size_t)blockIdx.x * cols + i] = x[(size_t)blockIdx.x * cols + i] / top;
}

// The rows of one rank in one iteration; scaled so that the largest norm moves between ranks.
static std::vector<float> make_rows(const Shared &sh, int rank, int iter) {
  std::mt19937 rng(sh.seed * 1000003u + (unsigned)(iter + 100) * 1009u + rank);
  std::normal_distribution<float> dist(0.0f, 1.0f);
  float factor = (rank + iter + 100) % sh.nranks == 0 ? 4.0f : 1.0f;
  std::vector<float> x((size_t)sh.rows * sh.cols);
  for (float &v : x)
    v = factor * dist(rng);
  return x;
}

static long verify(const Shared &sh, int rank, int iter, const std::vector<float> &norms,
                   const std::vector<float> &y) {
  double tol = (8 + sqrt((double)sh.cols)) / (1 << 23), top = 0;
  long wrong = 0;
  for (int r = 0; r < sh.nranks; r++) {
    std::vector<float> x = make_rows(sh, r, iter);
    for (int i = 0; i < sh.rows; i++) {
      double sum = 0;
      for (int j = 0; j < sh.cols; j++)
        sum += (double)x[(size_t)i * sh.cols + j] * x[(size_t)i * sh.cols + j];
      double ref = sqrt(sum), got = norms[(size_t)r * sh.rows + i];
      top = std::max(top, ref);
      if (!(fabs(got - ref) <= tol * ref) && wrong++ < 3)
        fprintf(stderr, "rank %d iteration %d: norm %d of rank %d is %g, expected %g\n", rank, iter,
                i, r, got, ref);
    }
  }
  std::vector<float> x = make_rows(sh, rank, iter);
  for (size_t i = 0; i < y.size(); i++)
    if (!(fabs(y[i] - x[i] / top) <= 2 * tol * fabs(x[i] / top) + 1e-30) && wrong++ < 3)
      fprintf(stderr, "rank %d iteration %d: element %zu is %g, expected %g\n", rank, iter, i, y[i],
              x[i] / top);
  return wrong;
}

static void worker(Shared &sh, int rank) {
  CUDA_TRY(cudaSetDevice(rank % sh.ndev));
  ncclComm_t comm;
  NCCL_TRY(ncclCommInitRank(&comm, sh.nranks, sh.id, rank));

  int total = sh.rows * sh.nranks;
  size_t elems = (size_t)sh.rows * sh.cols;
  float *x, *y, *norms;
  cudaStream_t stream;
  CUDA_TRY(cudaMalloc(&x, elems * sizeof(float)));
  CUDA_TRY(cudaMalloc(&y, elems * sizeof(float)));
  CUDA_TRY(cudaMalloc(&norms, total * sizeof(float)));
  CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

  std::vector<float> host_norms(total), host_y(elems);
  for (int iter = -sh.warmup; iter < sh.iters; iter++) {
    std::vector<float> data = make_rows(sh, rank, iter);
    CUDA_TRY(
        cudaMemcpyAsync(x, data.data(), elems * sizeof(float), cudaMemcpyHostToDevice, stream));
    CUDA_TRY(cudaMemsetAsync(y, 0xFF, elems * sizeof(float), stream));
    CUDA_TRY(cudaMemsetAsync(norms, 0xFF, total * sizeof(float), stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    pthread_barrier_wait(&sh.barrier);

    auto t0 = std::chrono::steady_clock::now();
    row_norms<<<sh.rows, 128, 0, stream>>>(x, norms + (size_t)rank * sh.rows, sh.cols);
    NCCL_TRY(
        ncclAllGather(norms + (size_t)rank * sh.rows, norms, sh.rows, ncclFloat, comm, stream));
    normalise<<<sh.rows, 128, 0, stream>>>(x, norms, total, y, sh.cols);
    CUDA_TRY(cudaStreamSynchronize(stream));
    auto t1 = std::chrono::steady_clock::now();
    CUDA_TRY(cudaGetLastError());

    if (iter >= 0) {
      sh.times[rank][iter] = std::chrono::duration<double, std::milli>(t1 - t0).count();
      CUDA_TRY(cudaMemcpyAsync(host_norms.data(), norms, total * sizeof(float),
                               cudaMemcpyDeviceToHost, stream));
      CUDA_TRY(
          cudaMemcpyAsync(host_y.data(), y, elems * sizeof(float), cudaMemcpyDeviceToHost, stream));
      CUDA_TRY(cudaStreamSynchronize(stream));
      sh.wrong += verify(sh, rank, iter, host_norms, host_y);
    }
  }

  CUDA_TRY(cudaFree(x));
  CUDA_TRY(cudaFree(y));
  CUDA_TRY(cudaFree(norms));
  CUDA_TRY(cudaStreamDestroy(stream));
  NCCL_TRY(ncclCommDestroy(comm));
}

int main(int argc, char **argv) {
  Shared sh;
  int help = 0;
  const option opts[] = {
      {"ranks", required_argument, nullptr, 'r'},  {"rows", required_argument, nullptr, 'm'},
      {"cols", required_argument, nullptr, 'n'},   {"iters", required_argument, nullptr, 'i'},
      {"warmup", required_argument, nullptr, 'w'}, {"seed", required_argument, nullptr, 's'},
      {"help", no_argument, nullptr, 'h'},         {nullptr, 0, nullptr, 0}};
  for (int c; (c = getopt_long(argc, argv, "h", opts, nullptr)) != -1;) {
    switch (c) {
    case 'r':
      sh.nranks = atoi(optarg);
      break;
    case 'm':
      sh.rows = atoi(optarg);
      break;
    case 'n':
      sh.cols = atoi(optarg);
      break;
    case 'i':
      sh.iters = atoi(optarg);
      break;
    case 'w':
      sh.warmup = atoi(optarg);
      break;
    case 's':
      sh.seed = (unsigned)atoi(optarg);
      break;
    case 'h':
      help = 1;
      break;
    default:
      help = 2;
    }
  }
  if (help || sh.nranks < 0 || sh.rows < 1 || sh.cols < 1 || sh.iters < 1 || sh.warmup < 0) {
    printf("usage: %s [--ranks R] [--rows M] [--cols N] [--iters I] [--warmup W] [--seed S]\n",
           argv[0]);
    return help == 1 ? 0 : 2;
  }
  CUDA_TRY(cudaGetDeviceCount(&sh.ndev));
  if (sh.nranks == 0)
    sh.nranks = sh.ndev;
  sh.times.assign(sh.nranks, std::vector<double>(sh.iters));
  NCCL_TRY(ncclGetUniqueId(&sh.id));
  pthread_barrier_init(&sh.barrier, nullptr, sh.nranks);

  std::vector<std::thread> threads;
  for (int r = 0; r < sh.nranks; r++)
    threads.emplace_back(worker, std::ref(sh), r);
  for (auto &t : threads)
    t.join();
  pthread_barrier_destroy(&sh.barrier);

  std::vector<double> times(sh.iters, 0.0);
  for (int i = 0; i < sh.iters; i++)
    for (int r = 0; r < sh.nranks; r++)
      times[i] = std::max(times[i], sh.times[r][i]);
  std::sort(times.begin(), times.end());
  long wrong = sh.wrong;
  printf("allgather_threads: ranks=%d rows=%d cols=%d\n", sh.nranks, sh.rows, sh.cols);
  printf("Time: %.4f ms (maximum over ranks, median of %d)\n", times[sh.iters / 2], sh.iters);
  printf("Verification: %s\n", wrong ? "FAIL" : "PASS");
  return wrong ? 1 : 0;
}
