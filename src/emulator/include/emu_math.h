// SPDX-License-Identifier: Apache-2.0
/* CUDA's mathematics beyond the C library's, computed as exactly as C computes it. The fast
 * intrinsics give the exact function's result: the GPU's differ in the last places. */
#ifndef CUCOCC_EMULATOR_EMU_MATH_H
#define CUCOCC_EMULATOR_EMU_MATH_H

#include "emu_atomic.h"
#include "vector_functions.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <math.h>
#include <stdlib.h>

/* ---- min and max for all pairs of types --------------------------------------------------------
 */

#define EMU_MIN_MAX(result, type, other)                                                           \
  constexpr result min(type a, other b) { return (result)b < (result)a ? (result)b : (result)a; }  \
  constexpr result max(type a, other b) { return (result)a < (result)b ? (result)b : (result)a; }
EMU_MIN_MAX(int, int, int)
EMU_MIN_MAX(unsigned, unsigned, unsigned)
EMU_MIN_MAX(unsigned, int, unsigned)
EMU_MIN_MAX(unsigned, unsigned, int)
EMU_MIN_MAX(long, long, long)
EMU_MIN_MAX(unsigned long, unsigned long, unsigned long)
EMU_MIN_MAX(unsigned long, long, unsigned long)
EMU_MIN_MAX(unsigned long, unsigned long, long)
EMU_MIN_MAX(long long, long long, long long)
EMU_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
EMU_MIN_MAX(unsigned long long, long long, unsigned long long)
EMU_MIN_MAX(unsigned long long, unsigned long long, long long)
#undef EMU_MIN_MAX
/* A NaN loses, as in fmin and fmax. */
EMU_INLINE float min(float a, float b) { return fminf(a, b); }
EMU_INLINE float max(float a, float b) { return fmaxf(a, b); }
EMU_INLINE double min(double a, double b) { return fmin(a, b); }
EMU_INLINE double max(double a, double b) { return fmax(a, b); }
EMU_INLINE double min(float a, double b) { return fmin((double)a, b); }
EMU_INLINE double min(double a, float b) { return fmin(a, (double)b); }
EMU_INLINE double max(float a, double b) { return fmax((double)a, b); }
EMU_INLINE double max(double a, float b) { return fmax(a, (double)b); }
EMU_INLINE unsigned umin(unsigned a, unsigned b) { return b < a ? b : a; }
EMU_INLINE unsigned umax(unsigned a, unsigned b) { return a < b ? b : a; }
EMU_INLINE long long llmin(long long a, long long b) { return b < a ? b : a; }
EMU_INLINE long long llmax(long long a, long long b) { return a < b ? b : a; }

/* ---- functions ----------------------------------------------------------------------------------
 */

EMU_INLINE float rsqrtf(float x) { return (float)(1.0 / ::sqrt((double)x)); }
EMU_INLINE double rsqrt(double x) { return 1.0 / ::sqrt(x); }
EMU_INLINE float rsqrt(float x) { return rsqrtf(x); }
EMU_INLINE float rcbrtf(float x) { return (float)(1.0 / ::cbrt((double)x)); }
EMU_INLINE double rcbrt(double x) { return 1.0 / ::cbrt(x); }
EMU_INLINE double sinpi(double x) { return ::sin(::fmod(x, 2.0) * 3.1415926535897931); }
EMU_INLINE double cospi(double x) { return ::cos(::fmod(x, 2.0) * 3.1415926535897931); }
EMU_INLINE float sinpif(float x) { return (float)sinpi((double)x); }
EMU_INLINE float cospif(float x) { return (float)cospi((double)x); }
EMU_INLINE void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }
EMU_INLINE void sincospi(double x, double *s, double *c) { *s = sinpi(x), *c = cospi(x); }
EMU_INLINE float fdividef(float a, float b) { return a / b; }
EMU_INLINE float rhypotf(float a, float b) { return 1.0f / ::hypotf(a, b); }
EMU_INLINE float normf(int n, const float *p) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += (double)p[i] * p[i];
  return (float)::sqrt(sum);
}
EMU_INLINE float norm3df(float a, float b, float c) {
  return (float)::sqrt((double)a * a + (double)b * b + (double)c * c);
}
EMU_INLINE float norm4df(float a, float b, float c, float d) {
  return (float)::sqrt((double)a * a + (double)b * b + (double)c * c + (double)d * d);
}
EMU_INLINE float rnorm3df(float a, float b, float c) { return 1.0f / norm3df(a, b, c); }
EMU_INLINE float normcdff(float x) { return 0.5f * ::erfcf(-x * 0.70710678f); }
EMU_INLINE double normcdf(double x) { return 0.5 * ::erfc(-x * 0.7071067811865476); }

EMU_INLINE float __expf(float x) { return ::expf(x); }
EMU_INLINE float __exp10f(float x) { return ::powf(10.0f, x); }
EMU_INLINE float __logf(float x) { return ::logf(x); }
EMU_INLINE float __log2f(float x) { return ::log2f(x); }
EMU_INLINE float __log10f(float x) { return ::log10f(x); }
EMU_INLINE float __powf(float x, float y) { return ::powf(x, y); }
EMU_INLINE float __sinf(float x) { return ::sinf(x); }
EMU_INLINE float __cosf(float x) { return ::cosf(x); }
EMU_INLINE float __tanf(float x) { return ::tanf(x); }
EMU_INLINE float __tanhf(float x) { return ::tanhf(x); }
EMU_INLINE void __sincosf(float x, float *s, float *c) { *s = ::sinf(x), *c = ::cosf(x); }
EMU_INLINE float __fdividef(float a, float b) { return a / b; }
EMU_INLINE float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
EMU_INLINE float __frsqrt_rn(float x) { return rsqrtf(x); }

namespace emu {
namespace cuda {
/* The nearest value towards DIRECTION (-1, 1; 0 towards zero) of EXACT, which is given in twice the
 * precision; for sums, products and quotients of floats. */
float directed(double exact, int direction);
/* MODE: 0 nearest even, 1 towards zero, 2 up, 3 down. */
double rounded(double x, int mode);
long long to_integer(double x, int mode, long long low, long long high);
unsigned long long to_unsigned(double x, int mode, unsigned long long high);
} // namespace cuda
} // namespace emu

#define EMU_FLOAT_OP(name, parameters, double_value)                                               \
  EMU_INLINE float name##_rn parameters { return (float)(double_value); }                          \
  EMU_INLINE float name##_rz parameters { return ::emu::cuda::directed(double_value, 0); }         \
  EMU_INLINE float name##_ru parameters { return ::emu::cuda::directed(double_value, 1); }         \
  EMU_INLINE float name##_rd parameters { return ::emu::cuda::directed(double_value, -1); }
EMU_FLOAT_OP(__fadd, (float a, float b), (double)a + b)
EMU_FLOAT_OP(__fsub, (float a, float b), (double)a - b)
EMU_FLOAT_OP(__fmul, (float a, float b), (double)a *b)
EMU_FLOAT_OP(__fdiv, (float a, float b), (double)a / b)
EMU_FLOAT_OP(__frcp, (float a), 1.0 / a)
EMU_FLOAT_OP(__fsqrt, (float a), ::sqrt((double)a))
#undef EMU_FLOAT_OP
EMU_INLINE float __fmaf_rn(float a, float b, float c) { return ::fmaf(a, b, c); }
EMU_INLINE double __dadd_rn(double a, double b) { return a + b; }
EMU_INLINE double __dsub_rn(double a, double b) { return a - b; }
EMU_INLINE double __dmul_rn(double a, double b) { return a * b; }
EMU_INLINE double __ddiv_rn(double a, double b) { return a / b; }
EMU_INLINE double __drcp_rn(double a) { return 1.0 / a; }
EMU_INLINE double __dsqrt_rn(double a) { return ::sqrt(a); }
EMU_INLINE double __fma_rn(double a, double b, double c) { return ::fma(a, b, c); }

/* ---- conversions --------------------------------------------------------------------------------
 */

#define EMU_TO_INTEGER(prefix, from, suffix, type, low, high, call)                                \
  EMU_INLINE type prefix##_rn(from x) { return (type)::emu::cuda::call; }
#define EMU_CONVERT(from, short_from)                                                              \
  EMU_CONVERT_MODE(from, short_from, rn, 0)                                                        \
  EMU_CONVERT_MODE(from, short_from, rz, 1)                                                        \
  EMU_CONVERT_MODE(from, short_from, ru, 2)                                                        \
  EMU_CONVERT_MODE(from, short_from, rd, 3)
#define EMU_CONVERT_MODE(from, name, suffix, mode)                                                 \
  EMU_INLINE int __##name##2int_##suffix(from x) {                                                 \
    return (int)::emu::cuda::to_integer(x, mode, INT32_MIN, INT32_MAX);                            \
  }                                                                                                \
  EMU_INLINE unsigned __##name##2uint_##suffix(from x) {                                           \
    return (unsigned)::emu::cuda::to_unsigned(x, mode, UINT32_MAX);                                \
  }                                                                                                \
  EMU_INLINE long long __##name##2ll_##suffix(from x) {                                            \
    return ::emu::cuda::to_integer(x, mode, INT64_MIN, INT64_MAX);                                 \
  }                                                                                                \
  EMU_INLINE unsigned long long __##name##2ull_##suffix(from x) {                                  \
    return ::emu::cuda::to_unsigned(x, mode, UINT64_MAX);                                          \
  }
EMU_CONVERT(float, float)
EMU_CONVERT(double, double)
#undef EMU_TO_INTEGER
#undef EMU_CONVERT
#undef EMU_CONVERT_MODE
EMU_INLINE float __int2float_rn(int x) { return (float)x; }
EMU_INLINE float __int2float_rz(int x) { return ::emu::cuda::directed(x, 0); }
EMU_INLINE float __uint2float_rn(unsigned x) { return (float)x; }
EMU_INLINE float __uint2float_rz(unsigned x) { return ::emu::cuda::directed(x, 0); }
EMU_INLINE float __ll2float_rn(long long x) { return (float)x; }
EMU_INLINE float __ull2float_rn(unsigned long long x) { return (float)x; }
EMU_INLINE double __int2double_rn(int x) { return x; }
EMU_INLINE double __uint2double_rn(unsigned x) { return x; }
EMU_INLINE double __ll2double_rn(long long x) { return (double)x; }
EMU_INLINE double __ull2double_rn(unsigned long long x) { return (double)x; }
EMU_INLINE float __double2float_rn(double x) { return (float)x; }
EMU_INLINE float __double2float_rz(double x) { return ::emu::cuda::directed(x, 0); }
EMU_INLINE float __double2float_ru(double x) { return ::emu::cuda::directed(x, 1); }
EMU_INLINE float __double2float_rd(double x) { return ::emu::cuda::directed(x, -1); }

#define EMU_CAST(name, to, from)                                                                   \
  EMU_INLINE to name(from x) {                                                                     \
    static_assert(sizeof(to) == sizeof(from), "");                                                 \
    to y;                                                                                          \
    __builtin_memcpy(&y, &x, sizeof y);                                                            \
    return y;                                                                                      \
  }
EMU_CAST(__float_as_int, int, float)
EMU_CAST(__float_as_uint, unsigned, float)
EMU_CAST(__int_as_float, float, int)
EMU_CAST(__uint_as_float, float, unsigned)
EMU_CAST(__double_as_longlong, long long, double)
EMU_CAST(__longlong_as_double, double, long long)
#undef EMU_CAST
EMU_INLINE int __double2loint(double x) { return (int)__double_as_longlong(x); }
EMU_INLINE int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
EMU_INLINE double __hiloint2double(int high, int low) {
  return __longlong_as_double(
      (long long)(((unsigned long long)(unsigned)high << 32) | (unsigned)low));
}

/* ---- integers
 * ------------------------------------------------------------------------------------ */

EMU_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
EMU_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
EMU_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
EMU_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
EMU_INLINE int __ffs(int x) { return __builtin_ffs(x); }
EMU_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
EMU_INLINE unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
EMU_INLINE unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
/* Position of the N-th set bit of MASK, counted from BASE (upwards for positive N). */
EMU_INLINE unsigned __fns(unsigned mask, unsigned base, int n) {
  if (n == 0)
    return base < 32 && (mask >> base & 1) ? base : 0xffffffffu;
  const int step = n > 0 ? 1 : -1;
  int left = n > 0 ? n : -n;
  for (int i = (int)base; i >= 0 && i < 32; i += step)
    if ((mask >> i & 1) && --left == 0)
      return (unsigned)i;
  return 0xffffffffu;
}
EMU_INLINE int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
EMU_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
EMU_INLINE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
EMU_INLINE unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((unsigned long long)a * b >> 32);
}
EMU_INLINE long long __mul64hi(long long a, long long b) {
  return (long long)((__int128)a * b >> 64);
}
EMU_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
EMU_INLINE int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
EMU_INLINE int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
EMU_INLINE unsigned __uhadd(unsigned a, unsigned b) {
  return (unsigned)(((unsigned long long)a + b) >> 1);
}
EMU_INLINE unsigned __sad(int a, int b, unsigned c) {
  return c + (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a);
}
EMU_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) {
  return c + (a > b ? a - b : b - a);
}
EMU_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned select) {
  const unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned s = select >> 4 * i & 15;
    unsigned v = (unsigned)(bytes >> 8 * (s & 7)) & 255;
    if (s & 8)
      v = v & 128 ? 255 : 0;
    r |= v << 8 * i;
  }
  return r;
}
EMU_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
  return (unsigned)((((unsigned long long)high << 32 | low) << (n & 31)) >> 32);
}
EMU_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (n & 31));
}
EMU_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned n) {
  return n >= 32 ? low : __funnelshift_l(low, high, n);
}
EMU_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned n) {
  return n >= 32 ? high : __funnelshift_r(low, high, n);
}
EMU_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; i++)
    c += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
  return c;
}
EMU_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; i++)
    c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
  return c;
}

#endif
