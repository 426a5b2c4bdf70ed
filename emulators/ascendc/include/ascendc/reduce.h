// Reductions over the first `count` elements to one, as A2 does them: within 256 bytes by a binary tree, those results
// one after the other (ReduceSum's documented order: long sums lose accuracy, so kernels should fold in halves first).
#pragma once

#include "vector.h"

namespace ascendc {

template <typename F> float tree(const float* x, int32_t count, float neutral, F f) {
  float lanes[64];
  for (int32_t i = 0; i < 64; ++i) lanes[i] = i < count ? x[i] : neutral;
  for (int32_t width = 32; width; width /= 2)
    for (int32_t i = 0; i < width; ++i) lanes[i] = f(lanes[2 * i], lanes[2 * i + 1]);
  return lanes[0];
}

template <typename F>
void reduce(const char* name, const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
            const AscendC::LocalTensor<float>& work, int32_t count, float neutral, bool needs_work, F f) {
  begin<float>(name, count);
  if (!count) return;
  const float* x = input(src, count, "source");
  if (needs_work) {  // a value and an index for each 256 bytes, in whole blocks
    const uint32_t room = (2 * ((count + 63) / 64) * sizeof(float) + kBlock - 1) / kBlock * kBlock;
    const uint32_t at = work.range(0, room, "work space");
    Core::now().write(at, room, "work space");
    Core::now().forget(at, room);
    apart(reinterpret_cast<const float*>(Core::now().ub(at)), room, x, count * sizeof(float));
  }
  float total = tree(x, count < 64 ? count : 64, neutral, f);
  for (int32_t i = 64; i < count; i += 64) total = f(total, tree(x + i, count - i < 64 ? count - i : 64, neutral, f));
  *output(dst, 1, "destination") = total;
}

}  // namespace ascendc

namespace AscendC {

// The rest of the destination's 32 bytes is left as it is. A work space may be any tensor here: A2 uses none.
template <typename T>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
                      const int32_t count) {
  static_assert(std::is_same_v<T, float>, "only float reductions are emulated");
  ascendc::reduce("ReduceSum", dst, src, work, count, 0.0f, false, [](float a, float b) { return a + b; });
}

template <typename T>
inline void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
                      const int32_t count, bool index = false) {
  static_assert(std::is_same_v<T, float>, "only float reductions are emulated");
  if (index) ascendc::Core::now().fail("ReduceMax with an index is not emulated", "ReduceMax");
  ascendc::reduce("ReduceMax", dst, src, work, count, -INFINITY, true, [](float a, float b) { return b > a ? b : a; });
}

}  // namespace AscendC
