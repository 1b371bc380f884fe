// SPDX-License-Identifier: Apache-2.0
/* Variables at namespace scope of a device: each device has its copy, made at first use from what
 * the host's variable was initialised with. */
#include "cuda_internal.h"

#include <cstring>

namespace emu {
namespace cuda {

namespace {

struct Key {
  const void *variable; // differs between the program's copies, so processes are told apart
  int device;           // -1: managed
  bool operator==(const Key &o) const { return variable == o.variable && device == o.device; }
};
struct Hash {
  size_t operator()(const Key &k) const {
    return ((size_t)k.variable >> 3) * 31 + (size_t)(k.device + 1);
  }
};

} // namespace

void *device_variable(const void *variable, size_t size, size_t alignment, bool managed) {
  static std::unordered_map<Key, void *, Hash> copies;
  static struct {
    Key key;
    void *copy;
  } recent[64];
  const int device = managed          ? -1
                     : current_thread ? current_thread->block->grid->device
                                      : current_device();
  const Key key{variable, device};
  auto &slot = recent[Hash()(key) % 64];
  if (slot.copy && slot.key == key)
    return slot.copy;
  void *&copy = copies[key];
  if (!copy) {
    copy = memory_alloc(managed ? current_device() : device, size,
                        managed ? MemoryKind::MANAGED : MemoryKind::GLOBAL_VARIABLE, EMU_SITE(),
                        alignment);
    if (!copy)
      unsupported("no memory is left for a variable of a device", EMU_SITE());
    memcpy(copy, variable, size); // before the program began: no access of any actor
  }
  slot = {key, copy};
  return copy;
}

} // namespace cuda
} // namespace emu
