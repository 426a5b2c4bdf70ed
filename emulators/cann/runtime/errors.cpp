#include "errors.h"

#include "emulator.h"

namespace cann {
namespace {
thread_local std::string message_of_thread;
}

const std::string& recent_message() { return message_of_thread; }

int fail(int code, const std::string& message) {
  message_of_thread = "emulated CANN: " + message;
  return code;
}

bool fault(const char*, const char*) { return false; }

}  // namespace cann

extern "C" {
CANN_EXPORT const char* aclGetRecentErrMsg() { return cann::recent_message().c_str(); }
CANN_EXPORT aclError aclInit(const char*) { return ACL_SUCCESS; }
CANN_EXPORT aclError aclFinalize() { return ACL_SUCCESS; }
CANN_EXPORT void aclAppLog(aclLogLevel, const char*, const char*, uint32_t, const char*, ...) {}
}
