// SPDX-License-Identifier: Apache-2.0
// Cases of a switch: which exclude each other, which follow each other.
#include "idioms/common.h"

__global__ void fill(float *x, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    x[i] = 1;
}
__global__ void use(float *y, const float *x, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    y[i] = x[i];
}

static void run(int mode, float *x, float *y, int n, ncclComm_t comm, cudaStream_t s) {
  fill<<<1, 32, 0, s>>>(x, n); //@before
  switch (mode) {
  case 0:
    NCCLCHECK(ncclAllReduce(x, x, n, ncclFloat, ncclSum, comm, s)); //@zero
    break;
  case 1: {
    NCCLCHECK(ncclBroadcast(x, x, n, ncclFloat, 0, comm, s)); //@one
    break;
  }
  case 2:
    fill<<<1, 32, 0, s>>>(x, n); //@two
    // falls through
  case 3:
  case 4:
    use<<<1, 32, 0, s>>>(y, x, n); //@three
    return;
  default:
    NCCLCHECK(ncclAllReduce(y, y, n, ncclFloat, ncclSum, comm, s)); //@other
  }
  use<<<1, 32, 0, s>>>(y, x, n); //@after
}

// Labels inside a loop of the switch: any statement may be the first.
static void odd(int n, float *x, float *y, cudaStream_t s) {
  switch (n % 2) {
  case 0:
    do {
      fill<<<1, 32, 0, s>>>(x, 8); //@even
    case 1:
      use<<<1, 32, 0, s>>>(y, x, 8); //@odd
    } while ((n -= 2) > 0);
  }
}

static void by_rank(int rank, int steps, float *x, int n, ncclComm_t comm, cudaStream_t s) {
  for (int i = 0; i < steps; i++) {
    switch (rank) {
    case 0:
      break;
    case 1:
      continue;
    }
    NCCLCHECK(ncclAllReduce(x, x, n, ncclFloat, ncclSum, comm, s)); //@skipped
  }
  for (int i = 0; i < steps; i++) {
    switch (rank) {
    case 0:
      n--;
      break;
    }
    NCCLCHECK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, s)); //@joined
  }
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ncclUniqueId id;
  ncclComm_t comm;
  cudaStream_t s;
  NCCLCHECK(ncclGetUniqueId(&id));
  NCCLCHECK(ncclCommInitRank(&comm, size, id, rank));
  CUDACHECK(cudaStreamCreate(&s));
  float *x, *y;
  CUDACHECK(cudaMalloc(&x, 1024 * sizeof(float)));
  CUDACHECK(cudaMalloc(&y, 1024 * sizeof(float)));
  run(argc, x, y, 1024, comm, s);
  odd(argc, x, y, s);
  by_rank(rank, argc, x, 1024, comm, s);
  return 0;
}
