// SPDX-License-Identifier: Apache-2.0
/* Reductions over the threads of a warp's group. */
#ifndef CUCOCC_EMULATOR_COOPERATIVE_GROUPS_REDUCE_H
#define CUCOCC_EMULATOR_COOPERATIVE_GROUPS_REDUCE_H

#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class T = void> struct plus {
  template <class A> A operator()(A a, A b) const { return (A)(a + b); }
};
template <class T = void> struct less {
  template <class A> A operator()(A a, A b) const { return b < a ? b : a; }
};
template <class T = void> struct greater {
  template <class A> A operator()(A a, A b) const { return a < b ? b : a; }
};
template <class T = void> struct bit_and {
  template <class A> A operator()(A a, A b) const { return a & b; }
};
template <class T = void> struct bit_or {
  template <class A> A operator()(A a, A b) const { return a | b; }
};
template <class T = void> struct bit_xor {
  template <class A> A operator()(A a, A b) const { return a ^ b; }
};

/* In the order of a tree over ranks; every thread gets the result. */
template <class G, class T, class F> EMU_INLINE T reduce(const G &g, T value, F operation) {
  const unsigned n = g.size();
  unsigned top = 1;
  while (top < n)
    top *= 2;
  for (unsigned step = top / 2; step > 0; step /= 2) {
    const T other = g.shfl_down(value, step);
    if (g.thread_rank() + step < n)
      value = operation(value, other);
  }
  return g.shfl(value, 0);
}
template <class G, class T, class F> EMU_INLINE T inclusive_scan(const G &g, T value, F operation) {
  for (unsigned step = 1; step < g.size(); step *= 2) {
    const T other = g.shfl_up(value, step);
    if (g.thread_rank() >= step)
      value = operation(other, value);
  }
  return value;
}
template <class G, class T> EMU_INLINE T inclusive_scan(const G &g, T value) {
  return inclusive_scan(g, value, plus<T>());
}
template <class G, class T, class F> EMU_INLINE T exclusive_scan(const G &g, T value, F operation) {
  const T all = inclusive_scan(g, value, operation);
  const T before = g.shfl_up(all, 1);
  return g.thread_rank() == 0 ? T(0) : before;
}
template <class G, class T> EMU_INLINE T exclusive_scan(const G &g, T value) {
  return exclusive_scan(g, value, plus<T>());
}

} // namespace cooperative_groups

#endif
