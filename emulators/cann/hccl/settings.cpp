#include "settings.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "segment.h"

namespace cann::hccl {
namespace {

long whole(const char* name, long least, long most, long otherwise) {
  const char* text = std::getenv(name);
  if (!text || !*text) return otherwise;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end || value < least || value > most)
    throw Failure{HCCL_E_PARA, std::string(name) + "=" + text + " is not a whole number from " + std::to_string(least) +
                                   " to " + std::to_string(most)};
  return value;
}

// The head of a configuration: which of its fields the caller's header knew.
struct Head {
  size_t size;
  uint32_t magic, version;
  uint64_t reserved;
};

}  // namespace

Settings read_settings(const HcclCommConfig* config) {
  Settings settings;
  settings.connect = static_cast<double>(whole("HCCL_CONNECT_TIMEOUT", 120, 7200, 120));
  settings.exec = static_cast<double>(whole("HCCL_EXEC_TIMEOUT", 0, INT_MAX, 1836));
  if (!config) return settings;
  Head head;
  std::memcpy(&head, config, sizeof head);
  if (head.magic != HCCL_COMM_CONFIG_MAGIC_WORD)
    throw Failure{HCCL_E_PARA, "the configuration was not set up by HcclCommConfigInit"};
  HcclCommConfig full;
  HcclCommConfigInit(&full);
  std::memcpy(&full, config, std::min(head.size, sizeof full));
  if (full.hcclBufferSize == 0) throw Failure{HCCL_E_PARA, "hcclBufferSize is 0 (MiB, 1 or more)"};
  if (full.hcclExecTimeOut != HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET) {
    if (full.hcclExecTimeOut < 0)
      throw Failure{HCCL_E_PARA, "hcclExecTimeOut " + std::to_string(full.hcclExecTimeOut) + " is negative"};
    settings.exec = full.hcclExecTimeOut;
  }
  settings.name.assign(full.hcclCommName, strnlen(full.hcclCommName, COMM_NAME_MAX_LENGTH - 1));
  return settings;
}

}  // namespace cann::hccl
