// Error texts of a thread, and the start and end of the library.
#include "errors.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>

#include "device.h"
#include "emulator.h"

namespace cann {
namespace {
thread_local std::string noted;     // since the last aclGetRecentErrMsg
thread_local std::string returned;  // what that call's pointer refers to
std::atomic<bool> initialised{false};
std::mutex missing_lock;
std::string missing;  // the aclnn operator that was last looked for and not found, by any thread
}  // namespace

void missing_operator(const std::string& name) {
  std::lock_guard<std::mutex> hold(missing_lock);
  missing = name;
}

std::string take_missing_operator() {
  std::lock_guard<std::mutex> hold(missing_lock);
  std::string name;
  name.swap(missing);
  return name;
}

int fail(int code, const std::string& message) {
  noted = message;
  return code;
}

std::string take_message() {
  std::string message;
  message.swap(noted);
  return message;
}

}  // namespace cann

extern "C" {

// As documented: the text is the thread's, and asking for it clears it.
CANN_EXPORT const char* aclGetRecentErrMsg() {
  const std::string message = cann::take_message();
  cann::returned = message.empty() ? "" : "emulated CANN: " + message;
  return cann::returned.c_str();
}

CANN_EXPORT aclError aclInit(const char* path) {
  std::string text;
  if (path) {
    std::ifstream file(path);
    if (!file) return cann::fail(ACL_ERROR_INVALID_FILE, std::string("aclInit: cannot read ") + path);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  if (cann::initialised.exchange(true)) return cann::fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit: was called before");
  // {"defaultDevice": {"default_device": "0"}}: threads that set no device use this one. torch_npu looks for its file
  // beside torch and finds none where it lies in a folder of its own: no file stands for that one.
  if (!path) cann::set_default_device(0);
  const auto key = text.find("\"default_device\"");
  const auto digit = key == std::string::npos ? key : text.find_first_of("0123456789", key);
  if (digit != std::string::npos) cann::set_default_device(text[digit] - '0');
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclFinalize() {
  if (!cann::initialised.exchange(false)) return cann::fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize: not initialised");
  return ACL_SUCCESS;
}

// Of what a program logs, one thing is kept: that torch_npu did not find an aclnn operator and calls an older one instead.
CANN_EXPORT void aclAppLog(aclLogLevel, const char*, const char*, uint32_t, const char* format, ...) {
  if (!format || !std::strstr(format, "GetWorkspaceSize not in")) return;
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const char* name = std::strstr(text, "aclnn");
  if (name) cann::missing_operator(std::string(name, std::strcspn(name, " ")));
}
}
