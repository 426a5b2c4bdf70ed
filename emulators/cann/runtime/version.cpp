// Which CANN this is an emulation of: the release that torch_npu 2.13 asks for.
#include <cstdio>
#include <cstring>

#include "device.h"

namespace {

constexpr char kCann[] = "9.0.0", kDriver[] = "25.5.0";

}  // namespace

extern "C" {

CANN_EXPORT aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  if (name > ACL_PKG_NAME_DRIVER || !version) return cann::fail(ACL_ERROR_INVALID_PARAM, "aclsysGetCANNVersion: no such package");
  const char* text = name == ACL_PKG_NAME_DRIVER ? kDriver : kCann;
  int major, minor, release;
  std::sscanf(text, "%d.%d.%d", &major, &minor, &release);
  std::memset(version, 0, sizeof *version);
  std::snprintf(version->version, sizeof version->version, "%s", text);
  std::snprintf(version->majorVersion, sizeof version->majorVersion, "%d", major);
  std::snprintf(version->minorVersion, sizeof version->minorVersion, "%d", minor);
  std::snprintf(version->releaseVersion, sizeof version->releaseVersion, "%d", release);
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclsysGetVersionStr(char* package, char* version) {
  if (!package || !version) return cann::fail(ACL_ERROR_INVALID_PARAM, "aclsysGetVersionStr: null");
  std::snprintf(version, ACL_PKG_VERSION_MAX_SIZE, "%s", kCann);
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
  *major = ACL_MAJOR_VERSION;
  *minor = ACL_MINOR_VERSION;
  *patch = ACL_PATCH_VERSION;
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclGetCannAttributeList(const aclCannAttr** list, size_t* count) {
  static const aclCannAttr all[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16};
  *list = all;
  *count = cann::soc().bf16 ? 2 : 0;
  return ACL_SUCCESS;
}
// Infinities and bfloat16 came with the same generation.
CANN_EXPORT aclError aclGetCannAttribute(aclCannAttr attribute, int32_t* value) {
  switch (attribute) {
    case ACL_CANN_ATTR_INF_NAN:
    case ACL_CANN_ATTR_BF16: *value = cann::soc().bf16; return ACL_SUCCESS;
    case ACL_CANN_ATTR_JIT_COMPILE: *value = 0; return ACL_SUCCESS;
    default: return cann::fail(ACL_ERROR_INVALID_PARAM, "aclGetCannAttribute: no such attribute: " + std::to_string(attribute));
  }
}
}
