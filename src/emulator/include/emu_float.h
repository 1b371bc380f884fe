// SPDX-License-Identifier: Apache-2.0
/* Conversions of the short floating-point formats, as bits. */
#ifndef CUCOCC_EMULATOR_EMU_FLOAT_H
#define CUCOCC_EMULATOR_EMU_FLOAT_H

#include "emu_cuda.h"

namespace emu {
namespace cuda {

/* A binary format of EXPONENT and MANTISSA bits under a sign. */
struct Format {
  int exponent, mantissa;
  bool infinity; // the largest exponent means infinity and NaN; else only all ones is NaN
};
constexpr Format HALF{5, 10, true}, BFLOAT16{8, 7, true}, E4M3{4, 3, false}, E5M2{5, 2, true};
enum class Rounding { NEAREST, ZERO, UP, DOWN };
/* X rounded to FORMAT, denormals kept; beyond the largest finite value: infinity (NaN where there
 * is none) or, with SATURATE, that value. */
unsigned encode(double x, const Format &format, Rounding rounding, bool saturate)
    __attribute__((pure));
double decode(unsigned bits, const Format &format) __attribute__((pure));
/* The common ones, as functions of bits alone. */
unsigned short half_bits(float x) noexcept __attribute__((const));
unsigned short bfloat16_bits(float x) noexcept __attribute__((const));
float half_value(unsigned short bits) noexcept __attribute__((const));
float bfloat16_value(unsigned short bits) noexcept __attribute__((const));

} // namespace cuda
} // namespace emu

#endif
