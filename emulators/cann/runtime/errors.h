#pragma once
#include <string>

namespace cann {
std::string take_message();  // what fail() noted last on this thread, which forgets it

// The aclnn operator that torch_npu's log said last it did not find, forgotten when it is taken; empty if it said none,
// or logs no warnings (ASCEND_GLOBAL_LOG_LEVEL=2, which `hetero emulate` sets).
void missing_operator(const std::string& name);
std::string take_missing_operator();
}  // namespace cann
