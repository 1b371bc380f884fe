// The smallest program with a collective; the tests of the command line use it.
#include <cuda_runtime.h>
#include <nccl.h>

__global__ void fill(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] = 1.0f;
}

int run(int rank, int nranks, ncclUniqueId id, int n) {
  float *x;
  ncclComm_t comm;
  ncclCommInitRank(&comm, nranks, id, rank);
  cudaMalloc(&x, n * sizeof(float));
  fill<<<(n + 255) / 256, 256>>>(x, n);
  ncclAllReduce(x, x, n, ncclFloat, ncclSum, comm, 0);
  cudaDeviceSynchronize();
  cudaFree(x);
  ncclCommDestroy(comm);
  return 0;
}
