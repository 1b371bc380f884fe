// SPDX-License-Identifier: Apache-2.0
// What launches touch, in terms of the host's variables.
#include "idioms/common.h"

__global__ void scale(float *y, const float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = 2 * x[i];
}
__global__ void all(float *y) { y[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
template <class T> __global__ void first(T *y) {
  if (threadIdx.x < 8)
    y[threadIdx.x] = 0;
}
__global__ void gemm(float *c, const float *a, const float *b, int m, int n, int k) {
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  if (row < m && col < n) {
    float s = 0;
    for (int i = 0; i < k; i++)
      s += a[row * k + i] * b[i * n + col];
    c[row * n + col] = s;
  }
}
__global__ void shift(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] = x[i + n];
}
__global__ void pick(float *y, const float *x, const int *index) { y[0] = x[index[0]]; }
__global__ void unconst(const float *x) { *(float *)x = 1; }
template <class... T> __global__ void pack(float *y, T... rest) { y[(0 + ... + rest)] = 1; }
int elsewhere(int);

int main(int argc, char **argv) {
  int n = argc * 100, rows = argc + 7;
  float *x, *y;
  int *index;
  double *d;
  cudaStream_t s;
  CUDACHECK(cudaStreamCreate(&s));
  CUDACHECK(cudaMalloc(&x, n * sizeof(float)));
  CUDACHECK(cudaMalloc(&y, n * sizeof(float)));
  CUDACHECK(cudaMalloc(&d, n * sizeof(double)));
  CUDACHECK(cudaMalloc(&index, sizeof(int)));
  scale<<<(n + 255) / 256, 256, 0, s>>>(y + 10, x, n - 10); //@scale
  all<<<n / 256, 256, 0, s>>>(y); //@all
  dim3 grid(n, 3);
  all<<<grid, 64, 0, s>>>(y); //@grid
  grid.x = 4;
  all<<<grid, dim3(64), 0, s>>>(y); //@changed
  first<<<1, 32, 0, s>>>(d); //@first
  gemm<<<dim3(4, 4), dim3(16, 16), 0, s>>>(y, x, x + rows * n, rows, n, argc); //@gemm
  shift<<<1, n, 0, s>>>(x, n); //@shift
  shift<<<1, n, 0, s>>>(x, elsewhere(n)); //@opaque
  pick<<<1, 1, 0, s>>>(y, x, index); //@pick
  unconst<<<1, 1, 0, s>>>(x); //@unconst
  pack<<<1, 1, 0, s>>>(y, 1, 2); //@pack
  int half = n / 2;
  void *args[] = {&y, &x, &half};
  CUDACHECK(cudaLaunchKernel((const void *)scale, dim3(8), dim3(128), args, 0, s)); //@api
  scale<<<4, 256, 0, s>>>(y, x, n); //@low
  scale<<<4, 256, 0, s>>>(y + n, x, n); //@high
  n += 256;
  all<<<n / 256, 256, 0, s>>>(y); //@later
  all<<<int(n * 0.5 + 1), 64, 0, s>>>(y); //@rounded
  for (int i = 0; i < 4; i++) {
    grid.x = i + 1;
    all<<<grid, 64, 0, s>>>(y); //@loop
  }
  return 0;
}
