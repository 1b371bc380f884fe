// SPDX-License-Identifier: Apache-2.0
/* CUDA's short vectors: names, members and alignments. */
#ifndef CUCOCC_EMULATOR_VECTOR_TYPES_H
#define CUCOCC_EMULATOR_VECTOR_TYPES_H

#include "host_defines.h"

#define EMU_VECTOR(type, name, a1, a2, a4)                                                         \
  struct alignas(a1) name##1 {                                                                     \
    type x;                                                                                        \
  };                                                                                               \
  struct alignas(a2) name##2 {                                                                     \
    type x, y;                                                                                     \
  };                                                                                               \
  struct name##3 {                                                                                 \
    type x, y, z;                                                                                  \
  };                                                                                               \
  struct alignas(a4) name##4 {                                                                     \
    type x, y, z, w;                                                                               \
  };
EMU_VECTOR(signed char, char, 1, 2, 4)
EMU_VECTOR(unsigned char, uchar, 1, 2, 4)
EMU_VECTOR(short, short, 2, 4, 8)
EMU_VECTOR(unsigned short, ushort, 2, 4, 8)
EMU_VECTOR(int, int, 4, 8, 16)
EMU_VECTOR(unsigned int, uint, 4, 8, 16)
EMU_VECTOR(long, long, 8, 16, 16)
EMU_VECTOR(unsigned long, ulong, 8, 16, 16)
EMU_VECTOR(long long, longlong, 8, 16, 16)
EMU_VECTOR(unsigned long long, ulonglong, 8, 16, 16)
EMU_VECTOR(float, float, 4, 8, 16)
EMU_VECTOR(double, double, 8, 16, 16)
#undef EMU_VECTOR

struct alignas(32) double4_32a {
  double x, y, z, w;
};
struct alignas(32) longlong4_32a {
  long long x, y, z, w;
};
struct alignas(32) ulonglong4_32a {
  unsigned long long x, y, z, w;
};
typedef double4 double4_16a;
typedef longlong4 longlong4_16a;
typedef ulonglong4 ulonglong4_16a;

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1)
      : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return uint3{x, y, z}; }
};

#endif
