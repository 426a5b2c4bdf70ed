// Order between the units of one core.
#pragma once

#include "machine.h"

namespace ascendc {

struct Way {
  pipe_t from, to;
};
constexpr Way way(AscendC::HardEvent event) {
  using E = AscendC::HardEvent;
  switch (event) {
    case E::MTE2_V:
      return {PIPE_MTE2, PIPE_V};
    case E::V_MTE2:
      return {PIPE_V, PIPE_MTE2};
    case E::MTE3_V:
      return {PIPE_MTE3, PIPE_V};
    case E::V_MTE3:
      return {PIPE_V, PIPE_MTE3};
    case E::V_S:
      return {PIPE_V, PIPE_S};
    case E::S_V:
      return {PIPE_S, PIPE_V};
    case E::S_MTE2:
      return {PIPE_S, PIPE_MTE2};
    case E::MTE2_S:
      return {PIPE_MTE2, PIPE_S};
    case E::S_MTE3:
      return {PIPE_S, PIPE_MTE3};
    case E::MTE3_S:
      return {PIPE_MTE3, PIPE_S};
    case E::MTE2_MTE3:
      return {PIPE_MTE2, PIPE_MTE3};
    case E::MTE3_MTE2:
      return {PIPE_MTE3, PIPE_MTE2};
    default:
      return {PIPE_S, PIPE_S};
  }
}

}  // namespace ascendc

namespace AscendC {

template <HardEvent event> inline void SetFlag(int32_t id) {
  constexpr ascendc::Way w = ascendc::way(event);
  ascendc::Core::now().set_flag(w.from, w.to, id);
}
template <HardEvent event> inline void WaitFlag(int32_t id) {
  constexpr ascendc::Way w = ascendc::way(event);
  ascendc::Core::now().wait_flag(w.from, w.to, id);
}
template <pipe_t pipe> inline void PipeBarrier() {
  static_assert(pipe != PIPE_S, "the scalar unit keeps its own order");
  ascendc::Core::now().barrier(pipe);
}
inline int64_t GetBlockIdx() { return ascendc::Core::now().block; }
inline int64_t GetBlockNum() { return ascendc::Core::now().blocks; }

}  // namespace AscendC
