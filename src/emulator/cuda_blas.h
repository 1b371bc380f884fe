// SPDX-License-Identifier: Apache-2.0
/* Matrix products on the host: what the cuBLAS shim computes with. */
#ifndef CUCOCC_EMULATOR_CUDA_BLAS_H
#define CUCOCC_EMULATOR_CUDA_BLAS_H

namespace emu {
namespace cuda {

/* C = ALPHA * op(A) * op(B) + BETA * C, column-major; op(A) is M by K, op(B) K by N; TRANSPOSE_x:
 * op is the transpose. C is not read when BETA is 0. Computed by the system's BLAS (one thread)
 * when it can be loaded, else by loops. */
void gemm(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha, const float *a,
          int lda, const float *b, int ldb, float beta, float *c, int ldc);
void gemm(bool transpose_a, bool transpose_b, int m, int n, int k, double alpha, const double *a,
          int lda, const double *b, int ldb, double beta, double *c, int ldc);
/* The same with 8-bit integers, exactly. */
void gemm(bool transpose_a, bool transpose_b, int m, int n, int k, int alpha, const signed char *a,
          int lda, const signed char *b, int ldb, int beta, int *c, int ldc);

} // namespace cuda
} // namespace emu

#endif
