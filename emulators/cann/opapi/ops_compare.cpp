// Comparisons, logic and bits. Results go to a bool tensor, or into the dtype of the tensor that is written.
#include "operator.h"

using namespace cann;

// OTHER is Tensor or Scalar.
#define ACLNN_TWO(NAME, OTHER, FUNCTION) \
  ACLNN(NAME, (Tensor self, OTHER other, Tensor out)) { write(out, at::FUNCTION(self, other)); }
#define ACLNN_TWO_INPLACE(NAME, OTHER, FUNCTION) \
  ACLNN(NAME, (Tensor self, OTHER other)) { self.FUNCTION##_(other); }

ACLNN_TWO(aclnnEqTensor, Tensor, eq)
ACLNN_TWO(aclnnEqScalar, Scalar, eq)
ACLNN_TWO_INPLACE(aclnnInplaceEqTensor, Tensor, eq)
ACLNN_TWO_INPLACE(aclnnInplaceEqScalar, Scalar, eq)
ACLNN_TWO(aclnnNeTensor, Tensor, ne)
ACLNN_TWO(aclnnNeScalar, Scalar, ne)
ACLNN_TWO_INPLACE(aclnnInplaceNeTensor, Tensor, ne)
ACLNN_TWO_INPLACE(aclnnInplaceNeScalar, Scalar, ne)
ACLNN_TWO(aclnnLtTensor, Tensor, lt)
ACLNN_TWO(aclnnLtScalar, Scalar, lt)
ACLNN_TWO_INPLACE(aclnnInplaceLtTensor, Tensor, lt)
ACLNN_TWO_INPLACE(aclnnInplaceLtScalar, Scalar, lt)
ACLNN_TWO(aclnnLeTensor, Tensor, le)
ACLNN_TWO(aclnnLeScalar, Scalar, le)
ACLNN_TWO_INPLACE(aclnnInplaceLeTensor, Tensor, le)
ACLNN_TWO_INPLACE(aclnnInplaceLeScalar, Scalar, le)
ACLNN_TWO(aclnnGtTensor, Tensor, gt)
ACLNN_TWO(aclnnGtScalar, Scalar, gt)
ACLNN_TWO_INPLACE(aclnnInplaceGtTensor, Tensor, gt)
ACLNN_TWO_INPLACE(aclnnInplaceGtScalar, Scalar, gt)
ACLNN_TWO(aclnnGeTensor, Tensor, ge)
ACLNN_TWO(aclnnGeScalar, Scalar, ge)
ACLNN_TWO_INPLACE(aclnnInplaceGeTensor, Tensor, ge)
ACLNN_TWO_INPLACE(aclnnInplaceGeScalar, Scalar, ge)
// Not one of CANN's: torch_npu asks for it by mistake where a number on the host is compared with >=, and means this.
ACLNN_TWO(aclnnLessScalar, Scalar, le)

ACLNN(aclnnEqual, (Tensor self, Tensor other, Tensor out)) { out.fill_(at::equal(self, other)); }
ACLNN(aclnnIsClose, (Tensor self, Tensor other, double rtol, double atol, bool equal_nan, Tensor out)) {
  write(out, at::isclose(self, other, rtol, atol, equal_nan));
}
ACLNN(aclnnIsFinite, (Tensor self, Tensor out)) { write(out, at::isfinite(self)); }
ACLNN(aclnnIsPosInf, (Tensor self, Tensor out)) { write(out, at::isposinf(self)); }
ACLNN(aclnnIsNegInf, (Tensor self, Tensor out)) { write(out, at::isneginf(self)); }
ACLNN(aclnnIsInScalarTensor, (Scalar element, Tensor among, bool unique, bool invert, Tensor out)) {
  write(out, at::isin(element, among, unique, invert));
}
ACLNN(aclnnIsInTensorScalar, (Tensor elements, Scalar among, bool unique, bool invert, Tensor out)) {
  write(out, at::isin(elements, among, unique, invert));
}

ACLNN_TWO(aclnnLogicalAnd, Tensor, logical_and)
ACLNN_TWO(aclnnLogicalOr, Tensor, logical_or)
ACLNN_TWO(aclnnLogicalXor, Tensor, logical_xor)
ACLNN_TWO_INPLACE(aclnnInplaceLogicalAnd, Tensor, logical_and)
ACLNN_TWO_INPLACE(aclnnInplaceLogicalOr, Tensor, logical_or)
ACLNN(aclnnLogicalNot, (Tensor self, Tensor out)) { write(out, at::logical_not(self)); }
ACLNN(aclnnInplaceLogicalNot, (Tensor self)) { self.logical_not_(); }

ACLNN_TWO(aclnnBitwiseAndTensor, Tensor, bitwise_and)
ACLNN_TWO(aclnnBitwiseAndScalar, Scalar, bitwise_and)
ACLNN_TWO_INPLACE(aclnnInplaceBitwiseAndTensor, Tensor, bitwise_and)
ACLNN_TWO_INPLACE(aclnnInplaceBitwiseAndScalar, Scalar, bitwise_and)
ACLNN_TWO(aclnnBitwiseOrTensor, Tensor, bitwise_or)
ACLNN_TWO(aclnnBitwiseOrScalar, Scalar, bitwise_or)
ACLNN_TWO(aclnnBitwiseXorTensor, Tensor, bitwise_xor)
ACLNN_TWO(aclnnBitwiseXorScalar, Scalar, bitwise_xor)
ACLNN_TWO_INPLACE(aclnnInplaceBitwiseXorTensor, Tensor, bitwise_xor)
ACLNN_TWO_INPLACE(aclnnInplaceBitwiseXorScalar, Scalar, bitwise_xor)
ACLNN(aclnnBitwiseNot, (Tensor self, Tensor out)) { write(out, at::bitwise_not(self)); }
ACLNN_TWO(aclnnLeftShift, Tensor, bitwise_left_shift)
ACLNN_TWO(aclnnLeftShifts, Scalar, bitwise_left_shift)
ACLNN_TWO(aclnnRightShift, Tensor, bitwise_right_shift)
