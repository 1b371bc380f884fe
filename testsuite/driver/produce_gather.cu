// A producer, a collective and work beside it: something to win for -O evolve.
#include <cuda_runtime.h>
#include <nccl.h>

__global__ void produce(float *x, int n, int round) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] = (float)(i % 17 + round);
}

__global__ void beside(float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = 2.0f * y[i] + 1.0f;
}

__global__ void consume(const float *all, float *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    z[i] = all[i] + 1.0f;
}

int run(int rank, int nranks, ncclUniqueId id, cudaStream_t stream) {
  int n = 1 << 22, rounds = 10;
  float *x, *all, *y, *z;
  ncclComm_t comm;
  ncclCommInitRank(&comm, nranks, id, rank);
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&all, (size_t)n * nranks * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  cudaMalloc(&z, n * sizeof(float));
  for (int round = 0; round < rounds; round++) {
    produce<<<(n + 255) / 256, 256, 0, stream>>>(x, n, round);
    ncclAllGather(x, all, n, ncclFloat, comm, stream);
    beside<<<(n + 255) / 256, 256, 0, stream>>>(y, n);
    consume<<<(n + 255) / 256, 256, 0, stream>>>(all, z, n);
    cudaStreamSynchronize(stream);
  }
  cudaFree(x);
  cudaFree(all);
  cudaFree(y);
  cudaFree(z);
  ncclCommDestroy(comm);
  return 0;
}
