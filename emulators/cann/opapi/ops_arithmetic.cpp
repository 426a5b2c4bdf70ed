// Sums, products, quotients and powers of two operands; the second one a tensor, or a number (…s, …Scalar).
#include "operator.h"

using namespace cann;

namespace {

constexpr int kTruncate = 1, kFloor = 2;  // modes of aclnnDivMod; 0 is the true quotient

template <typename Other> Tensor divide(const Tensor& self, const Other& other, int mode) {
  if (mode == 0) return at::div(self, other);
  TORCH_CHECK(mode == kTruncate || mode == kFloor, "there is no division mode ", mode);
  return at::div(self, other, mode == kTruncate ? "trunc" : "floor");
}

}  // namespace

ACLNN(aclnnAdd, (Tensor self, Tensor other, Scalar alpha, Tensor out)) { write(out, at::add(self, other, alpha)); }
ACLNN(aclnnAdds, (Tensor self, Scalar other, Scalar alpha, Tensor out)) { write(out, at::add(self, other, alpha)); }
ACLNN(aclnnAddV3, (Scalar self, Tensor other, Scalar alpha, Tensor out)) {
  write(out, at::add(at::scalar_tensor(self, out.options()), other.to(out.scalar_type()), alpha));
}
ACLNN(aclnnInplaceAdd, (Tensor self, Tensor other, Scalar alpha)) { self.add_(other, alpha); }
ACLNN(aclnnInplaceAdds, (Tensor self, Scalar other, Scalar alpha)) { self.add_(other, alpha); }
ACLNN(aclnnSub, (Tensor self, Tensor other, Scalar alpha, Tensor out)) { write(out, at::sub(self, other, alpha)); }
ACLNN(aclnnSubs, (Tensor self, Scalar other, Scalar alpha, Tensor out)) { write(out, at::sub(self, other, alpha)); }
ACLNN(aclnnInplaceSub, (Tensor self, Tensor other, Scalar alpha)) { self.sub_(other, alpha); }
ACLNN(aclnnInplaceSubs, (Tensor self, Scalar other, Scalar alpha)) { self.sub_(other, alpha); }
ACLNN(aclnnRsub, (Tensor self, Tensor other, Scalar alpha, Tensor out)) { write(out, at::rsub(self, other, alpha)); }
ACLNN(aclnnRsubs, (Tensor self, Scalar other, Scalar alpha, Tensor out)) { write(out, at::rsub(self, other, alpha)); }
ACLNN(aclnnAddRelu, (Tensor self, Tensor other, Scalar alpha, Tensor out)) {
  write(out, at::relu(at::add(self, other, alpha)));
}
ACLNN(aclnnInplaceAddRelu, (Tensor self, Tensor other, Scalar alpha)) {
  self.copy_(at::relu(at::add(self, other, alpha)));
}

ACLNN(aclnnMul, (Tensor self, Tensor other, Tensor out)) { write(out, at::mul(self, other)); }
ACLNN(aclnnMuls, (Tensor self, Scalar other, Tensor out)) { write(out, at::mul(self, other)); }
ACLNN(aclnnInplaceMul, (Tensor self, Tensor other)) { self.mul_(other); }
ACLNN(aclnnInplaceMuls, (Tensor self, Scalar other)) { self.mul_(other); }

ACLNN(aclnnDiv, (Tensor self, Tensor other, Tensor out)) { write(out, at::div(self, other)); }
ACLNN(aclnnDivs, (Tensor self, Scalar other, Tensor out)) { write(out, at::div(self, other)); }
ACLNN(aclnnInplaceDiv, (Tensor self, Tensor other)) { self.div_(other); }
ACLNN(aclnnInplaceDivs, (Tensor self, Scalar other)) { self.div_(other); }
ACLNN(aclnnDivMod, (Tensor self, Tensor other, int mode, Tensor out)) { write(out, divide(self, other, mode)); }
ACLNN(aclnnDivMods, (Tensor self, Scalar other, int mode, Tensor out)) { write(out, divide(self, other, mode)); }
ACLNN(aclnnInplaceDivMod, (Tensor self, Tensor other, int mode)) { self.copy_(divide(self, other, mode)); }
ACLNN(aclnnInplaceDivMods, (Tensor self, Scalar other, int mode)) { self.copy_(divide(self, other, mode)); }
ACLNN(aclnnFloorDivide, (Tensor self, Tensor other, Tensor out)) { write(out, at::floor_divide(self, other)); }
ACLNN(aclnnFloorDivides, (Tensor self, Scalar other, Tensor out)) { write(out, at::floor_divide(self, other)); }
ACLNN(aclnnInplaceFloorDivide, (Tensor self, Tensor other)) { self.floor_divide_(other); }
ACLNN(aclnnInplaceFloorDivides, (Tensor self, Scalar other)) { self.floor_divide_(other); }

ACLNN(aclnnFmodTensor, (Tensor self, Tensor other, Tensor out)) { write(out, at::fmod(self, other)); }
ACLNN(aclnnFmodScalar, (Tensor self, Scalar other, Tensor out)) { write(out, at::fmod(self, other)); }
ACLNN(aclnnInplaceFmodTensor, (Tensor self, Tensor other)) { self.fmod_(other); }
ACLNN(aclnnInplaceFmodScalar, (Tensor self, Scalar other)) { self.fmod_(other); }
ACLNN(aclnnRemainderTensorTensor, (Tensor self, Tensor other, Tensor out)) { write(out, at::remainder(self, other)); }
ACLNN(aclnnRemainderTensorScalar, (Tensor self, Scalar other, Tensor out)) { write(out, at::remainder(self, other)); }
ACLNN(aclnnRemainderScalarTensor, (Scalar self, Tensor other, Tensor out)) { write(out, at::remainder(self, other)); }
ACLNN(aclnnInplaceRemainderTensorTensor, (Tensor self, Tensor other)) { self.remainder_(other); }
ACLNN(aclnnInplaceRemainderTensorScalar, (Tensor self, Scalar other)) { self.remainder_(other); }

ACLNN(aclnnPowTensorTensor, (Tensor self, Tensor exponent, Tensor out)) { write(out, at::pow(self, exponent)); }
ACLNN(aclnnPowTensorScalar, (Tensor self, Scalar exponent, Tensor out)) { write(out, at::pow(self, exponent)); }
ACLNN(aclnnPowScalarTensor, (Scalar self, Tensor exponent, Tensor out)) { write(out, at::pow(self, exponent)); }
ACLNN(aclnnInplacePowTensorTensor, (Tensor self, Tensor exponent)) { self.pow_(exponent); }
ACLNN(aclnnInplacePowTensorScalar, (Tensor self, Scalar exponent)) { self.pow_(exponent); }

ACLNN(aclnnAddcmul, (Tensor self, Tensor tensor1, Tensor tensor2, Scalar value, Tensor out)) {
  write(out, at::addcmul(self, tensor1, tensor2, value));
}
ACLNN(aclnnAddcdiv, (Tensor self, Tensor tensor1, Tensor tensor2, Scalar value, Tensor out)) {
  write(out, at::addcdiv(self, tensor1, tensor2, value));
}
ACLNN(aclnnInplaceAddcmul, (Tensor self, Tensor tensor1, Tensor tensor2, Scalar value)) {
  self.addcmul_(tensor1, tensor2, value);
}
ACLNN(aclnnInplaceAddcdiv, (Tensor self, Tensor tensor1, Tensor tensor2, Scalar value)) {
  self.addcdiv_(tensor1, tensor2, value);
}
ACLNN(aclnnLerp, (Tensor self, Tensor end, Tensor weight, Tensor out)) { write(out, at::lerp(self, end, weight)); }
ACLNN(aclnnLerps, (Tensor self, Tensor end, Scalar weight, Tensor out)) { write(out, at::lerp(self, end, weight)); }
ACLNN(aclnnInplaceLerp, (Tensor self, Tensor end, Tensor weight)) { self.lerp_(end, weight); }
ACLNN(aclnnInplaceLerps, (Tensor self, Tensor end, Scalar weight)) { self.lerp_(end, weight); }

ACLNN(aclnnMaximum, (Tensor self, Tensor other, Tensor out)) { write(out, at::maximum(self, other)); }
ACLNN(aclnnMinimum, (Tensor self, Tensor other, Tensor out)) { write(out, at::minimum(self, other)); }
ACLNN(aclnnAtan2, (Tensor self, Tensor other, Tensor out)) { write(out, at::atan2(self, other)); }
ACLNN(aclnnInplaceAtan2, (Tensor self, Tensor other)) { self.atan2_(other); }
ACLNN(aclnnGcd, (Tensor self, Tensor other, Tensor out)) { write(out, at::gcd(self, other)); }
ACLNN(aclnnLogAddExp, (Tensor self, Tensor other, Tensor out)) { write(out, at::logaddexp(self, other)); }
ACLNN(aclnnLogAddExp2, (Tensor self, Tensor other, Tensor out)) { write(out, at::logaddexp2(self, other)); }
ACLNN(aclnnXLogYTensor, (Tensor self, Tensor other, Tensor out)) { write(out, at::xlogy(self, other)); }
ACLNN(aclnnXLogYScalarOther, (Tensor self, Scalar other, Tensor out)) { write(out, at::xlogy(self, other)); }
ACLNN(aclnnXLogYScalarSelf, (Scalar self, Tensor other, Tensor out)) { write(out, at::xlogy(self, other)); }
ACLNN(aclnnInplaceXLogYScalarOther, (Tensor self, Scalar other)) { self.xlogy_(other); }

ACLNN(aclnnComplex, (Tensor real, Tensor imag, Tensor out)) { write(out, at::complex(real, imag)); }
ACLNN(aclnnPolar, (Tensor abs, Tensor angle, Tensor out)) { write(out, at::polar(abs, angle)); }
