// A profile can be started and stopped and has no records: aclprof*, and mspti* for torch.profiler (libmspti.so, whose
// header the wheel lacks; 0 is success, 3 says that there is no further record).
#include <mutex>
#include <vector>

#include "acl/acl_prof.h"
#include "emulator.h"

namespace {
std::mutex lock;
std::vector<uint64_t>& correlations() {
  static auto* all = new std::vector<uint64_t>;
  return *all;
}
}  // namespace

struct aclprofConfig {};
struct aclprofStepInfo {};

extern "C" {

CANN_EXPORT aclError aclprofInit(const char* path, size_t) {
  return path ? int(ACL_SUCCESS) : cann::fail(ACL_ERROR_INVALID_PARAM, "aclprofInit: no path");
}
CANN_EXPORT aclError aclprofFinalize() { return ACL_SUCCESS; }
CANN_EXPORT aclprofConfig* aclprofCreateConfig(uint32_t*, uint32_t, aclprofAicoreMetrics, const aclprofAicoreEvents*, uint64_t) {
  return new aclprofConfig;
}
CANN_EXPORT aclError aclprofDestroyConfig(const aclprofConfig* config) {
  delete config;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclprofStart(const aclprofConfig*) { return ACL_SUCCESS; }
CANN_EXPORT aclError aclprofStop(const aclprofConfig*) { return ACL_SUCCESS; }
CANN_EXPORT aclprofStepInfo* aclprofCreateStepInfo() { return new aclprofStepInfo; }
CANN_EXPORT void aclprofDestroyStepInfo(aclprofStepInfo* step) { delete step; }
CANN_EXPORT aclError aclprofGetStepTimestamp(aclprofStepInfo*, aclprofStepTag, aclrtStream) { return ACL_SUCCESS; }

CANN_EXPORT int msptiSubscribe(void** subscriber, void*, void*) {
  static int only;
  *subscriber = &only;
  return 0;
}
CANN_EXPORT int msptiUnsubscribe(void*) { return 0; }
CANN_EXPORT int msptiActivityRegisterCallbacks(void*, void*) { return 0; }
CANN_EXPORT bool msptiActivityIsEnabled(int) { return false; }
CANN_EXPORT int msptiActivityEnable(int) { return 0; }
CANN_EXPORT int msptiActivityDisable(int) { return 0; }
CANN_EXPORT int msptiActivityFlushAll(uint32_t) { return 0; }
CANN_EXPORT int msptiActivityGetNextRecord(uint8_t*, size_t, void**) { return 3; }
CANN_EXPORT int msptiActivityPushExternalCorrelationId(int, uint64_t id) {
  std::lock_guard<std::mutex> hold(lock);
  correlations().push_back(id);
  return 0;
}
CANN_EXPORT int msptiActivityPopExternalCorrelationId(int, uint64_t* last) {
  std::lock_guard<std::mutex> hold(lock);
  if (correlations().empty()) return 5;
  if (last) *last = correlations().back();
  correlations().pop_back();
  return 0;
}
}
