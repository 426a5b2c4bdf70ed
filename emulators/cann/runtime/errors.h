#pragma once
#include <string>

namespace cann {
std::string take_message();  // what fail() noted last on this thread, which forgets it
}  // namespace cann
