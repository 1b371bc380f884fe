// SPDX-License-Identifier: Apache-2.0
//
// One decoding step of attention over a long context whose keys and values are spread over the
// ranks: every rank attends to its own keys, then the partial softmaxes are merged.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 $(pkg-config --cflags mpich) decode_attention.cu
//              -o decode_attention -lnccl -lmpich
//   run:   mpirun -np 4 ./decode_attention --seq 65536 --heads 32 --dim 128 [--gather]
//
// Shows: the online-softmax merge, kernel -> AllReduce(max) -> rescale -> two AllReduce(sum) in a
// group
// -> finalize; with --gather the alternative, AllGather of the partials in a group -> merge kernel.
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

#define CHECK_CUDA(cmd)                                                                            \
  {                                                                                                \
    cudaError_t e = (cmd);                                                                         \
    if (e != cudaSuccess) {                                                                        \
      fprintf(stderr, "CUDA failure %s:%d '%s'\n", __FILE__, __LINE__, cudaGetErrorString(e));     \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  }
#define CHECK_NCCL(cmd)                                                                            \
  {                                                                                                \
    ncclResult_t r = (cmd);                                                                        \
    if (r != ncclSuccess) {                                                                        \
      fprintf(stderr, "NCCL failure %s:%d '%s'\n", __FILE__, __LINE__, ncclGetErrorString(r));     \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  }
#define CHECK_MPI(cmd)                                                                             \
  {                                                                                                \
    if ((cmd) != MPI_SUCCESS) {                                                                    \
      fprintf(stderr, "MPI failure %s:%d\n", __FILE__, __LINE__);                                  \
      exit(2);                                                                                     \
    }                                                                                              \
  }

enum { Q = 1, K = 2, V = 3 }; // tensors, for value()

// One input element in (-1, 1), the same on host and device; i counts in [head][position][dim].
__host__ __device__ inline float value(uint64_t seed, uint64_t tensor, uint64_t iter, uint64_t i) {
  uint64_t x = seed * 0x9E3779B97F4A7C15ull + (tensor << 60) + (iter << 50) + i;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  return (float)(x >> 40) * (1.0f / (1 << 23)) - 1.0f;
}

// Fills `rows` positions from `first` on of every head; blockIdx.y is the head.
__global__ void fill(float *dst, int rows, int dim, int seq, int first, uint64_t seed, int tensor,
                     int iter) {
  size_t head = blockIdx.y, count = (size_t)rows * dim, stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
    dst[head * count + i] = value(seed, tensor, iter, (head * seq + first) * dim + i);
}

#define THREADS 128

// One block per head, four warps that each take every fourth key: m = largest score,
// l = sum of exp(score - m), acc[d] = sum of exp(score - m) * v[d]. Without keys m is -infinity.
__global__ void partial_attention(const float *q, const float *k, const float *v, float *m,
                                  float *l, float *acc, int rows, int dim) {
  __shared__ float ms[4], ls[4], as[4][128];
  int head = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float top = -INFINITY, sum = 0.0f, a[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int t = warp; t < rows; t += 4) {
    const float *kt = k + ((size_t)head * rows + t) * dim,
                *vt = v + ((size_t)head * rows + t) * dim;
    float s = 0.0f;
    for (int d = lane; d < dim; d += 32)
      s += q[head * dim + d] * kt[d];
    for (int d = 16; d > 0; d /= 2)
      s += __shfl_xor_sync(0xffffffffu, s, d);
    s /= sqrtf((float)dim);
    float next = fmaxf(top, s), old = expf(top - next), p = expf(s - next);
    for (int i = 0, d = lane; d < dim; i++, d += 32)
      a[i] = a[i] * old + p * vt[d];
    sum = sum * old + p;
    top = next;
  }
  if (lane == 0) {
    ms[warp] = top;
    ls[warp] = sum;
  }
  for (int i = 0, d = lane; d < dim; i++, d += 32)
    as[warp][d] = a[i];
  __syncthreads();
  top = fmaxf(fmaxf(ms[0], ms[1]), fmaxf(ms[2], ms[3]));
  sum = 0.0f;
  float w[4];
  for (int i = 0; i < 4; i++) {
    w[i] = ms[i] == -INFINITY ? 0.0f : expf(ms[i] - top);
    sum += w[i] * ls[i];
  }
  if (threadIdx.x == 0) {
    m[head] = top;
    l[head] = sum;
  }
  if ((int)threadIdx.x < dim) {
    int d = threadIdx.x;
    acc[head * dim + d] = w[0] * as[0][d] + w[1] * as[1][d] + w[2] * as[2][d] + w[3] * as[3][d];
  }
}

// Brings this rank's l and acc from its own maximum to that of all ranks. One block per head.
__global__ void rescale(const float *m, const float *m_all, float *l, float *acc, int dim) {
  int head = blockIdx.x;
  float w = m[head] == -INFINITY ? 0.0f : expf(m[head] - m_all[head]);
  if (threadIdx.x == 0)
    l[head] *= w;
  if ((int)threadIdx.x < dim)
    acc[head * dim + threadIdx.x] *= w;
}

__global__ void finalize(const float *l, const float *acc, float *out, int dim) {
  int head = blockIdx.x;
  if ((int)threadIdx.x < dim)
    out[head * dim + threadIdx.x] = acc[head * dim + threadIdx.x] / l[head];
}

// Merges the gathered partials of all ranks. One block per head.
__global__ void merge(const float *m, const float *l, const float *acc, float *out, int heads,
                      int dim, int nranks) {
  int head = blockIdx.x, d = threadIdx.x;
  float top = -INFINITY, sum = 0.0f, a = 0.0f;
  for (int r = 0; r < nranks; r++)
    top = fmaxf(top, m[r * heads + head]);
  if (d >= dim)
    return;
  for (int r = 0; r < nranks; r++) {
    float w = m[r * heads + head] == -INFINITY ? 0.0f : expf(m[r * heads + head] - top);
    sum += w * l[r * heads + head];
    a += w * acc[(r * heads + head) * dim + d];
  }
  out[head * dim + d] = a / sum;
}

struct Config {
  int seq = 100, heads = 3, dim = 32, gather = 0, iters = 5, warmup = 2, every = 1;
  uint64_t seed = 1;
};

// Plain softmax attention over all keys in double: every head, or 2 random ones.
static long verify(const std::vector<float> &out, const Config &c, int iter, int rank) {
  bool all = (double)c.seq * c.heads * c.dim <= 1 << 21;
  long wrong = 0;
  srand(c.seed + iter * 13 + rank);
  std::vector<double> w(c.seq), o(c.dim);
  for (int s = 0; s < (all ? c.heads : 2); s++) {
    size_t h = all ? s : rand() % c.heads;
    double top = -1e30, sum = 0;
    for (int t = 0; t < c.seq; t++) {
      double dot = 0;
      for (int d = 0; d < c.dim; d++)
        dot += (double)value(c.seed, Q, iter, h * c.dim + d) *
               value(c.seed, K, iter, (h * c.seq + t) * c.dim + d);
      w[t] = dot / sqrt((double)c.dim);
      top = std::max(top, w[t]);
    }
    for (double &x : o)
      x = 0;
    for (int t = 0; t < c.seq; t++) {
      double p = exp(w[t] - top);
      sum += p;
      for (int d = 0; d < c.dim; d++)
        o[d] += p * value(c.seed, V, iter, (h * c.seq + t) * c.dim + d);
    }
    double tol = (64 + 8 * sqrt((double)c.dim) + 8 * sqrt((double)c.seq)) / (1 << 24);
    for (int d = 0; d < c.dim; d++) {
      double got = out[h * c.dim + d], ref = o[d] / sum;
      if (!(fabs(got - ref) <= tol) && wrong++ < 3)
        fprintf(stderr, "rank %d iteration %d: head %zu dim %d is %g, expected %g\n", rank, iter, h,
                d, got, ref);
    }
  }
  return wrong;
}

int main(int argc, char **argv) {
  Config c;
  int help = 0;
  const option opts[] = {{"seq", required_argument, nullptr, 'n'},
                         {"heads", required_argument, nullptr, 'e'},
                         {"dim", required_argument, nullptr, 'd'},
                         {"gather", no_argument, nullptr, 'g'},
                         {"iters", required_argument, nullptr, 'i'},
                         {"warmup", required_argument, nullptr, 'w'},
                         {"check-every", required_argument, nullptr, 'v'},
                         {"seed", required_argument, nullptr, 's'},
                         {"help", no_argument, nullptr, 'h'},
                         {nullptr, 0, nullptr, 0}};
  CHECK_MPI(MPI_Init(&argc, &argv));
  for (int o; (o = getopt_long(argc, argv, "h", opts, nullptr)) != -1;) {
    switch (o) {
    case 'n':
      c.seq = atoi(optarg);
      break;
    case 'e':
      c.heads = atoi(optarg);
      break;
    case 'd':
      c.dim = atoi(optarg);
      break;
    case 'g':
      c.gather = 1;
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
  if (help || c.seq < 1 || c.heads < 1 || c.dim < 1 || c.dim > 128 || c.iters < 1 || c.warmup < 0 ||
      c.every < 1) {
    if (rank == 0)
      printf("usage: mpirun -np RANKS %s [--seq S] [--heads H] [--dim D (up to 128)] [--gather] "
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
  if (rank == 0)
    CHECK_NCCL(ncclGetUniqueId(&id));
  CHECK_MPI(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
  CHECK_NCCL(ncclCommInitRank(&comm, nranks, id, rank));

  // My keys: positions first .. first + rows - 1; a rank may have none.
  int rows = c.seq / nranks + (rank < c.seq % nranks ? 1 : 0);
  int first = rank * (c.seq / nranks) + std::min(rank, c.seq % nranks);
  size_t kv = (size_t)c.heads * std::max(rows, 1) * c.dim, hd = (size_t)c.heads * c.dim;
  float *q, *k, *v, *m, *m_all, *l, *l_all, *acc, *acc_all, *out;
  CHECK_CUDA(cudaMalloc(&q, hd * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&k, kv * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&v, kv * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&m, c.heads * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&l, c.heads * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&acc, hd * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&m_all, nranks * c.heads * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&l_all, nranks * c.heads * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&acc_all, nranks * hd * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&out, hd * sizeof(float)));
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreate(&stream));

  std::vector<float> host(hd);
  std::vector<double> times;
  long wrong = 0;
  dim3 fill_grid(32, c.heads);
  for (int iter = -c.warmup; iter < c.iters; iter++) {
    int data = iter < 0 ? 900 - iter : iter; // other data in each iteration
    fill<<<fill_grid, 256, 0, stream>>>(q, 1, c.dim, 1, 0, c.seed, Q, data);
    if (rows > 0) {
      fill<<<fill_grid, 256, 0, stream>>>(k, rows, c.dim, c.seq, first, c.seed, K, data);
      fill<<<fill_grid, 256, 0, stream>>>(v, rows, c.dim, c.seq, first, c.seed, V, data);
    }
    CHECK_CUDA(cudaMemsetAsync(m, 0xFF, c.heads * sizeof(float), stream));
    CHECK_CUDA(cudaMemsetAsync(l, 0xFF, c.heads * sizeof(float), stream));
    CHECK_CUDA(cudaMemsetAsync(acc, 0xFF, hd * sizeof(float), stream));
    CHECK_CUDA(cudaMemsetAsync(m_all, 0xFF, nranks * c.heads * sizeof(float), stream));
    CHECK_CUDA(cudaMemsetAsync(l_all, 0xFF, nranks * c.heads * sizeof(float), stream));
    CHECK_CUDA(cudaMemsetAsync(acc_all, 0xFF, nranks * hd * sizeof(float), stream));
    CHECK_CUDA(cudaMemsetAsync(out, 0xFF, hd * sizeof(float), stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
    double t0 = MPI_Wtime();

    partial_attention<<<c.heads, THREADS, 0, stream>>>(q, k, v, m, l, acc, rows, c.dim);
    if (c.gather) {
      CHECK_NCCL(ncclGroupStart());
      CHECK_NCCL(ncclAllGather(m, m_all, c.heads, ncclFloat, comm, stream));
      CHECK_NCCL(ncclAllGather(l, l_all, c.heads, ncclFloat, comm, stream));
      CHECK_NCCL(ncclAllGather(acc, acc_all, hd, ncclFloat, comm, stream));
      CHECK_NCCL(ncclGroupEnd());
      merge<<<c.heads, THREADS, 0, stream>>>(m_all, l_all, acc_all, out, c.heads, c.dim, nranks);
    } else {
      CHECK_NCCL(ncclAllReduce(m, m_all, c.heads, ncclFloat, ncclMax, comm, stream));
      rescale<<<c.heads, THREADS, 0, stream>>>(m, m_all, l, acc, c.dim);
      CHECK_NCCL(ncclGroupStart());
      CHECK_NCCL(ncclAllReduce(l, l, c.heads, ncclFloat, ncclSum, comm, stream));
      CHECK_NCCL(ncclAllReduce(acc, acc, hd, ncclFloat, ncclSum, comm, stream));
      CHECK_NCCL(ncclGroupEnd());
      finalize<<<c.heads, THREADS, 0, stream>>>(l, acc, out, c.dim);
    }
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaStreamSynchronize(stream));
    double ms = (MPI_Wtime() - t0) * 1e3;
    if (iter < 0)
      continue;

    CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    times.push_back(ms);
    if (iter % c.every != 0 && iter != c.iters - 1)
      continue; // timed, not compared
    CHECK_CUDA(cudaMemcpy(host.data(), out, hd * sizeof(float), cudaMemcpyDeviceToHost));
    wrong += verify(host, c, data, rank);
  }

  CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  if (rank == 0) {
    std::sort(times.begin(), times.end());
    printf("decode_attention: ranks=%d seq=%d heads=%d dim=%d merge=%s\n", nranks, c.seq, c.heads,
           c.dim, c.gather ? "gather" : "reduce");
    printf("Time: %.4f ms (maximum over ranks, median of %d)\n", times[c.iters / 2], c.iters);
    printf("Verification: %s\n", wrong ? "FAIL" : "PASS");
  }
  CHECK_CUDA(cudaFree(q));
  CHECK_CUDA(cudaFree(k));
  CHECK_CUDA(cudaFree(v));
  CHECK_CUDA(cudaFree(m));
  CHECK_CUDA(cudaFree(m_all));
  CHECK_CUDA(cudaFree(l));
  CHECK_CUDA(cudaFree(l_all));
  CHECK_CUDA(cudaFree(acc));
  CHECK_CUDA(cudaFree(acc_all));
  CHECK_CUDA(cudaFree(out));
  CHECK_NCCL(ncclCommDestroy(comm));
  CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_MPI(MPI_Finalize());
  return wrong ? 1 : 0;
}
