// EXPECT: none
// SPDX-License-Identifier: Apache-2.0
// The first block waits for the last one: all of them must be resident at the same time.
#include "races.h"

__global__ void work(uint32_t *flag) {
  extern __shared__ uint32_t big[];
  big[threadIdx.x] = 0;
  if (blockIdx.x == gridDim.x - 1)
    DeviceFlag(flag[0]).store(1, RELEASE);
  else
    while (DeviceFlag(flag[0]).load(ACQUIRE) == 0) {
    }
}
int main() {
  const int shared = 200 * 1024;
  int sms = 0, per_sm = 0;
  CUDA(cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, work, 1, shared));
  uint32_t *flag;
  CUDA(cudaMalloc(&flag, sizeof *flag));
  CUDA(cudaMemset(flag, 0, sizeof *flag));
  work<<<sms * per_sm, 1, shared>>>(flag);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaFree(flag));
  return 0;
}
