// Options that are kept and given back: determinism and overflow modes change nothing here, where every operator is
// deterministic and keeps infinities; time limits do not end emulated work.
#include <atomic>
#include <map>
#include <mutex>

#include "device.h"

namespace {

std::mutex lock;
std::map<int, int64_t>& system_options() {
  static auto* all = new std::map<int, int64_t>;
  return *all;
}
std::atomic<int> saturation{ACL_RT_OVERFLOW_MODE_INFNAN};

aclError get(aclSysParamOpt option, int64_t* value) {
  std::lock_guard<std::mutex> hold(lock);
  auto found = system_options().find(option);
  *value = found == system_options().end() ? 0 : found->second;
  return ACL_SUCCESS;
}
aclError set(aclSysParamOpt option, int64_t value) {
  std::lock_guard<std::mutex> hold(lock);
  system_options()[option] = value;
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

CANN_EXPORT aclError aclrtGetSysParamOpt(aclSysParamOpt option, int64_t* value) { return get(option, value); }
CANN_EXPORT aclError aclrtCtxGetSysParamOpt(aclSysParamOpt option, int64_t* value) { return get(option, value); }
CANN_EXPORT aclError aclrtSetSysParamOpt(aclSysParamOpt option, int64_t value) { return set(option, value); }
CANN_EXPORT aclError aclrtCtxSetSysParamOpt(aclSysParamOpt option, int64_t value) { return set(option, value); }

CANN_EXPORT aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  if (mode == ACL_RT_OVERFLOW_MODE_SATURATION && cann::soc().bf16)
    return cann::fail(ACL_ERROR_API_NOT_SUPPORT, "aclrtSetDeviceSatMode: saturating arithmetic is not emulated");
  saturation = mode;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode) {
  *mode = aclrtFloatOverflowMode(saturation.load());
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtSetOpWaitTimeout(uint32_t) { return ACL_SUCCESS; }
CANN_EXPORT aclError aclrtSetOpExecuteTimeOut(uint32_t) { return ACL_SUCCESS; }
CANN_EXPORT aclError aclrtSetOpExecuteTimeOutV2(uint64_t wanted, uint64_t* actual) {
  *actual = wanted;
  return ACL_SUCCESS;
}
}
