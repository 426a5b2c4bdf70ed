// Small helpers of operators' bodies.
#pragma once

#include "operator.h"

namespace cann {

// Outputs and operands that the caller may leave out.
inline void give(const OptTensor& out, const Tensor& result) {
  if (out) write(*out, result);
}
inline Tensor or_undefined(const OptTensor& t) { return t ? *t : Tensor(); }

// Half-width numbers are computed with in float32, as the vector cores do.
inline Tensor wide(const Tensor& t) {
  return t.defined() && at::isReducedFloatingType(t.scalar_type()) ? t.to(at::kFloat) : t;
}
inline OptTensor wide(const OptTensor& t) { return t ? OptTensor(wide(*t)) : std::nullopt; }

// Many CANN operators take int32 indices; ATen's want int64.
inline Tensor indices(const Tensor& t) { return t.scalar_type() == at::kBool ? t : t.to(at::kLong); }

}  // namespace cann
