// SPDX-License-Identifier: Apache-2.0
/* Memory of the CUDA runtime: allocation, copies, fills. Copies and fills are operations of a
 * stream that declare what they touch. */
#include "cuda_internal.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace emu;
using namespace emu::cuda;

namespace {

/* ---- what is where
 * -------------------------------------------------------------------------------- */

struct Process {
  std::map<uintptr_t, std::pair<size_t, unsigned>> registered; // host ranges: size, flags
  std::map<uintptr_t, unsigned> host_flags;                    // of cudaHostAlloc()
};
const char process_key = 0;
Process &process() {
  auto &slot = process_local(&process_key);
  if (!slot)
    slot = std::make_shared<Process>();
  return *static_cast<Process *>(slot.get());
}

/* Bytes in use on each device, by all processes. */
std::map<int, size_t> &used() {
  static std::map<int, size_t> u;
  return u;
}

enum class Place { PAGEABLE, REGISTERED, PINNED, MANAGED, DEVICE };

Place place_of(const void *p) {
  if (const Allocation *a = memory_find(p))
    switch (a->kind) {
    case MemoryKind::PINNED:
      return Place::PINNED;
    case MemoryKind::MANAGED:
      return Place::MANAGED;
    default:
      return Place::DEVICE;
    }
  const auto &registered = process().registered;
  auto it = registered.upper_bound((uintptr_t)p);
  if (it != registered.begin()) {
    --it;
    if ((uintptr_t)p < it->first + it->second.first)
      return Place::REGISTERED;
  }
  return Place::PAGEABLE;
}

/* Can a copy of KIND take a pointer at PLACE as its source (or target)? */
bool agrees(cudaMemcpyKind kind, bool source, Place place) {
  if (kind == cudaMemcpyDefault)
    return true;
  const bool device = kind == cudaMemcpyDeviceToDevice ||
                      kind == (source ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice);
  return device ? place != Place::PAGEABLE : place != Place::DEVICE;
}

/* ---- the accesses
 * ----------------------------------------------------------------------------------- */

/* Plain host memory is not the emulator's: its side of a copy is not declared. */
void move(void *to, bool to_known, const void *from, bool from_known, size_t size, Site site) {
  if (to_known && from_known) {
    copy_checked(to, from, size, site);
  } else if ((!to_known || access_write(to, size, site)) &&
             (!from_known || access_read(from, size, site))) {
    memmove(to, from, size);
  }
}

struct Copy {
  char *to;
  const char *from;
  size_t to_pitch, from_pitch, width, height;
  bool to_known, from_known;
  std::shared_ptr<std::vector<char>> staged; // pageable source, taken at the call
};

void run(const Copy &c, Site site) {
  const char *from = c.staged ? c.staged->data() : c.from;
  const size_t from_pitch = c.staged ? c.width : c.from_pitch;
  if (c.height > 1 && c.to_pitch == c.width && from_pitch == c.width) {
    move(c.to, c.to_known, from, c.from_known, c.width * c.height, site);
    return;
  }
  for (size_t y = 0; y < c.height; y++)
    move(c.to + y * c.to_pitch, c.to_known, from + y * from_pitch, c.from_known, c.width, site);
}

bool invalid_kind(cudaMemcpyKind kind) { return (int)kind < 0 || (int)kind > 4; }

/* ASYNC: the call is one of the *Async ones; others block as documented. */
cudaError_t copy(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                 size_t height, cudaMemcpyKind kind, cudaStream_t handle, bool async,
                 const char *name, Site site) {
  EMU_CHECK_STICKY();
  if (invalid_kind(kind))
    return done(cudaErrorInvalidMemcpyDirection);
  if (width == 0 || height == 0)
    return cudaSuccess;
  if (height > 1 && (to_pitch < width || from_pitch < width))
    return done(cudaErrorInvalidPitchValue);
  if (!to || !from)
    return done(cudaErrorInvalidValue);
  const Place target = place_of(to), source = place_of(from);
  if (!agrees(kind, true, source) || !agrees(kind, false, target))
    return done(cudaErrorInvalidValue);
  Copy c{(char *)to,
         (const char *)from,
         to_pitch,
         from_pitch,
         width,
         height,
         target != Place::PAGEABLE && target != Place::REGISTERED,
         source != Place::PAGEABLE && source != Place::REGISTERED,
         nullptr};
  if (async && source == Place::PAGEABLE && target != Place::PAGEABLE) {
    // The runtime copies it to a buffer of its own before the call returns.
    c.staged = std::make_shared<std::vector<char>>(width * height);
    for (size_t y = 0; y < height; y++)
      memcpy(c.staged->data() + y * width, c.from + y * from_pitch, width);
  }
  Stream *stream = stream_of(handle);
  stream_enqueue(
      stream, name,
      [c, site](Operation) {
        run(c, site);
        return true;
      },
      site);
  const bool between_devices = source == Place::DEVICE && target == Place::DEVICE;
  const bool blocks = async ? target == Place::PAGEABLE : !between_devices;
  if (blocks)
    stream_synchronize(stream, site);
  return done(sticky_error(current_device()));
}

cudaError_t fill(void *to, size_t pitch, int value, size_t width, size_t height,
                 cudaStream_t handle, bool async, const char *name, Site site) {
  EMU_CHECK_STICKY();
  if (width == 0 || height == 0)
    return cudaSuccess;
  if (height > 1 && pitch < width)
    return done(cudaErrorInvalidPitchValue);
  const Place place = to ? place_of(to) : Place::PAGEABLE;
  if (place == Place::PAGEABLE)
    return done(cudaErrorInvalidValue);
  Stream *stream = stream_of(handle);
  stream_enqueue(
      stream, name,
      [=](Operation) {
        for (size_t y = 0; y < height; y++)
          if (place == Place::REGISTERED)
            memset((char *)to + y * pitch, value, width);
          else
            set_checked((char *)to + y * pitch, value, width, site);
        return true;
      },
      site);
  if (!async && place != Place::DEVICE)
    stream_synchronize(stream, site);
  return cudaSuccess;
}

/* ---- allocation
 * -------------------------------------------------------------------------------------- */

cudaError_t allocate(void **pointer, size_t size, MemoryKind kind, Site site) {
  if (!pointer)
    return done(cudaErrorInvalidValue);
  *pointer = nullptr;
  EMU_CHECK_STICKY();
  if (size == 0)
    return cudaSuccess;
  const int device = kind == MemoryKind::PINNED ? -1 : current_device();
  size_t &in_use = used()[device];
  if (size > DEVICE_MEMORY || in_use > DEVICE_MEMORY - size)
    return done(cudaErrorMemoryAllocation);
  *pointer = memory_alloc(device, size, kind, site);
  if (!*pointer)
    return done(cudaErrorMemoryAllocation);
  in_use += size;
  return cudaSuccess;
}

bool release(void *pointer, Site site) {
  const Allocation *a = memory_find(pointer);
  const size_t size = a ? a->size : 0;
  const int device = a ? a->device : -1;
  if (!memory_free(pointer, site))
    return false;
  size_t &in_use = used()[device];
  in_use -= std::min(in_use, size);
  return true;
}

/* An allocation of the kinds that CUDA's functions free begins at POINTER and lives. */
bool can_free(const void *pointer, bool host) {
  const Allocation *a = memory_find(pointer);
  return a && a->base == (uintptr_t)pointer && !a->freed &&
         (host ? a->kind == MemoryKind::PINNED
               : a->kind == MemoryKind::DEVICE || a->kind == MemoryKind::MANAGED);
}

} // namespace

namespace emu {
namespace cuda {
cudaError_t symbol_range(const void *symbol, size_t size, size_t count, size_t offset) {
  const Allocation *a = memory_find(symbol);
  if (!a || a->kind != MemoryKind::GLOBAL_VARIABLE)
    return done(cudaErrorInvalidSymbol);
  return done(offset > size || count > size - offset ? cudaErrorInvalidValue : cudaSuccess);
}
} // namespace cuda
} // namespace emu

extern "C" {

cudaError_t cudaMalloc(void **pointer, size_t size) {
  return allocate(pointer, size, MemoryKind::DEVICE, EMU_SITE());
}

cudaError_t cudaFree(void *pointer) {
  const Site site = EMU_SITE();
  EMU_CHECK_STICKY();
  if (!pointer)
    return cudaSuccess;
  const Allocation *a = memory_find(pointer);
  if (!a)
    return done(cudaErrorInvalidValue);
  if (!can_free(pointer, false)) {
    if (a->freed)
      memory_free(pointer, site); // reports it
    return done(cudaErrorInvalidValue);
  }
  // The device that has it finishes its work first.
  const int before = current_device();
  set_current_device(a->device);
  device_synchronize(site);
  set_current_device(before);
  return done(release(pointer, site) ? sticky_error(before) : cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned int flags) {
  const cudaError_t e = allocate(pointer, size, MemoryKind::PINNED, EMU_SITE());
  if (e == cudaSuccess && *pointer)
    process().host_flags[(uintptr_t)*pointer] = flags;
  return e;
}

cudaError_t cudaMallocHost(void **pointer, size_t size) {
  return allocate(pointer, size, MemoryKind::PINNED, EMU_SITE());
}

cudaError_t cudaFreeHost(void *pointer) {
  const Site site = EMU_SITE();
  if (!pointer)
    return cudaSuccess;
  const Allocation *a = memory_find(pointer);
  if (!a)
    return done(cudaErrorInvalidValue);
  if (!can_free(pointer, true)) {
    if (a->freed)
      memory_free(pointer, site);
    return done(cudaErrorInvalidValue);
  }
  process().host_flags.erase((uintptr_t)pointer);
  return done(release(pointer, site) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int) {
  if (!device)
    return done(cudaErrorInvalidValue);
  const Place place = place_of(host);
  if (place != Place::PINNED && place != Place::REGISTERED)
    return done(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaHostGetFlags(unsigned int *flags, void *host) {
  auto it = process().host_flags.find((uintptr_t)host);
  if (place_of(host) != Place::PINNED)
    return done(cudaErrorInvalidValue);
  *flags = cudaHostAllocMapped | (it == process().host_flags.end() ? 0 : it->second);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned int flags) {
  if (!pointer || size == 0)
    return done(cudaErrorInvalidValue);
  if (place_of(pointer) != Place::PAGEABLE)
    return done(cudaErrorHostMemoryAlreadyRegistered);
  process().registered[(uintptr_t)pointer] = {size, flags};
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *pointer) {
  return done(process().registered.erase((uintptr_t)pointer) ? cudaSuccess
                                                             : cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
  if (!pitch)
    return done(cudaErrorInvalidValue);
  *pitch = (width + 511) / 512 * 512;
  return allocate(pointer, *pitch * height, MemoryKind::DEVICE, EMU_SITE());
}

cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream) {
  stream_of(stream);
  return allocate(pointer, size, MemoryKind::DEVICE, EMU_SITE());
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t,
                                    cudaStream_t stream) {
  stream_of(stream);
  return allocate(pointer, size, MemoryKind::DEVICE, EMU_SITE());
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
  const Site site = EMU_SITE();
  EMU_CHECK_STICKY();
  if (!pointer)
    return cudaSuccess;
  if (!memory_find(pointer))
    return done(cudaErrorInvalidValue);
  stream_enqueue(
      stream_of(stream), "cudaFreeAsync",
      [=](Operation) {
        release(pointer, site);
        return true;
      },
      site);
  return cudaSuccess;
}

/* A device has one pool, whose handle is never looked into. */
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
  *pool = (cudaMemPool_t)(uintptr_t)(0x1000 + device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}

cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *) { return cudaSuccess; }

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void *value) {
  if (attribute == cudaMemPoolReuseFollowEventDependencies ||
      attribute == cudaMemPoolReuseAllowOpportunistic ||
      attribute == cudaMemPoolReuseAllowInternalDependencies)
    *(int *)value = 1;
  else
    *(uint64_t *)value = 0;
  return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  if (free_bytes)
    *free_bytes = DEVICE_MEMORY - std::min(DEVICE_MEMORY, used()[current_device()]);
  if (total_bytes)
    *total_bytes = DEVICE_MEMORY;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer) {
  if (!attributes || !pointer)
    return done(cudaErrorInvalidValue);
  *attributes = cudaPointerAttributes{cudaMemoryTypeUnregistered, cudaInvalidDeviceId, nullptr,
                                      (void *)pointer};
  const Allocation *a = memory_find(pointer);
  if (a && a->freed)
    return cudaSuccess;
  switch (place_of(pointer)) {
  case Place::PAGEABLE:
    break;
  case Place::REGISTERED:
  case Place::PINNED:
    *attributes = cudaPointerAttributes{cudaMemoryTypeHost, current_device(), (void *)pointer,
                                        (void *)pointer};
    break;
  case Place::MANAGED:
    *attributes =
        cudaPointerAttributes{cudaMemoryTypeManaged, a->device, (void *)pointer, (void *)pointer};
    break;
  case Place::DEVICE:
    *attributes = cudaPointerAttributes{cudaMemoryTypeDevice, a->device, (void *)pointer, nullptr};
    break;
  }
  return cudaSuccess;
}

/* ---- copies and fills
 * --------------------------------------------------------------------------------- */

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind kind) {
  return copy(to, size, from, size, size, 1, kind, nullptr, false, "cudaMemcpy", EMU_SITE());
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy(to, size, from, size, size, 1, kind, stream, true, "cudaMemcpyAsync", EMU_SITE());
}

cudaError_t cudaMemcpyPeer(void *to, int, const void *from, int, size_t size) {
  return copy(to, size, from, size, size, 1, cudaMemcpyDeviceToDevice, nullptr, false,
              "cudaMemcpyPeer", EMU_SITE());
}

cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t size,
                                cudaStream_t stream) {
  return copy(to, size, from, size, size, 1, cudaMemcpyDeviceToDevice, stream, true,
              "cudaMemcpyPeerAsync", EMU_SITE());
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return copy(to, to_pitch, from, from_pitch, width, height, kind, nullptr, false, "cudaMemcpy2D",
              EMU_SITE());
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return copy(to, to_pitch, from, from_pitch, width, height, kind, stream, true,
              "cudaMemcpy2DAsync", EMU_SITE());
}

cudaError_t cudaMemset(void *to, int value, size_t size) {
  return fill(to, size, value, size, 1, nullptr, false, "cudaMemset", EMU_SITE());
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
  return fill(to, size, value, size, 1, stream, true, "cudaMemsetAsync", EMU_SITE());
}

cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height) {
  return fill(to, pitch, value, width, height, nullptr, false, "cudaMemset2D", EMU_SITE());
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return fill(to, pitch, value, width, height, stream, true, "cudaMemset2DAsync", EMU_SITE());
}

/* ---- sharing between processes: all of them live in one here
 * -------------------------------------------- */

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer) {
  const Allocation *a = memory_find(pointer);
  if (!handle || !a || a->freed || a->kind != MemoryKind::DEVICE)
    return done(cudaErrorInvalidValue);
  memset(handle, 0, sizeof *handle);
  memcpy(handle->reserved, &a->base, sizeof a->base);
  memcpy(handle->reserved + 8, &a->id, sizeof a->id);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned int) {
  uintptr_t base;
  uint64_t id;
  memcpy(&base, handle.reserved, sizeof base);
  memcpy(&id, handle.reserved + 8, sizeof id);
  const Allocation *a = memory_find((const void *)base);
  if (!pointer || !a || a->freed || a->id != id)
    return done(cudaErrorInvalidValue);
  *pointer = (void *)base;
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *pointer) {
  return done(memory_find(pointer) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *, cudaEvent_t) {
  unsupported("cudaIpcGetEventHandle()", EMU_SITE());
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *, cudaIpcEventHandle_t) {
  unsupported("cudaIpcOpenEventHandle()", EMU_SITE());
}

} // extern "C"

cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned int) {
  return allocate(pointer, size, MemoryKind::MANAGED, EMU_SITE());
}

/* Hints: they move pages, not what programs see. */
cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t, int, cudaStream_t) {
  return done(place_of(pointer) == Place::MANAGED ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t, cudaMemLocation, unsigned int,
                                 cudaStream_t) {
  return done(place_of(pointer) == Place::MANAGED ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemAdvise(const void *pointer, size_t, cudaMemoryAdvise, int) {
  return done(place_of(pointer) == Place::MANAGED ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemAdvise(const void *pointer, size_t, cudaMemoryAdvise, cudaMemLocation) {
  return done(place_of(pointer) == Place::MANAGED ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void *pointer, size_t, unsigned int) {
  return done(place_of(pointer) == Place::MANAGED ? cudaSuccess : cudaErrorInvalidValue);
}
