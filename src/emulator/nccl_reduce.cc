// SPDX-License-Identifier: Apache-2.0
#include "nccl_reduce.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace {

// A binary float of 1 + E + M bits in the storage type BITS. FINITE: no infinity, the top code
// alone is NaN (e4m3).
template <class Bits, int E, int M, bool FINITE, bool SATURATE> struct SmallFloat {
  Bits bits;
  static constexpr int bias = (1 << (E - 1)) - 1;
  static constexpr uint32_t exponent_mask = (1u << E) - 1, mantissa_mask = (1u << M) - 1;
  static constexpr uint32_t sign_bit = 1u << (E + M);
  static constexpr uint32_t nan_code = sign_bit - 1;
  static constexpr uint32_t infinity_code = exponent_mask << M;
  static constexpr uint32_t largest_code = FINITE ? sign_bit - 2 : infinity_code - 1;

  static float magnitude(uint32_t code) {
    uint32_t e = code >> M, m = code & mantissa_mask;
    if (e == 0)
      return std::ldexp((float)m, 1 - bias - M);
    return std::ldexp((float)(m | (1u << M)), (int)e - bias - M);
  }
  explicit operator float() const {
    uint32_t code = bits & (sign_bit - 1);
    float v;
    if (FINITE ? code == nan_code : code > infinity_code)
      v = NAN;
    else if (!FINITE && code == infinity_code)
      v = INFINITY;
    else
      v = magnitude(code);
    return bits & sign_bit ? -v : v;
  }
  static SmallFloat from(float v) {
    uint32_t sign = std::signbit(v) ? sign_bit : 0;
    if (std::isnan(v))
      return {(Bits)(sign | nan_code)};
    double a = std::fabs((double)v);
    // The spacing of the target's numbers at a; nearbyint rounds to even in the default mode, which
    // host code keeps.
    int exponent = a == 0 ? 1 - bias : std::ilogb(a);
    if (exponent < 1 - bias)
      exponent = 1 - bias;
    double rounded =
        std::isinf(a) ? a : std::ldexp(std::nearbyint(std::ldexp(a, M - exponent)), exponent - M);
    uint32_t code;
    if (rounded > (double)magnitude(largest_code))
      code = SATURATE ? largest_code : infinity_code;
    else if (rounded == 0)
      code = 0;
    else {
      int e = std::ilogb(rounded);
      if (e < 1 - bias)
        code = (uint32_t)std::ldexp(rounded, bias - 1 + M);
      else
        code = (uint32_t)((e + bias) << M) + (uint32_t)std::ldexp(rounded, M - e) - (1u << M);
    }
    return {(Bits)(sign | code)};
  }
};

using Half = SmallFloat<uint16_t, 5, 10, false, false>;
using BFloat16 = SmallFloat<uint16_t, 8, 7, false, false>;
using E4M3 = SmallFloat<uint8_t, 4, 3, true, true>;
using E5M2 = SmallFloat<uint8_t, 5, 2, false, true>;

// What a type is computed in: integers as unsigned of the same width (wrapping), small floats as
// float.
template <class T, bool INTEGER = std::is_integral<T>::value> struct Arithmetic {
  using Acc = float;
  static Acc load(T v) { return (float)v; }
  static T store(Acc v) { return T::from(v); }
};
template <class T> struct Arithmetic<T, true> {
  using Acc = T;
  static Acc load(T v) { return v; }
  static T store(Acc v) { return v; }
};
template <> struct Arithmetic<float, false> {
  using Acc = float;
  static Acc load(float v) { return v; }
  static float store(Acc v) { return v; }
};
template <> struct Arithmetic<double, false> {
  using Acc = double;
  static Acc load(double v) { return v; }
  static double store(Acc v) { return v; }
};

template <class A> A plus(A a, A b) {
  if constexpr (std::is_integral<A>::value)
    return (A)((uint64_t)a + (uint64_t)b);
  else
    return a + b;
}
template <class A> A times(A a, A b) {
  if constexpr (std::is_integral<A>::value)
    return (A)((uint64_t)a * (uint64_t)b);
  else
    return a * b;
}
template <class A> A combine(int op, A a, A b) {
  switch (op) {
  case EMU_NCCL_PROD:
    return times(a, b);
  case EMU_NCCL_MAX:
    return a != a || a > b ? a : b;
  case EMU_NCCL_MIN:
    return a != a || a < b ? a : b;
  default:
    return plus(a, b);
  }
}

template <class T> T element(const void *array, size_t i) {
  T v;
  std::memcpy(&v, (const char *)array + i * sizeof v, sizeof v);
  return v;
}

template <class T>
void reduce(void *out, const void *const *in, int ranks, size_t count, int op,
            const void *const *scalars) {
  using R = Arithmetic<T>;
  using A = typename R::Acc;
  for (size_t i = 0; i < count; i++) {
    A acc{};
    for (int r = 0; r < ranks; r++) {
      A v = R::load(element<T>(in[r], i));
      if (op == EMU_NCCL_PREMUL)
        v = times(v, R::load(element<T>(scalars[r], 0)));
      if constexpr (!std::is_integral<A>::value)
        if (op == EMU_NCCL_AVG)
          v *= A(1) / A(ranks);
      acc = r == 0 ? v : combine(op, acc, v);
    }
    if constexpr (std::is_integral<A>::value)
      if (op == EMU_NCCL_AVG) {
        if constexpr (std::is_signed<A>::value)
          acc = (A)((int64_t)acc / ranks);
        else
          acc = (A)((uint64_t)acc / (unsigned)ranks);
      }
    T v = R::store(acc);
    std::memcpy((char *)out + i * sizeof v, &v, sizeof v);
  }
}

} // namespace

size_t emu_nccl_type_size(int type) {
  static const unsigned char size[EMU_NCCL_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < EMU_NCCL_TYPES ? size[type] : 0;
}

int emu_nccl_reduce(void *out, const void *const *in, int ranks, size_t count, int type, int op,
                    const void *const *scalars) {
  if (ranks < 1 || op < 0 || op > EMU_NCCL_PREMUL || (op == EMU_NCCL_PREMUL && !scalars))
    return -1;
  switch (type) {
  case EMU_NCCL_INT8:
    reduce<int8_t>(out, in, ranks, count, op, scalars);
    return 0;
  case EMU_NCCL_UINT8:
    reduce<uint8_t>(out, in, ranks, count, op, scalars);
    return 0;
  case EMU_NCCL_INT32:
    reduce<int32_t>(out, in, ranks, count, op, scalars);
    return 0;
  case EMU_NCCL_UINT32:
    reduce<uint32_t>(out, in, ranks, count, op, scalars);
    return 0;
  case EMU_NCCL_INT64:
    reduce<int64_t>(out, in, ranks, count, op, scalars);
    return 0;
  case EMU_NCCL_UINT64:
    reduce<uint64_t>(out, in, ranks, count, op, scalars);
    return 0;
  case EMU_NCCL_FLOAT16:
    reduce<Half>(out, in, ranks, count, op, scalars);
    return 0;
  case EMU_NCCL_FLOAT32:
    reduce<float>(out, in, ranks, count, op, scalars);
    return 0;
  case EMU_NCCL_FLOAT64:
    reduce<double>(out, in, ranks, count, op, scalars);
    return 0;
  case EMU_NCCL_BFLOAT16:
    reduce<BFloat16>(out, in, ranks, count, op, scalars);
    return 0;
  case EMU_NCCL_FLOAT8E4M3:
    reduce<E4M3>(out, in, ranks, count, op, scalars);
    return 0;
  case EMU_NCCL_FLOAT8E5M2:
    reduce<E5M2>(out, in, ranks, count, op, scalars);
    return 0;
  default:
    return -1;
  }
}
