// SPDX-License-Identifier: Apache-2.0
/* bfloat16: __nv_bfloat16, __nv_bfloat162 and their functions. */
#ifndef CUCOCC_EMULATOR_CUDA_BF16_H
#define CUCOCC_EMULATOR_CUDA_BF16_H

#include "emu_float.h"
#include "emu_math.h"
#include "emu_warp.h"

#define EMU_T __nv_bfloat16
#define EMU_T2 __nv_bfloat162
#define EMU_RAW __nv_bfloat16_raw
#define EMU_RAW2 __nv_bfloat162_raw
#define EMU_BITS(x) ::emu::cuda::bfloat16_bits(x)
#define EMU_VALUE(x) ::emu::cuda::bfloat16_value(x)
#define EMU_FORMAT ::emu::cuda::BFLOAT16
#include "emu_short_float.inc"
#undef EMU_T
#undef EMU_T2
#undef EMU_RAW
#undef EMU_RAW2
#undef EMU_BITS
#undef EMU_VALUE
#undef EMU_FORMAT

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7fff)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3f80)

EMU_INLINE float __bfloat162float(__nv_bfloat16 a) { return a; }
EMU_INLINE __nv_bfloat16 __float2bfloat16(float a) { return __nv_bfloat16(a); }
EMU_INLINE __nv_bfloat16 __float2bfloat16_rn(float a) { return __nv_bfloat16(a); }
EMU_INLINE __nv_bfloat16 __double2bfloat16(double a) { return __nv_bfloat16(a); }
#define EMU_BF16_ROUNDED(name, mode)                                                               \
  EMU_INLINE __nv_bfloat16 name(float a) {                                                         \
    return __nv_bfloat16::from_bits((unsigned short)::emu::cuda::encode(                           \
        a, ::emu::cuda::BFLOAT16, ::emu::cuda::Rounding::mode, false));                            \
  }
EMU_BF16_ROUNDED(__float2bfloat16_rz, ZERO)
EMU_BF16_ROUNDED(__float2bfloat16_ru, UP)
EMU_BF16_ROUNDED(__float2bfloat16_rd, DOWN)
#undef EMU_BF16_ROUNDED
EMU_INLINE __nv_bfloat162 __float2bfloat162_rn(float a) {
  return __nv_bfloat162(__nv_bfloat16(a), __nv_bfloat16(a));
}
EMU_INLINE __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return __nv_bfloat162(__nv_bfloat16(a), __nv_bfloat16(b));
}
EMU_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 a) {
  return __floats2bfloat162_rn(a.x, a.y);
}
EMU_INLINE float2 __bfloat1622float2(__nv_bfloat162 a) { return float2{(float)a.x, (float)a.y}; }
EMU_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
EMU_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat162(a, b);
}
EMU_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat162(a, b);
}
EMU_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
EMU_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
EMU_INLINE __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.x, a.x); }
EMU_INLINE __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.y, a.y); }
EMU_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) { return a.__x; }
EMU_INLINE short __bfloat16_as_short(__nv_bfloat16 a) { return (short)a.__x; }
EMU_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short a) {
  return __nv_bfloat16::from_bits(a);
}
EMU_INLINE __nv_bfloat16 __short_as_bfloat16(short a) {
  return __nv_bfloat16::from_bits((unsigned short)a);
}
EMU_INLINE int __bfloat162int_rn(__nv_bfloat16 a) { return __float2int_rn(a); }
EMU_INLINE int __bfloat162int_rz(__nv_bfloat16 a) { return __float2int_rz(a); }
EMU_INLINE __nv_bfloat16 __int2bfloat16_rn(int a) { return __nv_bfloat16(a); }
EMU_INLINE __nv_bfloat16 __uint2bfloat16_rn(unsigned a) { return __nv_bfloat16(a); }
EMU_INLINE __nv_bfloat16 __ll2bfloat16_rn(long long a) { return __nv_bfloat16(a); }

#endif
