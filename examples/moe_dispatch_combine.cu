// SPDX-License-Identifier: Apache-2.0
//
// Mixture of experts, one expert per rank: tokens are routed with a skew towards rank 0, quantised
// to int8 with one scale per token, dispatched by a padded all-to-all, put through the expert's
// two-layer network, sent back, and combined with their gate weights at home.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 $(pkg-config --cflags mpich) moe_dispatch_combine.cu
//              -o moe_dispatch_combine -lnccl -lmpich  [-DUSE_SENDRECV] [-DUSE_CUBLAS ... -lcublas]
//   run:   mpirun -np 2 ./moe_dispatch_combine --tokens 4096 --hidden 7168 --inter 2048 --skew 3
//
// Shows: counts by a kernel, AllGather of counts and a copy to the host, data-dependent sizes;
// ncclAlltoAll or (-DUSE_SENDRECV) grouped send/recv for the padded dispatch; an all-to-all-v of
// grouped send/recv with exact counts for the way back. With -DUSE_CUBLAS the expert works in
// bfloat16 at the rate of the tensor cores: its inputs are integers below 128, which bfloat16 holds
// exactly.
#include <cuda_runtime.h>
#include <getopt.h>
#include <mpi.h>
#include <nccl.h>
#ifdef USE_CUBLAS
#include <cublas_v2.h>
#include <cuda_bf16.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK_CUDA(x)                                                                              \
  do {                                                                                             \
    cudaError_t e_ = (x);                                                                          \
    if (e_ != cudaSuccess) {                                                                       \
      fprintf(stderr, "CUDA error %s at %s:%d\n", cudaGetErrorString(e_), __FILE__, __LINE__);     \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  } while (0)

#define CHECK_NCCL(x)                                                                              \
  do {                                                                                             \
    ncclResult_t r_ = (x);                                                                         \
    if (r_ != ncclSuccess) {                                                                       \
      fprintf(stderr, "NCCL error %s at %s:%d\n", ncclGetErrorString(r_), __FILE__, __LINE__);     \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  } while (0)

#define CHECK_MPI(x)                                                                               \
  do {                                                                                             \
    if ((x) != MPI_SUCCESS) {                                                                      \
      fprintf(stderr, "MPI error at %s:%d\n", __FILE__, __LINE__);                                 \
      exit(2);                                                                                     \
    }                                                                                              \
  } while (0)

#ifdef USE_CUBLAS
typedef __nv_bfloat16 weight;
#define ROUNDOFF (1.0 / 512) // of the hidden layer, which is bfloat16 too

#define CHECK_CUBLAS(x)                                                                            \
  do {                                                                                             \
    if ((x) != CUBLAS_STATUS_SUCCESS) {                                                            \
      fprintf(stderr, "cuBLAS error at %s:%d\n", __FILE__, __LINE__);                              \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  } while (0)
#else
typedef float weight;
#define ROUNDOFF 0.0
#endif

enum { TOKEN = 1, W1 = 2, W2 = 3, ROUTE = 4, GATE = 5 }; // tensors, for value()

__host__ __device__ inline uint64_t hash(uint64_t seed, uint64_t tensor, uint64_t iter,
                                         uint64_t rank, uint64_t i) {
  uint64_t x = seed * 0x9E3779B97F4A7C15ull + (tensor << 60) + (iter << 50) + (rank << 40) + i;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// One input element, in (-1, 1), the same on host and device.
__host__ __device__ inline float value(uint64_t seed, uint64_t tensor, uint64_t iter, uint64_t rank,
                                       uint64_t i) {
  return (float)(hash(seed, tensor, iter, rank, i) >> 40) * (1.0f / (1 << 23)) - 1.0f;
}

// The expert of a token: expert 0 is `skew` times as likely as any other.
__host__ __device__ inline int expert_of(uint64_t seed, int iter, int rank, int token, int nranks,
                                         int skew) {
  int pick = (int)((hash(seed, ROUTE, iter, rank, token) >> 20) % (uint64_t)(nranks - 1 + skew));
  return pick < skew ? 0 : pick - skew + 1;
}

template <typename T>
__global__ void fill(T *dst, size_t count, float factor, uint64_t seed, int tensor, int iter,
                     int rank) {
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
    dst[i] = (T)(factor * value(seed, tensor, iter, rank, i));
}

__global__ void fill_routing(int *expert, float *gate, int tokens, uint64_t seed, int iter,
                             int rank, int nranks, int skew) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t < tokens) {
    expert[t] = expert_of(seed, iter, rank, t, nranks, skew);
    gate[t] = value(seed, GATE, iter, rank, t);
  }
}

// One block per expert: number its tokens in order. slot[t] is the place of token t in its chunk.
__global__ void count_tokens(const int *expert, int *counts, int *slot, int tokens) {
  __shared__ int start[129];
  int e = blockIdx.x;
  int per = (tokens + blockDim.x - 1) / blockDim.x;
  int t0 = threadIdx.x * per, t1 = t0 + per < tokens ? t0 + per : tokens;
  int mine = 0;
  for (int t = t0; t < t1; t++)
    mine += expert[t] == e;
  start[threadIdx.x + 1] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    start[0] = 0;
    for (int i = 0; i < (int)blockDim.x; i++)
      start[i + 1] += start[i];
    counts[e] = start[blockDim.x];
  }
  __syncthreads();
  int next = start[threadIdx.x];
  for (int t = t0; t < t1; t++)
    if (expert[t] == e)
      slot[t] = next++;
}

// One block (128 threads) per token: quantise and place at row expert * chunk + slot.
__global__ void quantise(const float *x, const int *expert, const int *slot, int8_t *q,
                         float *scale, int chunk, int hidden) {
  __shared__ float peak[4];
  const float *row = x + (size_t)blockIdx.x * hidden;
  float m = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x)
    m = fmaxf(m, fabsf(row[i]));
  for (int d = 16; d > 0; d /= 2)
    m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
  if (threadIdx.x % 32 == 0)
    peak[threadIdx.x / 32] = m;
  __syncthreads();
  m = fmaxf(fmaxf(peak[0], peak[1]), fmaxf(peak[2], peak[3]));
  size_t dst = (size_t)expert[blockIdx.x] * chunk + slot[blockIdx.x];
  if (threadIdx.x == 0)
    scale[dst] = m / 127.0f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x)
    q[dst * hidden + i] = (int8_t)rintf(m > 0.0f ? row[i] / m * 127.0f : 0.0f);
}

#ifdef USE_CUBLAS
__global__ void widen(const int8_t *in, weight *out, size_t count) {
  size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
  for (size_t j = i; j < i + 4 && j < count; j++)
    out[j] = (weight)(float)in[j];
}

// out = relu(scale * in), one scale per row of n.
__global__ void activate(const float *in, const float *scale, weight *out, size_t count, int n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    out[i] = (weight)fmaxf(in[i] * scale[i / n], 0.0f);
}
#else
#define TILE 16

// out = scale * (in * w), with or without relu: the rows of one source rank's chunk; T is int8_t
// (with scales) or float.
template <typename T>
__global__ void layer(const T *in, const float *scale, const float *w, float *out, int rows, int k,
                      int n, bool relu) {
  __shared__ float a[TILE][TILE], b[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int k0 = 0; k0 < k; k0 += TILE) {
    int ka = k0 + threadIdx.x, kb = k0 + threadIdx.y;
    a[threadIdx.y][threadIdx.x] = row < rows && ka < k ? (float)in[(size_t)row * k + ka] : 0.0f;
    b[threadIdx.y][threadIdx.x] = kb < k && col < n ? w[(size_t)kb * n + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; i++)
      sum += a[threadIdx.y][i] * b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < rows && col < n) {
    if (scale)
      sum *= scale[row];
    out[(size_t)row * n + col] = relu && sum < 0.0f ? 0.0f : sum;
  }
}
#endif

// out[t] = x[t] + gate[t] * (what came back for token t)
__global__ void combine(const float *x, const float *gate, const int *expert, const int *slot,
                        const float *back, float *out, int chunk, int hidden) {
  int t = blockIdx.x;
  const float *y = back + ((size_t)expert[t] * chunk + slot[t]) * hidden;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x)
    out[(size_t)t * hidden + i] = x[(size_t)t * hidden + i] + gate[t] * y[i];
}

struct Config {
  int tokens = 64, hidden = 64, inter = 32, skew = 3, iters = 5, warmup = 2, every = 1;
  uint64_t seed = 1;
};

// Recomputes tokens in double: all of them if that is cheap, else 8 random ones.
static long verify(const std::vector<float> &out, const Config &c, int iter, int rank, int nranks) {
  bool all = (double)c.tokens * c.hidden * c.inter <= 1 << 22;
  long wrong = 0;
  srand(c.seed + iter * 17 + rank);
  std::vector<double> mid(c.inter), mag(c.inter);
  for (int s = 0; s < (all ? c.tokens : 8); s++) {
    int t = all ? s : rand() % c.tokens;
    int e = expert_of(c.seed, iter, rank, t, nranks, c.skew);
    std::vector<float> x(c.hidden);
    float peak = 0;
    for (int i = 0; i < c.hidden; i++) {
      x[i] = value(c.seed, TOKEN, iter, rank, (size_t)t * c.hidden + i);
      peak = std::max(peak, fabsf(x[i]));
    }
    double step = peak / 127.0;
    for (int j = 0; j < c.inter; j++)
      mid[j] = mag[j] = 0;
    for (int i = 0; i < c.hidden; i++) {
      double q = rintf(peak > 0 ? x[i] / peak * 127.0f : 0.0f) * step;
      for (int j = 0; j < c.inter; j++) {
        double p = q * (float)(weight)(value(c.seed, W1, 0, e, (size_t)i * c.inter + j) / 64);
        mid[j] += p;
        mag[j] += fabs(p);
      }
    }
    double gate = value(c.seed, GATE, iter, rank, t);
    double u = 1.0 / (1 << 24);
    for (int i = 0; i < c.hidden; i += all ? 1 : std::max(1, c.hidden / 64)) {
      double y = 0, err = 0, square = 0;
      for (int j = 0; j < c.inter; j++) {
        double w = (float)(weight)(value(c.seed, W2, 0, e, (size_t)j * c.hidden + i) / 64);
        double h = std::max(0.0, mid[j]);
        y += h * w;
        square += h * w * h * w; // roundings of the hidden layer add up as random steps do
        err += 8 * sqrt((double)c.hidden) * u * mag[j] * fabs(w) +
               8 * sqrt((double)c.inter) * u * fabs(h * w);
      }
      err += 6 * ROUNDOFF * sqrt(square);
      double ref = x[i] + gate * y;
      double got = out[(size_t)t * c.hidden + i];
      if (!(fabs(got - ref) <= err + 4 * u * (1 + fabs(ref))) && wrong++ < 3)
        fprintf(stderr,
                "rank %d iteration %d: token %d (expert %d) element %d is %g, expected %g\n", rank,
                iter, t, e, i, got, ref);
    }
  }
  return wrong;
}

int main(int argc, char **argv) {
  Config c;
  int help = 0;
  const option opts[] = {{"tokens", required_argument, nullptr, 't'},
                         {"hidden", required_argument, nullptr, 'd'},
                         {"inter", required_argument, nullptr, 'f'},
                         {"skew", required_argument, nullptr, 'k'},
                         {"iters", required_argument, nullptr, 'i'},
                         {"warmup", required_argument, nullptr, 'w'},
                         {"check-every", required_argument, nullptr, 'v'},
                         {"seed", required_argument, nullptr, 's'},
                         {"help", no_argument, nullptr, 'h'},
                         {nullptr, 0, nullptr, 0}};
  CHECK_MPI(MPI_Init(&argc, &argv));
  for (int o; (o = getopt_long(argc, argv, "h", opts, nullptr)) != -1;) {
    switch (o) {
    case 't':
      c.tokens = atoi(optarg);
      break;
    case 'd':
      c.hidden = atoi(optarg);
      break;
    case 'f':
      c.inter = atoi(optarg);
      break;
    case 'k':
      c.skew = atoi(optarg);
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
  if (help || c.tokens < 1 || c.hidden < 1 || c.inter < 1 || c.skew < 1 || c.iters < 1 ||
      c.warmup < 0 || c.every < 1) {
    if (rank == 0)
      printf(
          "usage: mpirun -np RANKS %s [--tokens T (per rank)] [--hidden H] [--inter F] [--skew K]"
          " [--iters I] [--warmup W] [--seed S] [--check-every N]\n",
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
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreate(&stream));

  // Worst case of the routing: all tokens of every rank go to one expert.
  size_t H = c.hidden, cap = (size_t)nranks * c.tokens;
  weight *w1, *w2;
  float *x, *gate, *scale, *recv_scale, *mid, *y, *back, *out;
  int8_t *q, *recv_q;
  int *expert, *slot, *counts, *all_counts;
  CHECK_CUDA(cudaMalloc(&x, c.tokens * H * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&gate, c.tokens * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&expert, c.tokens * sizeof(int)));
  CHECK_CUDA(cudaMalloc(&slot, c.tokens * sizeof(int)));
  CHECK_CUDA(cudaMalloc(&counts, nranks * sizeof(int)));
  CHECK_CUDA(cudaMalloc(&all_counts, nranks * nranks * sizeof(int)));
  CHECK_CUDA(cudaMalloc(&w1, H * c.inter * sizeof(weight)));
  CHECK_CUDA(cudaMalloc(&w2, H * c.inter * sizeof(weight)));
  CHECK_CUDA(cudaMalloc(&q, cap * H));
  CHECK_CUDA(cudaMalloc(&recv_q, cap * H));
  CHECK_CUDA(cudaMalloc(&scale, cap * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&recv_scale, cap * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&mid, (size_t)c.tokens * c.inter * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&y, cap * H * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&back, cap * H * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&out, c.tokens * H * sizeof(float)));
#ifdef USE_CUBLAS
  weight *wide, *hidden; // the tokens of one source rank and the layer between
  CHECK_CUDA(cudaMalloc(&wide, c.tokens * H * sizeof(weight)));
  CHECK_CUDA(cudaMalloc(&hidden, (size_t)c.tokens * c.inter * sizeof(weight)));
  cublasHandle_t blas;
  CHECK_CUBLAS(cublasCreate(&blas));
  CHECK_CUBLAS(cublasSetStream(blas, stream));
  const float one = 1.0f, zero = 0.0f;
#endif
  fill<<<64, 256, 0, stream>>>(w1, H * c.inter, 1.0f / 64, c.seed, W1, 0, rank);
  fill<<<64, 256, 0, stream>>>(w2, H * c.inter, 1.0f / 64, c.seed, W2, 0, rank);

  std::vector<int> n(nranks * nranks); // n[src * nranks + dst]: tokens from src to dst
  std::vector<float> host(c.tokens * H);
  std::vector<double> times;
  long wrong = 0;
  for (int iter = -c.warmup; iter < c.iters; iter++) {
    int data = iter < 0 ? 900 - iter : iter; // other data in each iteration
    fill<<<64, 256, 0, stream>>>(x, c.tokens * H, 1.0f, c.seed, TOKEN, data, rank);
    fill_routing<<<(c.tokens + 127) / 128, 128, 0, stream>>>(expert, gate, c.tokens, c.seed, data,
                                                             rank, nranks, c.skew);
    CHECK_CUDA(cudaMemsetAsync(q, 0xFF, cap * H, stream));
    CHECK_CUDA(cudaMemsetAsync(recv_q, 0xFF, cap * H, stream));
    CHECK_CUDA(cudaMemsetAsync(scale, 0xFF, cap * sizeof(float), stream));
    CHECK_CUDA(cudaMemsetAsync(recv_scale, 0xFF, cap * sizeof(float), stream));
    CHECK_CUDA(cudaMemsetAsync(y, 0xFF, cap * H * sizeof(float), stream));
    CHECK_CUDA(cudaMemsetAsync(back, 0xFF, cap * H * sizeof(float), stream));
    CHECK_CUDA(cudaMemsetAsync(out, 0xFF, c.tokens * H * sizeof(float), stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
    double t0 = MPI_Wtime();

    // How many tokens go from each rank to each other?
    count_tokens<<<nranks, 128, 0, stream>>>(expert, counts, slot, c.tokens);
    CHECK_NCCL(ncclAllGather(counts, all_counts, nranks, ncclInt, comm, stream));
    CHECK_CUDA(cudaMemcpyAsync(n.data(), all_counts, n.size() * sizeof(int), cudaMemcpyDeviceToHost,
                               stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    int chunk = *std::max_element(n.begin(), n.end()); // rows of every padded chunk

    // Dispatch.
    quantise<<<c.tokens, 128, 0, stream>>>(x, expert, slot, q, scale, chunk, c.hidden);
#ifdef USE_SENDRECV
    CHECK_NCCL(ncclGroupStart());
    for (int p = 0; p < nranks; p++) {
      size_t row = (size_t)p * chunk;
      CHECK_NCCL(ncclSend(q + row * H, chunk * H, ncclInt8, p, comm, stream));
      CHECK_NCCL(ncclRecv(recv_q + row * H, chunk * H, ncclInt8, p, comm, stream));
      CHECK_NCCL(ncclSend(scale + row, chunk, ncclFloat, p, comm, stream));
      CHECK_NCCL(ncclRecv(recv_scale + row, chunk, ncclFloat, p, comm, stream));
    }
    CHECK_NCCL(ncclGroupEnd());
#else
    CHECK_NCCL(ncclAlltoAll(q, recv_q, chunk * H, ncclInt8, comm, stream));
    CHECK_NCCL(ncclAlltoAll(scale, recv_scale, chunk, ncclFloat, comm, stream));
#endif

    // My expert on the tokens of each source rank.
    for (int src = 0; src < nranks; src++) {
      int rows = n[src * nranks + rank];
      size_t at = (size_t)src * chunk;
      if (rows == 0)
        continue;
#ifdef USE_CUBLAS
      size_t wide_count = rows * H, mid_count = (size_t)rows * c.inter;
      widen<<<(unsigned)((wide_count + 1023) / 1024), 256, 0, stream>>>(recv_q + at * H, wide,
                                                                        wide_count);
      // Row-major C = A * B is column-major C' = B' * A'.
      CHECK_CUBLAS(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, c.inter, rows, c.hidden, &one, w1,
                                CUDA_R_16BF, c.inter, wide, CUDA_R_16BF, c.hidden, &zero, mid,
                                CUDA_R_32F, c.inter, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
      activate<<<(unsigned)((mid_count + 255) / 256), 256, 0, stream>>>(mid, recv_scale + at,
                                                                        hidden, mid_count, c.inter);
      CHECK_CUBLAS(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, c.hidden, rows, c.inter, &one, w2,
                                CUDA_R_16BF, c.hidden, hidden, CUDA_R_16BF, c.inter, &zero,
                                y + at * H, CUDA_R_32F, c.hidden, CUBLAS_COMPUTE_32F,
                                CUBLAS_GEMM_DEFAULT));
#else
      dim3 block(TILE, TILE);
      dim3 grid1((c.inter + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
      dim3 grid2((c.hidden + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
      layer<int8_t><<<grid1, block, 0, stream>>>(recv_q + at * H, recv_scale + at, w1, mid, rows,
                                                 c.hidden, c.inter, true);
      layer<float><<<grid2, block, 0, stream>>>(mid, nullptr, w2, y + at * H, rows, c.inter,
                                                c.hidden, false);
#endif
    }

    // Results go home: exact counts, as both sides know them.
    CHECK_NCCL(ncclGroupStart());
    for (int p = 0; p < nranks; p++) {
      size_t at = (size_t)p * chunk * H;
      size_t to_p = n[p * nranks + rank], from_p = n[rank * nranks + p];
      if (to_p > 0)
        CHECK_NCCL(ncclSend(y + at, to_p * H, ncclFloat, p, comm, stream));
      if (from_p > 0)
        CHECK_NCCL(ncclRecv(back + at, from_p * H, ncclFloat, p, comm, stream));
    }
    CHECK_NCCL(ncclGroupEnd());
    combine<<<c.tokens, 128, 0, stream>>>(x, gate, expert, slot, back, out, chunk, c.hidden);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaStreamSynchronize(stream));
    double ms = (MPI_Wtime() - t0) * 1e3;
    if (iter < 0)
      continue;

    CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    times.push_back(ms);
    if (iter % c.every != 0 && iter != c.iters - 1)
      continue; // timed, not compared
    CHECK_CUDA(cudaMemcpy(host.data(), out, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
    wrong += verify(host, c, data, rank, nranks);
  }

  CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  if (rank == 0) {
    std::sort(times.begin(), times.end());
    printf("moe_dispatch_combine: ranks=%d tokens=%d hidden=%d inter=%d skew=%d; last routing:",
           nranks, c.tokens, c.hidden, c.inter, c.skew);
    for (int e = 0; e < nranks; e++) {
      int sum = 0;
      for (int src = 0; src < nranks; src++)
        sum += n[src * nranks + e];
      printf(" %d", sum);
    }
    printf("\nTime: %.4f ms (maximum over ranks, median of %d)\n", times[c.iters / 2], c.iters);
    printf("Verification: %s\n", wrong ? "FAIL" : "PASS");
  }
#ifdef USE_CUBLAS
  CHECK_CUBLAS(cublasDestroy(blas));
  CHECK_CUDA(cudaFree(wide));
  CHECK_CUDA(cudaFree(hidden));
#endif
  CHECK_CUDA(cudaFree(x));
  CHECK_CUDA(cudaFree(gate));
  CHECK_CUDA(cudaFree(w1));
  CHECK_CUDA(cudaFree(w2));
  CHECK_CUDA(cudaFree(scale));
  CHECK_CUDA(cudaFree(recv_scale));
  CHECK_CUDA(cudaFree(mid));
  CHECK_CUDA(cudaFree(y));
  CHECK_CUDA(cudaFree(back));
  CHECK_CUDA(cudaFree(out));
  CHECK_CUDA(cudaFree(q));
  CHECK_CUDA(cudaFree(recv_q));
  CHECK_CUDA(cudaFree(expert));
  CHECK_CUDA(cudaFree(slot));
  CHECK_CUDA(cudaFree(counts));
  CHECK_CUDA(cudaFree(all_counts));
  CHECK_NCCL(ncclCommDestroy(comm));
  CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_MPI(MPI_Finalize());
  return wrong ? 1 : 0;
}
