// Copies and fills. What is said to be device memory has to be.
#include <cstring>

#include "device.h"

namespace cann {
namespace {

int check(const char* name, const void* dst, size_t room, const void* src, size_t bytes, aclrtMemcpyKind kind) {
  if (bytes > room) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(name) + ": " + std::to_string(bytes) + " bytes into room for " + std::to_string(room));
  const bool to_device = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
  const bool from_device = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
  if (to_device && !on_device(dst, bytes)) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(name) + ": the destination " + off_device(dst, bytes));
  if (from_device && !on_device(src, bytes)) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(name) + ": the source " + off_device(src, bytes));
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace cann

extern "C" {

CANN_EXPORT aclError aclrtMemcpy(void* dst, size_t room, const void* src, size_t bytes, aclrtMemcpyKind kind) {
  if (int code = cann::check("aclrtMemcpy", dst, room, src, bytes, kind)) return code;
  std::memcpy(dst, src, bytes);
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtMemcpyAsync(void* dst, size_t room, const void* src, size_t bytes, aclrtMemcpyKind kind, aclrtStream stream) {
  if (int code = cann::check("aclrtMemcpyAsync", dst, room, src, bytes, kind)) return code;
  return cann::enqueue(stream, "aclrtMemcpyAsync", [=] {
    if (int code = cann::check("aclrtMemcpyAsync", dst, room, src, bytes, kind)) return code;
    std::memcpy(dst, src, bytes);
    return 0;
  });
}
CANN_EXPORT aclError aclrtMemset(void* data, size_t room, int32_t value, size_t bytes) {
  if (bytes > room || !cann::on_device(data, bytes)) return cann::fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemset: the destination " + cann::off_device(data, bytes));
  std::memset(data, value, bytes);
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtMemsetAsync(void* data, size_t room, int32_t value, size_t bytes, aclrtStream stream) {
  return cann::enqueue(stream, "aclrtMemsetAsync", [=] { return aclrtMemset(data, room, value, bytes); });
}
}
