// SPDX-License-Identifier: Apache-2.0
// Fill kernel, collective and copy back on one stream, straight through main.
#include "common.h"
#include <vector>

__global__ void fill(float *x, int n, float v) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] = v;
}

int main(int argc, char **argv) {
  int rank, size, n = argc > 1 ? atoi(argv[1]) : 1 << 20;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ncclUniqueId id;
  if (rank == 0)
    NCCLCHECK(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm;
  NCCLCHECK(ncclCommInitRank(&comm, size, id, rank)); //@init
  float *send, *recv;
  CUDACHECK(cudaMalloc(&send, n * sizeof(float))); //@alloc
  CUDACHECK(cudaMalloc((void **)&recv, n * sizeof(float)));
  cudaStream_t s;
  CUDACHECK(cudaStreamCreate(&s));
  fill<<<(n + 255) / 256, 256, 0, s>>>(send, n, rank + 1.0f); //@fill
  NCCLCHECK(ncclAllReduce(send, recv, n, ncclFloat, ncclSum, comm, s)); //@reduce
  CUDACHECK(cudaStreamSynchronize(s)); //@sync
  std::vector<float> host(n);
  CUDACHECK(cudaMemcpy(host.data(), recv, n * sizeof(float), cudaMemcpyDeviceToHost)); //@back
  if (rank == 0) {
    float *only;
    CUDACHECK(cudaMalloc(&only, 4)); //@only
    CUDACHECK(cudaFree(only));
  }
  CUDACHECK(cudaFree(send)); //@free
  CUDACHECK(cudaFree(recv));
  NCCLCHECK(ncclCommDestroy(comm)); //@destroy
}
