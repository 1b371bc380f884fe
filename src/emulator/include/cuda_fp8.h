// SPDX-License-Identifier: Apache-2.0
/* 8-bit floating point: storage and conversions. */
#ifndef CUCOCC_EMULATOR_CUDA_FP8_H
#define CUCOCC_EMULATOR_CUDA_FP8_H

#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

namespace emu {
namespace cuda {
EMU_INLINE __nv_fp8_storage_t fp8_bits(double x, __nv_saturation_t s, __nv_fp8_interpretation_t f) {
  return (__nv_fp8_storage_t)encode(x, f == __NV_E4M3 ? E4M3 : E5M2, Rounding::NEAREST,
                                    s == __NV_SATFINITE);
}
EMU_INLINE float fp8_value(__nv_fp8_storage_t x, __nv_fp8_interpretation_t f) {
  return (float)decode(x, f == __NV_E4M3 ? E4M3 : E5M2);
}
} // namespace cuda
} // namespace emu

EMU_INLINE __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t s,
                                                    __nv_fp8_interpretation_t f) {
  return ::emu::cuda::fp8_bits(x, s, f);
}
EMU_INLINE __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t s,
                                                     __nv_fp8_interpretation_t f) {
  return ::emu::cuda::fp8_bits(x, s, f);
}
EMU_INLINE __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t s,
                                                      __nv_fp8_interpretation_t f) {
  return ::emu::cuda::fp8_bits((float)__half(x), s, f);
}
EMU_INLINE __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t s,
                                                          __nv_fp8_interpretation_t f) {
  return ::emu::cuda::fp8_bits((float)__nv_bfloat16(x), s, f);
}
EMU_INLINE __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t s,
                                                         __nv_fp8_interpretation_t f) {
  return (__nv_fp8x2_storage_t)(::emu::cuda::fp8_bits(x.x, s, f) | ::emu::cuda::fp8_bits(x.y, s, f)
                                                                       << 8);
}
EMU_INLINE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t f) {
  return __half(::emu::cuda::fp8_value(x, f));
}
EMU_INLINE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x,
                                                  __nv_fp8_interpretation_t f) {
  return __half2(__half(::emu::cuda::fp8_value((__nv_fp8_storage_t)x, f)),
                 __half(::emu::cuda::fp8_value((__nv_fp8_storage_t)(x >> 8), f)));
}

#define EMU_FP8(name, format)                                                                      \
  struct name {                                                                                    \
    __nv_fp8_storage_t __x;                                                                        \
    name() = default;                                                                              \
    EMU_INLINE explicit name(float v) : __x(::emu::cuda::fp8_bits(v, __NV_SATFINITE, format)) {}   \
    EMU_INLINE explicit name(double v) : __x(::emu::cuda::fp8_bits(v, __NV_SATFINITE, format)) {}  \
    EMU_INLINE explicit name(__half v) : name((float)v) {}                                         \
    EMU_INLINE explicit name(__nv_bfloat16 v) : name((float)v) {}                                  \
    EMU_INLINE explicit name(short v) : name((double)v) {}                                         \
    EMU_INLINE explicit name(unsigned short v) : name((double)v) {}                                \
    EMU_INLINE explicit name(int v) : name((double)v) {}                                           \
    EMU_INLINE explicit name(unsigned v) : name((double)v) {}                                      \
    EMU_INLINE explicit name(long v) : name((double)v) {}                                          \
    EMU_INLINE explicit name(unsigned long v) : name((double)v) {}                                 \
    EMU_INLINE explicit name(long long v) : name((double)v) {}                                     \
    EMU_INLINE explicit name(unsigned long long v) : name((double)v) {}                            \
    EMU_INLINE float value() const { return ::emu::cuda::fp8_value(__x, format); }                 \
    EMU_INLINE explicit operator float() const { return value(); }                                 \
    EMU_INLINE explicit operator double() const { return value(); }                                \
    EMU_INLINE explicit operator __half() const { return __half(value()); }                        \
    EMU_INLINE explicit operator __nv_bfloat16() const { return __nv_bfloat16(value()); }          \
    EMU_INLINE explicit operator bool() const { return (__x & 0x7f) != 0; }                        \
    EMU_INLINE explicit operator int() const { return __float2int_rz(value()); }                   \
    EMU_INLINE explicit operator unsigned() const { return __float2uint_rz(value()); }             \
    EMU_INLINE explicit operator long long() const { return __float2ll_rz(value()); }              \
  };
EMU_FP8(__nv_fp8_e4m3, __NV_E4M3)
EMU_FP8(__nv_fp8_e5m2, __NV_E5M2)
#undef EMU_FP8

#define EMU_FP8_VECTORS(name, suffix, format)                                                      \
  struct alignas(2) __nv_fp8x2_##suffix {                                                          \
    __nv_fp8x2_storage_t __x;                                                                      \
    __nv_fp8x2_##suffix() = default;                                                               \
    EMU_INLINE explicit __nv_fp8x2_##suffix(float2 v)                                              \
        : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, format)) {}                              \
    EMU_INLINE explicit operator float2() const {                                                  \
      return float2{::emu::cuda::fp8_value((__nv_fp8_storage_t)__x, format),                       \
                    ::emu::cuda::fp8_value((__nv_fp8_storage_t)(__x >> 8), format)};               \
    }                                                                                              \
  };                                                                                               \
  struct alignas(4) __nv_fp8x4_##suffix {                                                          \
    __nv_fp8x4_storage_t __x;                                                                      \
    __nv_fp8x4_##suffix() = default;                                                               \
    EMU_INLINE explicit __nv_fp8x4_##suffix(float4 v)                                              \
        : __x((__nv_fp8x4_storage_t)__nv_cvt_float2_to_fp8x2(float2{v.x, v.y}, __NV_SATFINITE,     \
                                                             format) |                             \
              (__nv_fp8x4_storage_t)__nv_cvt_float2_to_fp8x2(float2{v.z, v.w}, __NV_SATFINITE,     \
                                                             format)                               \
                  << 16) {}                                                                        \
    EMU_INLINE explicit operator float4() const {                                                  \
      return float4{::emu::cuda::fp8_value((__nv_fp8_storage_t)__x, format),                       \
                    ::emu::cuda::fp8_value((__nv_fp8_storage_t)(__x >> 8), format),                \
                    ::emu::cuda::fp8_value((__nv_fp8_storage_t)(__x >> 16), format),               \
                    ::emu::cuda::fp8_value((__nv_fp8_storage_t)(__x >> 24), format)};              \
    }                                                                                              \
  };
EMU_FP8_VECTORS(__nv_fp8_e4m3, e4m3, __NV_E4M3)
EMU_FP8_VECTORS(__nv_fp8_e5m2, e5m2, __NV_E5M2)
#undef EMU_FP8_VECTORS

#endif
