// Qualifiers, element types and enumerations. `half` and `bfloat16_t` are storage only: no arithmetic on the host
// either.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#define __aicore__
#define __global__
#define __vector__
#define __gm__
#define __ubuf__
#define GM_ADDR __gm__ uint8_t*

struct half {
  uint16_t bits;
  half() = default;
  explicit half(float value) {
    const _Float16 rounded = static_cast<_Float16>(value);  // to nearest, ties to even; too large is infinite
    std::memcpy(&bits, &rounded, sizeof(bits));
  }
  explicit operator float() const {
    _Float16 value;
    std::memcpy(&value, &bits, sizeof(value));
    return static_cast<float>(value);
  }
};

struct bfloat16_t {
  uint16_t bits;
  bfloat16_t() = default;
  explicit bfloat16_t(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, sizeof(wide));
    const bool nan = (wide & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? static_cast<uint16_t>((wide >> 16) | 0x40)
               : static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
  explicit operator float() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
  }
};

// The units that work side by side in one core; PIPE_S is the scalar unit, which also hands out the others' work.
enum pipe_t { PIPE_S, PIPE_V, PIPE_MTE2, PIPE_MTE3, PIPE_ALL };

using event_t = int32_t;
constexpr event_t EVENT_ID0 = 0, EVENT_ID1 = 1, EVENT_ID2 = 2, EVENT_ID3 = 3, EVENT_ID4 = 4, EVENT_ID5 = 5;

namespace AscendC {

enum class TPosition : uint8_t { GM, VECIN, VECOUT, VECCALC };
enum class RoundMode { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class HardEvent : uint8_t {
  MTE2_V,
  V_MTE2,
  MTE3_V,
  V_MTE3,
  V_S,
  S_V,
  S_MTE2,
  MTE2_S,
  S_MTE3,
  MTE3_S,
  MTE2_MTE3,
  MTE3_MTE2,
  MAX
};
using TEventID = int8_t;

template <typename T, typename U> struct IsSameType {
  static constexpr bool value = std::is_same<T, U>::value;
};

}  // namespace AscendC
