// SPDX-License-Identifier: Apache-2.0
// Neighbour exchange under rank conditions, stencil, norm, pointer swap.
#include "common.h"
#include <utility>

typedef double real;
#define REAL_TYPE ncclDouble

__global__ void stencil(real *out, const real *in, real *norm, int nx, int rows);

int main(int argc, char **argv) {
  int rank, size, nx = 64, rows = 32;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ncclUniqueId id = {};
  ncclComm_t comm;
  NCCLCHECK(ncclCommInitRank(&comm, size, id, rank));
  real *a, *a_new, *norm, *norm_h;
  CUDACHECK(cudaMalloc(&a, nx * (rows + 2) * sizeof(real))); //@alloc
  CUDACHECK(cudaMalloc(&a_new, nx * (rows + 2) * sizeof(real)));
  CUDACHECK(cudaMalloc(&norm, sizeof(real)));
  CUDACHECK(cudaMallocHost(&norm_h, sizeof(real)));
  cudaStream_t s;
  CUDACHECK(cudaStreamCreate(&s));
  real l2 = 1.0;
  for (int it = 0; it < 100 && l2 > 1e-4; it++) {
    NCCLCHECK(ncclGroupStart());
    if (rank > 0) {
      NCCLCHECK(ncclSend(a + nx, nx, REAL_TYPE, rank - 1, comm, s)); //@send_up
      NCCLCHECK(ncclRecv(a, nx, REAL_TYPE, rank - 1, comm, s));
    }
    if (rank < size - 1) {
      NCCLCHECK(ncclRecv(a + (rows + 1) * nx, nx, REAL_TYPE, rank + 1, comm, s)); //@recv_down
      NCCLCHECK(ncclSend(a + rows * nx, nx, REAL_TYPE, rank + 1, comm, s));
    }
    NCCLCHECK(ncclGroupEnd());
    CUDACHECK(cudaMemsetAsync(norm, 0, sizeof(real), s));
    stencil<<<8, 128, 0, s>>>(a_new, a, norm, nx, rows); //@stencil
    NCCLCHECK(ncclAllReduce(norm, norm, 1, REAL_TYPE, ncclSum, comm, s)); //@norm
    CUDACHECK(cudaMemcpyAsync(norm_h, norm, sizeof(real), cudaMemcpyDeviceToHost, s));
    CUDACHECK(cudaStreamSynchronize(s));
    l2 = *norm_h;
    std::swap(a_new, a);
  }
  CUDACHECK(cudaFree(a));
}
