#pragma once
#include <cstddef>

namespace cann {
int allocate(void** out, size_t bytes);
int release(void* data);
void memory_info(int device, size_t* free, size_t* total);
}  // namespace cann
