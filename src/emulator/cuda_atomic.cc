// SPDX-License-Identifier: Apache-2.0
/* Atomic accesses of programs, as bits, by the engine's. A forbidden access has no value: 0. */
#include "cuda_internal.h"

#include "include/emu_atomic.h"

#include <cstring>

namespace emu {
namespace cuda {

namespace {

Order order_of(AtomicOrder o) { return (Order)o; }
Scope scope_of(AtomicScope s) { return (Scope)s; }
static_assert((int)ATOMIC_RELAXED == (int)Order::RELAXED, "the same values");
static_assert((int)ATOMIC_SEQ_CST == (int)Order::SEQ_CST, "the same values");
static_assert((int)SCOPE_THREAD == (int)Scope::THREAD, "the same values");
static_assert((int)SCOPE_SYSTEM == (int)Scope::SYSTEM, "the same values");

} // namespace

uint64_t atomic_load_bits(const void *address, unsigned size, AtomicOrder order,
                          AtomicScope scope) {
  uint64_t bits = 0;
  atomic_load(address, size, &bits, order_of(order), scope_of(scope), EMU_SITE());
  return bits;
}

void atomic_store_bits(void *address, unsigned size, uint64_t value, AtomicOrder order,
                       AtomicScope scope) {
  atomic_store(address, size, &value, order_of(order), scope_of(scope), EMU_SITE());
}

uint64_t atomic_update_bits(void *address, unsigned size, AtomicUpdate update, uint64_t operand,
                            AtomicOrder order, AtomicScope scope) {
  uint64_t old = 0;
  atomic_rmw(
      address, size,
      [&](void *value) {
        uint64_t before = 0;
        memcpy(&before, value, size);
        const uint64_t after = update(before, operand);
        memcpy(value, &after, size);
      },
      &old, order_of(order), scope_of(scope), EMU_SITE());
  return old;
}

bool atomic_cas_bits(void *address, unsigned size, uint64_t *expected, uint64_t desired,
                     AtomicOrder success, AtomicOrder failure, AtomicScope scope) {
  return atomic_cas(address, size, expected, &desired, order_of(success), order_of(failure),
                    scope_of(scope), EMU_SITE());
}

void atomic_wait_bits(const void *address, unsigned size, uint64_t old, AtomicOrder order,
                      AtomicScope scope) {
  const Site site = EMU_SITE();
  for (;;) {
    uint64_t bits = 0;
    if (!atomic_load(address, size, &bits, order_of(order), scope_of(scope), site) || bits != old)
      return;
    poll(site, "atomic wait()");
  }
}

void atomic_fence(AtomicOrder order, AtomicScope scope) {
  emu::fence(order_of(order), scope_of(scope));
}

void fence(int scope) {
  emu::fence(Order::SEQ_CST, scope == 0   ? Scope::BLOCK
                             : scope == 1 ? Scope::DEVICE
                                          : Scope::SYSTEM);
}

} // namespace cuda
} // namespace emu
