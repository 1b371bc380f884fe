// SPDX-License-Identifier: Apache-2.0
/* Kernels as plain C++: pointers that record, blocks and threads one after the other. */
#include "kernel_run.h"
#include <cstddef>
#include <cstdlib>
#include <type_traits>

static run_access *report;
static void *report_data;
static struct dim { unsigned x, y, z; } blockIdx, threadIdx, blockDim, gridDim;

static void record(int param, long begin, std::size_t size, bool write) {
  const unsigned block[3] = {blockIdx.x, blockIdx.y, blockIdx.z};
  report(report_data, block, param, begin, begin + (long)size, write);
}

struct float4 {
  float x, y, z, w;
};

/* Memory has no contents: what is read is random. */
template <typename T> static T any() {
  if constexpr (std::is_arithmetic_v<T>)
    return (T)(std::rand() % 50);
  else
    return T{};
}

template <typename T> struct place {
  using value = std::remove_const_t<T>;
  int param;
  long at;
  operator value() const {
    record(param, at, sizeof(T), false);
    return any<value>();
  }
  const place &operator=(const value &) const {
    record(param, at, sizeof(T), true);
    return *this;
  }
  template <typename U> const place &operator=(const place<U> &other) const {
    return *this = (value)other;
  }
  const place &operator=(const place &other) const { return *this = (value)other; }
  const place &operator+=(const value &) const {
    record(param, at, sizeof(T), false);
    record(param, at, sizeof(T), true);
    return *this;
  }
  place(int p, long a) : param(p), at(a) {}
  place(const place &) = default;
};

template <typename T> struct pointer {
  int param;
  long at = 0;
  place<T> operator[](long i) const { return {param, at + i * (long)sizeof(T)}; }
  place<T> operator*() const { return (*this)[0]; }
  pointer operator+(long i) const { return {param, at + i * (long)sizeof(T)}; }
  pointer operator++(int) {
    pointer old = *this;
    at += sizeof(T);
    return old;
  }
  template <typename U> pointer<U> as() const { return {param, at}; }
};
template <typename T> static pointer<T> operator&(const place<T> &p) { return {p.param, p.at}; }

template <typename T> static T atomicAdd(pointer<T> p, T) {
  record(p.param, p.at, sizeof(T), false);
  record(p.param, p.at, sizeof(T), true);
  return any<T>();
}
static int min(int a, int b) { return a < b ? a : b; }
static int max(int a, int b) { return a > b ? a : b; }

#define PTR(T) pointer<T>
#define CAST(T, p) ((p).as<T>())
#define __global__ static
#define __device__ static
#define __shared__ static
#define __syncthreads() ((void)0)
#define UNROLL
using std::size_t;
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"
#include "kernels.h"

static pointer<float> f(int i) { return {i}; }
static pointer<const float> cf(int i) { return {i}; }

struct entry {
  const char *name;
  void (*run)(const int *v);
};
static const entry table[] = {
    {"copy_guarded", [](const int *v) { copy_guarded(f(0), cf(1), v[0]); }},
    {"copy_exact", [](const int *) { copy_exact(f(0), cf(1)); }},
    {"early_return", [](const int *v) { early_return(f(0), cf(1), v[0]); }},
    {"grid_stride", [](const int *v) { grid_stride(f(0), cf(1), v[0]); }},
    {"grid_stride_size", [](const int *v) { grid_stride_size(f(0), cf(1), (unsigned)v[0]); }},
    {"stencil", [](const int *v) { stencil(f(0), cf(1), v[0]); }},
    {"halo_below", [](const int *v) { halo_below(f(0), cf(1), v[0]); }},
    {"five_points", [](const int *v) { five_points(f(0), cf(1), v[0], v[1]); }},
    {"gemm", [](const int *v) { gemm(f(0), cf(1), cf(2), v[0], v[1], v[2]); }},
    {"gemm_tiled", [](const int *v) { gemm_tiled(f(0), cf(1), cf(2), v[0], v[1], v[2]); }},
    {"row_norm", [](const int *v) { row_norm(f(0), cf(1), f(2), v[0]); }},
    {"vectors", [](const int *v) { vectors(f(0), cf(1), v[0]); }},
    {"unrolled_tail", [](const int *v) { unrolled_tail(f(0), cf(1), v[0]); }},
    {"unroll", [](const int *v) { unroll(f(0), cf(1), v[0]); }},
    {"gather_rows", [](const int *v) { gather_rows(f(0), cf(1), pointer<const int>{2}, v[0]); }},
    {"histogram",
     [](const int *v) { histogram(pointer<int>{0}, pointer<const unsigned char>{1}, v[0]); }},
    {"modulo", [](const int *v) { modulo(f(0), cf(1), v[0], (unsigned)v[1]); }},
    {"masked", [](const int *v) { masked(f(0), cf(1), v[0]); }},
    {"unflatten", [](const int *v) { unflatten(f(0), cf(1), (unsigned)v[0], (unsigned)v[1]); }},
    {"walking_pointer", [](const int *v) { walking_pointer(f(0), cf(1), v[0]); }},
    {"backwards", [](const int *v) { backwards(f(0), cf(1), v[0]); }},
    {"do_while", [](const int *v) { do_while(f(0), v[0]); }},
    {"overwritten", [](const int *v) { overwritten(f(0), v[0], v[1]); }},
    {"shadowed_guard", [](const int *v) { shadowed_guard(f(0), v[0]); }},
    {"left_loop", [](const int *v) { left_loop(f(0), v[0], v[1]); }},
    {"switched", [](const int *v) { switched(f(0), v[0], v[1]); }},
    {"swapped", [](const int *v) { swapped(f(0), f(1), v[0]); }},
    {"chosen", [](const int *v) { chosen(f(0), f(1), v[0]); }},
    {"wrapped", [](const int *v) { wrapped(f(0), v[0]); }},
    {"clamped", [](const int *v) { clamped(f(0), cf(1), v[0]); }},
    {"misled", [](const int *) { misled(f(0)); }},
    {"helpers", [](const int *v) { helpers(f(0), f(1), v[0]); }},
    {"recursive", [](const int *v) { recursive(f(0), f(1), v[0]); }},
    {"templated", [](const int *v) { templated<float, 3>(f(0), cf(1), v[0]); }},
};

const char *run_name(int i) {
  return i < (int)(sizeof table / sizeof table[0]) ? table[i].name : nullptr;
}

void run_kernel(int i, const run_config *c, run_access *access, void *data) {
  report = access;
  report_data = data;
  gridDim = {c->grid[0], c->grid[1], c->grid[2]};
  blockDim = {c->block[0], c->block[1], c->block[2]};
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
        for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++)
          for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
            for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
              table[i].run(c->ints);
}
