// Reductions of what ranks contribute, element by element and in rank order: the same bits every time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cann::hccl {

// out[i] = parts[0][i] op parts[1][i] op ..., `count` elements. Halves and bfloat16 are reduced in float32 and rounded
// once, to the nearest even; integers wrap; a NaN on any rank gives NaN. `out` may be one of the parts.
void reduce(void* out, const std::vector<const char*>& parts, size_t count, uint32_t dtype, uint32_t reduction);

}  // namespace cann::hccl
