// SPDX-License-Identifier: Apache-2.0
// The same call in a warm-up loop and in a timed loop; alternatives behind #ifdef; graph capture.
#include "common.h"

#ifdef USE_MPI_ONLY
#define BACKEND "mpi"
#else
#define BACKEND "nccl"
#endif

static void exchange(const void *in, void *out, size_t n, ncclComm_t comm, cudaStream_t s) {
#ifdef USE_MPI_ONLY
  MPI_Barrier(MPI_COMM_WORLD);
#else
  NCCLCHECK(ncclAllGather(in, out, n, ncclInt8, comm, s)); //@helper
#endif
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  size_t n = 1 << 16;
  ncclUniqueId id = {};
  ncclComm_t comm, half;
  NCCLCHECK(ncclCommInitRank(&comm, size, id, rank));
  NCCLCHECK(ncclCommSplit(comm, rank % 2, rank, &half, nullptr)); //@split
  char *in, *out;
  CUDACHECK(cudaMalloc(&in, n));
  CUDACHECK(cudaMalloc(&out, n * size));
  cudaStream_t s;
  CUDACHECK(cudaStreamCreate(&s));
  for (int i = 0; i < 5; i++)
    exchange(in, out, n, comm, s); //@warm
  CUDACHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 20; i++)
    exchange(in, out, n, comm, s); //@timed
  NCCLCHECK(ncclBroadcast(in, out, n, ncclChar, 0, half, 0)); //@half
  cudaGraph_t graph;
  CUDACHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  NCCLCHECK(ncclAllReduce(in, in, n, ncclInt8, ncclMax, comm, s)); //@captured
  CUDACHECK(cudaStreamEndCapture(s, &graph));
  CUDACHECK(cudaStreamSynchronize(s));
}
