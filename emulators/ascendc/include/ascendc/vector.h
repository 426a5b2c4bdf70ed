// Elementwise instructions on the first `count` elements, in the vector unit. float and half; half computes in float
// here and rounds each result once, as the hardware does. There is no arithmetic on bfloat16_t: Cast to float first.
#pragma once

#include <cmath>
#include <string>

#include "tensor.h"

namespace ascendc {

template <typename T> constexpr bool computes() { return std::is_same_v<T, float> || std::is_same_v<T, half>; }

// One operand of one instruction: checked, then a pointer.
template <typename T> T* input(const AscendC::LocalTensor<T>& t, uint32_t count, const char* operand) {
  Core& core = Core::now();
  const uint32_t at = t.range(0, count * sizeof(T), operand);
  core.aligned(at, kBlock, operand);
  core.read(at, count * sizeof(T), operand);
  return reinterpret_cast<T*>(core.ub(at));
}
template <typename T> T* output(const AscendC::LocalTensor<T>& t, uint32_t count, const char* operand) {
  Core& core = Core::now();
  const uint32_t at = t.range(0, count * sizeof(T), operand);
  core.aligned(at, kBlock, operand);
  core.write(at, count * sizeof(T), operand);
  return reinterpret_cast<T*>(core.ub(at));
}

template <typename T> void begin(const char* name, int64_t count) {
  Core& core = Core::now();
  core.issue(PIPE_V, name);
  if (std::is_same_v<T, bfloat16_t>) core.fail("vector arithmetic on bfloat16", "Cast to float, compute, Cast back");
  if (!computes<T>()) core.fail("vector arithmetic on a type that the core does not compute with", name);
  if (count < 0) core.fail("a negative count", std::to_string(count));
}

// Source and destination are the same memory or have none in common.
template <typename T, typename U> void apart(const T* dst, uint32_t dst_bytes, const U* src, uint32_t src_bytes) {
  const auto d = reinterpret_cast<uintptr_t>(dst), s = reinterpret_cast<uintptr_t>(src);
  if (d == s && dst_bytes == src_bytes) return;
  if (d < s + src_bytes && s < d + dst_bytes)
    Core::now().fail("source and destination overlap in part", "they must be the same or disjoint");
}

template <typename T, typename F>
void unary(const char* name, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, int32_t count,
           F f) {
  begin<T>(name, count);
  if constexpr (computes<T>()) {
    if (!count) return;
    const T* a = input(src, count, "source");
    T* y = output(dst, count, "destination");
    apart(y, count * sizeof(T), a, count * sizeof(T));
    for (int32_t i = 0; i < count; ++i) y[i] = static_cast<T>(f(static_cast<float>(a[i])));
  }
}
template <typename T, typename F>
void binary(const char* name, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& left,
            const AscendC::LocalTensor<T>& right, int32_t count, F f) {
  begin<T>(name, count);
  if constexpr (computes<T>()) {
    if (!count) return;
    const T *a = input(left, count, "first source"), *b = input(right, count, "second source");
    T* y = output(dst, count, "destination");
    apart(y, count * sizeof(T), a, count * sizeof(T));
    apart(y, count * sizeof(T), b, count * sizeof(T));
    for (int32_t i = 0; i < count; ++i) y[i] = static_cast<T>(f(static_cast<float>(a[i]), static_cast<float>(b[i])));
  }
}

}  // namespace ascendc

namespace AscendC {

#define ASCENDC_BINARY(NAME, RESULT)                                                                   \
  template <typename T>                                                                                \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& left, const LocalTensor<T>& right, \
                   const int32_t& count) {                                                             \
    ascendc::binary(#NAME, dst, left, right, count, [](float a, float b) { return RESULT; });          \
  }
#define ASCENDC_SCALAR(NAME, RESULT)                                                                              \
  template <typename T>                                                                                           \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, const int32_t& count) { \
    const float b = static_cast<float>(scalar);                                                                   \
    ascendc::unary(#NAME, dst, src, count, [b](float a) { return RESULT; });                                      \
  }
#define ASCENDC_UNARY(NAME, RESULT)                                                                                    \
  template <typename T> inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) { \
    ascendc::unary(#NAME, dst, src, count, [](float a) { return RESULT; });                                            \
  }

ASCENDC_BINARY(Add, a + b)
ASCENDC_BINARY(Sub, a - b)
ASCENDC_BINARY(Mul, a* b)
ASCENDC_BINARY(Div, a / b)
ASCENDC_BINARY(Max, b > a ? b : a)
ASCENDC_BINARY(Min, b < a ? b : a)
ASCENDC_SCALAR(Muls, a* b)
ASCENDC_SCALAR(Maxs, b > a ? b : a)
ASCENDC_SCALAR(Mins, b < a ? b : a)
ASCENDC_UNARY(Exp, std::exp(a))
ASCENDC_UNARY(Ln, std::log(a))
ASCENDC_UNARY(Sqrt, std::sqrt(a))
ASCENDC_UNARY(Abs, std::fabs(a))

// The scalar sum is there for int32_t too, exactly.
template <typename T>
inline void Adds(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, const int32_t& count) {
  if constexpr (std::is_same_v<T, int32_t>) {
    ascendc::Core::now().issue(PIPE_V, "Adds");
    if (count <= 0) return;
    const int32_t* a = ascendc::input(src, count, "source");
    int32_t* y = ascendc::output(dst, count, "destination");
    ascendc::apart(y, count * sizeof(T), a, count * sizeof(T));
    for (int32_t i = 0; i < count; ++i) y[i] = a[i] + scalar;
  } else {
    const float b = static_cast<float>(scalar);
    ascendc::unary("Adds", dst, src, count, [b](float a) { return a + b; });
  }
}

#undef ASCENDC_BINARY
#undef ASCENDC_SCALAR
#undef ASCENDC_UNARY

// Steps of the form that repeats: blocks of 32 bytes within a repeat, and from a repeat to the next.
struct BinaryRepeatParams {
  BinaryRepeatParams() = default;
  BinaryRepeatParams(uint8_t dst_block, uint8_t left_block, uint8_t right_block, uint8_t dst_repeat,
                     uint8_t left_repeat, uint8_t right_repeat)
      : dstBlkStride(dst_block),
        src0BlkStride(left_block),
        src1BlkStride(right_block),
        dstRepStride(dst_repeat),
        src0RepStride(left_repeat),
        src1RepStride(right_repeat) {}
  uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1, dstRepStride = 8, src0RepStride = 8,
          src1RepStride = 8;
};

// The first `mask` of each 64 lanes, `repeats` times; only blocks that lie side by side within a repeat. The parameter
// is wider than the API's uint8_t, so that a count which would wrap there is found here.
template <typename T>
inline void Mul(const LocalTensor<T>& dst, const LocalTensor<T>& left, const LocalTensor<T>& right, uint64_t mask,
                const int64_t repeats, const BinaryRepeatParams& steps) {
  static_assert(std::is_same_v<T, float>, "only float is emulated");
  ascendc::begin<T>("Mul", 0);
  auto& core = ascendc::Core::now();
  if (mask < 1 || mask > 64) core.fail("a mask outside of 1 to 64 lanes", std::to_string(mask));
  if (repeats < 0 || repeats > 255) core.fail("more than 255 repeats", std::to_string(repeats));
  if (steps.dstBlkStride != 1 || steps.src0BlkStride != 1 || steps.src1BlkStride != 1)
    core.fail("block strides other than 1 are not emulated", "Mul");
  const uint32_t lanes = ascendc::kBlock / sizeof(T), count = static_cast<uint32_t>(mask);
  for (uint32_t r = 0; r < repeats; ++r) {
    const T* a = ascendc::input(left[r * steps.src0RepStride * lanes], count, "first source");
    const T* b = ascendc::input(right[r * steps.src1RepStride * lanes], count, "second source");
    T* y = ascendc::output(dst[r * steps.dstRepStride * lanes], count, "destination");
    ascendc::apart(y, count * sizeof(T), a, count * sizeof(T));
    ascendc::apart(y, count * sizeof(T), b, count * sizeof(T));
    for (uint32_t i = 0; i < count; ++i) y[i] = a[i] * b[i];
  }
}

template <typename T> inline void Duplicate(const LocalTensor<T>& dst, const T& value, const int32_t& count) {
  auto& core = ascendc::Core::now();
  core.issue(PIPE_V, "Duplicate");
  if (count <= 0) return;
  T* y = ascendc::output(dst, count, "destination");
  for (int32_t i = 0; i < count; ++i) y[i] = value;
}

// Rows of A2's table of conversions that kernels here need.
template <typename T, typename U>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& mode, const uint32_t count) {
  auto& core = ascendc::Core::now();
  core.issue(PIPE_V, "Cast");
  constexpr bool widens = std::is_same_v<T, float> && (std::is_same_v<U, half> || std::is_same_v<U, bfloat16_t>);
  constexpr bool narrows = std::is_same_v<U, float> && (std::is_same_v<T, half> || std::is_same_v<T, bfloat16_t>);
  const bool exact = widens && mode == RoundMode::CAST_NONE;
  const bool nearest =
      narrows && (mode == RoundMode::CAST_RINT || (std::is_same_v<T, half> && mode == RoundMode::CAST_NONE));
  if (!exact && !nearest)
    core.fail("Cast between types, or with a rounding, that A2 does not have or that is not emulated", "Cast");
  if (!count) return;
  if constexpr (widens || narrows) {
    const U* a = ascendc::input(src, count, "source");
    T* y = ascendc::output(dst, count, "destination");
    ascendc::apart(y, count * sizeof(T), a, count * sizeof(U));
    for (uint32_t i = 0; i < count; ++i) y[i] = static_cast<T>(static_cast<float>(a[i]));
  }
}

// dst[i] = src at byte base + offsets[i].
template <typename T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offsets,
                   const uint32_t base, const uint32_t count) {
  auto& core = ascendc::Core::now();
  core.issue(PIPE_V, "Gather");
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Gather takes elements of 16 or 32 bits");
  if (!count) return;
  const uint32_t* at = ascendc::input(offsets, count, "offsets");
  core.aligned(src.range(0, 0, "source"), ascendc::kBlock, "source");
  T* y = ascendc::output(dst, count, "destination");
  for (uint32_t i = 0; i < count; ++i) {
    if ((base + at[i]) % sizeof(T))
      core.fail("Gather offset that is no multiple of the element size", std::to_string(at[i]));
    const uint32_t from = src.range(base + at[i], sizeof(T), "source");
    core.read(from, sizeof(T), "source");
    std::memcpy(&y[i], core.ub(from), sizeof(T));
  }
}

}  // namespace AscendC
