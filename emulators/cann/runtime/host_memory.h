#pragma once
#include <cstddef>

namespace cann {
bool host_on_device(const void* data, size_t bytes);  // host memory registered so that the device may use its address
bool host_pinned(const void* data);                   // by aclrtMallocHost, or registered
}  // namespace cann
