// SPDX-License-Identifier: Apache-2.0
#include "cuda_blas.h"

#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <initializer_list>

namespace emu {
namespace cuda {

namespace {

/* CBLAS's enumerators. */
enum { COLUMN_MAJOR = 102, NO_TRANSPOSE = 111, TRANSPOSE = 112 };
using Sgemm = void (*)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                       float, float *, int);
using Dgemm = void (*)(int, int, int, int, int, int, double, const double *, int, const double *,
                       int, double, double *, int);

/* NAME in the system's BLAS, or NULL. Its own threads would not be the scheduler's. */
void *blas_function(const char *name) {
  static void *library = [] {
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 0);
    for (const char *file : {"libopenblas.so.0", "libcblas.so.3", "libblas.so.3"})
      if (void *h = dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
        if (dlsym(h, "cblas_sgemm"))
          return h;
        dlclose(h);
      }
    return (void *)nullptr;
  }();
  return library ? dlsym(library, name) : nullptr;
}

template <class T, class In>
void loops(bool ta, bool tb, int m, int n, int k, T alpha, const In *a, int lda, const In *b,
           int ldb, T beta, T *c, int ldc) {
  for (int j = 0; j < n; j++) {
    T *column = c + (size_t)j * ldc;
    for (int i = 0; i < m; i++)
      column[i] = beta == T(0) ? T(0) : beta * column[i];
    for (int p = 0; p < k; p++) {
      const T y = alpha * (T)(tb ? b[(size_t)p * ldb + j] : b[(size_t)j * ldb + p]);
      if (ta)
        for (int i = 0; i < m; i++)
          column[i] += (T)a[(size_t)i * lda + p] * y;
      else
        for (int i = 0; i < m; i++)
          column[i] += (T)a[(size_t)p * lda + i] * y;
    }
  }
}

template <class F, class T>
void by_blas(const char *name, bool ta, bool tb, int m, int n, int k, T alpha, const T *a, int lda,
             const T *b, int ldb, T beta, T *c, int ldc) {
  static F function = (F)blas_function(name);
  if (m == 0 || n == 0)
    return;
  if (function && k > 0)
    function(COLUMN_MAJOR, ta ? TRANSPOSE : NO_TRANSPOSE, tb ? TRANSPOSE : NO_TRANSPOSE, m, n, k,
             alpha, a, lda, b, ldb, beta, c, ldc);
  else
    loops(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

} // namespace

void gemm(bool ta, bool tb, int m, int n, int k, float alpha, const float *a, int lda,
          const float *b, int ldb, float beta, float *c, int ldc) {
  by_blas<Sgemm>("cblas_sgemm", ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void gemm(bool ta, bool tb, int m, int n, int k, double alpha, const double *a, int lda,
          const double *b, int ldb, double beta, double *c, int ldc) {
  by_blas<Dgemm>("cblas_dgemm", ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void gemm(bool ta, bool tb, int m, int n, int k, int alpha, const signed char *a, int lda,
          const signed char *b, int ldb, int beta, int *c, int ldc) {
  loops(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

} // namespace cuda
} // namespace emu
