// SPDX-License-Identifier: Apache-2.0
// One process, several devices: kernels, collectives and waits in sibling loops.
#include "common.h"

__global__ void scale(float *x, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < n)
    x[i] *= 2;
}

int main() {
  int n_dev = 0;
  CUDACHECK(cudaGetDeviceCount(&n_dev));
  size_t n = 4096;
  ncclComm_t comms[8];
  cudaStream_t s[8];
  float *send[8], *recv[8];
  int devs[8];
  for (int i = 0; i < n_dev; i++)
    devs[i] = i;
  NCCLCHECK(ncclCommInitAll(comms, n_dev, devs)); //@init
  for (int i = 0; i < n_dev; ++i) {
    CUDACHECK(cudaSetDevice(i));
    CUDACHECK(cudaMalloc(send + i, n * sizeof(float))); //@alloc_send
    CUDACHECK(cudaMalloc(&recv[i], n * sizeof(float))); //@alloc_recv
    CUDACHECK(cudaStreamCreate(s + i));
  }
  for (int i = 0; i < n_dev; ++i) {
    CUDACHECK(cudaSetDevice(i));
    scale<<<16, 256, 0, s[i]>>>(send[i], n); //@scale
  }
  NCCLCHECK(ncclGroupStart()); //@start
  for (int i = 0; i < n_dev; ++i)
    NCCLCHECK(ncclAllReduce(send[i], recv[i], n, ncclFloat, ncclSum, comms[i], s[i])); //@reduce
  NCCLCHECK(ncclGroupEnd()); //@end
  for (int i = 0; i < n_dev; ++i) {
    CUDACHECK(cudaSetDevice(i));
    CUDACHECK(cudaStreamSynchronize(s[i])); //@sync
  }
  for (int i = 0; i < n_dev; ++i) {
    CUDACHECK(cudaFree(send[i]));
    ncclCommDestroy(comms[i]); //@destroy
  }
}
