// What the environment and a communicator's configuration set.
#pragma once

#include <string>

#include "hccl/hccl.h"

namespace cann::hccl {

struct Settings {
  double connect = 120, exec = 1836;  // seconds; exec 0: never
  std::string name;
};

// Reads HCCL_CONNECT_TIMEOUT (120 to 7200) and HCCL_EXEC_TIMEOUT (0 or more), then `config`, which may be null. Throws
// Failure for what is out of its documented range.
Settings read_settings(const HcclCommConfig* config);

}  // namespace cann::hccl
