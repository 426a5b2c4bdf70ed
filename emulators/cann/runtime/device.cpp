#include "device.h"

#include <atomic>

#include "process.h"
#include "settings.h"
#include "stream.h"

namespace cann {
namespace {

thread_local int device_of_thread = -1;
std::atomic<int> default_device{-1};
int contexts[kMaxDevices];  // a context is the address of its device's slot
std::atomic<bool> active[kMaxDevices], lost[kMaxDevices], peers[kMaxDevices][kMaxDevices];

std::string text(int device) { return std::to_string(device) + " of " + std::to_string(device_count()); }

bool is_device(int device) { return device >= 0 && device < device_count(); }

}  // namespace

int device_count() { return int(settings().devices.size()); }
int current_device() { return device_of_thread >= 0 ? device_of_thread : default_device.load(); }
void set_thread_device(int device) { device_of_thread = device; }
void set_default_device(int device) {
  if (is_device(device)) default_device = device;
}
bool may_access(int device, int peer) { return device == peer || peers[device][peer]; }
void lose_device(int device) { lost[device] = true; }

int check_device(const char* call, int device) {
  if (forked()) return fail(ACL_ERROR_RT_CONTEXT_NULL, std::string(call) + ": the process was forked from one that used the device; start it with spawn");
  if (device == -1) return fail(ACL_ERROR_RT_CONTEXT_NULL, std::string(call) + ": no device is set on this thread");
  if (!is_device(device)) return fail(ACL_ERROR_RT_INVALID_DEVICEID, std::string(call) + ": device " + text(device));
  if (lost[device]) return fail(ACL_ERROR_RT_LOST_HEARTBEAT, std::string(call) + ": device " + std::to_string(device) + " was lost (injected fault)");
  return ACL_SUCCESS;
}

}  // namespace cann

using cann::check_device;
using cann::contexts;
using cann::current_device;
using cann::device_of_thread;
using cann::fail;

extern "C" {

CANN_EXPORT aclError aclrtGetDeviceCount(uint32_t* count) {
  *count = uint32_t(cann::device_count());
  return *count ? int(ACL_SUCCESS) : fail(ACL_ERROR_RT_NO_DEVICE, "aclrtGetDeviceCount: ASCEND_RT_VISIBLE_DEVICES leaves none");
}

CANN_EXPORT aclError aclrtSetDevice(int32_t device) {
  if (int code = check_device("aclrtSetDevice", device < 0 ? -2 : device)) return code;
  device_of_thread = device;
  cann::active[device] = true;
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtGetDevice(int32_t* device) {
  if (current_device() < 0) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtGetDevice: no device is set on this thread");
  *device = current_device();
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtResetDevice(int32_t device) {
  if (int code = check_device("aclrtResetDevice", device)) return code;
  const int code = cann::synchronize_device(device);
  cann::active[device] = false;
  if (device_of_thread == device) device_of_thread = -1;
  return code;
}
CANN_EXPORT aclError aclrtResetDeviceForce(int32_t device) {
  if (int code = check_device("aclrtResetDeviceForce", device)) return code;
  cann::abandon_device(device, "the device was reset");
  return aclrtResetDevice(device);
}
CANN_EXPORT aclError aclrtDeviceTaskAbort(int32_t device, uint32_t) {
  if (int code = check_device("aclrtDeviceTaskAbort", device)) return code;
  cann::abandon_device(device, "the device's tasks were aborted");
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtGetCurrentContext(aclrtContext* context) {
  if (current_device() < 0) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtGetCurrentContext: no device is set on this thread");
  *context = &contexts[current_device()];
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtSetCurrentContext(aclrtContext context) {
  const auto index = static_cast<int*>(context) - contexts;
  if (!context || index < 0 || index >= cann::device_count()) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetCurrentContext: not a context");
  return aclrtSetDevice(int32_t(index));
}
CANN_EXPORT aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t* flags, int32_t* is_active) {
  if (int code = check_device("aclrtGetPrimaryCtxState", device)) return code;
  if (flags) *flags = 0;
  *is_active = cann::active[device];
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout_ms) {
  if (int code = check_device("aclrtSynchronizeDevice", current_device())) return code;
  return cann::synchronize_device(current_device(), timeout_ms > 0 ? timeout_ms : -1);
}
CANN_EXPORT aclError aclrtSynchronizeDevice() { return aclrtSynchronizeDeviceWithTimeout(-1); }

CANN_EXPORT aclError aclrtDeviceCanAccessPeer(int32_t* can, int32_t device, int32_t peer) {
  if (int code = check_device("aclrtDeviceCanAccessPeer", device)) return code;
  if (int code = check_device("aclrtDeviceCanAccessPeer", peer)) return code;
  *can = device != peer;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags) {
  if (int code = check_device("aclrtDeviceEnablePeerAccess", current_device())) return code;
  if (int code = check_device("aclrtDeviceEnablePeerAccess", peer)) return code;
  if (flags || peer == current_device()) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtDeviceEnablePeerAccess: flags, or the device itself");
  cann::peers[current_device()][peer] = true;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtDeviceDisablePeerAccess(int32_t peer) {
  if (int code = check_device("aclrtDeviceDisablePeerAccess", current_device())) return code;
  if (int code = check_device("aclrtDeviceDisablePeerAccess", peer)) return code;
  cann::peers[current_device()][peer] = false;
  return ACL_SUCCESS;
}

// Only a lost device is an error that lasts; what a stream's task did is told by the stream.
CANN_EXPORT aclError aclrtPeekAtLastError(aclrtLastErrLevel) {
  const int device = current_device();
  return device >= 0 && cann::lost[device] ? ACL_ERROR_RT_LOST_HEARTBEAT : ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtGetLastError(aclrtLastErrLevel level) { return aclrtPeekAtLastError(level); }
}
