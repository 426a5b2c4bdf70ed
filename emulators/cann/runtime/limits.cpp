// How many cores a device, a stream or a thread's operators may use. Emulated operators use the host's; the numbers are
// kept, checked and given back, and custom kernels take their tiling from them.
#include <atomic>

#include "device.h"
#include "stream.h"

namespace cann {
namespace {

std::atomic<uint32_t> of_device[kMaxDevices][2];  // 0: all
thread_local uint32_t of_thread[2];               // 0: the device's

uint32_t all(aclrtDevResLimitType type) { return uint32_t(type == ACL_RT_DEV_RES_CUBE_CORE ? soc().cubes : soc().vectors); }

int check(const char* call, aclrtDevResLimitType type, uint32_t value) {
  if (type != ACL_RT_DEV_RES_CUBE_CORE && type != ACL_RT_DEV_RES_VECTOR_CORE)
    return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(call) + ": no such resource: " + std::to_string(type));
  if (!value || value > all(type))
    return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(call) + ": " + std::to_string(value) + " cores of " + std::to_string(all(type)));
  return ACL_SUCCESS;
}

uint32_t device_limit(int device, aclrtDevResLimitType type) {
  const uint32_t set = of_device[device][type];
  return set ? set : all(type);
}

}  // namespace
}  // namespace cann

using cann::check_device;
using cann::find_stream;

extern "C" {

CANN_EXPORT aclError aclrtSetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t value) {
  if (int code = check_device("aclrtSetDeviceResLimit", device)) return code;
  if (int code = cann::check("aclrtSetDeviceResLimit", type, value)) return code;
  cann::of_device[device][type] = value;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtGetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t* value) {
  if (int code = check_device("aclrtGetDeviceResLimit", device)) return code;
  if (int code = cann::check("aclrtGetDeviceResLimit", type, 1)) return code;
  *value = cann::device_limit(device, type);
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtResetDeviceResLimit(int32_t device) {
  if (int code = check_device("aclrtResetDeviceResLimit", device)) return code;
  cann::of_device[device][0] = cann::of_device[device][1] = 0;
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtSetStreamResLimit(aclrtStream handle, aclrtDevResLimitType type, uint32_t value) {
  if (int code = cann::check("aclrtSetStreamResLimit", type, value)) return code;
  int code;
  if (const auto stream = find_stream("aclrtSetStreamResLimit", handle, &code)) stream->limits[type] = value;
  return code;
}
CANN_EXPORT aclError aclrtGetStreamResLimit(aclrtStream handle, aclrtDevResLimitType type, uint32_t* value) {
  if (int code = cann::check("aclrtGetStreamResLimit", type, 1)) return code;
  int code;
  if (const auto stream = find_stream("aclrtGetStreamResLimit", handle, &code))
    *value = stream->limits[type] ? stream->limits[type] : cann::device_limit(stream->device, type);
  return code;
}
CANN_EXPORT aclError aclrtResetStreamResLimit(aclrtStream handle) {
  int code;
  if (const auto stream = find_stream("aclrtResetStreamResLimit", handle, &code)) stream->limits[0] = stream->limits[1] = 0;
  return code;
}

CANN_EXPORT aclError aclrtUseStreamResInCurrentThread(aclrtStream handle) {
  int code;
  if (const auto stream = find_stream("aclrtUseStreamResInCurrentThread", handle, &code))
    for (int type = 0; type < 2; ++type) cann::of_thread[type] = stream->limits[type];
  return code;
}
CANN_EXPORT aclError aclrtUnuseStreamResInCurrentThread(aclrtStream) {
  cann::of_thread[0] = cann::of_thread[1] = 0;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) {
  if (int code = check_device("aclrtGetResInCurrentThread", cann::current_device())) return code;
  if (int code = cann::check("aclrtGetResInCurrentThread", type, 1)) return code;
  *value = cann::of_thread[type] ? cann::of_thread[type] : cann::device_limit(cann::current_device(), type);
  return ACL_SUCCESS;
}
}
