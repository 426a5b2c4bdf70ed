// The host side that all kernels share: refusing arguments, sizing tiles, starting a kernel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "hetero_ascend.h"

#ifdef HETERO_ASCENDC_EMULATED
#include "ascendc/launch.h"
// BUFFERS names the global memory that the kernel may touch: READS("x", x, bytes), WRITES("y", y, bytes).
#define HETERO_LAUNCH(KERNEL, BLOCKS, STREAM, BUFFERS, ...) \
  hetero::launched(ascendc::launch(#KERNEL, static_cast<int>(BLOCKS), STREAM, BUFFERS, [=] { KERNEL(__VA_ARGS__); }))
#define READS(NAME, DATA, BYTES) \
  ascendc::Buffer { NAME, DATA, static_cast<size_t>(BYTES), false }
#define WRITES(NAME, DATA, BYTES) \
  ascendc::Buffer { NAME, DATA, static_cast<size_t>(BYTES), true }
#define BUFFERS(...) \
  std::vector<ascendc::Buffer> { __VA_ARGS__ }
namespace hetero {
int launched(int code);  // keeps what the emulator said
}
#else
#define HETERO_LAUNCH(KERNEL, BLOCKS, STREAM, BUFFERS, ...) \
  (KERNEL<<<static_cast<uint32_t>(BLOCKS), 0, STREAM>>>(__VA_ARGS__), HETERO_OK)
#define BUFFERS(...) 0
#endif

namespace hetero {

int refuse(const std::string& why);  // remembers it for hetero_ascend_error()

inline int64_t size_of(int32_t dtype) { return dtype == HETERO_F32 ? 4 : 2; }
inline bool known(int32_t dtype) { return dtype == HETERO_F32 || dtype == HETERO_F16 || dtype == HETERO_BF16; }

// Elements of a matrix from its first to its last one.
inline int64_t extent(int64_t rows, int64_t width, int64_t stride) {
  return rows && width ? (rows - 1) * stride + width : 0;
}

inline uint8_t* bytes(const void* address) { return static_cast<uint8_t*>(const_cast<void*>(address)); }

// Unified buffer that RowValues (device.h) takes.
constexpr int64_t kRowBytes = 64 * 4;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Elements of a tile: as many as fit at `each` bytes beside what is `fixed`, in whole repeats of 64 lanes, at most
// `most`. 0 when not even 64 fit.
inline uint32_t tile_of(const hetero_ascend_place& place, int64_t fixed, int64_t each, int64_t most) {
  const int64_t fitting = (static_cast<int64_t>(place.unified_buffer) - fixed) / each / 64 * 64;
  return static_cast<uint32_t>(std::max<int64_t>(0, std::min(fitting, ceil_div(most, 64) * 64)));
}

// Of the kernels over rows of logits: three floats an element, two buffers in and two out, and what a row's results
// take.
inline uint32_t rows_tile(const hetero_ascend_place& place, int64_t size, int64_t vocab) {
  return tile_of(place, 32 + 3 * kRowBytes, 12 + 4 * size, std::min<int64_t>(vocab, 8192));
}

inline int check_place(const hetero_ascend_place& place) {
  if (place.cores < 1) return refuse("cores must be at least 1");
  return HETERO_OK;
}

}  // namespace hetero
