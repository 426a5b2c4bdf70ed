// What a device says of itself.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "device.h"
#include "memory.h"
#include "settings.h"

using cann::check_device;
using cann::fail;
using cann::settings;
using cann::soc;

extern "C" {

CANN_EXPORT const char* aclrtGetSocName() { return soc().name; }

CANN_EXPORT aclError aclGetDeviceCapability(uint32_t device, aclDeviceInfo info, int64_t* value) {
  if (int code = check_device("aclGetDeviceCapability", int(device))) return code;
  switch (info) {
    case ACL_DEVICE_INFO_AI_CORE_NUM: *value = soc().cubes; return ACL_SUCCESS;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM: *value = soc().vectors; return ACL_SUCCESS;
    case ACL_DEVICE_INFO_L2_SIZE: *value = int64_t(soc().l2_mib) << 20; return ACL_SUCCESS;
    default: return fail(ACL_ERROR_INVALID_PARAM, "aclGetDeviceCapability: no such information: " + std::to_string(info));
  }
}

CANN_EXPORT aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attribute, int64_t* value) {
  if (int code = check_device("aclrtGetDeviceInfo", int(device))) return code;
  switch (attribute) {
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM: *value = soc().cubes; return ACL_SUCCESS;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM: *value = soc().vectors; return ACL_SUCCESS;
    case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE: *value = 192 << 10; return ACL_SUCCESS;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE: *value = int64_t(settings().memory); return ACL_SUCCESS;
    case ACL_DEV_ATTR_L2_CACHE_SIZE: *value = int64_t(soc().l2_mib) << 20; return ACL_SUCCESS;
    case ACL_DEV_ATTR_PHY_CHIP_ID: *value = settings().devices[device]; return ACL_SUCCESS;
    case ACL_DEV_ATTR_SMP_ID:
    case ACL_DEV_ATTR_IS_VIRTUAL: *value = 0; return ACL_SUCCESS;
    default: return fail(ACL_ERROR_API_NOT_SUPPORT, "aclrtGetDeviceInfo: attribute " + std::to_string(attribute) + " is not emulated");
  }
}

CANN_EXPORT aclError aclrtDeviceGetUuid(int32_t device, aclrtUuid* uuid) {
  if (int code = check_device("aclrtDeviceGetUuid", device)) return code;
  std::memset(uuid->bytes, 0, sizeof uuid->bytes);
  std::memcpy(uuid->bytes, "hetero emulated", 15);
  uuid->bytes[15] = char(settings().devices[size_t(device)]);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtGetLogicDevIdByUserDevId(const int32_t device, int32_t* const logical) {
  if (int code = check_device("aclrtGetLogicDevIdByUserDevId", device)) return code;
  *logical = settings().devices[size_t(device)];
  return ACL_SUCCESS;
}

// Nothing here keeps an engine busy: only how full the memory is can be told.
CANN_EXPORT aclError aclrtGetDeviceUtilizationRate(int32_t device, aclrtUtilizationInfo* info) {
  if (int code = check_device("aclrtGetDeviceUtilizationRate", device)) return code;
  size_t free, total;
  cann::memory().info(device, &free, &total);
  info->cubeUtilization = info->vectorUtilization = info->aicpuUtilization = 0;
  info->memoryUtilization = int32_t((total - free) * 100 / total);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtGetMemUsageInfo(int32_t device, aclrtMemUsageInfo* info, size_t room, size_t* count) {
  if (int code = check_device("aclrtGetMemUsageInfo", int(device))) return code;
  if (!room) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtGetMemUsageInfo: no room");
  size_t free, total;
  cann::memory().info(int(device), &free, &total);
  std::memset(info, 0, sizeof *info);
  std::snprintf(info->name, sizeof info->name, "process");
  info->curMemSize = info->memPeakSize = total - free;
  *count = 1;
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtQueryDeviceStatus(int32_t device, aclrtDeviceStatus* status) {
  *status = check_device("aclrtQueryDeviceStatus", device) ? ACL_RT_DEVICE_STATUS_ABNORMAL : ACL_RT_DEVICE_STATUS_NORMAL;
  return ACL_SUCCESS;
}

// Emulated memory has no uncorrectable errors.
CANN_EXPORT aclError aclrtGetMemUceInfo(int32_t device, aclrtMemUceInfo*, size_t, size_t* count) {
  *count = 0;
  return check_device("aclrtGetMemUceInfo", device);
}
CANN_EXPORT aclError aclrtMemUceRepair(int32_t device, aclrtMemUceInfo*, size_t) { return check_device("aclrtMemUceRepair", device); }

CANN_EXPORT aclError aclrtGetRunMode(aclrtRunMode* mode) {
  *mode = ACL_HOST;
  return ACL_SUCCESS;
}
}
