// Matrix products. Hardware multiplies float32, float16 and bfloat16 only, and accumulates in float32.
#include "operator.h"

using namespace cann;

namespace {

// What the cube unit refuses: it has neither float64 nor integers.
template <typename... T>
void cube(const T&... operands) {
  for (const Tensor& one : {operands...}) {
    const auto type = one.scalar_type();
    TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, "a matrix product of ", type,
                " is not supported; float32, float16 and bfloat16 are");
  }
}

// Products of two dtypes are promoted as CANN's are.
Tensor product(const Tensor& a, const Tensor& b) {
  const auto type = at::promote_types(a.scalar_type(), b.scalar_type());
  return at::matmul(a.to(type), b.to(type));
}

// beta * self + alpha * product, in float32; a beta of zero leaves what self has, NaN or not, unread.
Tensor blend(const Tensor& self, const Tensor& product, const Scalar& beta, const Scalar& alpha) {
  Tensor sum = product.to(at::kFloat).mul(alpha);
  if (beta.toDouble() != 0) sum = sum.add(self.to(at::kFloat), beta);
  return sum;
}

Tensor blend_product(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return blend(self, at::matmul(a.to(at::kFloat), b.to(at::kFloat)), beta, alpha);
}

}  // namespace

ACLNN(aclnnMm, (Tensor self, Tensor mat2, Tensor out, int8_t)) { write(out, product(self, mat2)); }
ACLNN(aclnnMatmul, (Tensor self, Tensor mat2, Tensor out, int8_t)) { write(out, product(self, mat2)); }
ACLNN(aclnnBatchMatMul, (Tensor self, Tensor mat2, Tensor out, int8_t)) { write(out, product(self, mat2)); }
ACLNN(aclnnMv, (Tensor self, Tensor vec, Tensor out, int8_t)) { write(out, product(self, vec)); }
ACLNN(aclnnDot, (Tensor self, Tensor other, Tensor out)) { write(out, product(self, other)); }

ACLNN(aclnnAddmm, (Tensor self, Tensor mat1, Tensor mat2, Scalar beta, Scalar alpha, Tensor out, int8_t)) {
  write(out, blend_product(self, mat1, mat2, beta, alpha).expand(out.sizes()));
}
ACLNN(aclnnInplaceAddmm, (Tensor self, Tensor mat1, Tensor mat2, Scalar beta, Scalar alpha, int8_t)) {
  write(self, blend_product(self, mat1, mat2, beta, alpha));
}
ACLNN(aclnnBaddbmm, (Tensor self, Tensor batch1, Tensor batch2, Scalar beta, Scalar alpha, Tensor out, int8_t)) {
  write(out, blend_product(self, batch1, batch2, beta, alpha));
}
ACLNN(aclnnAddbmm, (Tensor self, Tensor batch1, Tensor batch2, Scalar beta, Scalar alpha, Tensor out, int8_t)) {
  write(out, blend(self, at::matmul(batch1.to(at::kFloat), batch2.to(at::kFloat)).sum(0), beta, alpha));
}
// alpha stands before beta here, unlike in all others.
ACLNN(aclnnAddmv, (Tensor self, Tensor mat, Tensor vec, Scalar alpha, Scalar beta, Tensor out, int8_t)) {
  write(out, blend_product(self, mat, vec, beta, alpha));
}
ACLNN(aclnnAddr, (Tensor self, Tensor vec1, Tensor vec2, Scalar beta, Scalar alpha, Tensor out)) {
  write(out, at::addr(self, vec1, vec2, beta, alpha));
}
ACLNN(aclnnInplaceAddr, (Tensor self, Tensor vec1, Tensor vec2, Scalar beta, Scalar alpha)) {
  self.addr_(vec1, vec2, beta, alpha);
}

// Refused at the call.
ACLNN_RULE(aclnnMm, (Tensor a, Tensor b, Tensor, int8_t)) { cube(a, b); }
ACLNN_RULE(aclnnMatmul, (Tensor a, Tensor b, Tensor, int8_t)) { cube(a, b); }
ACLNN_RULE(aclnnBatchMatMul, (Tensor a, Tensor b, Tensor, int8_t)) { cube(a, b); }
ACLNN_RULE(aclnnMv, (Tensor a, Tensor b, Tensor, int8_t)) { cube(a, b); }
ACLNN_RULE(aclnnDot, (Tensor a, Tensor b, Tensor)) { cube(a, b); }
ACLNN_RULE(aclnnAddmm, (Tensor, Tensor a, Tensor b, Scalar, Scalar, Tensor, int8_t)) { cube(a, b); }
ACLNN_RULE(aclnnInplaceAddmm, (Tensor, Tensor a, Tensor b, Scalar, Scalar, int8_t)) { cube(a, b); }
ACLNN_RULE(aclnnBaddbmm, (Tensor, Tensor a, Tensor b, Scalar, Scalar, Tensor, int8_t)) { cube(a, b); }
ACLNN_RULE(aclnnAddbmm, (Tensor, Tensor a, Tensor b, Scalar, Scalar, Tensor, int8_t)) { cube(a, b); }
ACLNN_RULE(aclnnAddmv, (Tensor, Tensor a, Tensor b, Scalar, Scalar, Tensor, int8_t)) { cube(a, b); }

// Small linear algebra, in float32.
ACLNN(aclnnInverse, (Tensor self, Tensor out)) { write(out, at::inverse(self.to(at::kFloat))); }
ACLNN(aclnnLinalgCholesky, (Tensor self, bool upper, Tensor out)) { write(out, at::linalg_cholesky(self, upper)); }
ACLNN(aclnnLinalgCross, (Tensor self, Tensor other, int64_t dim, Tensor out)) {
  write(out, at::linalg_cross(self, other, dim));
}
ACLNN(aclnnLinalgQr, (Tensor self, int64_t mode, Tensor outQ, Tensor outR)) {
  const char* modes[] = {"reduced", "complete", "r"};
  TORCH_CHECK(mode >= 0 && mode < 3, "mode is ", mode, ", not 0, 1 or 2");
  const auto [q, r] = at::linalg_qr(self, modes[mode]);
  if (mode != 2) write(outQ, q);
  write(outR, r);
}
ACLNN(aclnnSvd, (Tensor self, bool full, bool compute, Tensor outS, Tensor outU, Tensor outV)) {
  const auto [u, s, vh] = at::linalg_svd(self, full);
  write(outS, s);
  if (compute) write(outU, u), write(outV, vh.mH());
}
ACLNN(aclnnTriangularSolve, (Tensor self, Tensor a, bool upper, bool transpose, bool unit, Tensor outX, Tensor outM)) {
  const auto [x, m] = at::triangular_solve(self, a, upper, transpose, unit);
  write(outX, x);
  write(outM, m);
}
