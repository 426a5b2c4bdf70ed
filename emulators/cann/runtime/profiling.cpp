// aclprof*: a profile can be started and stopped and has no records; where its folder is, the profiler finds nothing.
#include "acl/acl_prof.h"
#include "emulator.h"

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
}
