// SPDX-License-Identifier: Apache-2.0
/* Atomic accesses with scopes, as bits: what cuda::atomic_ref and the atomic functions of CUDA are
 * made of. */
#ifndef CUCOCC_EMULATOR_EMU_ATOMIC_H
#define CUCOCC_EMULATOR_EMU_ATOMIC_H

#include "emu_cuda.h"

#include <string.h>

namespace emu {
namespace cuda {

/* The values are those of emu::Order and emu::Scope. */
enum AtomicOrder { ATOMIC_RELAXED, ATOMIC_ACQUIRE, ATOMIC_RELEASE, ATOMIC_ACQ_REL, ATOMIC_SEQ_CST };
enum AtomicScope { SCOPE_THREAD, SCOPE_BLOCK, SCOPE_DEVICE, SCOPE_SYSTEM };

/* SIZE is 1, 2, 4 or 8 bytes; values are in the low bytes. */
uint64_t atomic_load_bits(const void *address, unsigned size, AtomicOrder, AtomicScope);
void atomic_store_bits(void *address, unsigned size, uint64_t value, AtomicOrder, AtomicScope);
/* Stores UPDATE(old, operand); returns the old value. */
using AtomicUpdate = uint64_t (*)(uint64_t old, uint64_t operand);
uint64_t atomic_update_bits(void *address, unsigned size, AtomicUpdate update, uint64_t operand,
                            AtomicOrder, AtomicScope);
/* Stores DESIRED when the value is *EXPECTED; else *EXPECTED becomes the value. */
bool atomic_cas_bits(void *address, unsigned size, uint64_t *expected, uint64_t desired,
                     AtomicOrder success, AtomicOrder failure, AtomicScope);
void atomic_fence(AtomicOrder, AtomicScope);
/* Waits while the value is OLD. */
void atomic_wait_bits(const void *address, unsigned size, uint64_t old, AtomicOrder, AtomicScope);

template <class T> EMU_INLINE uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8 && (sizeof(T) & (sizeof(T) - 1)) == 0,
                "atomics of this size are not modelled");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T> EMU_INLINE T from_bits(uint64_t bits) {
  alignas(T) unsigned char raw[sizeof(T)];
  __builtin_memcpy(raw, &bits, sizeof(T));
  return *reinterpret_cast<T *>(__builtin_launder(raw));
}

/* The operations, on values. */
struct OpAdd {
  template <class T> static T apply(T a, T b) { return (T)(a + b); }
};
struct OpSub {
  template <class T> static T apply(T a, T b) { return (T)(a - b); }
};
struct OpMin {
  template <class T> static T apply(T a, T b) { return b < a ? b : a; }
};
struct OpMax {
  template <class T> static T apply(T a, T b) { return a < b ? b : a; }
};
struct OpAnd {
  template <class T> static T apply(T a, T b) { return (T)(a & b); }
};
struct OpOr {
  template <class T> static T apply(T a, T b) { return (T)(a | b); }
};
struct OpXor {
  template <class T> static T apply(T a, T b) { return (T)(a ^ b); }
};
struct OpExchange {
  template <class T> static T apply(T, T b) { return b; }
};
struct OpInc { // wraps to 0 after the operand
  template <class T> static T apply(T a, T b) { return a >= b ? T(0) : T(a + 1); }
};
struct OpDec {
  template <class T> static T apply(T a, T b) { return a == 0 || a > b ? b : T(a - 1); }
};
template <class T, class Op>
__attribute__((no_sanitize("thread"))) uint64_t update_bits(uint64_t old, uint64_t operand) {
  return to_bits<T>(Op::template apply<T>(from_bits<T>(old), from_bits<T>(operand)));
}
template <class Op, class T>
EMU_INLINE T atomic_update(T *address, T operand, AtomicOrder order, AtomicScope scope) {
  return from_bits<T>(atomic_update_bits((void *)address, sizeof(T), update_bits<T, Op>,
                                         to_bits<T>(operand), order, scope));
}

} // namespace cuda
} // namespace emu

/* atomicAdd() and the others: relaxed, of device scope or as their name ends. */
#define EMU_ATOMIC_SCOPES(name, type, Op)                                                          \
  EMU_INLINE type name(type *address, type value) {                                                \
    return ::emu::cuda::atomic_update<::emu::cuda::Op, type>(                                      \
        address, value, ::emu::cuda::ATOMIC_RELAXED, ::emu::cuda::SCOPE_DEVICE);                   \
  }                                                                                                \
  EMU_INLINE type name##_block(type *address, type value) {                                        \
    return ::emu::cuda::atomic_update<::emu::cuda::Op, type>(                                      \
        address, value, ::emu::cuda::ATOMIC_RELAXED, ::emu::cuda::SCOPE_BLOCK);                    \
  }                                                                                                \
  EMU_INLINE type name##_system(type *address, type value) {                                       \
    return ::emu::cuda::atomic_update<::emu::cuda::Op, type>(                                      \
        address, value, ::emu::cuda::ATOMIC_RELAXED, ::emu::cuda::SCOPE_SYSTEM);                   \
  }
#define EMU_ATOMIC_32(name, Op)                                                                    \
  EMU_ATOMIC_SCOPES(name, int, Op) EMU_ATOMIC_SCOPES(name, unsigned, Op)
#define EMU_ATOMIC_64(name, Op)                                                                    \
  EMU_ATOMIC_SCOPES(name, unsigned long long, Op)                                                  \
  EMU_ATOMIC_SCOPES(name, long long, Op)                                                           \
  EMU_ATOMIC_SCOPES(name, unsigned long, Op) EMU_ATOMIC_SCOPES(name, long, Op)
#define EMU_ATOMIC_REAL(name, Op)                                                                  \
  EMU_ATOMIC_SCOPES(name, float, Op) EMU_ATOMIC_SCOPES(name, double, Op)
EMU_ATOMIC_32(atomicAdd, OpAdd)
EMU_ATOMIC_64(atomicAdd, OpAdd)
EMU_ATOMIC_REAL(atomicAdd, OpAdd)
EMU_ATOMIC_32(atomicSub, OpSub)
EMU_ATOMIC_32(atomicExch, OpExchange)
EMU_ATOMIC_64(atomicExch, OpExchange)
EMU_ATOMIC_SCOPES(atomicExch, float, OpExchange)
EMU_ATOMIC_32(atomicMin, OpMin)
EMU_ATOMIC_64(atomicMin, OpMin)
EMU_ATOMIC_32(atomicMax, OpMax)
EMU_ATOMIC_64(atomicMax, OpMax)
EMU_ATOMIC_32(atomicAnd, OpAnd)
EMU_ATOMIC_64(atomicAnd, OpAnd)
EMU_ATOMIC_32(atomicOr, OpOr)
EMU_ATOMIC_64(atomicOr, OpOr)
EMU_ATOMIC_32(atomicXor, OpXor)
EMU_ATOMIC_64(atomicXor, OpXor)
EMU_ATOMIC_SCOPES(atomicInc, unsigned, OpInc)
EMU_ATOMIC_SCOPES(atomicDec, unsigned, OpDec)
#undef EMU_ATOMIC_32
#undef EMU_ATOMIC_64
#undef EMU_ATOMIC_REAL

#define EMU_ATOMIC_CAS(name, type, scope)                                                          \
  EMU_INLINE type name(type *address, type compare, type value) {                                  \
    uint64_t expected = ::emu::cuda::to_bits<type>(compare);                                       \
    ::emu::cuda::atomic_cas_bits((void *)address, sizeof(type), &expected,                         \
                                 ::emu::cuda::to_bits<type>(value), ::emu::cuda::ATOMIC_RELAXED,   \
                                 ::emu::cuda::ATOMIC_RELAXED, ::emu::cuda::scope);                 \
    return ::emu::cuda::from_bits<type>(expected);                                                 \
  }
#define EMU_ATOMIC_CAS_SCOPES(type)                                                                \
  EMU_ATOMIC_CAS(atomicCAS, type, SCOPE_DEVICE)                                                    \
  EMU_ATOMIC_CAS(atomicCAS_block, type, SCOPE_BLOCK)                                               \
  EMU_ATOMIC_CAS(atomicCAS_system, type, SCOPE_SYSTEM)
EMU_ATOMIC_CAS_SCOPES(int)
EMU_ATOMIC_CAS_SCOPES(unsigned)
EMU_ATOMIC_CAS_SCOPES(unsigned long long)
EMU_ATOMIC_CAS_SCOPES(long long)
EMU_ATOMIC_CAS_SCOPES(unsigned long)
EMU_ATOMIC_CAS_SCOPES(long)
EMU_ATOMIC_CAS_SCOPES(unsigned short)
#undef EMU_ATOMIC_CAS
#undef EMU_ATOMIC_CAS_SCOPES

EMU_INLINE void __threadfence_block() { ::emu::cuda::fence(0); }
EMU_INLINE void __threadfence() { ::emu::cuda::fence(1); }
EMU_INLINE void __threadfence_system() { ::emu::cuda::fence(2); }

#endif
