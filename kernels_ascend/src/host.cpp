#include "host.h"

#ifndef HETERO_SOURCE_HASH
#define HETERO_SOURCE_HASH ""
#endif

namespace hetero {
namespace {
thread_local std::string error;
}

int refuse(const std::string& why) {
  error = why;
  return HETERO_BAD_ARGUMENT;
}

#ifdef HETERO_ASCENDC_EMULATED
int launched(int code) {
  if (code) error = ascendc::last_error();
  return code;
}
#endif

}  // namespace hetero

extern "C" const char* hetero_ascend_error(void) { return hetero::error.c_str(); }
extern "C" const char* hetero_ascend_source_hash(void) { return HETERO_SOURCE_HASH; }
