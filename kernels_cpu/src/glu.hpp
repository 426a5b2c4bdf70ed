// Gated activations: y = act(gate) up and its gradients.
#pragma once

#include "parallel.hpp"
#include "vmath.hpp"

namespace {

struct Activation {
  vfloat value, slope;
};

// act(a) and act'(a).
template <int kKind>
HETERO_INLINE Activation activate(vfloat a) {
  if constexpr (kKind == HETERO_SILU) {
    const vfloat s = vsigmoid(a);
    return {a * s, s * (1.f + a * (1.f - s))};
  } else if constexpr (kKind == HETERO_GELU) {
    const Normal normal = vnormal(a);
    return {a * normal.cdf, normal.cdf + a * normal.pdf};
  } else {
    // a (1 + tanh(u)) / 2 = a sigmoid(2u), 2u = c (a + k a^3); beyond 20 the sigmoid is 0 or 1 and a^3 may overflow.
    constexpr float c = 1.595769122f, k = 0.044715f;
    const vfloat near = vmin(splat(20.f), vmax(splat(-20.f), a)), square = near * near;
    const vfloat twice_u = c * near * (1.f + k * square), q = vexp(-twice_u);
    const vfloat s = 1.f / (1.f + q), one_minus_s = select(twice_u > 0.f, q * s, 1.f - s);
    return {a * s, s + near * (s * one_minus_s) * (c * (1.f + 3.f * k * square))};
  }
}

template <typename T, int kKind>
inline void glu_rows(const hetero_glu_args& a, int64_t begin, int64_t end) {
  const int64_t n = a.width;
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(a.gate) + row * a.gate_stride;
    const T* up = static_cast<const T*>(a.up) + row * a.up_stride;
    if (a.g) {
      const T* g = static_cast<const T*>(a.g) + row * a.g_stride;
      T* dgate = static_cast<T*>(a.dgate) + row * n;
      T* dup = static_cast<T*>(a.dup) + row * n;
      for_lanes(n, [&](int64_t i, auto part, int) HETERO_BODY {
        const Activation act = activate<kKind>(load(gate + i, part));
        const vfloat grad = load(g + i, part);
        store(dgate + i, grad * load(up + i, part) * act.slope, part);
        store(dup + i, grad * act.value, part);
      });
    } else {
      T* y = static_cast<T*>(a.y) + row * n;
      for_lanes(n, [&](int64_t i, auto part, int) HETERO_BODY {
        store(y + i, activate<kKind>(load(gate + i, part)).value * load(up + i, part), part);
      });
    }
  }
}

int glu(const hetero_glu_args* args, int threads) {
  const hetero_glu_args& a = *args;
  parallel(a.rows, parts_for(a.rows, 2 * a.width, threads), [&](int64_t begin, int64_t end, int) {
    with_type(a.dtype, [&](auto t) {
      using T = decltype(t);
      if (a.activation == HETERO_SILU) glu_rows<T, HETERO_SILU>(a, begin, end);
      else if (a.activation == HETERO_GELU) glu_rows<T, HETERO_GELU>(a, begin, end);
      else glu_rows<T, HETERO_GELU_TANH>(a, begin, end);
    });
  });
  return HETERO_OK;
}

}  // namespace
