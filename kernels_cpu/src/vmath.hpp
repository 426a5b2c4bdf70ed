// exp, tanh, sigmoid and the normal distribution on vectors. Errors are against float64, measured over the
// range given; coefficients are minimax fits made for this file (tests/backends/cpu/test_math.py checks them).
// NaN goes in, NaN comes out.
#pragma once

#include "simd.hpp"

namespace {

// e^x within 1 ulp; 0 below the smallest normal number, infinity above 2^127.5. kSoftmax leaves out the check for
// the upper end, for arguments that are not above 88.
// x = n ln2 + r with |r| <= ln2/2; adding 1.5 * 2^23 leaves round(x / ln2) in the low bits of the sum.
template <bool kSoftmax = false>
HETERO_INLINE vfloat vexp(vfloat x) {
  constexpr float kShift = 12582912.f;
  const vfloat shifted = x * 1.44269504f + kShift;
  const vfloat n = shifted - kShift;
  const vfloat r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  vfloat q = r * 1.38131445e-3f + 8.36941884e-3f;
  q = q * r + 4.16684568e-2f;
  q = q * r + 1.66665148e-1f;
  q = q * r + 4.99999931e-1f;
  const vfloat p = (q * (r * r) + r) + 1.f;
  const vfloat scale = float_of((bits_of(shifted) << 23) + 0x3f800000u);
  vfloat y = select(x < -87.3365f, vfloat{}, p * scale);
  if constexpr (!kSoftmax) y = select(x > 88.3762626647949f, splat(__builtin_inff()), y);
  return y;
}

// 1 / (1 + e^-x)
HETERO_INLINE vfloat vsigmoid(vfloat x) { return 1.f / (1.f + vexp(-x)); }

// tanh within 2 ulp: an odd polynomial near 0, where 1 - 2 / (e^2|x| + 1) would cancel.
HETERO_INLINE vfloat vtanh(vfloat x) {
  const vfloat a = absolute(x), z = x * x;
  vfloat p = z * -5.71704496e-3f + 2.06505872e-2f;
  p = p * z - 5.37434981e-2f;
  p = p * z + 1.33314913e-1f;
  p = p * z - 3.33332839e-1f;
  const vfloat near = p * z * x + x;
  const vfloat far = 1.f - 2.f / (vexp(a + a) + 1.f);
  const vfloat signed_far = float_of(bits_of(far) | (bits_of(x) & 0x80000000u));
  return select(a < 0.625f, near, signed_far);
}

// Standard normal: cdf(x) and pdf(x). The tail is pdf times a smooth function of t = 1 / (1 + 0.33 |x|), so it
// keeps its relative accuracy where 1 + erf would cancel.
struct Normal {
  vfloat cdf, pdf;
};
HETERO_INLINE Normal vnormal(vfloat x) {
  const vfloat bell = vexp(x * x * -0.5f);
  const vfloat t = 1.f / (absolute(x) * 0.33f + 1.f);
  vfloat p = t * -2.13380493e-2f + 1.25607898e-1f;
  p = p * t - 2.72291386e-1f;
  p = p * t + 2.30319403e-1f;
  p = p * t - 6.03400462e-2f;
  p = p * t + 1.23388556e-1f;
  p = p * t + 1.10679854e-1f;
  p = p * t + 1.32354524e-1f;
  p = p * t + 1.31619271e-1f;
  const vfloat tail = bell * (p * t);
  return {select(x < 0.f, tail, 1.f - tail), bell * 0.398942280f};
}

int math(const hetero_math_args* args, int) {
  const hetero_math_args& a = *args;
  for_lanes(a.n, [&](int64_t i, auto part, int) HETERO_BODY {
    const vfloat x = load(a.x + i, part);
    const vfloat y = a.function == HETERO_EXP           ? vexp(x)
                     : a.function == HETERO_EXP_SOFTMAX ? vexp<true>(x)
                     : a.function == HETERO_TANH        ? vtanh(x)
                     : a.function == HETERO_SIGMOID     ? vsigmoid(x)
                                                        : vnormal(x).cdf;
    store(a.y + i, y, part);
  });
  return HETERO_OK;
}

}  // namespace
