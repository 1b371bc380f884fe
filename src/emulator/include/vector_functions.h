// SPDX-License-Identifier: Apache-2.0
/* make_float4() and its relatives. */
#ifndef CUCOCC_EMULATOR_VECTOR_FUNCTIONS_H
#define CUCOCC_EMULATOR_VECTOR_FUNCTIONS_H

#include "vector_types.h"

#define EMU_MAKE(type, name)                                                                       \
  constexpr name##1 make_##name##1(type x) { return name##1 {x}; }                                 \
  constexpr name##2 make_##name##2(type x, type y) { return name##2 {x, y}; }                      \
  constexpr name##3 make_##name##3(type x, type y, type z) { return name##3 {x, y, z}; }           \
  constexpr name##4 make_##name##4(type x, type y, type z, type w) { return name##4 {x, y, z, w}; }
EMU_MAKE(signed char, char)
EMU_MAKE(unsigned char, uchar)
EMU_MAKE(short, short)
EMU_MAKE(unsigned short, ushort)
EMU_MAKE(int, int)
EMU_MAKE(unsigned int, uint)
EMU_MAKE(long, long)
EMU_MAKE(unsigned long, ulong)
EMU_MAKE(long long, longlong)
EMU_MAKE(unsigned long long, ulonglong)
EMU_MAKE(float, float)
EMU_MAKE(double, double)
#undef EMU_MAKE

#endif
