#pragma once
#include <string>

#include "emulator.h"

namespace cann {
const Soc* find_soc(const std::string& name);  // null for a name that is not known
std::string soc_names();                       // for messages
}  // namespace cann
