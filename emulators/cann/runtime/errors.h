#pragma once
#include <string>

namespace cann {
const std::string& recent_message();  // of this thread
}  // namespace cann
