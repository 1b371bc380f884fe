// SPDX-License-Identifier: Apache-2.0
/* cuBLAS: each call is an operation of the handle's stream, which declares what it reads and writes
 * column by column and computes on the host. */
#include "cuda_blas.h"
#include "cuda_internal.h"

#include "include/cublas_v2.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace emu;
using namespace emu::cuda;

struct cublasContext {
  int device;
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace {

size_t size_of(cudaDataType_t type) {
  switch ((int)type) {
  case CUDA_R_8I:
  case CUDA_R_8U:
  case CUDA_R_8F_E4M3:
  case CUDA_R_8F_E5M2:
    return 1;
  case CUDA_R_16F:
  case CUDA_R_16BF:
    return 2;
  case CUDA_R_32F:
  case CUDA_R_32I:
    return 4;
  case CUDA_R_64F:
    return 8;
  default:
    return 0;
  }
}

double element(const void *p, cudaDataType_t type, size_t i) {
  switch ((int)type) {
  case CUDA_R_16F:
    return half_value(((const unsigned short *)p)[i]);
  case CUDA_R_16BF:
    return bfloat16_value(((const unsigned short *)p)[i]);
  case CUDA_R_32F:
    return ((const float *)p)[i];
  case CUDA_R_64F:
    return ((const double *)p)[i];
  case CUDA_R_32I:
    return ((const int *)p)[i];
  case CUDA_R_8I:
    return ((const signed char *)p)[i];
  case CUDA_R_8F_E4M3:
    return decode(((const unsigned char *)p)[i], E4M3);
  case CUDA_R_8F_E5M2:
    return decode(((const unsigned char *)p)[i], E5M2);
  default:
    return 0;
  }
}

void set_element(void *p, cudaDataType_t type, size_t i, double v) {
  switch ((int)type) {
  case CUDA_R_16F:
    ((unsigned short *)p)[i] = half_bits((float)v);
    break;
  case CUDA_R_16BF:
    ((unsigned short *)p)[i] = bfloat16_bits((float)v);
    break;
  case CUDA_R_32F:
    ((float *)p)[i] = (float)v;
    break;
  case CUDA_R_64F:
    ((double *)p)[i] = v;
    break;
  case CUDA_R_32I:
    ((int *)p)[i] = (int)v;
    break;
  case CUDA_R_8F_E4M3:
    ((unsigned char *)p)[i] = (unsigned char)encode(v, E4M3, Rounding::NEAREST, true);
    break;
  case CUDA_R_8F_E5M2:
    ((unsigned char *)p)[i] = (unsigned char)encode(v, E5M2, Rounding::NEAREST, true);
    break;
  default:
    break;
  }
}

/* A column-major matrix in device memory. */
struct Matrix {
  void *p;
  cudaDataType_t type;
  int rows, columns, ld;
  long long stride; // from one of a batch to the next, in elements

  char *at(int batch) const { return (char *)p + (size_t)(batch * stride) * size_of(type); }
  bool declare(int batch, bool write, Site site) const {
    const size_t size = size_of(type);
    if (rows == 0 || columns == 0)
      return true;
    const int pieces = ld == rows ? 1 : columns;
    const size_t bytes = (size_t)rows * size * (pieces == 1 ? (size_t)columns : 1);
    for (int j = 0; j < pieces; j++) {
      const char *q = at(batch) + (size_t)j * ld * size;
      if (write ? !access_write(q, bytes, site) : !access_read(q, bytes, site))
        return false;
    }
    return true;
  }
  template <class T> std::vector<T> values(int batch) const { // packed
    std::vector<T> v((size_t)rows * columns);
    const char *q = at(batch);
    for (int j = 0; j < columns; j++)
      for (int i = 0; i < rows; i++)
        v[(size_t)j * rows + i] = (T)element(q, type, (size_t)j * ld + i);
    return v;
  }
};

struct Product {
  bool ta, tb;
  int m, n, k, batch;
  Matrix a, b, c;
  cublasComputeType_t compute;
  double alpha, beta;           // host pointer mode
  const void *pointers[2] = {}; // device pointer mode
  cudaDataType_t scale;
  Site site;
};

template <class T> void multiply(const Product &p, int batch, T alpha, T beta) {
  const bool direct_c = p.c.type == (sizeof(T) == 8 ? CUDA_R_64F : CUDA_R_32F);
  const bool direct = direct_c && p.a.type == p.c.type && p.b.type == p.c.type;
  if (direct) {
    gemm(p.ta, p.tb, p.m, p.n, p.k, alpha, (const T *)p.a.at(batch), p.a.ld,
         (const T *)p.b.at(batch), p.b.ld, beta, (T *)p.c.at(batch), p.c.ld);
    return;
  }
  const std::vector<T> a = p.a.values<T>(batch), b = p.b.values<T>(batch);
  std::vector<T> c = beta != T(0) ? p.c.values<T>(batch) : std::vector<T>((size_t)p.m * p.n, T(0));
  gemm(p.ta, p.tb, p.m, p.n, p.k, alpha, a.data(), p.a.rows > 0 ? p.a.rows : 1, b.data(),
       p.b.rows > 0 ? p.b.rows : 1, beta, c.data(), p.m > 0 ? p.m : 1);
  for (int j = 0; j < p.n; j++)
    for (int i = 0; i < p.m; i++)
      set_element(p.c.at(batch), p.c.type, (size_t)j * p.c.ld + i, c[(size_t)j * p.m + i]);
}

void multiply_integers(const Product &p, int batch, int alpha, int beta) {
  gemm(p.ta, p.tb, p.m, p.n, p.k, alpha, (const signed char *)p.a.at(batch), p.a.ld,
       (const signed char *)p.b.at(batch), p.b.ld, beta, (int *)p.c.at(batch), p.c.ld);
}

void run(const Product &p) {
  double alpha = p.alpha, beta = p.beta;
  if (p.pointers[0]) {
    for (const void *q : p.pointers)
      if (!access_read(q, size_of(p.scale), p.site))
        return;
    alpha = element(p.pointers[0], p.scale, 0);
    beta = element(p.pointers[1], p.scale, 0);
  }
  for (int i = 0; i < p.batch; i++) {
    const bool ok = p.a.declare(i, false, p.site) && p.b.declare(i, false, p.site) &&
                    (beta == 0 || p.c.declare(i, false, p.site)) && p.c.declare(i, true, p.site);
    if (!ok)
      continue;
    if (p.a.type == CUDA_R_8I)
      multiply_integers(p, i, (int)alpha, (int)beta);
    else if (p.scale == CUDA_R_64F)
      multiply<double>(p, i, alpha, beta);
    else
      multiply<float>(p, i, (float)alpha, (float)beta);
  }
}

cublasStatus_t product(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m,
                       int n, int k, const void *alpha, const void *a, cudaDataType_t type_a,
                       int lda, long long stride_a, const void *b, cudaDataType_t type_b, int ldb,
                       long long stride_b, const void *beta, void *c, cudaDataType_t type_c,
                       int ldc, long long stride_c, int batch, cublasComputeType_t compute,
                       Site site) {
  if (!handle)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool ta = opa != CUBLAS_OP_N, tb = opb != CUBLAS_OP_N;
  if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < std::max(1, ta ? k : m) ||
      ldb < std::max(1, tb ? n : k) || ldc < std::max(1, m) || !alpha || !beta)
    return CUBLAS_STATUS_INVALID_VALUE;
  const size_t sa = size_of(type_a), sb = size_of(type_b), sc = size_of(type_c);
  if (!sa || !sb || !sc || type_a == CUDA_R_8U || type_b == CUDA_R_8U || type_c == CUDA_R_8U)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  cudaDataType_t scale = CUDA_R_32F;
  switch (compute) {
  case CUBLAS_COMPUTE_16F:
  case CUBLAS_COMPUTE_16F_PEDANTIC:
    scale = CUDA_R_16F;
    break;
  case CUBLAS_COMPUTE_64F:
  case CUBLAS_COMPUTE_64F_PEDANTIC:
    scale = CUDA_R_64F;
    break;
  case CUBLAS_COMPUTE_32I:
  case CUBLAS_COMPUTE_32I_PEDANTIC:
    scale = CUDA_R_32I;
    break;
  default:
    break;
  }
  const bool integers = scale == CUDA_R_32I;
  if (integers != (type_a == CUDA_R_8I) ||
      (integers && (type_b != CUDA_R_8I || type_c != CUDA_R_32I)) || type_a != type_b ||
      (scale == CUDA_R_64F) != (type_a == CUDA_R_64F))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (m == 0 || n == 0 || batch == 0)
    return CUBLAS_STATUS_SUCCESS;
  Product p;
  p.ta = ta, p.tb = tb, p.m = m, p.n = n, p.k = k, p.batch = batch;
  p.a = Matrix{(void *)a, type_a, ta ? k : m, ta ? m : k, lda, stride_a};
  p.b = Matrix{(void *)b, type_b, tb ? n : k, tb ? k : n, ldb, stride_b};
  p.c = Matrix{c, type_c, m, n, ldc, stride_c};
  p.compute = compute;
  p.scale = scale;
  p.site = site;
  p.alpha = p.beta = 0;
  if (handle->pointers == CUBLAS_POINTER_MODE_DEVICE) {
    p.pointers[0] = alpha, p.pointers[1] = beta;
  } else {
    p.alpha = element(alpha, scale, 0);
    p.beta = element(beta, scale, 0);
  }
  stream_enqueue(
      stream_of(handle->stream), "cublasGemm",
      [p](Operation) {
        run(p);
        return true;
      },
      site);
  return CUBLAS_STATUS_SUCCESS;
}

/* A vector of N elements INCREMENT apart. */
bool declare_vector(const void *p, size_t size, int n, int increment, bool write, Site site) {
  if (n <= 0)
    return true;
  const int step = increment < 0 ? -increment : increment;
  if (step <= 1)
    return write ? access_write(p, size * (size_t)n, site) : access_read(p, size * (size_t)n, site);
  for (int i = 0; i < n; i++) {
    const char *q = (const char *)p + (size_t)i * step * size;
    if (write ? !access_write(q, size, site) : !access_read(q, size, site))
      return false;
  }
  return true;
}
template <class T> T *vector_at(T *p, int n, int increment, int i) {
  return increment >= 0 ? p + (size_t)i * increment : p + (size_t)(n - 1 - i) * -increment;
}

/* Runs F with the scalars behind ALPHA and BETA (may be NULL) as the handle's mode has them. */
template <class T, class F>
cublasStatus_t with_scalars(cublasHandle_t handle, const char *name, const T *alpha, const T *beta,
                            F f, Site site) {
  if (!handle)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool device = handle->pointers == CUBLAS_POINTER_MODE_DEVICE;
  const T a = device ? T(0) : *alpha, b = device || !beta ? T(0) : *beta;
  stream_enqueue(
      stream_of(handle->stream), name,
      [=](Operation) {
        T x = a, y = b;
        if (device) {
          if (!access_read(alpha, sizeof(T), site) || (beta && !access_read(beta, sizeof(T), site)))
            return true;
          x = *alpha, y = beta ? *beta : T(0);
        }
        f(x, y);
        return true;
      },
      site);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t gemv(cublasHandle_t handle, cublasOperation_t op, int m, int n, const T *alpha,
                    const T *a, int lda, const T *x, int incx, const T *beta, T *y, int incy,
                    Site site) {
  if (m < 0 || n < 0 || lda < std::max(1, m) || incx == 0 || incy == 0 || !beta)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool t = op != CUBLAS_OP_N;
  const int nx = t ? m : n, ny = t ? n : m;
  return with_scalars(
      handle, "cublasGemv", alpha, beta,
      [=](T s, T r) {
        const Matrix matrix{(void *)a, sizeof(T) == 8 ? CUDA_R_64F : CUDA_R_32F, m, n, lda, 0};
        if (!matrix.declare(0, false, site) ||
            !declare_vector(x, sizeof(T), nx, incx, false, site) ||
            (r != T(0) && !declare_vector(y, sizeof(T), ny, incy, false, site)) ||
            !declare_vector(y, sizeof(T), ny, incy, true, site))
          return;
        for (int i = 0; i < ny; i++) {
          T sum = 0;
          for (int k = 0; k < nx; k++)
            sum +=
                (t ? a[(size_t)i * lda + k] : a[(size_t)k * lda + i]) * *vector_at(x, nx, incx, k);
          T *out = vector_at(y, ny, incy, i);
          *out = s * sum + (r != T(0) ? r * *out : T(0));
        }
      },
      site);
}

template <class T>
cublasStatus_t axpy(cublasHandle_t handle, int n, const T *alpha, const T *x, int incx, T *y,
                    int incy, Site site) {
  return with_scalars(
      handle, "cublasAxpy", alpha, (const T *)nullptr,
      [=](T s, T) {
        if (!declare_vector(x, sizeof(T), n, incx, false, site) ||
            !declare_vector(y, sizeof(T), n, incy, false, site) ||
            !declare_vector(y, sizeof(T), n, incy, true, site))
          return;
        for (int i = 0; i < n; i++)
          *vector_at(y, n, incy, i) += s * *vector_at(x, n, incx, i);
      },
      site);
}

template <class T>
cublasStatus_t scal(cublasHandle_t handle, int n, const T *alpha, T *x, int incx, Site site) {
  return with_scalars(
      handle, "cublasScal", alpha, (const T *)nullptr,
      [=](T s, T) {
        if (!declare_vector(x, sizeof(T), n, incx, false, site) ||
            !declare_vector(x, sizeof(T), n, incx, true, site))
          return;
        for (int i = 0; i < n; i++)
          *vector_at(x, n, incx, i) *= s;
      },
      site);
}

} // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
  if (!handle)
    return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new cublasContext{current_device()};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (!handle)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *version) {
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (!handle)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream) {
  if (!handle)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *, size_t) {
  return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  if (!handle)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t *mode) {
  if (!handle)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  *mode = handle->pointers;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (!handle)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode) {
  if (!handle)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  *mode = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t) {
  return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

const char *cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "CUBLAS_STATUS_SUCCESS";
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "CUBLAS_STATUS_NOT_INITIALIZED";
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "CUBLAS_STATUS_ALLOC_FAILED";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  default:
    return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

const char *cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

#define ALL_GEMM(name, T, type, compute)                                                           \
  cublasStatus_t name(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m,  \
                      int n, int k, const T *alpha, const T *a, int lda, const T *b, int ldb,      \
                      const T *beta, T *c, int ldc) {                                              \
    return product(handle, opa, opb, m, n, k, alpha, a, type, lda, 0, b, type, ldb, 0, beta, c,    \
                   type, ldc, 0, 1, compute, EMU_SITE());                                          \
  }
ALL_GEMM(cublasSgemm_v2, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
ALL_GEMM(cublasDgemm_v2, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)
ALL_GEMM(cublasHgemm, __half, CUDA_R_16F, CUBLAS_COMPUTE_16F)
#define ALL_BATCHED(name, T, type, compute)                                                        \
  cublasStatus_t name(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m,  \
                      int n, int k, const T *alpha, const T *a, int lda, long long stride_a,       \
                      const T *b, int ldb, long long stride_b, const T *beta, T *c, int ldc,       \
                      long long stride_c, int batch) {                                             \
    return product(handle, opa, opb, m, n, k, alpha, a, type, lda, stride_a, b, type, ldb,         \
                   stride_b, beta, c, type, ldc, stride_c, batch, compute, EMU_SITE());            \
  }
ALL_BATCHED(cublasSgemmStridedBatched, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
ALL_BATCHED(cublasDgemmStridedBatched, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)
ALL_BATCHED(cublasHgemmStridedBatched, __half, CUDA_R_16F, CUBLAS_COMPUTE_16F)

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb,
                            int m, int n, int k, const void *alpha, const void *a,
                            cudaDataType_t type_a, int lda, const void *b, cudaDataType_t type_b,
                            int ldb, const void *beta, void *c, cudaDataType_t type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  return product(handle, opa, opb, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta, c,
                 type_c, ldc, 0, 1, compute, EMU_SITE());
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t opa,
                                          cublasOperation_t opb, int m, int n, int k,
                                          const void *alpha, const void *a, cudaDataType_t type_a,
                                          int lda, long long stride_a, const void *b,
                                          cudaDataType_t type_b, int ldb, long long stride_b,
                                          const void *beta, void *c, cudaDataType_t type_c, int ldc,
                                          long long stride_c, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  return product(handle, opa, opb, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb,
                 stride_b, beta, c, type_c, ldc, stride_c, batch, compute, EMU_SITE());
}

#define VECTOR_CALLS(S, T)                                                                         \
  cublasStatus_t cublas##S##gemv_v2(cublasHandle_t handle, cublasOperation_t op, int m, int n,     \
                                    const T *alpha, const T *a, int lda, const T *x, int incx,     \
                                    const T *beta, T *y, int incy) {                               \
    return gemv(handle, op, m, n, alpha, a, lda, x, incx, beta, y, incy, EMU_SITE());              \
  }                                                                                                \
  cublasStatus_t cublas##S##axpy_v2(cublasHandle_t handle, int n, const T *alpha, const T *x,      \
                                    int incx, T *y, int incy) {                                    \
    return axpy(handle, n, alpha, x, incx, y, incy, EMU_SITE());                                   \
  }                                                                                                \
  cublasStatus_t cublas##S##scal_v2(cublasHandle_t handle, int n, const T *alpha, T *x,            \
                                    int incx) {                                                    \
    return scal(handle, n, alpha, x, incx, EMU_SITE());                                            \
  }
VECTOR_CALLS(S, float)
VECTOR_CALLS(D, double)

} // extern "C"
