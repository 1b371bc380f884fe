// SPDX-License-Identifier: Apache-2.0
// GEMM by rows on one stream, collective by chunk on another, joined by events.
#include "common.h"
#include <cublas_v2.h>

int main(int argc, char **argv) {
  int rank, size, m = 256, n = 128, k = 64;
  const int chunks = 4;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ncclUniqueId id = {};
  ncclComm_t comm;
  NCCLCHECK(ncclCommInitRank(&comm, size, id, rank));
  float *A, *B, *C;
  CUDACHECK(cudaMalloc(&A, m * k * 4));
  CUDACHECK(cudaMalloc(&B, k * n * 4));
  CUDACHECK(cudaMalloc(&C, m * n * 4));
  cudaStream_t compute, comms;
  CUDACHECK(cudaStreamCreate(&compute));
  CUDACHECK(cudaStreamCreate(&comms));
  cudaEvent_t ready[chunks];
  for (auto &event : ready)
    CUDACHECK(cudaEventCreate(&event));
  cublasHandle_t handle;
  cublasCreate(&handle);
  cublasSetStream(handle, compute);
  const float one = 1, zero = 0;
  const int rows = m / chunks;
  for (int c = 0; c < chunks; c++) {
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, rows, k, &one, B, n, A + c * rows * k, k, //@gemm
                &zero, C + c * rows * n, n);
    CUDACHECK(cudaEventRecord(ready[c], compute)); //@record
    CUDACHECK(cudaStreamWaitEvent(comms, ready[c], 0)); //@wait
    NCCLCHECK(ncclAllReduce(C + c * rows * n, C + c * rows * n, rows * n, ncclFloat, ncclSum, comm, comms)); //@reduce
  }
  CUDACHECK(cudaStreamSynchronize(comms));
}
