// SPDX-License-Identifier: Apache-2.0
/* Errors, and the devices as the CUDA runtime and the driver interface show them. */
#include "cuda_internal.h"

#include "include/cuda.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace emu {
namespace cuda {

namespace {

struct HostThread {
  cudaError_t last = cudaSuccess;
};

struct Process {
  std::unordered_map<int, cudaError_t> sticky;
  std::unordered_map<int, size_t> limits; // cudaLimit
  unsigned flags = cudaDeviceScheduleAuto | cudaDeviceMapHost;
  std::vector<std::pair<int, int>> peers; // enabled: from, to
};

template <class T> T &local(std::shared_ptr<void> &slot) {
  if (!slot)
    slot = std::make_shared<T>();
  return *static_cast<T *>(slot.get());
}
const char thread_key = 0, process_key = 0;
HostThread &host_thread() { return local<HostThread>(actor_local(&thread_key)); }
Process &process() { return local<Process>(process_local(&process_key)); }

bool is_device(int device) { return device >= 0 && device < device_count(); }

} // namespace

cudaError_t done(cudaError_t e) {
  if (e != cudaSuccess)
    host_thread().last = e;
  return e;
}

cudaError_t sticky_error(int device) {
  auto &all = process().sticky;
  if (all.empty())
    return cudaSuccess;
  auto it = all.find(device);
  return it == all.end() ? cudaSuccess : it->second;
}

void set_sticky_error(int device, cudaError_t e) { process().sticky.emplace(device, e); }

int blocks_per_sm(unsigned threads, size_t shared) {
  if (threads == 0 || threads > THREADS_PER_BLOCK || shared > SHARED_OPT_IN)
    return 0;
  const unsigned warps = (threads + 31) / 32;
  int n = std::min<int>(BLOCKS_PER_SM, THREADS_PER_SM / 32 / warps);
  n = std::min<int>(n, (int)(SHARED_PER_SM / (shared + SHARED_RESERVED)));
  return n;
}

} // namespace cuda
} // namespace emu

using namespace emu;
using namespace emu::cuda;

/* ---- errors
 * ---------------------------------------------------------------------------------------- */

extern "C" cudaError_t cudaGetLastError(void) {
  const cudaError_t sticky = sticky_error(current_device());
  const cudaError_t e = host_thread().last;
  host_thread().last = cudaSuccess;
  return sticky != cudaSuccess ? sticky : e;
}

extern "C" cudaError_t cudaPeekAtLastError(void) {
  const cudaError_t sticky = sticky_error(current_device());
  return sticky != cudaSuccess ? sticky : host_thread().last;
}

#define TEXT(name, value, text)                                                                    \
  case value:                                                                                      \
    return text;
#define NAME(name, value, text)                                                                    \
  case value:                                                                                      \
    return #name;
extern "C" const char *cudaGetErrorString(cudaError_t error) {
  switch ((int)error) { EMU_CUDA_ERRORS(TEXT) }
  return "unrecognized error code";
}
extern "C" const char *cudaGetErrorName(cudaError_t error) {
  switch ((int)error) { EMU_CUDA_ERRORS(NAME) }
  return "unrecognized error code";
}

/* ---- devices
 * --------------------------------------------------------------------------------------- */

extern "C" cudaError_t cudaGetDeviceCount(int *count) {
  if (!count)
    return done(cudaErrorInvalidValue);
  *count = device_count();
  return cudaSuccess;
}

extern "C" cudaError_t cudaGetDevice(int *device) {
  if (!device)
    return done(cudaErrorInvalidValue);
  *device = current_device();
  return cudaSuccess;
}

extern "C" cudaError_t cudaSetDevice(int device) {
  if (!is_device(device))
    return done(cudaErrorInvalidDevice);
  set_current_device(device);
  return done(sticky_error(device));
}

extern "C" cudaError_t cudaInitDevice(int device, unsigned int, unsigned int) {
  return cudaSetDevice(device);
}

extern "C" cudaError_t cudaSetValidDevices(int *list, int count) {
  return done(list || count == 0 ? cudaSuccess : cudaErrorInvalidValue);
}

extern "C" cudaError_t cudaChooseDevice(int *device, const cudaDeviceProp *) {
  *device = 0;
  return cudaSuccess;
}

extern "C" cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  process().flags = flags;
  return cudaSuccess;
}

extern "C" cudaError_t cudaGetDeviceFlags(unsigned int *flags) {
  *flags = process().flags;
  return cudaSuccess;
}

extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
  if (!p)
    return done(cudaErrorInvalidValue);
  if (!is_device(device))
    return done(cudaErrorInvalidDevice);
  *p = cudaDeviceProp();
  snprintf(p->name, sizeof p->name, "Emulated H200");
  p->uuid.bytes[0] = 'e', p->uuid.bytes[15] = (char)device;
  p->totalGlobalMem = DEVICE_MEMORY;
  p->sharedMemPerBlock = SHARED_PER_BLOCK;
  p->sharedMemPerBlockOptin = SHARED_OPT_IN;
  p->sharedMemPerMultiprocessor = SHARED_PER_SM;
  p->reservedSharedMemPerBlock = SHARED_RESERVED;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->memPitch = 0x7fffffff;
  p->maxThreadsPerBlock = THREADS_PER_BLOCK;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7fffffff, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 65536;
  p->major = 9, p->minor = 0;
  p->textureAlignment = 512;
  p->texturePitchAlignment = 32;
  p->multiProcessorCount = SMS;
  p->canMapHostMemory = 1;
  p->concurrentKernels = 1;
  p->ECCEnabled = 1;
  p->pciBusID = 0x10 + device;
  p->asyncEngineCount = 3;
  p->unifiedAddressing = 1;
  p->memoryBusWidth = 6144;
  p->l2CacheSize = 60 << 20;
  p->persistingL2CacheMaxSize = 37 << 20;
  p->accessPolicyMaxWindowSize = 128 << 20;
  p->maxThreadsPerMultiProcessor = THREADS_PER_SM;
  p->maxBlocksPerMultiProcessor = BLOCKS_PER_SM;
  p->streamPrioritiesSupported = 1;
  p->globalL1CacheSupported = p->localL1CacheSupported = 1;
  p->managedMemory = p->concurrentManagedAccess = 1;
  p->computePreemptionSupported = 1;
  p->canUseHostPointerForRegisteredMem = 1;
  p->cooperativeLaunch = 1;
  p->hostRegisterSupported = 1;
  p->memoryPoolsSupported = 1;
  p->unifiedFunctionPointers = 1;
  p->clockRate = 1980000;
  p->memoryClockRate = 3201000;
  p->deviceOverlap = 1;
  p->singleToDoublePrecisionPerfRatio = 2;
  return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (!value)
    return done(cudaErrorInvalidValue);
  const cudaError_t e = cudaGetDeviceProperties(&p, device);
  if (e != cudaSuccess)
    return e;
  switch ((int)attribute) {
  case cudaDevAttrMaxThreadsPerBlock:
    *value = p.maxThreadsPerBlock;
    break;
  case cudaDevAttrMaxBlockDimX:
  case cudaDevAttrMaxBlockDimY:
  case cudaDevAttrMaxBlockDimZ:
    *value = p.maxThreadsDim[attribute - cudaDevAttrMaxBlockDimX];
    break;
  case cudaDevAttrMaxGridDimX:
  case cudaDevAttrMaxGridDimY:
  case cudaDevAttrMaxGridDimZ:
    *value = p.maxGridSize[attribute - cudaDevAttrMaxGridDimX];
    break;
  case cudaDevAttrMaxSharedMemoryPerBlock:
    *value = SHARED_PER_BLOCK;
    break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    *value = SHARED_OPT_IN;
    break;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
    *value = SHARED_PER_SM;
    break;
  case cudaDevAttrReservedSharedMemoryPerBlock:
    *value = SHARED_RESERVED;
    break;
  case cudaDevAttrTotalConstantMemory:
    *value = (int)p.totalConstMem;
    break;
  case cudaDevAttrWarpSize:
    *value = 32;
    break;
  case cudaDevAttrMaxPitch:
    *value = (int)p.memPitch;
    break;
  case cudaDevAttrMaxRegistersPerBlock:
  case cudaDevAttrMaxRegistersPerMultiprocessor:
    *value = p.regsPerBlock;
    break;
  case cudaDevAttrClockRate:
    *value = p.clockRate;
    break;
  case cudaDevAttrMemoryClockRate:
    *value = p.memoryClockRate;
    break;
  case cudaDevAttrGlobalMemoryBusWidth:
    *value = p.memoryBusWidth;
    break;
  case cudaDevAttrL2CacheSize:
    *value = p.l2CacheSize;
    break;
  case cudaDevAttrMultiProcessorCount:
    *value = SMS;
    break;
  case cudaDevAttrMaxThreadsPerMultiProcessor:
    *value = THREADS_PER_SM;
    break;
  case cudaDevAttrMaxBlocksPerMultiprocessor:
    *value = BLOCKS_PER_SM;
    break;
  case cudaDevAttrTextureAlignment:
    *value = 512;
    break;
  case cudaDevAttrTexturePitchAlignment:
    *value = 32;
    break;
  case cudaDevAttrAsyncEngineCount:
    *value = p.asyncEngineCount;
    break;
  case cudaDevAttrPciBusId:
    *value = p.pciBusID;
    break;
  case cudaDevAttrComputeCapabilityMajor:
    *value = p.major;
    break;
  case cudaDevAttrComputeCapabilityMinor:
    *value = p.minor;
    break;
  case cudaDevAttrSingleToDoublePrecisionPerfRatio:
    *value = p.singleToDoublePrecisionPerfRatio;
    break;
  case cudaDevAttrMaxPersistingL2CacheSize:
    *value = p.persistingL2CacheMaxSize;
    break;
  case cudaDevAttrMaxAccessPolicyWindowSize:
    *value = p.accessPolicyMaxWindowSize;
    break;
  case cudaDevAttrGpuOverlap:
  case cudaDevAttrCanMapHostMemory:
  case cudaDevAttrConcurrentKernels:
  case cudaDevAttrEccEnabled:
  case cudaDevAttrUnifiedAddressing:
  case cudaDevAttrStreamPrioritiesSupported:
  case cudaDevAttrGlobalL1CacheSupported:
  case cudaDevAttrLocalL1CacheSupported:
  case cudaDevAttrManagedMemory:
  case cudaDevAttrConcurrentManagedAccess:
  case cudaDevAttrComputePreemptionSupported:
  case cudaDevAttrCanUseHostPointerForRegisteredMem:
  case cudaDevAttrCooperativeLaunch:
  case cudaDevAttrHostRegisterSupported:
  case cudaDevAttrMemoryPoolsSupported:
    *value = 1;
    break;
  default: // what an H200 has not, or the emulator does not model (clusters, IPC, multicast)
    *value = 0;
    break;
  }
  return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceGetP2PAttribute(int *value, cudaDeviceP2PAttr attribute, int from,
                                                 int to) {
  if (!value || from == to)
    return done(cudaErrorInvalidValue);
  if (!is_device(from) || !is_device(to))
    return done(cudaErrorInvalidDevice);
  *value = attribute == cudaDevP2PAttrAccessSupported ||
           attribute == cudaDevP2PAttrNativeAtomicSupported;
  return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device) {
  if (!id || length < 13)
    return done(cudaErrorInvalidValue);
  if (!is_device(device))
    return done(cudaErrorInvalidDevice);
  snprintf(id, (size_t)length, "0000:%02X:00.0", 0x10 + device);
  return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id) {
  unsigned domain, bus;
  if (!device || !id || sscanf(id, "%x:%x", &domain, &bus) != 2)
    return done(cudaErrorInvalidValue);
  *device = (int)bus - 0x10;
  return done(is_device(*device) ? cudaSuccess : cudaErrorInvalidDevice);
}

extern "C" cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  if (!can)
    return done(cudaErrorInvalidValue);
  if (!is_device(device) || !is_device(peer))
    return done(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  if (flags != 0)
    return done(cudaErrorInvalidValue);
  if (!is_device(peer) || peer == current_device())
    return done(cudaErrorInvalidDevice);
  auto &peers = process().peers;
  const std::pair<int, int> p(current_device(), peer);
  if (std::find(peers.begin(), peers.end(), p) != peers.end())
    return done(cudaErrorPeerAccessAlreadyEnabled);
  peers.push_back(p);
  return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  auto &peers = process().peers;
  auto it = std::find(peers.begin(), peers.end(), std::make_pair(current_device(), peer));
  if (it == peers.end())
    return done(cudaErrorPeerAccessNotEnabled);
  peers.erase(it);
  return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  process().limits[(int)limit] = value;
  return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceGetLimit(size_t *value, cudaLimit limit) {
  if (!value)
    return done(cudaErrorInvalidValue);
  auto it = process().limits.find((int)limit);
  if (it != process().limits.end())
    *value = it->second;
  else
    *value = limit == cudaLimitStackSize        ? 1024
             : limit == cudaLimitPrintfFifoSize ? 1 << 20
                                                : 8 << 20;
  return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }

extern "C" cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache *config) {
  *config = cudaFuncCachePreferNone;
  return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  if (least)
    *least = 0;
  if (greatest)
    *greatest = -5;
  return cudaSuccess;
}

extern "C" cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

extern "C" cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

extern "C" cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
extern "C" cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

/* ---- the driver interface
 * -------------------------------------------------------------------------- */

extern "C" CUresult cuInit(unsigned int) { return CUDA_SUCCESS; }

extern "C" CUresult cuDriverGetVersion(int *version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  if (!is_device(ordinal))
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetCount(int *count) {
  *count = device_count();
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, (size_t)length, "Emulated H200");
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                                         CUdevice device) {
  if (attribute == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED) {
    *value = 0;
    return CUDA_SUCCESS;
  }
  return (CUresult)cudaDeviceGetAttribute(value, (cudaDeviceAttr)attribute, device);
}

extern "C" CUresult cuDeviceTotalMem(size_t *bytes, CUdevice) {
  *bytes = DEVICE_MEMORY;
  return CUDA_SUCCESS;
}

/* A context is a device of the process: the primary one. */
extern "C" CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = (CUcontext)(uintptr_t)(current_device() + 1);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxSetCurrent(CUcontext context) {
  const int device = (int)(uintptr_t)context - 1;
  if (!is_device(device))
    return CUDA_ERROR_INVALID_CONTEXT;
  set_current_device(device);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxGetDevice(CUdevice *device) {
  *device = current_device();
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxSynchronize(void) { return (CUresult)cudaDeviceSynchronize(); }

extern "C" CUresult cuStreamSynchronize(CUstream stream) {
  return (CUresult)cudaStreamSynchronize(stream);
}

extern "C" CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *context = (CUcontext)(uintptr_t)(device + 1);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }

extern "C" CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = cudaGetErrorString((cudaError_t)error);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuGetErrorName(CUresult error, const char **name) {
  *name = cudaGetErrorName((cudaError_t)error);
  return CUDA_SUCCESS;
}
