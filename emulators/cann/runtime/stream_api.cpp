// CANN's calls for streams.
#include "device.h"
#include "streams.h"

using cann::fail;
using cann::find_stream;

extern "C" {

CANN_EXPORT aclError aclrtCreateStreamWithConfig(aclrtStream* out, uint32_t priority, uint32_t flags) {
  if (int code = cann::check_device("aclrtCreateStream", cann::current_device())) return code;
  if (priority > 7) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtCreateStream: priority " + std::to_string(priority) + ", 0 to 7 exist");
  cann::open_stream(cann::current_device(), priority, flags, out);
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtCreateStream(aclrtStream* out) { return aclrtCreateStreamWithConfig(out, 0, 0); }

// Waits for what is on it.
CANN_EXPORT aclError aclrtDestroyStream(aclrtStream handle) {
  int code;
  const auto stream = find_stream("aclrtDestroyStream", handle, &code);
  if (!stream) return code;
  if (stream->own_thread()) return fail(ACL_ERROR_RT_STREAM_CONTEXT, "aclrtDestroyStream: called by work that runs on the stream itself");
  code = stream->synchronize("aclrtDestroyStream");
  stream->close();
  cann::remove_stream(handle);
  return code;
}

// Drops what is on it.
CANN_EXPORT aclError aclrtDestroyStreamForce(aclrtStream handle) {
  int code;
  const auto stream = find_stream("aclrtDestroyStreamForce", handle, &code);
  if (!stream) return code;
  stream->abandon(ACL_ERROR_RT_STREAM_ABORT, "the stream was destroyed");
  stream->close();
  if (!stream->own_thread()) (void)stream->synchronize("aclrtDestroyStreamForce");
  cann::remove_stream(handle);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtStreamAbort(aclrtStream handle) {
  int code;
  if (const auto stream = find_stream("aclrtStreamAbort", handle, &code)) stream->abandon(ACL_ERROR_RT_STREAM_ABORT, "the stream was aborted");
  return code;
}

CANN_EXPORT aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, int32_t timeout) {
  int code;
  const auto stream = find_stream("aclrtSynchronizeStream", handle, &code);
  return stream ? stream->synchronize("aclrtSynchronizeStream", timeout > 0 ? timeout : -1) : code;
}
CANN_EXPORT aclError aclrtSynchronizeStream(aclrtStream handle) { return aclrtSynchronizeStreamWithTimeout(handle, -1); }

CANN_EXPORT aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus* status) {
  int code;
  const auto stream = find_stream("aclrtStreamQuery", handle, &code);
  if (!stream) return code;
  const cann::Clock clock = cann::races().clock(stream->number);
  const bool done = stream->idle();
  if (done) cann::races().synchronised(clock);
  *status = done ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

#define OF_STREAM(NAME, TYPE, READ)                                        \
  CANN_EXPORT aclError NAME(aclrtStream handle, TYPE* value) {             \
    int code;                                                              \
    if (const auto stream = find_stream(#NAME, handle, &code)) *value = TYPE(stream->READ); \
    return code;                                                           \
  }
OF_STREAM(aclrtStreamGetId, int32_t, number)
OF_STREAM(aclrtStreamGetPriority, uint32_t, priority)
OF_STREAM(aclrtStreamGetFlags, uint32_t, flags)
OF_STREAM(aclrtGetStreamOverflowSwitch, uint32_t, overflow_switch)

CANN_EXPORT aclError aclrtDeviceGetStreamPriorityRange(int32_t* least, int32_t* greatest) {
  *least = 7;
  *greatest = 0;
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtSetStreamOverflowSwitch(aclrtStream handle, uint32_t value) {
  int code;
  if (const auto stream = find_stream("aclrtSetStreamOverflowSwitch", handle, &code)) stream->overflow_switch = value;
  return code;
}
// A stream that failed stops in either mode: emulator.h says how it goes on.
CANN_EXPORT aclError aclrtSetStreamFailureMode(aclrtStream handle, uint64_t mode) {
  if (!handle || mode > ACL_STOP_ON_FAILURE) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtSetStreamFailureMode: the default stream, or no such mode");
  int code;
  if (const auto stream = find_stream("aclrtSetStreamFailureMode", handle, &code)) stream->failure_mode = mode;
  return code;
}
CANN_EXPORT aclError aclrtSetStreamAttribute(aclrtStream handle, aclrtStreamAttr attribute, aclrtStreamAttrValue* value) {
  switch (attribute) {
    case ACL_STREAM_ATTR_FAILURE_MODE: return aclrtSetStreamFailureMode(handle, value->failureMode);
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK: return aclrtSetStreamOverflowSwitch(handle, value->overflowSwitch);
    case ACL_STREAM_ATTR_CACHE_OP_INFO: return ACL_SUCCESS;  // for captured graphs, of which there are none
    default: return fail(ACL_ERROR_API_NOT_SUPPORT, "aclrtSetStreamAttribute: attribute " + std::to_string(attribute) + " is not emulated");
  }
}
CANN_EXPORT aclError aclrtGetStreamAttribute(aclrtStream handle, aclrtStreamAttr attribute, aclrtStreamAttrValue* value) {
  int code;
  const auto stream = find_stream("aclrtGetStreamAttribute", handle, &code);
  if (!stream) return code;
  switch (attribute) {
    case ACL_STREAM_ATTR_FAILURE_MODE: value->failureMode = stream->failure_mode; return ACL_SUCCESS;
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK: value->overflowSwitch = stream->overflow_switch; return ACL_SUCCESS;
    case ACL_STREAM_ATTR_PRIORITY: value->streamPriority = stream->priority; return ACL_SUCCESS;
    default: return fail(ACL_ERROR_API_NOT_SUPPORT, "aclrtGetStreamAttribute: attribute " + std::to_string(attribute) + " is not emulated");
  }
}
}
