// Graph capture (NPUGraph) is not emulated: no stream is ever captured, and beginning a capture says so.
#include "stream.h"

using cann::fail;

extern "C" {

CANN_EXPORT aclError aclmdlRICaptureGetInfo(aclrtStream handle, aclmdlRICaptureStatus* status, aclmdlRI* model) {
  int code;
  if (!cann::find_stream("aclmdlRICaptureGetInfo", handle, &code)) return code;
  *status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  if (model) *model = nullptr;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  thread_local aclmdlRICaptureMode current = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  std::swap(*mode, current);
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclmdlRICaptureBegin(aclrtStream, aclmdlRICaptureMode) {
  return fail(ACL_ERROR_API_NOT_SUPPORT, "aclmdlRICaptureBegin: capturing a graph (torch.npu.NPUGraph) is not emulated");
}
CANN_EXPORT aclError aclmdlRICaptureEnd(aclrtStream, aclmdlRI*) {
  return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "aclmdlRICaptureEnd: capturing a graph (torch.npu.NPUGraph) is not emulated");
}
CANN_EXPORT aclError aclmdlRIExecuteAsync(aclmdlRI, aclrtStream) {
  return fail(ACL_ERROR_API_NOT_SUPPORT, "aclmdlRIExecuteAsync: graphs (torch.npu.NPUGraph) are not emulated");
}
CANN_EXPORT aclError aclmdlRIDestroy(aclmdlRI) { return ACL_SUCCESS; }
}
