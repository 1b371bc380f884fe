// SPDX-License-Identifier: Apache-2.0
/* Rounding: the short floating-point formats, directed conversions. */
#include "include/emu_float.h"

#include "include/emu_math.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace emu {
namespace cuda {

namespace {

double round_to(double x, Rounding mode) {
  switch (mode) {
  case Rounding::NEAREST:
    return std::nearbyint(x); // the process rounds to nearest, ties to even
  case Rounding::ZERO:
    return std::trunc(x);
  case Rounding::UP:
    return std::ceil(x);
  case Rounding::DOWN:
    return std::floor(x);
  }
  return x;
}

template <class To, class From> To cast_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "");
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}

} // namespace

unsigned encode(double x, const Format &format, Rounding rounding, bool saturate) {
  const int m = format.mantissa, e = format.exponent, bias = (1 << (e - 1)) - 1;
  const unsigned sign = std::signbit(x) ? 1u << (e + m) : 0;
  const unsigned ones = (1u << (e + m)) - 1; // exponent and mantissa
  const unsigned infinity = ((1u << e) - 1) << m;
  const unsigned largest = format.infinity ? infinity - 1 : ones - 1;
  if (std::isnan(x))
    return ones; // CUDA's canonical NaN
  const double a = std::fabs(x);
  Rounding mode = rounding;
  if (sign && mode == Rounding::UP)
    mode = Rounding::ZERO;
  else if (sign && mode == Rounding::DOWN)
    mode = Rounding::UP;
  else if (mode == Rounding::DOWN)
    mode = Rounding::ZERO;
  if (a == 0)
    return sign;
  unsigned bits;
  if (std::isinf(a)) {
    bits = ones;
  } else {
    int power;
    std::frexp(a, &power); // a = f * 2^power, f in [0.5, 1)
    int exponent = power - 1 + bias;
    if (exponent < 1)
      exponent = 1;
    // In units of the last place at this exponent; a carry moves on to the next exponent by itself.
    const double units = round_to(std::ldexp(a, bias - exponent + m), mode);
    if (exponent >= 1 << e)
      bits = ones;
    else
      bits = (unsigned)((double)(exponent - 1) * (1u << m) + units);
  }
  if (bits > largest) {
    const bool finite = saturate || (mode == Rounding::ZERO && !std::isinf(a));
    bits = finite ? largest : format.infinity ? infinity : ones;
  }
  return sign | bits;
}

double decode(unsigned bits, const Format &format) {
  const int m = format.mantissa, e = format.exponent, bias = (1 << (e - 1)) - 1;
  const unsigned fraction = bits & ((1u << m) - 1), exponent = bits >> m & ((1u << e) - 1);
  const bool negative = bits >> (e + m) & 1;
  double a;
  if (format.infinity && exponent == (1u << e) - 1)
    a = fraction ? std::numeric_limits<double>::quiet_NaN()
                 : std::numeric_limits<double>::infinity();
  else if (!format.infinity && (bits & ((1u << (e + m)) - 1)) == (1u << (e + m)) - 1)
    a = std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    a = std::ldexp((double)fraction, 1 - bias - m);
  else
    a = std::ldexp((double)(fraction + (1u << m)), (int)exponent - bias - m);
  return negative ? -a : a;
}

unsigned short half_bits(float x) noexcept {
  const unsigned u = cast_bits<unsigned>(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000)
    return 0x7fff;
  if (a >= 0x477ff000) // rounds beyond 65504
    return (unsigned short)(sign | 0x7c00);
  if (a < 0x38800000) { // denormal: in units of 2^-24
    const float units = cast_bits<float>(a) * 16777216.0f;
    return (unsigned short)(sign | (unsigned)std::nearbyintf(units));
  }
  const unsigned rounded = a + 0xfff + (a >> 13 & 1) - (112u << 23);
  return (unsigned short)(sign | rounded >> 13);
}

unsigned short bfloat16_bits(float x) noexcept {
  const unsigned u = cast_bits<unsigned>(x);
  if ((u & 0x7fffffff) > 0x7f800000)
    return 0x7fff;
  return (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float half_value(unsigned short bits) noexcept {
  const unsigned sign = (unsigned)(bits & 0x8000) << 16, a = bits & 0x7fff;
  if (a >= 0x7c00)
    return cast_bits<float>(sign | 0x7f800000 | (a & 0x3ff) << 13);
  if (a < 0x400) {
    const float v = (float)a * (1.0f / 16777216.0f);
    return sign ? -v : v;
  }
  return cast_bits<float>(sign | ((a << 13) + (112u << 23)));
}

float bfloat16_value(unsigned short bits) noexcept {
  return cast_bits<float>((unsigned)bits << 16);
}

float directed(double exact, int direction) {
  const float f = (float)exact;
  if (std::isnan(f) || (double)f == exact)
    return f;
  const float inf = std::numeric_limits<float>::infinity();
  const bool above = (double)f > exact;
  if (direction > 0)
    return above ? f : std::nextafterf(f, inf);
  if (direction < 0)
    return above ? std::nextafterf(f, -inf) : f;
  if (exact > 0)
    return above ? std::nextafterf(f, 0.0f) : f;
  return above ? f : std::nextafterf(f, 0.0f);
}

double rounded(double x, int mode) {
  static const Rounding modes[] = {Rounding::NEAREST, Rounding::ZERO, Rounding::UP, Rounding::DOWN};
  return round_to(x, modes[mode & 3]);
}

long long to_integer(double x, int mode, long long low, long long high) {
  if (std::isnan(x))
    return high == INT64_MAX ? INT64_MIN : 0; // as the hardware's conversions do
  const double r = rounded(x, mode);
  if (r <= (double)low)
    return low;
  if (r >= (double)high)
    return high;
  return (long long)r;
}

unsigned long long to_unsigned(double x, int mode, unsigned long long high) {
  if (std::isnan(x))
    return high == UINT64_MAX ? 1ull << 63 : 0;
  const double r = rounded(x, mode);
  if (r <= 0)
    return 0;
  if (r >= (double)high)
    return high;
  return (unsigned long long)r;
}

} // namespace cuda
} // namespace emu
