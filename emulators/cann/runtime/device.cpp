// Devices, contexts and what they say of themselves.
#include "device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace cann {
namespace {

thread_local int device_of_thread = -1;
int contexts[kMaxDevices];  // a context is the address of its device's slot

}  // namespace

int device_count() {
  static const int count = [] {
    const char* given = std::getenv("HETERO_CANN_DEVICES");
    return std::clamp(given ? std::atoi(given) : 2, 1, kMaxDevices);
  }();
  return count;
}

int current_device() { return device_of_thread; }

}  // namespace cann

using cann::contexts;
using cann::device_of_thread;
using cann::fail;

extern "C" {

CANN_EXPORT const char* aclrtGetSocName() {
  const char* given = std::getenv("HETERO_CANN_SOC");
  return given && *given ? given : "Ascend910B1";
}

CANN_EXPORT aclError aclrtGetDeviceCount(uint32_t* count) {
  *count = uint32_t(cann::device_count());
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtSetDevice(int32_t device) {
  if (device < 0 || device >= cann::device_count())
    return fail(ACL_ERROR_RT_INVALID_DEVICEID, "aclrtSetDevice: device " + std::to_string(device) + " of " + std::to_string(cann::device_count()));
  device_of_thread = device;
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtGetDevice(int32_t* device) {
  if (device_of_thread < 0) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtGetDevice: no device is set on this thread");
  *device = device_of_thread;
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtResetDevice(int32_t) { return ACL_SUCCESS; }
CANN_EXPORT aclError aclrtResetDeviceForce(int32_t) { return ACL_SUCCESS; }

CANN_EXPORT aclError aclrtGetCurrentContext(aclrtContext* context) {
  if (device_of_thread < 0) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtGetCurrentContext: no device is set on this thread");
  *context = &contexts[device_of_thread];
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtSetCurrentContext(aclrtContext context) {
  const auto index = static_cast<int*>(context) - contexts;
  if (index < 0 || index >= cann::device_count()) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetCurrentContext: not a context");
  device_of_thread = int(index);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtSynchronizeDevice() { return cann::synchronize_device(device_of_thread); }
CANN_EXPORT aclError aclrtSynchronizeDeviceWithTimeout(int32_t) { return cann::synchronize_device(device_of_thread); }

CANN_EXPORT aclError aclrtDeviceCanAccessPeer(int32_t* can, int32_t, int32_t) {
  *can = 1;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtDeviceEnablePeerAccess(int32_t, uint32_t) { return ACL_SUCCESS; }
CANN_EXPORT aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode) { return ACL_SUCCESS; }
CANN_EXPORT aclError aclrtGetSysParamOpt(aclSysParamOpt, int64_t* value) {
  *value = 0;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtSetSysParamOpt(aclSysParamOpt, int64_t) { return ACL_SUCCESS; }
CANN_EXPORT aclError aclrtCtxSetSysParamOpt(aclSysParamOpt, int64_t) { return ACL_SUCCESS; }
CANN_EXPORT aclError aclrtSetOpExecuteTimeOutV2(uint64_t wanted, uint64_t* actual) {
  *actual = wanted;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclGetDeviceCapability(uint32_t, aclDeviceInfo info, int64_t* value) {
  const char* soc = aclrtGetSocName();
  const bool small = std::strstr(soc, "B3") || std::strstr(soc, "B4") || std::strstr(soc, "_9362") || std::strstr(soc, "_9372");
  const int cubes = small ? 20 : 24;
  switch (info) {
    case ACL_DEVICE_INFO_AI_CORE_NUM: *value = cubes; break;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM: *value = 2 * cubes; break;
    case ACL_DEVICE_INFO_L2_SIZE: *value = int64_t(192) << 20; break;
    default: return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclGetDeviceCapability: not emulated: " + std::to_string(info));
  }
  return ACL_SUCCESS;
}
}
