// Linked by torch_npu, or looked up, and not emulated: each says so by name. Their arguments do not matter, so none are
// declared and no header is included that would. Profiling calls are accepted and record nothing.
#include <cstdint>
#include <string>

namespace cann {
int fail(int code, const std::string& message);
}

namespace {
// ACL_ERROR_API_NOT_SUPPORT. Not ACL_ERROR_RT_FEATURE_NOT_SUPPORT, for which torch_npu prints a line and goes on as if
// the call had worked.
constexpr int kNotSupported = 200001;
}

#define REFUSED(NAME) \
  extern "C" __attribute__((visibility("default"))) int NAME() { return cann::fail(kNotSupported, #NAME " is not emulated"); }
#define SILENT(NAME) \
  extern "C" __attribute__((visibility("default"))) int64_t NAME() { return 0; }

REFUSED(aclmdlInitDump)
REFUSED(aclmdlSetDump)
REFUSED(aclmdlFinalizeDump)
REFUSED(aclmdlRICaptureTaskGrpBegin)
REFUSED(aclmdlRICaptureTaskGrpEnd)
REFUSED(aclmdlRICaptureTaskUpdateBegin)
REFUSED(aclmdlRICaptureTaskUpdateEnd)
REFUSED(aclmdlRIDebugPrint)
REFUSED(aclmdlRIDebugJsonPrint)
REFUSED(aclmdlRIAddCondTask)
REFUSED(aclmdlRICaptureToModelRIBegin)
REFUSED(aclmdlRICondHandleCreate)
REFUSED(aclmdlRICondHandleGetCondPtr)
REFUSED(aclmdlRIGetId)
REFUSED(aclrtBinaryGetFunction)
REFUSED(aclrtBinaryLoadFromData)
REFUSED(aclrtGetFunctionAddr)
REFUSED(rtDevBinaryRegister)
REFUSED(rtFunctionRegister)
REFUSED(rtGetC2cCtrlAddr)
REFUSED(rtKernelLaunch)

SILENT(MsprofGetHashId)
SILENT(MsprofRegisterCallback)
SILENT(MsprofReportAdditionalInfo)
SILENT(MsprofReportApi)
SILENT(MsprofReportCompactInfo)
SILENT(MsprofSysCycleTime)
