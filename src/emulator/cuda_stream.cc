// SPDX-License-Identifier: Apache-2.0
/* Streams and events of the CUDA runtime. Capture into graphs is not modelled. */
#include "cuda_internal.h"

#include <unordered_set>

using namespace emu;
using namespace emu::cuda;

/* An event of the scheduler with what cudaEventCreateWithFlags() was told. */
struct CUevent_st {
  Event *event;
  unsigned flags;
  int device; // where it was created
  bool recorded;
};

namespace {

struct StreamInfo {
  unsigned flags;
  int priority;
  unsigned long long id;
};
/* Streams made by the program, all processes': handles are the scheduler's addresses. */
std::unordered_map<const void *, StreamInfo> &streams() {
  static std::unordered_map<const void *, StreamInfo> s;
  return s;
}
std::unordered_set<const void *> &events() {
  static std::unordered_set<const void *> e;
  return e;
}

bool is_default(cudaStream_t s) {
  return s == nullptr || s == cudaStreamLegacy || s == cudaStreamPerThread;
}
bool is_stream(cudaStream_t s) { return is_default(s) || streams().count(s); }
bool is_event(cudaEvent_t e) { return e && events().count(e); }

cudaError_t with_sticky(cudaError_t e) {
  const cudaError_t sticky = sticky_error(current_device());
  return sticky != cudaSuccess ? done(sticky)
                               : e; // cudaErrorNotReady is not kept as the last error
}

cudaError_t create(cudaStream_t *stream, unsigned flags, int priority) {
  if (!stream || flags > cudaStreamNonBlocking)
    return done(cudaErrorInvalidValue);
  EMU_CHECK_STICKY();
  priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
  Stream *s = stream_create(current_device(), flags == cudaStreamNonBlocking, priority);
  *stream = (cudaStream_t)s;
  static unsigned long long ids = 16;
  streams()[s] = StreamInfo{flags, priority, ids++};
  return cudaSuccess;
}

cudaError_t host_function(cudaStream_t stream, const char *name, std::function<void()> f,
                          Site site) {
  if (!is_stream(stream))
    return done(cudaErrorInvalidResourceHandle);
  EMU_CHECK_STICKY();
  stream_enqueue(
      stream_of(stream), name,
      [f](Operation) {
        f();
        return true;
      },
      site);
  return cudaSuccess;
}

} // namespace

namespace emu {
namespace cuda {
bool valid_stream(cudaStream_t stream) { return is_stream(stream); }
} // namespace cuda
} // namespace emu

extern "C" {

/* ---- streams
 * ------------------------------------------------------------------------------------------ */

cudaError_t cudaStreamCreate(cudaStream_t *stream) { return create(stream, cudaStreamDefault, 0); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
  return create(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority) {
  return create(stream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (is_default(stream) || !streams().erase(stream))
    return done(cudaErrorInvalidResourceHandle);
  stream_destroy((Stream *)stream); // what is in it still runs
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Site site = EMU_SITE();
  if (!is_stream(stream))
    return done(cudaErrorInvalidResourceHandle);
  stream_synchronize(stream_of(stream), site);
  return with_sticky(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Site site = EMU_SITE();
  if (!is_stream(stream))
    return done(cudaErrorInvalidResourceHandle);
  return with_sticky(stream_query(stream_of(stream), site) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize(void) {
  device_synchronize(EMU_SITE());
  return with_sticky(cudaSuccess);
}

cudaError_t cudaThreadSynchronize(void) {
  device_synchronize(EMU_SITE());
  return with_sticky(cudaSuccess);
}

cudaError_t cudaDeviceReset(void) {
  device_synchronize(EMU_SITE());
  return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags) {
  if (!is_stream(stream))
    return done(cudaErrorInvalidResourceHandle);
  *flags = is_default(stream) ? cudaStreamDefault : streams()[stream].flags;
  return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
  if (!is_stream(stream))
    return done(cudaErrorInvalidResourceHandle);
  *priority = is_default(stream) ? 0 : streams()[stream].priority;
  return cudaSuccess;
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device) {
  if (!is_stream(stream))
    return done(cudaErrorInvalidResourceHandle);
  *device = stream_device(stream_of(stream));
  return cudaSuccess;
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id) {
  if (!is_stream(stream))
    return done(cudaErrorInvalidResourceHandle);
  *id = is_default(stream) ? (unsigned long long)(uintptr_t)stream : streams()[stream].id;
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data,
                                  unsigned int flags) {
  if (!callback || flags != 0)
    return done(cudaErrorInvalidValue);
  const int device = current_device();
  return host_function(
      stream, "cudaStreamAddCallback", [=] { callback(stream, sticky_error(device), data); },
      EMU_SITE());
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  if (!function)
    return done(cudaErrorInvalidValue);
  return host_function(
      stream, "cudaLaunchHostFunc", [=] { function(data); }, EMU_SITE());
}

/* ---- capture
 * --------------------------------------------------------------------------------------------- */

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
  if (!is_stream(stream))
    return done(cudaErrorInvalidResourceHandle);
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *) { return cudaSuccess; }

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  unsupported("cudaStreamBeginCapture(): CUDA graphs", EMU_SITE());
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *) {
  unsupported("cudaStreamEndCapture(): CUDA graphs", EMU_SITE());
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *, cudaGraph_t, unsigned long long) {
  unsupported("cudaGraphInstantiate(): CUDA graphs", EMU_SITE());
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  unsupported("cudaGraphLaunch(): CUDA graphs", EMU_SITE());
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) {
  unsupported("cudaGraphExecDestroy(): CUDA graphs", EMU_SITE());
}
cudaError_t cudaGraphDestroy(cudaGraph_t) {
  unsupported("cudaGraphDestroy(): CUDA graphs", EMU_SITE());
}

/* ---- events
 * ------------------------------------------------------------------------------------------------
 */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
  if (!event || flags > (cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess))
    return done(cudaErrorInvalidValue);
  EMU_CHECK_STICKY();
  *event = new CUevent_st{event_create(current_device()), flags, current_device(), false};
  events().insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!is_event(event))
    return done(cudaErrorInvalidResourceHandle);
  events().erase(event);
  event_destroy(event->event);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Site site = EMU_SITE();
  if (!is_event(event))
    return done(cudaErrorInvalidResourceHandle);
  return with_sticky(event_query(event->event, site) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Site site = EMU_SITE();
  if (!is_event(event))
    return done(cudaErrorInvalidResourceHandle);
  event_synchronize(event->event, site);
  return with_sticky(cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
  if (!ms)
    return done(cudaErrorInvalidValue);
  if (!is_event(start) || !is_event(end) ||
      ((start->flags | end->flags) & cudaEventDisableTiming) || !start->recorded || !end->recorded)
    return done(cudaErrorInvalidResourceHandle);
  const Site site = EMU_SITE();
  if (!event_query(start->event, site) || !event_query(end->event, site))
    return done(cudaErrorNotReady);
  *ms = (float)((double)(int64_t)(event_time(end->event) - event_time(start->event)) / 1e6);
  return cudaSuccess;
}

} // extern "C"

cudaError_t cudaEventCreate(cudaEvent_t *event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags) {
  return cudaEventCreateWithFlags(event, flags);
}

static cudaError_t record(cudaEvent_t event, cudaStream_t stream, Site site) {
  if (!is_event(event) || !is_stream(stream))
    return done(cudaErrorInvalidResourceHandle);
  EMU_CHECK_STICKY();
  Stream *s = stream_of(stream);
  if (stream_device(s) != event->device)
    return done(cudaErrorInvalidResourceHandle);
  event_record(event->event, s, site);
  event->recorded = true;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return record(event, stream, EMU_SITE());
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int) {
  return record(event, stream, EMU_SITE());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  const Site site = EMU_SITE();
  if (!is_event(event) || !is_stream(stream))
    return done(cudaErrorInvalidResourceHandle);
  EMU_CHECK_STICKY();
  stream_wait_event(stream_of(stream), event->event, site);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *, cudaGraph_t, unsigned long long) {
  unsupported("cudaGraphInstantiate(): CUDA graphs", EMU_SITE());
}
