// SPDX-License-Identifier: Apache-2.0
/* A window and a byte offset as one typed value. */
#ifndef CUCOCC_EMULATOR_NCCL_DEVICE_PTR_H
#define CUCOCC_EMULATOR_NCCL_DEVICE_PTR_H

#include "core.h"

template <class T> struct ncclSymPtr {
  using ElementType = T;
  ncclWindow_t window;
  size_t offset;

  constexpr ncclSymPtr(ncclWindow_t w = nullptr, size_t o = 0) : window(w), offset(o) {}
  template <class U> operator ncclSymPtr<U>() const { return {window, offset}; }
  template <class Int> ncclSymPtr &operator+=(Int d) {
    offset += (size_t)((ptrdiff_t)d * (ptrdiff_t)sizeof(T));
    return *this;
  }
  template <class Int> ncclSymPtr &operator-=(Int d) { return *this += -(ptrdiff_t)d; }

  EMU_NCCL_INLINE T *localPtr() const { return (T *)ncclGetLocalPointer(window, offset); }
  EMU_NCCL_INLINE T *lsaPtr(int peer) const { return (T *)ncclGetLsaPointer(window, offset, peer); }
  EMU_NCCL_INLINE T *peerPtr(int peer) const {
    return (T *)ncclGetPeerPointer(window, offset, peer);
  }
  EMU_NCCL_INLINE T *peerPtr(ncclTeam team, int peer) const {
    return (T *)ncclGetPeerPointer(window, offset, team, peer);
  }
  EMU_NCCL_INLINE T *multimemPtr(ncclMultimemHandle) const { return (T *)emu_nccl::multimem(); }
  EMU_NCCL_INLINE T *lsaMultimemPtr(const ncclDevComm &) const { return (T *)emu_nccl::multimem(); }
};
template <class T, class Int> ncclSymPtr<T> operator+(ncclSymPtr<T> p, Int d) { return p += d; }
template <class T, class Int> ncclSymPtr<T> operator-(ncclSymPtr<T> p, Int d) { return p -= d; }
template <class T> ptrdiff_t operator-(ncclSymPtr<T> a, ncclSymPtr<T> b) {
  return ((ptrdiff_t)a.offset - (ptrdiff_t)b.offset) / (ptrdiff_t)sizeof(T);
}
template <class T> bool operator==(ncclSymPtr<T> a, ncclSymPtr<T> b) {
  return a.window == b.window && a.offset == b.offset;
}
template <class T> bool operator!=(ncclSymPtr<T> a, ncclSymPtr<T> b) { return !(a == b); }

#endif
