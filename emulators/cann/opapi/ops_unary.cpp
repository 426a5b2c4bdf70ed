// Functions of one element: roots, exponentials, trigonometry, rounding, bounds.
#include "operator.h"

using namespace cann;

#define ACLNN_UNARY(NAME, FUNCTION) \
  ACLNN(NAME, (Tensor self, Tensor out)) { write(out, at::FUNCTION(self)); }
#define ACLNN_UNARY_INPLACE(NAME, FUNCTION) \
  ACLNN(NAME, (Tensor self)) { self.FUNCTION##_(); }

ACLNN_UNARY(aclnnAbs, abs)
ACLNN_UNARY(aclnnNeg, neg)
ACLNN(aclnnSign, (Tensor self, Tensor out)) {
  write(out, self.is_complex() ? at::sgn(self) : at::sign(self));  // torch.sgn comes here too
}
ACLNN_UNARY(aclnnSignbit, signbit)
ACLNN_UNARY(aclnnRound, round)
ACLNN_UNARY(aclnnTrunc, trunc)
ACLNN_UNARY(aclnnAngleV2, angle)
ACLNN_UNARY(aclnnCeil, ceil)
ACLNN_UNARY_INPLACE(aclnnInplaceCeil, ceil)
ACLNN_UNARY(aclnnFloor, floor)
ACLNN_UNARY_INPLACE(aclnnInplaceFloor, floor)
ACLNN_UNARY(aclnnFrac, frac)
ACLNN_UNARY_INPLACE(aclnnInplaceFrac, frac)
ACLNN_UNARY(aclnnReciprocal, reciprocal)
ACLNN_UNARY_INPLACE(aclnnInplaceReciprocal, reciprocal)
ACLNN_UNARY(aclnnSqrt, sqrt)
ACLNN_UNARY_INPLACE(aclnnInplaceSqrt, sqrt)
ACLNN_UNARY(aclnnRsqrt, rsqrt)
ACLNN_UNARY_INPLACE(aclnnInplaceRsqrt, rsqrt)
ACLNN_UNARY(aclnnExp, exp)
ACLNN_UNARY_INPLACE(aclnnInplaceExp, exp)
ACLNN_UNARY(aclnnExp2, exp2)
ACLNN_UNARY_INPLACE(aclnnInplaceExp2, exp2)
ACLNN_UNARY(aclnnExpm1, expm1)
ACLNN_UNARY_INPLACE(aclnnInplaceExpm1, expm1)
ACLNN_UNARY(aclnnLog, log)
ACLNN_UNARY_INPLACE(aclnnInplaceLog, log)
ACLNN_UNARY(aclnnLog2, log2)
ACLNN_UNARY_INPLACE(aclnnInplaceLog2, log2)
ACLNN_UNARY(aclnnLog10, log10)
ACLNN_UNARY_INPLACE(aclnnInplaceLog10, log10)
ACLNN_UNARY(aclnnLog1p, log1p)
ACLNN_UNARY_INPLACE(aclnnInplaceLog1p, log1p)
ACLNN_UNARY(aclnnSin, sin)
ACLNN_UNARY_INPLACE(aclnnInplaceSin, sin)
ACLNN_UNARY(aclnnCos, cos)
ACLNN_UNARY_INPLACE(aclnnInplaceCos, cos)
ACLNN_UNARY(aclnnTan, tan)
ACLNN_UNARY_INPLACE(aclnnInplaceTan, tan)
ACLNN_UNARY(aclnnAsin, asin)
ACLNN_UNARY_INPLACE(aclnnInplaceAsin, asin)
ACLNN_UNARY(aclnnAcos, acos)
ACLNN_UNARY_INPLACE(aclnnInplaceAcos, acos)
ACLNN_UNARY(aclnnAtan, atan)
ACLNN_UNARY_INPLACE(aclnnInplaceAtan, atan)
ACLNN_UNARY(aclnnSinh, sinh)
ACLNN_UNARY_INPLACE(aclnnInplaceSinh, sinh)
ACLNN_UNARY(aclnnCosh, cosh)
ACLNN_UNARY_INPLACE(aclnnInplaceCosh, cosh)
ACLNN_UNARY(aclnnAsinh, asinh)
ACLNN_UNARY_INPLACE(aclnnInplaceAsinh, asinh)
ACLNN_UNARY(aclnnAcosh, acosh)
ACLNN_UNARY_INPLACE(aclnnInplaceAcosh, acosh)
ACLNN_UNARY(aclnnAtanh, atanh)
ACLNN_UNARY_INPLACE(aclnnInplaceAtanh, atanh)
ACLNN_UNARY(aclnnSinc, sinc)
ACLNN_UNARY_INPLACE(aclnnInplaceSinc, sinc)
ACLNN_UNARY(aclnnErf, erf)
ACLNN_UNARY_INPLACE(aclnnInplaceErf, erf)
ACLNN_UNARY(aclnnErfc, erfc)
ACLNN_UNARY_INPLACE(aclnnInplaceErfc, erfc)
ACLNN_UNARY(aclnnErfinv, erfinv)
ACLNN_UNARY_INPLACE(aclnnInplaceErfinv, erfinv)

ACLNN(aclnnRoundDecimals, (Tensor self, int64_t decimals, Tensor out)) { write(out, at::round(self, decimals)); }
ACLNN(aclnnInplaceRoundDecimals, (Tensor self, int64_t decimals)) { self.round_(decimals); }

// Replacements for nan and the infinities come as floats, whatever the tensor's dtype.
ACLNN(aclnnNanToNum, (Tensor self, float nan, float posinf, float neginf, Tensor out)) {
  write(out, at::nan_to_num(self, nan, posinf, neginf));
}
ACLNN(aclnnInplaceNanToNum, (Tensor self, float nan, float posinf, float neginf)) {
  self.nan_to_num_(nan, posinf, neginf);
}

// A negative eps stands for none.
ACLNN(aclnnLogit, (Tensor self, double eps, Tensor out)) {
  write(out, at::logit(self, eps < 0 ? std::nullopt : std::optional<double>(eps)));
}
ACLNN(aclnnLogitGrad, (Tensor self, Tensor grad, double eps, Tensor out)) {
  write(out, at::logit_backward(grad, self, eps < 0 ? std::nullopt : std::optional<double>(eps)));
}

ACLNN(aclnnClamp, (Tensor self, OptScalar min, OptScalar max, Tensor out)) { write(out, at::clamp(self, min, max)); }
ACLNN(aclnnClampTensor, (Tensor self, OptTensor min, OptTensor max, Tensor out)) {
  write(out, at::clamp(self, min, max));
}
ACLNN(aclnnClampMin, (Tensor self, Scalar min, Tensor out)) { write(out, at::clamp_min(self, min)); }
ACLNN(aclnnClampMax, (Tensor self, Scalar max, Tensor out)) { write(out, at::clamp_max(self, max)); }
ACLNN(aclnnClampMinTensor, (Tensor self, Tensor min, Tensor out)) { write(out, at::clamp_min(self, min)); }
ACLNN(aclnnClampMaxTensor, (Tensor self, Tensor max, Tensor out)) { write(out, at::clamp_max(self, max)); }
ACLNN(aclnnInplaceClampMax, (Tensor self, Scalar max)) { self.clamp_max_(max); }
ACLNN(aclnnInplaceClampMinTensor, (Tensor self, Tensor min)) { self.clamp_min_(min); }
ACLNN(aclnnInplaceClampMaxTensor, (Tensor self, Tensor max)) { self.clamp_max_(max); }
