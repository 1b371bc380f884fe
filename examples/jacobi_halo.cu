// SPDX-License-Identifier: Apache-2.0
//
// Jacobi iteration for the Laplace equation on an nx x ny grid with fixed boundary, split by rows.
// Each step exchanges one halo row with each neighbour, sweeps, and sums the squared change of all
// ranks; the host stops when it is small enough.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 $(pkg-config --cflags mpich) jacobi_halo.cu
//              -o jacobi_halo -lnccl -lmpich
//   run:   mpirun -np 4 ./jacobi_halo --nx 2048 --ny 2048 --steps 100 [--tol 1e-3]
//
// Shows: neighbour exchange under if (rank > 0) in a group, a one-element AllReduce with a host
// convergence test, pointer swap at the end of the loop, rows that do not divide evenly.
#include <cuda_runtime.h>
#include <getopt.h>
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define CUDA_CALL(call)                                                                            \
  do {                                                                                             \
    cudaError_t status = (call);                                                                   \
    if (cudaSuccess != status) {                                                                   \
      fprintf(stderr, "ERROR: CUDA call \"%s\" in line %d of file %s failed with %s (%d).\n",      \
              #call, __LINE__, __FILE__, cudaGetErrorString(status), status);                      \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  } while (0)

#define NCCL_CALL(call)                                                                            \
  do {                                                                                             \
    ncclResult_t status = (call);                                                                  \
    if (ncclSuccess != status) {                                                                   \
      fprintf(stderr, "ERROR: NCCL call \"%s\" in line %d of file %s failed with %s (%d).\n",      \
              #call, __LINE__, __FILE__, ncclGetErrorString(status), status);                      \
      MPI_Abort(MPI_COMM_WORLD, 2);                                                                \
    }                                                                                              \
  } while (0)

#define MPI_CALL(call)                                                                             \
  if ((call) != MPI_SUCCESS) {                                                                     \
    fprintf(stderr, "ERROR: MPI call \"%s\" in line %d failed.\n", #call, __LINE__);               \
    exit(2);                                                                                       \
  }

typedef float real;
#define NCCL_REAL_TYPE ncclFloat

// Value of grid point i at the start of run `run`, in (-1, 1).
static float initial(uint64_t seed, uint64_t run, uint64_t i) {
  uint64_t x = seed * 0x9E3779B97F4A7C15ull + (run << 44) + i;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  return (float)(x >> 40) * (1.0f / (1 << 23)) - 1.0f;
}

#define BX 32
#define BY 8

// One sweep over the inner columns of rows 1 .. rows; adds the squared change to *norm.
__global__ void jacobi(real *a_new, const real *a, real *norm, int nx, int rows) {
  __shared__ real sums[BX * BY / 32];
  int ix = blockIdx.x * BX + threadIdx.x + 1;
  int iy = blockIdx.y * BY + threadIdx.y + 1;
  real change = 0;
  if (ix < nx - 1 && iy <= rows) {
    size_t at = (size_t)iy * nx + ix;
    real v = (real)0.25 * (a[at - 1] + a[at + 1] + a[at - nx] + a[at + nx]);
    a_new[at] = v;
    change = (v - a[at]) * (v - a[at]);
  }
  for (int d = 16; d > 0; d /= 2)
    change += __shfl_xor_sync(0xffffffffu, change, d);
  int t = threadIdx.y * BX + threadIdx.x;
  if (t % 32 == 0)
    sums[t / 32] = change;
  __syncthreads();
  if (t == 0) {
    real sum = 0;
    for (int w = 0; w < BX * BY / 32; w++)
      sum += sums[w];
    atomicAdd(norm, sum);
  }
}

// Reference: `steps` sweeps in double over the part of the grid that columns [x0, x1) and rows
// [y0, y1) depend on.  Returns those points row by row; *norm2 is the squared change of the last
// sweep, meaningful when the part is the whole grid.
static std::vector<double> reference(uint64_t seed, int run, int nx, int ny, int steps, int x0,
                                     int x1, int y0, int y1, double *norm2) {
  int lx = std::max(0, x0 - steps), hx = std::min(nx, x1 + steps);
  int ly = std::max(0, y0 - steps), hy = std::min(ny, y1 + steps);
  int w = hx - lx, h = hy - ly;
  std::vector<double> a((size_t)w * h);
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++)
      a[(size_t)y * w + x] = initial(seed, run, (uint64_t)(y + ly) * nx + x + lx);
  std::vector<double> b = a;
  for (int s = 0; s < steps; s++) {
    *norm2 = 0;
    for (int y = 1; y < h - 1; y++) // the outermost lines go stale unless they are the boundary
      for (int x = 1; x < w - 1; x++) {
        size_t at = (size_t)y * w + x;
        b[at] = 0.25 * (a[at - 1] + a[at + 1] + a[at - w] + a[at + w]);
        *norm2 += (b[at] - a[at]) * (b[at] - a[at]);
      }
    std::swap(a, b);
  }
  std::vector<double> out;
  for (int y = y0; y < y1; y++)
    for (int x = x0; x < x1; x++)
      out.push_back(a[(size_t)(y - ly) * w + x - lx]);
  return out;
}

int main(int argc, char **argv) {
  int nx = 64, ny = 67, steps = 20, iters = 3, warmup = 1, every = 1, help = 0;
  double tol = 1e-3;
  uint64_t seed = 1;
  const option opts[] = {{"nx", required_argument, nullptr, 'x'},
                         {"ny", required_argument, nullptr, 'y'},
                         {"steps", required_argument, nullptr, 'n'},
                         {"tol", required_argument, nullptr, 't'},
                         {"iters", required_argument, nullptr, 'i'},
                         {"warmup", required_argument, nullptr, 'w'},
                         {"check-every", required_argument, nullptr, 'v'},
                         {"seed", required_argument, nullptr, 's'},
                         {"help", no_argument, nullptr, 'h'},
                         {nullptr, 0, nullptr, 0}};
  MPI_CALL(MPI_Init(&argc, &argv));
  for (int c; (c = getopt_long(argc, argv, "h", opts, nullptr)) != -1;) {
    switch (c) {
    case 'x':
      nx = atoi(optarg);
      break;
    case 'y':
      ny = atoi(optarg);
      break;
    case 'n':
      steps = atoi(optarg);
      break;
    case 't':
      tol = atof(optarg);
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
    case 'h':
      help = 1;
      break;
    default:
      help = 2;
    }
  }
  int rank, size, local_rank, num_devices;
  MPI_CALL(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  MPI_CALL(MPI_Comm_size(MPI_COMM_WORLD, &size));
  if (help || nx < 3 || ny - 2 < size || steps < 1 || iters < 1 || warmup < 0 || every < 1) {
    if (rank == 0)
      printf("usage: mpirun -np RANKS %s [--nx X] [--ny Y] [--steps N] [--tol T] [--iters I] "
             "[--warmup W] [--seed S] [--check-every N]\n"
             "nx must be at least 3, ny at least RANKS + 2\n",
             argv[0]);
    MPI_CALL(MPI_Finalize());
    return help == 1 ? 0 : 2;
  }
  MPI_Comm local_comm;
  MPI_CALL(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &local_comm));
  MPI_CALL(MPI_Comm_rank(local_comm, &local_rank));
  MPI_CALL(MPI_Comm_free(&local_comm));
  CUDA_CALL(cudaGetDeviceCount(&num_devices));
  CUDA_CALL(cudaSetDevice(local_rank % num_devices));

  ncclUniqueId nccl_uid;
  if (rank == 0)
    NCCL_CALL(ncclGetUniqueId(&nccl_uid));
  MPI_CALL(MPI_Bcast(&nccl_uid, sizeof(ncclUniqueId), MPI_BYTE, 0, MPI_COMM_WORLD));
  ncclComm_t nccl_comm;
  NCCL_CALL(ncclCommInitRank(&nccl_comm, size, nccl_uid, rank));

  // Inner rows first .. first + rows - 1 of the global grid are mine; one halo row on either side.
  int inner = ny - 2;
  int rows = inner / size + (rank < inner % size ? 1 : 0);
  int first = 1 + rank * (inner / size) + std::min(rank, inner % size);
  size_t local_size = (size_t)(rows + 2) * nx;

  real *a, *a_new, *l2_norm_d, *l2_norm_h;
  CUDA_CALL(cudaMalloc(&a, local_size * sizeof(real)));
  CUDA_CALL(cudaMalloc(&a_new, local_size * sizeof(real)));
  CUDA_CALL(cudaMalloc(&l2_norm_d, sizeof(real)));
  CUDA_CALL(cudaMallocHost(&l2_norm_h, sizeof(real)));
  cudaStream_t stream;
  CUDA_CALL(cudaStreamCreate(&stream));
  dim3 block(BX, BY);
  dim3 grid((nx - 2 + BX - 1) / BX, (rows + BY - 1) / BY);

  std::vector<real> host(local_size);
  std::vector<double> times;
  long wrong = 0;
  int done = 0;
  for (int run = -warmup; run < iters; run++) {
    // Inner halo rows are poisoned: only the exchange can fill them.  Outer boundary is fixed.
    for (size_t i = 0; i < local_size; i++)
      host[i] = initial(seed, run + 1000, (uint64_t)(first - 1) * nx + i);
    CUDA_CALL(cudaMemcpy(a, host.data(), local_size * sizeof(real), cudaMemcpyHostToDevice));
    if (rank > 0)
      CUDA_CALL(cudaMemset(a, 0xFF, nx * sizeof(real)));
    if (rank < size - 1)
      CUDA_CALL(cudaMemset(a + (size_t)(rows + 1) * nx, 0xFF, nx * sizeof(real)));
    CUDA_CALL(cudaMemcpy(a_new, a, local_size * sizeof(real), cudaMemcpyDeviceToDevice));
    CUDA_CALL(cudaDeviceSynchronize());
    MPI_CALL(MPI_Barrier(MPI_COMM_WORLD));

    double t0 = MPI_Wtime();
    real l2_norm = (real)(2 * tol + 1);
    int step = 0;
    while (l2_norm > tol && step < steps) {
      NCCL_CALL(ncclGroupStart());
      if (rank > 0) {
        NCCL_CALL(ncclSend(a + nx, nx, NCCL_REAL_TYPE, rank - 1, nccl_comm, stream));
        NCCL_CALL(ncclRecv(a, nx, NCCL_REAL_TYPE, rank - 1, nccl_comm, stream));
      }
      if (rank < size - 1) {
        NCCL_CALL(
            ncclRecv(a + (size_t)(rows + 1) * nx, nx, NCCL_REAL_TYPE, rank + 1, nccl_comm, stream));
        NCCL_CALL(ncclSend(a + (size_t)rows * nx, nx, NCCL_REAL_TYPE, rank + 1, nccl_comm, stream));
      }
      NCCL_CALL(ncclGroupEnd());

      CUDA_CALL(cudaMemsetAsync(l2_norm_d, 0, sizeof(real), stream));
      jacobi<<<grid, block, 0, stream>>>(a_new, a, l2_norm_d, nx, rows);
      CUDA_CALL(cudaGetLastError());

      NCCL_CALL(ncclAllReduce(l2_norm_d, l2_norm_d, 1, NCCL_REAL_TYPE, ncclSum, nccl_comm, stream));
      CUDA_CALL(
          cudaMemcpyAsync(l2_norm_h, l2_norm_d, sizeof(real), cudaMemcpyDeviceToHost, stream));
      CUDA_CALL(cudaStreamSynchronize(stream));
      l2_norm = std::sqrt(*l2_norm_h);

      std::swap(a_new, a);
      step++;
    }
    double ms = (MPI_Wtime() - t0) * 1e3;
    if (run < 0)
      continue;
    MPI_CALL(MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    times.push_back(ms);
    done = step;
    if (run % every != 0 && run != iters - 1)
      continue; // timed, not compared

    // Compare my rows: all of them on a small grid, else 4 x 4 windows at random places.
    CUDA_CALL(cudaMemcpy(host.data(), a, local_size * sizeof(real), cudaMemcpyDeviceToHost));
    bool all = (double)nx * ny * step <= 1 << 24;
    srand(seed + run * 31 + rank);
    for (int s = 0; s < (all ? 1 : 8); s++) {
      int w = all ? nx : std::min(nx, 4), h = all ? rows : std::min(rows, 4);
      int x0 = rand() % (nx - w + 1), y0 = first + rand() % (rows - h + 1);
      if (s == 1) // and surely at the seams
        y0 = first;
      if (s == 2)
        y0 = first + rows - h;
      double norm2 = 0;
      std::vector<double> ref =
          reference(seed, run + 1000, nx, ny, step, x0, x0 + w, y0, y0 + h, &norm2);
      for (int i = 0; i < w * h; i++) {
        int x = x0 + i % w, y = y0 + i / w;
        double got = host[(size_t)(y - first + 1) * nx + x];
        if (!(fabs(got - ref[i]) <= 4.0 * step / (1 << 24)) && wrong++ < 3)
          fprintf(stderr, "rank %d run %d: point (%d, %d) is %g, expected %g\n", rank, run, x, y,
                  got, ref[i]);
      }
      bool whole = (double)nx * ny * step <= 1 << 24 && (first - step <= 0 || size == 1) &&
                   (first + rows + step >= ny || size == 1);
      if (whole && !(fabs(l2_norm - sqrt(norm2)) <= 1e-4 * sqrt(norm2) + 1e-6)) {
        wrong++;
        fprintf(stderr, "rank %d run %d: norm is %g, expected %g\n", rank, run, (double)l2_norm,
                sqrt(norm2));
      }
    }
  }

  MPI_CALL(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  if (rank == 0) {
    std::sort(times.begin(), times.end());
    printf("jacobi_halo: ranks=%d nx=%d ny=%d steps=%d\n", size, nx, ny, done);
    printf("Time: %.4f ms (maximum over ranks, median of %d)\n", times[iters / 2], iters);
    printf("Verification: %s\n", wrong ? "FAIL" : "PASS");
  }
  CUDA_CALL(cudaFree(a));
  CUDA_CALL(cudaFree(a_new));
  CUDA_CALL(cudaFree(l2_norm_d));
  CUDA_CALL(cudaFreeHost(l2_norm_h));
  CUDA_CALL(cudaStreamDestroy(stream));
  NCCL_CALL(ncclCommDestroy(nccl_comm));
  MPI_CALL(MPI_Finalize());
  return wrong ? 1 : 0;
}
