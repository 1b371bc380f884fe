// SPDX-License-Identifier: Apache-2.0
//
// Ring attention (context parallelism): every rank holds a block of the sequence. Keys and values
// travel round the ring while each rank folds the block it has into the online softmax of its
// queries.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 $(pkg-config --cflags mpich) ring_attention.cu
//              -o ring_attention -lnccl -lmpich                          [-DUSE_BF16]
//   run:   mpirun -np 4 ./ring_attention --seq 8192 --heads 8 --dim 64 [--causal]
//
// Shows: a step of send-current / receive-next in a group on a communication stream beside the
// attention kernel on the current block, ordered by events, with pointer swaps at the end of the
// step. The sequence need not divide by the number of ranks; dim is 16, 32, 64 or 128. With
// -DUSE_BF16, queries, keys and values are bfloat16 and the kernel works on tensor cores.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <getopt.h>
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#ifdef USE_BF16
typedef __nv_bfloat16 real;
#define NCCL_REAL_TYPE ncclBfloat16
#define QUERIES 128 // queries per thread block, 16 per warp
#define KEYS 64     // keys per shared tile
#define THREADS 256
#define WEIGHT_ROUNDOFF (1.0 / 512) // the softmax weights are rounded before they meet the values
#else
typedef float real;
#define NCCL_REAL_TYPE ncclFloat
#define QUERIES 32 // queries per thread block, four threads each
#define KEYS 32    // keys per shared tile
#define THREADS 128
#define WEIGHT_ROUNDOFF 0.0
#endif

static void die(const char *what, const char *why, const char *file, int line) {
  fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, why);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

#define cudaCheck(x)                                                                               \
  {                                                                                                \
    cudaError_t err = (x);                                                                         \
    if (err != cudaSuccess)                                                                        \
      die(#x, cudaGetErrorString(err), __FILE__, __LINE__);                                        \
  }
#define ncclCheck(x)                                                                               \
  {                                                                                                \
    ncclResult_t err = (x);                                                                        \
    if (err != ncclSuccess)                                                                        \
      die(#x, ncclGetErrorString(err), __FILE__, __LINE__);                                        \
  }
#define mpiCheck(x)                                                                                \
  {                                                                                                \
    if ((x) != MPI_SUCCESS)                                                                        \
      die(#x, "MPI error", __FILE__, __LINE__);                                                    \
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

// Fills the rows [0, rows) of every head of a [heads][block][dim] block that begins at `first`.
__global__ void fill(real *dst, int block, int rows, int dim, int seq, int first, uint64_t seed,
                     int tensor, int iter) {
  size_t head = blockIdx.y;
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (size_t)rows * dim;
       i += stride)
    dst[head * block * dim + i] = (real)value(seed, tensor, iter, (head * seq + first) * dim + i);
}

// Folds `keys` keys and values, which begin at sequence position k0, into the running maximum m,
// sum l and accumulator acc of `rows` queries, which begin at position q0.
#ifdef USE_BF16
// Four 8 x 8 matrices from shared memory, lane l giving the address of row l % 8 of matrix l / 8.
__device__ inline void load_matrices(unsigned (&r)[4], const real *row) {
  unsigned at = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at));
}

__device__ inline void load_transposed(unsigned (&r)[4], const real *row) {
  unsigned at = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at));
}

// c[16 x 8] += a[16 x 16] * b[16 x 8]
__device__ inline void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline unsigned pack(float low, float high) {
  __nv_bfloat162 x = __floats2bfloat162_rn(low, high);
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

// The same on tensor cores. A warp has 16 queries; lane 4 g + t has rows g and g + 8 of them and,
// of every 8 columns, 2 t and 2 t + 1. The maximum is kept in units of log 2.
template <int D>
__global__ void __launch_bounds__(THREADS)
    attention_step(const real *q, const real *k, const real *v, float *acc, float *m, float *l,
                   int block, int rows, int keys, int q0, int k0, bool causal, bool init) {
  constexpr int W = D + 8;             // padded row: no bank conflicts
  constexpr int PIECES = KEYS * D / 8; // of 16 bytes in a tile
  constexpr int MINE = (PIECES + THREADS - 1) / THREADS;
  __shared__ __align__(16) real ks[KEYS * W], vs[KEYS * W];
  int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  int row0 = blockIdx.x * QUERIES, row[2];
  row[0] = row0 + threadIdx.x / 32 * 16 + g;
  row[1] = row[0] + 8;
  size_t head = (size_t)blockIdx.y * block;
  const float scale = 1.44269504f / sqrtf((float)D);
  float top[2], sum[2], o[D / 8][4];
  unsigned qa[D / 16][4];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    bool live = row[h] < rows;
    top[h] = live && !init ? m[head + row[h]] : -INFINITY;
    sum[h] = live && !init && t == 0 ? l[head + row[h]] : 0.0f;
#pragma unroll
    for (int i = 0; i < D / 16; i++)
#pragma unroll
      for (int c = 0; c < 2; c++)
        qa[i][2 * c + h] =
            live ? *(const unsigned *)(q + (head + row[h]) * D + i * 16 + c * 8 + t * 2) : 0;
#pragma unroll
    for (int i = 0; i < D / 8; i++)
#pragma unroll
      for (int c = 0; c < 2; c++)
        o[i][2 * h + c] = live && !init ? acc[(head + row[h]) * D + i * 8 + t * 2 + c] : 0.0f;
  }
  int last = keys; // beyond it, no query of this block sees a key
  if (causal && q0 + row0 + QUERIES - k0 < keys)
    last = q0 + row0 + QUERIES - k0;
  int4 kr[MINE], vr[MINE]; // the next tile, on its way to shared memory
  for (int j0 = -KEYS; j0 < last; j0 += KEYS) {
    int next = j0 + KEYS;
#pragma unroll
    for (int i = 0; i < MINE; i++) {
      int piece = threadIdx.x + i * THREADS, key = next + piece / (D / 8);
      bool there = piece < PIECES && key < keys;
      size_t at = (head + key) * D + piece % (D / 8) * 8;
      kr[i] = there ? *(const int4 *)(k + at) : make_int4(0, 0, 0, 0);
      vr[i] = there ? *(const int4 *)(v + at) : make_int4(0, 0, 0, 0);
    }
    if (j0 >= 0) {
      float s[KEYS / 8][4];
#pragma unroll
      for (int i = 0; i < KEYS / 8; i++)
        s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.0f;
#pragma unroll
      for (int d = 0; d < D / 16; d++)
#pragma unroll
        for (int i = 0; i < KEYS / 16; i++) {
          unsigned b[4];
          load_matrices(b,
                        ks + (i * 16 + lane / 16 * 8 + lane % 8) * W + d * 16 + lane / 8 % 2 * 8);
          multiply(s[2 * i], qa[d], b[0], b[1]);
          multiply(s[2 * i + 1], qa[d], b[2], b[3]);
        }
      bool edge = j0 + KEYS > keys || (causal && k0 + j0 + KEYS > q0 + row0);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        float best = top[h];
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
          for (int c = 0; c < 2; c++) {
            float &x = s[i][2 * h + c];
            int key = j0 + i * 8 + t * 2 + c;
            x = edge && (key >= keys || (causal && k0 + key > q0 + row[h])) ? -INFINITY : x * scale;
            best = fmaxf(best, x);
          }
        best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 1));
        best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 2));
        float old = exp2f(top[h] - best);
        top[h] = best;
        sum[h] *= old;
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
          for (int c = 0; c < 2; c++) {
            s[i][2 * h + c] = exp2f(s[i][2 * h + c] - best);
            sum[h] += s[i][2 * h + c];
          }
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
          o[i][2 * h] *= old;
          o[i][2 * h + 1] *= old;
        }
      }
#pragma unroll
      for (int i = 0; i < KEYS / 16; i++) {
        unsigned p[4] = {pack(s[2 * i][0], s[2 * i][1]), pack(s[2 * i][2], s[2 * i][3]),
                         pack(s[2 * i + 1][0], s[2 * i + 1][1]),
                         pack(s[2 * i + 1][2], s[2 * i + 1][3])};
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
          unsigned b[4];
          load_transposed(b, vs + (i * 16 + lane % 16) * W + d * 16 + lane / 16 * 8);
          multiply(o[2 * d], p, b[0], b[1]);
          multiply(o[2 * d + 1], p, b[2], b[3]);
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < MINE; i++) {
      int piece = threadIdx.x + i * THREADS, at = piece / (D / 8) * W + piece % (D / 8) * 8;
      if (piece < PIECES) {
        *(int4 *)(ks + at) = kr[i];
        *(int4 *)(vs + at) = vr[i];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
    sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
    if (row[h] >= rows)
      continue;
#pragma unroll
    for (int i = 0; i < D / 8; i++)
#pragma unroll
      for (int c = 0; c < 2; c++)
        acc[(head + row[h]) * D + i * 8 + t * 2 + c] = o[i][2 * h + c];
    if (t == 0) {
      m[head + row[h]] = top[h];
      l[head + row[h]] = sum[h];
    }
  }
}
#else
template <int D>
__global__ void attention_step(const real *q, const real *k, const real *v, float *acc, float *m,
                               float *l, int block, int rows, int keys, int q0, int k0, bool causal,
                               bool init) {
  __shared__ float ks[KEYS][D], vs[KEYS][D];
  int row = blockIdx.x * QUERIES + threadIdx.x / 4, part = threadIdx.x % 4;
  size_t head = (size_t)blockIdx.y * block;
  bool live = row < rows;
  float scale = 1.0f / sqrtf((float)D), max = -INFINITY, sum = 0.0f;
  float qr[D / 4], ar[D / 4];
  for (int i = 0; i < D / 4; i++) {
    qr[i] = live ? q[(head + row) * D + i * 4 + part] * scale : 0.0f;
    ar[i] = live && !init ? acc[(head + row) * D + i * 4 + part] : 0.0f;
  }
  if (live && !init) {
    max = m[head + row];
    sum = l[head + row];
  }
  for (int j0 = 0; j0 < keys; j0 += KEYS) {
    for (int i = threadIdx.x; i < KEYS * D; i += blockDim.x) {
      int key = j0 + i / D;
      ks[i / D][i % D] = key < keys ? k[(head + key) * D + i % D] : 0.0f;
      vs[i / D][i % D] = key < keys ? v[(head + key) * D + i % D] : 0.0f;
    }
    __syncthreads();
    for (int j = 0; j < KEYS && j0 + j < keys; j++) {
      float s = 0.0f;
      for (int i = 0; i < D / 4; i++)
        s += qr[i] * ks[j][i * 4 + part];
      s += __shfl_xor_sync(0xffffffffu, s, 1);
      s += __shfl_xor_sync(0xffffffffu, s, 2);
      if (causal && k0 + j0 + j > q0 + row)
        continue;
      float top = fmaxf(max, s);
      float old = expf(max - top), p = expf(s - top);
      for (int i = 0; i < D / 4; i++)
        ar[i] = ar[i] * old + p * vs[j][i * 4 + part];
      sum = sum * old + p;
      max = top;
    }
    __syncthreads();
  }
  if (live) {
    for (int i = 0; i < D / 4; i++)
      acc[(head + row) * D + i * 4 + part] = ar[i];
    if (part == 0) {
      m[head + row] = max;
      l[head + row] = sum;
    }
  }
}
#endif

__global__ void finalize(const float *acc, const float *l, float *out, int block, int rows,
                         int dim) {
  size_t head = (size_t)blockIdx.y * block;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * dim; i += gridDim.x * blockDim.x)
    out[head * dim + i] = acc[head * dim + i] / l[head + i / dim];
}

struct Config {
  int seq = 64, heads = 2, dim = 16, causal = 0, iters = 3, warmup = 1, every = 1;
  uint64_t seed = 1;
};

// Plain softmax attention in double: every query of this rank, or 16 random ones.
static long verify(const std::vector<float> &out, const Config &c, int iter, int rank, int block,
                   int first, int rows) {
  bool all = (double)c.seq * rows * c.heads * c.dim <= 1 << 23;
  long wrong = 0;
  srand(c.seed + iter * 13 + rank);
  std::vector<double> w(c.seq), o(c.dim), square(c.dim);
  for (int s = 0; rows > 0 && s < (all ? rows * c.heads : 16); s++) {
    int h = all ? s / rows : rand() % c.heads, r = all ? s % rows : rand() % rows;
    int last = c.causal ? first + r : c.seq - 1;
    size_t base = (size_t)h * c.seq;
    double top = -1e30, sum = 0;
    for (int j = 0; j <= last; j++) {
      double dot = 0;
      for (int d = 0; d < c.dim; d++)
        dot += (double)(float)(real)value(c.seed, Q, iter, (base + first + r) * c.dim + d) *
               (float)(real)value(c.seed, K, iter, (base + j) * c.dim + d);
      w[j] = dot / sqrt((double)c.dim);
      top = std::max(top, w[j]);
    }
    for (int d = 0; d < c.dim; d++)
      o[d] = square[d] = 0;
    for (int j = 0; j <= last; j++) {
      double p = exp(w[j] - top);
      sum += p;
      for (int d = 0; d < c.dim; d++) {
        double x = p * (float)(real)value(c.seed, V, iter, (base + j) * c.dim + d);
        o[d] += x;
        square[d] += x * x; // the weights' roundings add up as random steps do
      }
    }
    double exact = (64 + 8 * sqrt((double)c.dim) + 8 * sqrt((double)c.seq)) / (1 << 24);
    for (int d = 0; d < c.dim; d++) {
      double got = out[((size_t)h * block + r) * c.dim + d], ref = o[d] / sum;
      double tol = exact + 6 * WEIGHT_ROUNDOFF * sqrt(square[d]) / sum;
      if (!(fabs(got - ref) <= tol) && wrong++ < 3)
        fprintf(stderr, "rank %d iteration %d: head %d query %d dim %d is %g, expected %g\n", rank,
                iter, h, first + r, d, got, ref);
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
                         {"causal", no_argument, nullptr, 'c'},
                         {"iters", required_argument, nullptr, 'i'},
                         {"warmup", required_argument, nullptr, 'w'},
                         {"check-every", required_argument, nullptr, 'v'},
                         {"seed", required_argument, nullptr, 's'},
                         {"help", no_argument, nullptr, 'h'},
                         {nullptr, 0, nullptr, 0}};
  mpiCheck(MPI_Init(&argc, &argv));
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
    case 'c':
      c.causal = 1;
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
  mpiCheck(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  mpiCheck(MPI_Comm_size(MPI_COMM_WORLD, &nranks));
  bool dim_ok = c.dim == 16 || c.dim == 32 || c.dim == 64 || c.dim == 128;
  if (help || c.seq < 1 || c.heads < 1 || !dim_ok || c.iters < 1 || c.warmup < 0 || c.every < 1) {
    if (rank == 0)
      printf("usage: mpirun -np RANKS %s [--seq S] [--heads H] [--dim 16|32|64|128] [--causal] "
             "[--iters I] [--warmup W] [--seed S] [--check-every N]\n",
             argv[0]);
    mpiCheck(MPI_Finalize());
    return help == 1 ? 0 : 2;
  }
  MPI_Comm node;
  mpiCheck(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
  mpiCheck(MPI_Comm_rank(node, &local));
  mpiCheck(MPI_Comm_free(&node));
  cudaCheck(cudaGetDeviceCount(&ndev));
  cudaCheck(cudaSetDevice(local % ndev));
  ncclUniqueId id;
  ncclComm_t comm;
  if (rank == 0)
    ncclCheck(ncclGetUniqueId(&id));
  mpiCheck(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
  ncclCheck(ncclCommInitRank(&comm, nranks, id, rank));

  // Blocks are of equal size on the wire; the last ranks may own fewer rows (or none).
  int block = (c.seq + nranks - 1) / nranks;
  auto first_of = [&](int r) { return std::min(r * block, c.seq); };
  auto rows_of = [&](int r) { return std::min(block, c.seq - first_of(r)); };
  int first = first_of(rank), rows = rows_of(rank);
  size_t count = (size_t)c.heads * block * c.dim, bytes = count * sizeof(real);
  size_t stats = (size_t)c.heads * block * sizeof(float);

  real *q, *k, *v, *k_next, *v_next;
  float *acc, *m, *l, *out;
  cudaCheck(cudaMalloc(&q, bytes));
  cudaCheck(cudaMalloc(&k, bytes));
  cudaCheck(cudaMalloc(&v, bytes));
  cudaCheck(cudaMalloc(&k_next, bytes));
  cudaCheck(cudaMalloc(&v_next, bytes));
  cudaCheck(cudaMalloc(&acc, count * sizeof(float)));
  cudaCheck(cudaMalloc(&out, count * sizeof(float)));
  cudaCheck(cudaMalloc(&m, stats));
  cudaCheck(cudaMalloc(&l, stats));
  cudaStream_t compute, transfer;
  cudaEvent_t computed, received;
  cudaCheck(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  cudaCheck(cudaStreamCreateWithFlags(&transfer, cudaStreamNonBlocking));
  cudaCheck(cudaEventCreateWithFlags(&computed, cudaEventDisableTiming));
  cudaCheck(cudaEventCreateWithFlags(&received, cudaEventDisableTiming));

  int next = (rank + 1) % nranks, prev = (rank - 1 + nranks) % nranks;
  dim3 grid((rows + QUERIES - 1) / QUERIES, c.heads), fill_grid(32, c.heads);
  std::vector<float> host(count);
  std::vector<double> times;
  long wrong = 0;
  for (int iter = -c.warmup; iter < c.iters; iter++) {
    int data = iter < 0 ? 900 - iter : iter; // other data in each iteration
    for (real *p : {q, k, v, k_next, v_next})
      cudaCheck(cudaMemsetAsync(p, 0xFF, bytes, compute));
    cudaCheck(cudaMemsetAsync(acc, 0xFF, count * sizeof(float), compute));
    cudaCheck(cudaMemsetAsync(out, 0xFF, count * sizeof(float), compute));
    cudaCheck(cudaMemsetAsync(m, 0xFF, stats, compute));
    cudaCheck(cudaMemsetAsync(l, 0xFF, stats, compute));
    fill<<<fill_grid, 256, 0, compute>>>(q, block, rows, c.dim, c.seq, first, c.seed, Q, data);
    fill<<<fill_grid, 256, 0, compute>>>(k, block, rows, c.dim, c.seq, first, c.seed, K, data);
    fill<<<fill_grid, 256, 0, compute>>>(v, block, rows, c.dim, c.seq, first, c.seed, V, data);
    cudaCheck(cudaGetLastError());
    cudaCheck(cudaStreamSynchronize(compute));
    mpiCheck(MPI_Barrier(MPI_COMM_WORLD));
    double t0 = MPI_Wtime();

    for (int step = 0; step < nranks; step++) {
      // Pass the current block on while working on it; its successor arrives in the other buffer,
      // which the previous step's kernel must have finished reading.
      if (step < nranks - 1) {
        if (step > 0)
          cudaCheck(cudaStreamWaitEvent(transfer, computed, 0));
        ncclCheck(ncclGroupStart());
        ncclCheck(ncclSend(k, count, NCCL_REAL_TYPE, next, comm, transfer));
        ncclCheck(ncclRecv(k_next, count, NCCL_REAL_TYPE, prev, comm, transfer));
        ncclCheck(ncclSend(v, count, NCCL_REAL_TYPE, next, comm, transfer));
        ncclCheck(ncclRecv(v_next, count, NCCL_REAL_TYPE, prev, comm, transfer));
        ncclCheck(ncclGroupEnd());
      }

      int owner = (rank - step + nranks) % nranks; // whose block this is
      int keys = rows_of(owner), k0 = first_of(owner);
      if (rows > 0 && keys > 0 && (!c.causal || owner <= rank)) {
        bool init = step == 0;
        switch (c.dim) {
        case 16:
          attention_step<16><<<grid, THREADS, 0, compute>>>(q, k, v, acc, m, l, block, rows, keys,
                                                            first, k0, c.causal, init);
          break;
        case 32:
          attention_step<32><<<grid, THREADS, 0, compute>>>(q, k, v, acc, m, l, block, rows, keys,
                                                            first, k0, c.causal, init);
          break;
        case 64:
          attention_step<64><<<grid, THREADS, 0, compute>>>(q, k, v, acc, m, l, block, rows, keys,
                                                            first, k0, c.causal, init);
          break;
        default:
          attention_step<128><<<grid, THREADS, 0, compute>>>(q, k, v, acc, m, l, block, rows, keys,
                                                             first, k0, c.causal, init);
        }
        cudaCheck(cudaGetLastError());
      }
      if (step < nranks - 1) {
        cudaCheck(cudaEventRecord(computed, compute));
        cudaCheck(cudaEventRecord(received, transfer));
        cudaCheck(cudaStreamWaitEvent(compute, received, 0));
        std::swap(k, k_next);
        std::swap(v, v_next);
      }
    }
    if (rows > 0)
      finalize<<<fill_grid, 256, 0, compute>>>(acc, l, out, block, rows, c.dim);
    cudaCheck(cudaGetLastError());
    cudaCheck(cudaStreamSynchronize(compute));
    double ms = (MPI_Wtime() - t0) * 1e3;
    cudaCheck(cudaStreamSynchronize(transfer));
    if (iter < 0)
      continue;

    mpiCheck(MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    times.push_back(ms);
    if (iter % c.every != 0 && iter != c.iters - 1)
      continue; // timed, not compared
    cudaCheck(cudaMemcpy(host.data(), out, count * sizeof(float), cudaMemcpyDeviceToHost));
    wrong += verify(host, c, data, rank, block, first, rows);
  }

  mpiCheck(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  if (rank == 0) {
    std::sort(times.begin(), times.end());
    printf("ring_attention: ranks=%d seq=%d heads=%d dim=%d causal=%d type=%s\n", nranks, c.seq,
           c.heads, c.dim, c.causal, sizeof(real) == 2 ? "bf16" : "fp32");
    printf("Time: %.4f ms (maximum over ranks, median of %d)\n", times[c.iters / 2], c.iters);
    printf("Verification: %s\n", wrong ? "FAIL" : "PASS");
  }
  cudaCheck(cudaFree(q));
  cudaCheck(cudaFree(k));
  cudaCheck(cudaFree(v));
  cudaCheck(cudaFree(k_next));
  cudaCheck(cudaFree(v_next));
  cudaCheck(cudaFree(acc));
  cudaCheck(cudaFree(out));
  cudaCheck(cudaFree(m));
  cudaCheck(cudaFree(l));
  cudaCheck(cudaEventDestroy(computed));
  cudaCheck(cudaEventDestroy(received));
  ncclCheck(ncclCommDestroy(comm));
  cudaCheck(cudaStreamDestroy(compute));
  cudaCheck(cudaStreamDestroy(transfer));
  mpiCheck(MPI_Finalize());
  return wrong ? 1 : 0;
}
