// SPDX-License-Identifier: Apache-2.0
/* Kernels of the access tests, read twice: by libclang as CUDA, and by kernel_run.cc as C++ in
 * which PTR(T) records what is touched. The order of their parameters is that of kernel_run.cc's
 * table. */
#define TILE 4
#define GID (blockIdx.x * blockDim.x + threadIdx.x)
#define AT(d) blockIdx.d *blockDim.d + threadIdx.d
#define MISLEADING(x) blockIdx.x

__global__ void copy_guarded(PTR(float) y, PTR(const float) x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = x[i];
}

__global__ void copy_exact(PTR(float) y, PTR(const float) x) { y[GID] = x[GID]; }

__global__ void early_return(PTR(float) y, PTR(const float) x, int n) {
  int i = AT(x);
  if (i >= n)
    return;
  *(y + i) += x[i];
}

__global__ void grid_stride(PTR(float) y, PTR(const float) x, int n) {
  for (int i = GID; i < n; i += gridDim.x * blockDim.x)
    y[i] = 2 * x[i];
}

__global__ void grid_stride_size(PTR(float) y, PTR(const float) x, unsigned n) {
  size_t step = (size_t)gridDim.x * blockDim.x, i = GID;
  for (; i + 1 < n; i += step)
    y[i] = x[i + 1];
}

__global__ void stencil(PTR(float) y, PTR(const float) x, int n) {
  int i = GID;
  if (i > 0 && i < n - 1)
    y[i] = x[i - 1] + x[i] + x[i + 1];
}

__global__ void halo_below(PTR(float) y, PTR(const float) x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x - 1;
  if (i >= 0 && i < n)
    y[i] = x[i];
}

__global__ void five_points(PTR(float) y, PTR(const float) x, int w, int h) {
  int c = blockIdx.x * blockDim.x + threadIdx.x + 1, r = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (c < w - 1 && r < h - 1)
    y[r * w + c] = x[(r - 1) * w + c] + x[(r + 1) * w + c] + x[r * w + c - 1] + x[r * w + c + 1];
}

__global__ void gemm(PTR(float) c, PTR(const float) a, PTR(const float) b, int m, int n, int k) {
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  float s = 0;
  if (row < m && col < n) {
    for (int i = 0; i < k; i++)
      s += a[row * k + i] * b[i * n + col];
    c[row * n + col] = s;
  }
}

__global__ void gemm_tiled(PTR(float) c, PTR(const float) a, PTR(const float) b, int m, int n,
                           int k) {
  __shared__ float as[64][64], bs[64][64];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  float s = 0;
  for (int t = 0; t < (k + TILE - 1) / TILE; t++) {
    as[threadIdx.y][threadIdx.x] =
        row < m && t * TILE + threadIdx.x < k ? a[row * k + t * TILE + threadIdx.x] : 0.0f;
    if (t * TILE + (int)threadIdx.y < k && col < n)
      bs[threadIdx.y][threadIdx.x] = b[(t * TILE + threadIdx.y) * n + col];
    __syncthreads();
    for (int i = 0; i < TILE; i++)
      s += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n)
    c[row * n + col] = s;
}

__global__ void row_norm(PTR(float) y, PTR(const float) x, PTR(float) norm, int cols) {
  PTR(const float) row = x + blockIdx.x * cols;
  PTR(float) out = y + blockIdx.x * cols;
  float s = 0;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) {
    s += row[j];
    out[j] = row[j];
  }
  if (threadIdx.x == 0)
    norm[blockIdx.x] = s;
}

__global__ void vectors(PTR(float) y, PTR(const float) x, int n) {
  int i = GID;
  if (i < n / 4) {
    PTR(float4) y4 = CAST(float4, y);
    y4[i] = CAST(const float4, x)[i];
  }
}

__global__ void unrolled_tail(PTR(float) y, PTR(const float) x, int n) {
  int i = 0;
  for (; i + 3 < n; i += 4) {
    y[i] = x[i];
    y[i + 3] = x[i + 3];
  }
  for (; i < n; i++)
    y[i] = x[i];
}

__global__ void unroll(PTR(float) y, PTR(const float) x, int n) {
  int first = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  float s = 0;
  UNROLL
  for (int j = 0; j < 4; j++)
    if (first + j < n)
      s += x[first + j];
  for (int d = 4; d > 0; d >>= 1)
    s += d;
  if (first < n)
    y[first / 4] = s;
}

__global__ void gather_rows(PTR(float) y, PTR(const float) x, PTR(const int) index, int n) {
  int i = GID;
  if (i < n)
    y[i] = x[index[i]];
}

__global__ void histogram(PTR(int) bins, PTR(const unsigned char) x, int n) {
  int i = GID;
  if (i < n)
    atomicAdd(&bins[x[i]], 1);
}

__global__ void modulo(PTR(float) y, PTR(const float) bias, int n, unsigned width) {
  int i = GID;
  if (i < n && width > 0)
    y[i] = bias[i % width];
}

__global__ void masked(PTR(float) y, PTR(const float) x, int n) {
  int i = GID;
  if (i < n)
    y[i & ~3] = x[i & 7];
}

__global__ void unflatten(PTR(float) y, PTR(const float) x, unsigned rows, unsigned cols) {
  unsigned i = GID;
  if (i < rows * cols && cols > 0) {
    unsigned r = i / cols, c = i % cols;
    if (r < rows)
      y[c * rows + r] = x[r * cols + c];
  }
}

__global__ void walking_pointer(PTR(float) y, PTR(const float) x, int n) {
  PTR(const float) p = x + threadIdx.x;
  float s = 0;
  for (int i = 0; i < n; i++)
    s += *p++;
  y[GID] = s;
}

__global__ void backwards(PTR(float) y, PTR(const float) x, int n) {
  for (int i = n - 1; i >= 0; i--)
    y[i] = x[n - 1 - i];
}

__global__ void do_while(PTR(float) y, int n) {
  int i = threadIdx.x;
  do {
    y[i] = 1;
    i += blockDim.x;
  } while (i < n);
}

__global__ void overwritten(PTR(float) y, int n, int m) {
  int i = GID;
  if (i < n) {
    if (m > 3)
      i = i + m;
    y[i] = 1;
  }
}

__global__ void shadowed_guard(PTR(float) y, int n) {
  int i = threadIdx.x;
  if (i < n)
    i += 7;
  if (i >= n) {
    y[i] = 0;
    return;
  }
  y[i + 1] = 1;
}

__global__ void left_loop(PTR(float) y, int n, int m) {
  int i = 0;
  while (i < n) {
    i += 2;
    if (i > m)
      continue;
    if (i == 5)
      break;
    y[i] = 1;
  }
  y[i] = 2;
}

__global__ void switched(PTR(float) y, int n, int m) {
  int i = threadIdx.x;
  switch (m % 3) {
  case 0:
    if (i >= n)
      break;
    y[i] = 1;
    i = 3;
  case 1:
    y[i] = 2;
    break;
  default:
    i = 2 * i;
  }
  y[i + 1] = 3;
}

__global__ void swapped(PTR(float) a, PTR(float) b, int n) {
  for (int s = 0; s < n; s++) {
    if (GID < (unsigned)n)
      a[GID] = b[threadIdx.x];
    PTR(float) t = a;
    a = b;
    b = t;
  }
}

__global__ void chosen(PTR(float) a, PTR(float) b, int n) {
  PTR(float) p = blockIdx.x % 2 ? a : b + 1;
  for (int i = 0; i < n; i++)
    p[i] = 1;
}

__global__ void wrapped(PTR(float) y, int n) {
  unsigned i = threadIdx.x - 2;
  if (i < (unsigned)n)
    y[i] = 1;
}

__global__ void clamped(PTR(float) y, PTR(const float) x, int n) {
  int i = GID;
  if (n > 0)
    y[min(i, n - 1)] = x[max(min(i - 2, n - 1), 0)];
}

__global__ void misled(PTR(float) y) { y[MISLEADING(y)] = 1; }

__device__ void put(PTR(float) p, int at, float v) {
  if (at < 0)
    return;
  p[at] = v;
}
__device__ int twice(int i) { return 2 * i; }
__device__ void recurse(PTR(float) p, int n) {
  if (n > 0) {
    p[n] = 1;
    recurse(p + 1, n - 1);
  }
}
__device__ void bump(int &i, int by) { i += by; }

__global__ void helpers(PTR(float) y, PTR(float) z, int n) {
  int i = GID;
  put(y + 1, twice(i), 1);
  int j = i;
  bump(j, n);
  z[j] = 2;
}

__global__ void recursive(PTR(float) y, PTR(float) z, int n) {
  recurse(y, n);
  z[threadIdx.x] = 1;
}

template <typename T, int W> __global__ void templated(PTR(T) y, PTR(const T) x, int n) {
  for (int w = 0; w < W; w++) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * W + w;
    if (i < n)
      y[i] = x[i];
  }
}
