// One function over a list of tensors, each into the tensor at its place in the list of results, which may be the same.
#include "operator.h"

using namespace cann;

namespace {

template <typename Function> void each(const Tensors& self, const Tensors& outs, const Function& function) {
  TORCH_CHECK(self.size() == outs.size(), "it has ", self.size(), " tensors and ", outs.size(), " outputs");
  for (size_t i = 0; i < self.size(); ++i) write(outs[i], function(i));
}

template <typename List> const List& as_many(const List& list, const Tensors& self) {
  TORCH_CHECK(list.size() == self.size(), "it has ", self.size(), " tensors, and ", list.size(), " to go with them");
  return list;
}

// The older forms hold a number in a tensor of one element.
Scalar number(const Tensor& one) {
  TORCH_CHECK(one.numel() == 1, "its number is a tensor of shape ", one.sizes());
  return one.reshape({}).item();
}

Scalar number(const Tensor& all, size_t i, const Tensors& self) {
  TORCH_CHECK(size_t(all.numel()) == self.size(), "it has ", self.size(), " tensors and ", all.numel(), " numbers");
  return all.reshape(-1)[int64_t(i)].item();
}

Tensor added(const Tensor& a, const Tensor& b, const Scalar& alpha) { return at::add(a, b, alpha); }
Tensor subtracted(const Tensor& a, const Tensor& b, const Scalar& alpha) { return at::sub(a, b, alpha); }
Tensor plus(const Tensor& a, const Scalar& b) { return at::add(a, b); }
Tensor minus(const Tensor& a, const Scalar& b) { return at::sub(a, b); }
Tensor at_least(const Tensor& a, const Scalar& b) { return at::clamp_min(a, b); }
Tensor at_most(const Tensor& a, const Scalar& b) { return at::clamp_max(a, b); }

Tensor rounded(const Tensor& x, int64_t mode) {
  switch (mode) {
    case 1: return at::round(x);
    case 2: return at::floor(x);
    case 3: return at::ceil(x);
    case 5: return at::trunc(x);
    case 7: return at::frac(x);
    default: TORCH_CHECK(false, "there is no rounding mode ", mode);
  }
}

}  // namespace

#define ACLNN_FOREACH(NAME, FUNCTION)                                  \
  ACLNN(NAME, (Tensors self, Tensors outs)) {                          \
    each(self, outs, [&](size_t i) { return at::FUNCTION(self[i]); }); \
  }
ACLNN_FOREACH(aclnnForeachAbs, abs)
ACLNN_FOREACH(aclnnForeachAcos, acos)
ACLNN_FOREACH(aclnnForeachAsin, asin)
ACLNN_FOREACH(aclnnForeachAtan, atan)
ACLNN_FOREACH(aclnnForeachCos, cos)
ACLNN_FOREACH(aclnnForeachCosh, cosh)
ACLNN_FOREACH(aclnnForeachErf, erf)
ACLNN_FOREACH(aclnnForeachErfc, erfc)
ACLNN_FOREACH(aclnnForeachExp, exp)
ACLNN_FOREACH(aclnnForeachExpm1, expm1)
ACLNN_FOREACH(aclnnForeachLog, log)
ACLNN_FOREACH(aclnnForeachLog10, log10)
ACLNN_FOREACH(aclnnForeachLog1p, log1p)
ACLNN_FOREACH(aclnnForeachLog2, log2)
ACLNN_FOREACH(aclnnForeachNeg, neg)
ACLNN_FOREACH(aclnnForeachReciprocal, reciprocal)
ACLNN_FOREACH(aclnnForeachSigmoid, sigmoid)
ACLNN_FOREACH(aclnnForeachSign, sign)
ACLNN_FOREACH(aclnnForeachSin, sin)
ACLNN_FOREACH(aclnnForeachSinh, sinh)
ACLNN_FOREACH(aclnnForeachSqrt, sqrt)
ACLNN_FOREACH(aclnnForeachTan, tan)
ACLNN_FOREACH(aclnnForeachTanh, tanh)

ACLNN(aclnnForeachZeroInplace, (Tensors outs)) {
  for (const Tensor& one : outs) one.zero_();
}
ACLNN(aclnnForeachCopy, (Tensors source, Tensors outs)) {
  each(source, outs, [&](size_t i) { return source[i]; });
}
ACLNN(aclnnForeachRoundOffNumber, (Tensors self, Tensor mode, Tensors outs)) {
  each(self, outs, [&](size_t i) { return rounded(self[i], number(mode).toLong()); });
}
ACLNN(aclnnForeachRoundOffNumberV2, (Tensors self, Scalar mode, Tensors outs)) {
  each(self, outs, [&](size_t i) { return rounded(self[i], mode.toLong()); });
}
ACLNN(aclnnForeachNorm, (Tensors self, Scalar order, Tensors outs)) {
  each(self, outs, [&](size_t i) { return at::linalg_vector_norm(self[i], order).reshape(outs[i].sizes()); });
}

// With one number for all, in a tensor (older) or by itself, and with a number for each.
#define ACLNN_FOREACH_NUMBER(NAME, FUNCTION)                                       \
  ACLNN(NAME, (Tensors self, Tensor scalar, Tensors outs)) {                       \
    each(self, outs, [&](size_t i) { return FUNCTION(self[i], number(scalar)); }); \
  }
#define ACLNN_FOREACH_SCALAR(NAME, FUNCTION)                               \
  ACLNN(NAME, (Tensors self, Scalar scalar, Tensors outs)) {               \
    each(self, outs, [&](size_t i) { return FUNCTION(self[i], scalar); }); \
  }
#define ACLNN_FOREACH_SCALARS(NAME, FUNCTION)                                  \
  ACLNN(NAME, (Tensors self, Scalars scalars, Tensors outs)) {                 \
    as_many(scalars, self);                                                    \
    each(self, outs, [&](size_t i) { return FUNCTION(self[i], scalars[i]); }); \
  }
ACLNN_FOREACH_NUMBER(aclnnForeachAddScalar, plus)
ACLNN_FOREACH_SCALAR(aclnnForeachAddScalarV2, plus)
ACLNN_FOREACH_SCALARS(aclnnForeachAddScalarList, plus)
ACLNN_FOREACH_NUMBER(aclnnForeachSubScalar, minus)
ACLNN_FOREACH_SCALAR(aclnnForeachSubScalarV2, minus)
ACLNN_FOREACH_SCALARS(aclnnForeachSubScalarList, minus)
ACLNN_FOREACH_NUMBER(aclnnForeachMulScalar, at::mul)
ACLNN_FOREACH_SCALAR(aclnnForeachMulScalarV2, at::mul)
ACLNN_FOREACH_SCALARS(aclnnForeachMulScalarList, at::mul)
ACLNN_FOREACH_NUMBER(aclnnForeachDivScalar, at::div)
ACLNN_FOREACH_SCALAR(aclnnForeachDivScalarV2, at::div)
ACLNN_FOREACH_SCALARS(aclnnForeachDivScalarList, at::div)
ACLNN_FOREACH_NUMBER(aclnnForeachPowScalar, at::pow)
ACLNN_FOREACH_SCALAR(aclnnForeachPowScalarV2, at::pow)
ACLNN_FOREACH_SCALARS(aclnnForeachPowScalarList, at::pow)
ACLNN_FOREACH_NUMBER(aclnnForeachMaximumScalar, at_least)
ACLNN_FOREACH_SCALAR(aclnnForeachMaximumScalarV2, at_least)
ACLNN_FOREACH_SCALARS(aclnnForeachMaximumScalarList, at_least)
ACLNN_FOREACH_NUMBER(aclnnForeachMinimumScalar, at_most)
ACLNN_FOREACH_SCALAR(aclnnForeachMinimumScalarV2, at_most)
ACLNN_FOREACH_SCALARS(aclnnForeachMinimumScalarList, at_most)
ACLNN(aclnnForeachPowScalarAndTensor, (Scalar base, Tensors exponents, Tensors outs)) {
  each(exponents, outs, [&](size_t i) { return at::pow(base, exponents[i]); });
}

#define ACLNN_FOREACH_LIST(NAME, FUNCTION)                                       \
  ACLNN(NAME, (Tensors self, Tensors other, Tensors outs)) {                     \
    as_many(other, self);                                                        \
    each(self, outs, [&](size_t i) { return at::FUNCTION(self[i], other[i]); }); \
  }
ACLNN_FOREACH_LIST(aclnnForeachMulList, mul)
ACLNN_FOREACH_LIST(aclnnForeachDivList, div)
ACLNN_FOREACH_LIST(aclnnForeachPowList, pow)
ACLNN_FOREACH_LIST(aclnnForeachMaximumList, maximum)
ACLNN_FOREACH_LIST(aclnnForeachMinimumList, minimum)

#define ACLNN_FOREACH_ALPHA_NUMBER(NAME, FUNCTION)                                          \
  ACLNN(NAME, (Tensors self, Tensors other, Tensor alpha, Tensors outs)) {                  \
    as_many(other, self);                                                                   \
    each(self, outs, [&](size_t i) { return FUNCTION(self[i], other[i], number(alpha)); }); \
  }
#define ACLNN_FOREACH_ALPHA(NAME, FUNCTION)                                         \
  ACLNN(NAME, (Tensors self, Tensors other, Scalar alpha, Tensors outs)) {          \
    as_many(other, self);                                                           \
    each(self, outs, [&](size_t i) { return FUNCTION(self[i], other[i], alpha); }); \
  }
ACLNN_FOREACH_ALPHA_NUMBER(aclnnForeachAddList, added)
ACLNN_FOREACH_ALPHA(aclnnForeachAddListV2, added)
ACLNN_FOREACH_ALPHA_NUMBER(aclnnForeachSubList, subtracted)
ACLNN_FOREACH_ALPHA(aclnnForeachSubListV2, subtracted)

ACLNN(aclnnForeachLerpScalar, (Tensors self, Tensors end, Scalar weight, Tensors outs)) {
  as_many(end, self);
  each(self, outs, [&](size_t i) { return at::lerp(self[i], end[i], weight); });
}
ACLNN(aclnnForeachLerpList, (Tensors self, Tensors end, Tensors weights, Tensors outs)) {
  as_many(end, self);
  as_many(weights, self);
  each(self, outs, [&](size_t i) { return at::lerp(self[i], end[i], weights[i]); });
}

// Three lists; the numbers of the last form come in one tensor.
#define ACLNN_FOREACH_THREE(NAME, FUNCTION, VALUE_TYPE, VALUE)                                   \
  ACLNN(NAME, (Tensors self, Tensors one, Tensors two, VALUE_TYPE value, Tensors outs)) {        \
    as_many(one, self), as_many(two, self);                                                      \
    each(self, outs, [&](size_t i) { return at::FUNCTION(self[i], one[i], two[i], VALUE); });    \
  }
ACLNN_FOREACH_THREE(aclnnForeachAddcmulScalar, addcmul, Tensor, number(value))
ACLNN_FOREACH_THREE(aclnnForeachAddcmulScalarV2, addcmul, Scalar, value)
ACLNN_FOREACH_THREE(aclnnForeachAddcmulScalarList, addcmul, Tensor, number(value, i, self))
ACLNN_FOREACH_THREE(aclnnForeachAddcdivScalar, addcdiv, Tensor, number(value))
ACLNN_FOREACH_THREE(aclnnForeachAddcdivScalarV2, addcdiv, Scalar, value)
ACLNN_FOREACH_THREE(aclnnForeachAddcdivScalarList, addcdiv, Tensor, number(value, i, self))

// The gradient scaler's two.
ACLNN(aclnnForeachNonFiniteCheckAndUnscale, (Tensors gradsRef, Tensor found_out, Tensor inverse)) {
  for (const Tensor& grad : gradsRef) {
    if (!at::isfinite(grad).all().item<bool>()) found_out.fill_(1);
    grad.mul_(inverse.to(at::kFloat));
  }
}
ACLNN(aclnnAmpUpdateScale, (Tensor scale, Tensor growth, Tensor found, double more, double less, int64_t interval,
                            Tensor scale_out, Tensor growth_out)) {
  Tensor new_scale = scale.clone(), new_growth = growth.clone();
  at::_amp_update_scale_(new_scale, new_growth, found, more, less, interval);
  write(scale_out, new_scale);
  write(growth_out, new_growth);
}
