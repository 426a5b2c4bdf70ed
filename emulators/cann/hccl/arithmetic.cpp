#include "arithmetic.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "hccl/hccl_types.h"

namespace cann::hccl {
namespace {

uint32_t bits(float value) {
  uint32_t out;
  std::memcpy(&out, &value, sizeof out);
  return out;
}
float number(uint32_t pattern) {
  float out;
  std::memcpy(&out, &pattern, sizeof out);
  return out;
}

struct Bfloat16 {
  using Wide = float;
  uint16_t pattern;
  float wide() const { return number(static_cast<uint32_t>(pattern) << 16); }
  static Bfloat16 of(float value) {
    const uint32_t b = bits(value);
    if ((b & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(b >> 16 | 0x40)};  // stays a NaN
    return {static_cast<uint16_t>((b + 0x7fff + (b >> 16 & 1)) >> 16)};
  }
};

struct Half {
  using Wide = float;
  uint16_t pattern;
  float wide() const {
    const uint32_t sign = static_cast<uint32_t>(pattern & 0x8000) << 16, exponent = pattern >> 10 & 31,
                   fraction = pattern & 1023;
    if (exponent == 31) return number(sign | 0x7f800000u | fraction << 13);
    if (exponent) return number(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = static_cast<float>(fraction) * 0x1p-24f;  // subnormal, or zero with its sign
    return number(sign | bits(small));
  }
  static Half of(float value) {
    const uint32_t b = bits(value), sign = b >> 16 & 0x8000, rest = b & 0x7fffffffu;
    if (rest > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00 | (rest >> 13 & 1023))};
    if (rest >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00)};  // 65520 and more round to infinity
    if (rest < 0x38800000u) {  // below the least normal number: in units of 2^-24; adding 0.5 rounds in hardware
      const uint32_t fraction = bits(number(rest) + 0.5f) - bits(0.5f);
      return {static_cast<uint16_t>(sign | fraction)};
    }
    const uint32_t even = rest >> 13 & 1;
    return {static_cast<uint16_t>(sign | ((rest - 0x38000000u + 0xfff + even) >> 13))};
  }
};

template <class T>
struct Plain {
  using Wide = T;
  T value;
  T wide() const { return value; }
  static Plain of(T wide) { return {wide}; }
};

template <class Wide>
Wide combine(Wide a, Wide b, uint32_t reduction) {
  if constexpr (std::is_integral_v<Wide>) {
    using Wrapping = std::make_unsigned_t<Wide>;
    using Work = std::conditional_t<(sizeof(Wide) < sizeof(unsigned)), unsigned, Wrapping>;  // no signed promotion
    if (reduction == HCCL_REDUCE_SUM) return static_cast<Wide>(static_cast<Work>(a) + static_cast<Work>(b));
    if (reduction == HCCL_REDUCE_PROD) return static_cast<Wide>(static_cast<Work>(a) * static_cast<Work>(b));
  } else {
    if (reduction == HCCL_REDUCE_SUM) return a + b;
    if (reduction == HCCL_REDUCE_PROD) return a * b;
    if (a != a) return a;
    if (b != b) return b;
  }
  return reduction == HCCL_REDUCE_MAX ? std::max(a, b) : std::min(a, b);
}

template <class T>
void reduce_as(void* out, const std::vector<const char*>& parts, size_t count, uint32_t reduction) {
  using Wide = typename T::Wide;
  constexpr size_t kBlock = 1024;  // elements that stay in the nearest cache
  Wide sums[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = std::min(kBlock, count - begin);
    for (size_t part = 0; part < parts.size(); ++part) {
      T in[kBlock];
      std::memcpy(in, parts[part] + begin * sizeof(T), n * sizeof(T));
      if (part == 0)
        for (size_t i = 0; i < n; ++i) sums[i] = in[i].wide();
      else
        for (size_t i = 0; i < n; ++i) sums[i] = combine<Wide>(sums[i], in[i].wide(), reduction);
    }
    T done[kBlock];
    for (size_t i = 0; i < n; ++i) done[i] = T::of(sums[i]);
    std::memcpy(static_cast<char*>(out) + begin * sizeof(T), done, n * sizeof(T));
  }
}

}  // namespace

void reduce(void* out, const std::vector<const char*>& parts, size_t count, uint32_t dtype, uint32_t reduction) {
  switch (dtype) {
    case HCCL_DATA_TYPE_INT8: return reduce_as<Plain<int8_t>>(out, parts, count, reduction);
    case HCCL_DATA_TYPE_INT16: return reduce_as<Plain<int16_t>>(out, parts, count, reduction);
    case HCCL_DATA_TYPE_INT32: return reduce_as<Plain<int32_t>>(out, parts, count, reduction);
    case HCCL_DATA_TYPE_INT64: return reduce_as<Plain<int64_t>>(out, parts, count, reduction);
    case HCCL_DATA_TYPE_UINT64: return reduce_as<Plain<uint64_t>>(out, parts, count, reduction);
    case HCCL_DATA_TYPE_FP16: return reduce_as<Half>(out, parts, count, reduction);
    case HCCL_DATA_TYPE_BFP16: return reduce_as<Bfloat16>(out, parts, count, reduction);
    case HCCL_DATA_TYPE_FP32: return reduce_as<Plain<float>>(out, parts, count, reduction);
    case HCCL_DATA_TYPE_FP64: return reduce_as<Plain<double>>(out, parts, count, reduction);
    default: return;  // rules.cpp lets no other come here
  }
}

}  // namespace cann::hccl
