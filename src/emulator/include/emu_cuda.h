// SPDX-License-Identifier: Apache-2.0
/* What translated programs call for CUDA's extensions of C++: launches, shared variables, variables
 * of a device, and who runs. The rest of the CUDA interface has its usual names (cuda_runtime.h).
 */
#ifndef CUCOCC_EMULATOR_EMU_CUDA_H
#define CUCOCC_EMULATOR_EMU_CUDA_H

#include "driver_types.h"
#include "vector_types.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

/* Templates of the interface are inlined, so that the functions behind them are called from the
 * program's own code: that address is the place which findings name. */
#define EMU_INLINE inline __attribute__((always_inline))

namespace emu {
namespace cuda {

struct BlockState; // of a running block; cuda_internal.h

/* The running CUDA thread. */
struct ThreadState {
  uint3 thread_idx, block_idx;
  uint3 block_dim, grid_dim;
  unsigned linear; // index in the block
  BlockState *block;
};

/* ---- launches ----------------------------------------------------------------------------------
 */

/* The part of a launch between <<< and >>>. */
struct Config {
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
  bool cooperative = false;
  const char *name = nullptr;     // for messages; may be NULL
  const void *function = nullptr; // the kernel's address, when known: its attributes apply

  Config(dim3 g, dim3 b, size_t s = 0, cudaStream_t st = nullptr)
      : grid(g), block(b), shared(s), stream(st) {}
  Config &named(const char *n) {
    name = n;
    return *this;
  }
  template <class... P> Config &of(void (*kernel)(P...)) {
    function = reinterpret_cast<const void *>(kernel);
    return *this;
  }
};

/* Checks CONFIG and enqueues a launch in which every thread runs BODY. The error, if any, is
 * returned and kept as the last one. */
cudaError_t launch_body(const Config &config, std::function<void()> body);

template <class F, class... A>
EMU_INLINE cudaError_t launch(const Config &config, F f, A &&...args) {
  auto values = std::make_shared<std::tuple<std::decay_t<A>...>>(std::forward<A>(args)...);
  return launch_body(config, [f, values] { std::apply(f, *values); });
}

/* Makes a body from the addresses of a kernel's arguments. */
using BodyMaker = std::function<std::function<void()>(void **arguments)>;
void register_kernel(const void *kernel, BodyMaker maker);

template <class... P, size_t... I>
std::function<void()> body_from(void (*kernel)(P...), void **arguments, std::index_sequence<I...>) {
  (void)arguments;
  auto values =
      std::make_shared<std::tuple<std::decay_t<P>...>>(*(std::decay_t<P> *)arguments[I]...);
  return [kernel, values] { std::apply(kernel, *values); };
}

/* The address of KERNEL as cudaLaunchKernel() and the function attributes take it. */
template <class... P> void *kernel_handle(void (*kernel)(P...)) {
  void *address = reinterpret_cast<void *>(kernel);
  register_kernel(address, [kernel](void **arguments) {
    return body_from(kernel, arguments, std::index_sequence_for<P...>{});
  });
  return address;
}

/* ---- variables ---------------------------------------------------------------------------------
 */

/* The running block's variable of SIZE bytes under KEY, made at first use, never written. */
void *shared_slot(const void *key, size_t size, size_t alignment);
/* The running block's dynamic shared memory. */
void *shared_dynamic_base();

template <class T, class Place> struct SharedKey { static char key; };
template <class T, class Place> char SharedKey<T, Place>::key;

/* `__shared__ T x;`: PLACE is a lambda, whose type tells the declarations apart. */
template <class T, class Place> EMU_INLINE T &shared_var(Place) {
  return *reinterpret_cast<T *>(shared_slot(&SharedKey<T, Place>::key, sizeof(T), alignof(T)));
}
/* `extern __shared__ T x[];` */
template <class T> EMU_INLINE T *shared_dynamic() {
  return static_cast<T *>(shared_dynamic_base());
}
/* The same at namespace scope. */
template <class T> struct SharedDynamic {
  EMU_INLINE operator T *() const { return shared_dynamic<T>(); }
};

/* The current device's copy of a __device__ or __constant__ variable; of a __managed__ one: the one
 * copy of the process. */
void *device_variable(const void *variable, size_t size, size_t alignment, bool managed);
template <class V> EMU_INLINE V *device_var(V *variable) {
  return static_cast<V *>(const_cast<void *>(
      static_cast<const void *>(device_variable(variable, sizeof(V), alignof(V), false))));
}
template <class V> EMU_INLINE V *managed_var(V *variable) {
  return static_cast<V *>(device_variable(variable, sizeof(V), alignof(V), true));
}

/* ---- what kernels call -------------------------------------------------------------------------
 */

[[noreturn]] void trap(const char *what);
[[noreturn]] void assert_failed(const char *assertion, const char *file, unsigned line,
                                const char *function);
void sync_threads();
/* __syncthreads_count and relatives. MODE: 0 count, 1 and, 2 or. */
int sync_threads_reduce(int predicate, int mode);
void sync_lanes(unsigned mask);
unsigned active_mask();
/* Passes BITS on in the warp: returns what lane SOURCE(lane) of MASK gave; all ones from a lane
 * that is not there. */
uint64_t shuffle(unsigned mask, uint64_t bits, unsigned source);
/* Votes. A bit for each lane of MASK whose PREDICATE is not 0. */
unsigned ballot(unsigned mask, int predicate);
/* Lanes of MASK that gave BITS. */
unsigned match(unsigned mask, uint64_t bits);
enum class Reduction { ADD, MIN, MAX, AND, OR, XOR };
uint32_t reduce(unsigned mask, uint32_t value, Reduction operation, bool is_signed);
/* 0 block, 1 device, 2 system. */
void fence(int scope);
long long clock_ticks();
uint64_t timer_ns();
bool is_shared(const void *address);
bool is_global(const void *address);
void sleep_ns(unsigned ns);
void spin_pause();
unsigned lane_id() noexcept __attribute__((const));
unsigned warp_id() noexcept __attribute__((const));
/* What the named feature of CUDA is not modelled for: ends the run. */
[[noreturn]] void refuse(const char *what);

} // namespace cuda
} // namespace emu

/* The built-in variables. Each thread finds its own values: they are set whenever another one runs.
 * Constant, because a thread's values never change, which lets the compiler keep them. */
extern "C" const uint3 threadIdx, blockIdx, blockDim, gridDim;

#endif
