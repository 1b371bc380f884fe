// SPDX-License-Identifier: Apache-2.0
/* Half precision: __half, __half2 and their functions, computed exactly as IEEE rounds. */
#ifndef CUCOCC_EMULATOR_CUDA_FP16_H
#define CUCOCC_EMULATOR_CUDA_FP16_H

#include "emu_float.h"
#include "emu_math.h"
#include "emu_warp.h"

#define EMU_T __half
#define EMU_T2 __half2
#define EMU_RAW __half_raw
#define EMU_RAW2 __half2_raw
#define EMU_BITS(x) ::emu::cuda::half_bits(x)
#define EMU_VALUE(x) ::emu::cuda::half_value(x)
#define EMU_FORMAT ::emu::cuda::HALF
#include "emu_short_float.inc"
#undef EMU_T
#undef EMU_T2
#undef EMU_RAW
#undef EMU_RAW2
#undef EMU_BITS
#undef EMU_VALUE
#undef EMU_FORMAT

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
typedef __half nv_half;
typedef __half2 nv_half2;

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7fff)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7bff)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3c00)

EMU_INLINE float __half2float(__half a) { return a; }
EMU_INLINE __half __float2half(float a) { return __half(a); }
EMU_INLINE __half __float2half_rn(float a) { return __half(a); }
EMU_INLINE __half __double2half(double a) { return __half(a); }
#define EMU_HALF_ROUNDED(name, mode)                                                               \
  EMU_INLINE __half name(float a) {                                                                \
    return __half::from_bits((unsigned short)::emu::cuda::encode(                                  \
        a, ::emu::cuda::HALF, ::emu::cuda::Rounding::mode, false));                                \
  }
EMU_HALF_ROUNDED(__float2half_rz, ZERO)
EMU_HALF_ROUNDED(__float2half_ru, UP)
EMU_HALF_ROUNDED(__float2half_rd, DOWN)
#undef EMU_HALF_ROUNDED
EMU_INLINE __half2 __float2half2_rn(float a) { return __half2(__half(a), __half(a)); }
EMU_INLINE __half2 __floats2half2_rn(float a, float b) { return __half2(__half(a), __half(b)); }
EMU_INLINE __half2 __float22half2_rn(float2 a) { return __half2(__half(a.x), __half(a.y)); }
EMU_INLINE float2 __half22float2(__half2 a) { return float2{(float)a.x, (float)a.y}; }
EMU_INLINE __half2 __half2half2(__half a) { return __half2(a, a); }
EMU_INLINE __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
EMU_INLINE __half2 make_half2(__half a, __half b) { return __half2(a, b); }
EMU_INLINE __half __low2half(__half2 a) { return a.x; }
EMU_INLINE __half __high2half(__half2 a) { return a.y; }
EMU_INLINE __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
EMU_INLINE __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
EMU_INLINE __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
EMU_INLINE __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
EMU_INLINE unsigned short __half_as_ushort(__half a) { return a.__x; }
EMU_INLINE short __half_as_short(__half a) { return (short)a.__x; }
EMU_INLINE __half __ushort_as_half(unsigned short a) { return __half::from_bits(a); }
EMU_INLINE __half __short_as_half(short a) { return __half::from_bits((unsigned short)a); }
EMU_INLINE int __half2int_rn(__half a) { return __float2int_rn(a); }
EMU_INLINE int __half2int_rz(__half a) { return __float2int_rz(a); }
EMU_INLINE int __half2int_ru(__half a) { return __float2int_ru(a); }
EMU_INLINE int __half2int_rd(__half a) { return __float2int_rd(a); }
EMU_INLINE unsigned __half2uint_rn(__half a) { return __float2uint_rn(a); }
EMU_INLINE unsigned __half2uint_rz(__half a) { return __float2uint_rz(a); }
EMU_INLINE __half __int2half_rn(int a) { return __half(a); }
EMU_INLINE __half __uint2half_rn(unsigned a) { return __half(a); }
EMU_INLINE __half __short2half_rn(short a) { return __half(a); }
EMU_INLINE __half __ushort2half_rn(unsigned short a) { return __half(a); }
EMU_INLINE __half __ll2half_rn(long long a) { return __half(a); }
EMU_INLINE __half __ull2half_rn(unsigned long long a) { return __half(a); }

#endif
