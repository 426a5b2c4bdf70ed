// Normalisations: everything in float32, one rounding at the end.
#include "outputs.h"

using namespace cann;

namespace {

// Sizes of what is normalised: x's last `n` dimensions.
Ints last(const Tensor& x, int64_t n) { return Ints(x.sizes().end() - n, x.sizes().end()); }

Ints trailing(const Tensor& x, int64_t n) {
  Ints dims;
  for (int64_t i = x.dim() - n; i < x.dim(); ++i) dims.push_back(i);
  return dims;
}

Ints leading(const Tensor& x, int64_t n) {
  Ints dims;
  for (int64_t i = 0; i < x.dim() - n; ++i) dims.push_back(i);
  return dims;
}

// gamma is x's dtype or float32 (A2, A3).
void rms_dtypes(const Tensor& x, const Tensor& gamma) {
  const auto type = x.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, "x is ", type);
  TORCH_CHECK(gamma.scalar_type() == type || gamma.scalar_type() == at::kFloat, "gamma is ", gamma.scalar_type(),
              " with x ", type);
  TORCH_CHECK(gamma.dim() >= 1 && gamma.dim() <= x.dim() && gamma.sizes().vec() == last(x, gamma.dim()),
              "gamma's shape ", gamma.sizes(), " is not the end of x's, ", x.sizes());
}

// rstd keeps gamma's dimensions at size 1.
std::pair<Tensor, Tensor> rms(const Tensor& x, const Tensor& gamma, double epsilon) {
  const Tensor wide_x = x.to(at::kFloat);
  const Tensor rstd = at::rsqrt(wide_x.square().mean(trailing(x, gamma.dim()), true) + epsilon);
  return {wide_x * rstd * gamma.to(at::kFloat), rstd};
}

// Of a normalisation by the means over the last n dimensions: (grad wrt. normalised, normalised, rstd) -> grad wrt. x.
Tensor through_scale(const Tensor& g, const Tensor& normal, const Tensor& rstd, int64_t n, bool centred) {
  const Ints dims = trailing(g, n);
  Tensor dx = g - normal * (g * normal).mean(dims, true);
  if (centred) dx = dx - g.mean(dims, true);
  return dx * rstd;
}

Tensor over_rows(const Tensor& t, int64_t n) { return t.dim() == n ? t : t.sum(leading(t, n)); }

}  // namespace

ACLNN(aclnnRmsNorm, (Tensor self, Tensor gamma, double epsilon, Tensor outY, Tensor outRstd)) {
  const auto [y, rstd] = rms(self, gamma, epsilon);
  write(outY, y);
  write(outRstd, rstd.reshape(outRstd.sizes()));
}
ACLNN_RULE(aclnnRmsNorm, (Tensor self, Tensor gamma, double, Tensor, Tensor)) { rms_dtypes(self, gamma); }
ACLNN(aclnnRmsNormGrad, (Tensor dy, Tensor self, Tensor rstd, Tensor gamma, Tensor outDx, Tensor outDgamma)) {
  const int64_t n = gamma.dim();
  Ints kept = self.sizes().vec();
  std::fill(kept.end() - n, kept.end(), 1);
  const Tensor r = rstd.to(at::kFloat).reshape(kept), g = dy.to(at::kFloat), normal = self.to(at::kFloat) * r;
  write(outDx, through_scale(g * gamma.to(at::kFloat), normal, r, n, false));
  write(outDgamma, over_rows(g * normal, n));
}
ACLNN_RULE(aclnnRmsNormGrad, (Tensor, Tensor self, Tensor, Tensor gamma, Tensor, Tensor outDgamma)) {
  rms_dtypes(self, gamma);
  TORCH_CHECK(outDgamma.scalar_type() == at::kFloat, "dgamma is float32, not ", outDgamma.scalar_type());
}
ACLNN(aclnnGemmaRmsNorm, (Tensor self, Tensor gamma, double epsilon, Tensor outY, Tensor outRstd)) {
  const auto [y, rstd] = rms(self, gamma.to(at::kFloat) + 1, epsilon);
  write(outY, y);
  write(outRstd, rstd.reshape(outRstd.sizes()));
}

namespace {

void add_rms_dtypes(const Tensor& x1, const Tensor& x2, const Tensor& gamma) {
  TORCH_CHECK(x1.numel(), "empty tensors are not supported");
  TORCH_CHECK(gamma.scalar_type() == x1.scalar_type() && x2.scalar_type() == x1.scalar_type(), "x1, x2 and gamma are ",
              x1.scalar_type(), ", ", x2.scalar_type(), " and ", gamma.scalar_type());
  rms_dtypes(x1, gamma);
}

// The sum is rounded to x's dtype in what is returned, but normalised before that.
void add_rms(const Tensor& x1, const Tensor& x2, const Tensor& gamma, double epsilon, const Tensor& y,
             const OptTensor& rstd, const Tensor& x) {
  const Tensor sum = x1.to(at::kFloat) + x2.to(at::kFloat);
  const auto [normal, r] = rms(sum, gamma, epsilon);
  write(y, normal);
  if (rstd) write(*rstd, r.reshape(rstd->sizes()));
  write(x, sum);
}

}  // namespace

ACLNN(aclnnAddRmsNorm, (Tensor x1, Tensor x2, Tensor gamma, double epsilon, Tensor outY, Tensor outRstd, Tensor outX)) {
  add_rms(x1, x2, gamma, epsilon, outY, outRstd, outX);
}
ACLNN_RULE(aclnnAddRmsNorm, (Tensor x1, Tensor x2, Tensor gamma, double, Tensor, Tensor, Tensor)) {
  add_rms_dtypes(x1, x2, gamma);
}
// y replaces x1, the sum x2.
ACLNN(aclnnInplaceAddRmsNorm, (Tensor x1Ref, Tensor x2Ref, Tensor gamma, double epsilon, OptTensor outRstd)) {
  add_rms(x1Ref, x2Ref, gamma, epsilon, x1Ref, outRstd, x2Ref);
}
ACLNN_RULE(aclnnInplaceAddRmsNorm, (Tensor x1, Tensor x2, Tensor gamma, double, OptTensor)) {
  add_rms_dtypes(x1, x2, gamma);
}
ACLNN(aclnnAddRmsNormCast,
      (Tensor x1, Tensor x2, Tensor gamma, double epsilon, Tensor outFloat, Tensor outY, Tensor outRstd, Tensor outX)) {
  add_rms(x1, x2, gamma, epsilon, outY, outRstd, outX);
  write(outFloat, outY);
}
ACLNN_RULE(aclnnAddRmsNormCast, (Tensor x1, Tensor x2, Tensor gamma, double, Tensor, Tensor, Tensor, Tensor)) {
  add_rms_dtypes(x1, x2, gamma);
}

namespace {

void layer_norm(const Tensor& self, const Ints& shape, const OptTensor& weight, const OptTensor& bias, double eps,
                const Tensor& y, const OptTensor& mean, const OptTensor& rstd) {
  if (!self.numel()) return;
  const auto as_float = [](const OptTensor& t) { return t ? OptTensor(t->to(at::kFloat)) : std::nullopt; };
  const auto [out, m, r] = at::native_layer_norm(self.to(at::kFloat), shape, as_float(weight), as_float(bias), eps);
  write(y, out);
  if (mean) write(*mean, m.reshape(mean->sizes()));
  if (rstd) write(*rstd, r.reshape(rstd->sizes()));
}

}  // namespace

ACLNN(aclnnLayerNorm, (Tensor self, Ints shape, OptTensor weight, OptTensor bias, double eps, Tensor out,
                       OptTensor meanOut, OptTensor rstdOut)) {
  layer_norm(self, shape, weight, bias, eps, out, meanOut, rstdOut);
}
ACLNN(aclnnFastLayerNorm, (Tensor self, Ints shape, OptTensor weight, OptTensor bias, double eps, Tensor out,
                           OptTensor meanOut, OptTensor rstdOut)) {
  layer_norm(self, shape, weight, bias, eps, out, meanOut, rstdOut);
}
ACLNN(aclnnLayerNormBackward, (Tensor grad, Tensor self, Ints shape, Tensor mean, Tensor rstd, OptTensor weight,
                               OptTensor, Bools wanted, OptTensor outInput, OptTensor outWeight, OptTensor outBias)) {
  const int64_t n = int64_t(shape.size());
  const Tensor g = grad.to(at::kFloat), r = rstd.to(at::kFloat), normal = (self.to(at::kFloat) - mean) * r;
  if (wanted.at(0)) give(outInput, through_scale(weight ? g * weight->to(at::kFloat) : g, normal, r, n, true));
  if (wanted.at(1)) give(outWeight, over_rows(g * normal, n));
  if (wanted.at(2)) give(outBias, over_rows(g, n));
}

ACLNN(aclnnGroupNorm, (Tensor self, OptTensor gamma, OptTensor beta, int64_t n, int64_t c, int64_t hw, int64_t group,
                       double eps, Tensor out, Tensor meanOut, Tensor rstdOut)) {
  const auto [y, mean, rstd] =
      at::native_group_norm(wide(self).contiguous(), wide(gamma), wide(beta), n, c, hw, group, eps);
  write(out, y);
  write(meanOut, mean);
  write(rstdOut, rstd);
}
ACLNN(aclnnGroupNormBackward,
      (Tensor grad, Tensor self, Tensor mean, Tensor rstd, OptTensor gamma, int64_t n, int64_t c, int64_t hw,
       int64_t group, Bools wanted, OptTensor outX, OptTensor outGamma, OptTensor outBeta)) {
  const auto [dx, dgamma, dbeta] =
      at::native_group_norm_backward(wide(grad).contiguous(), wide(self).contiguous(), wide(mean), wide(rstd),
                                     wide(gamma), n, c, hw, group, {wanted.at(0), wanted.at(1), wanted.at(2)});
  if (wanted[0]) give(outX, dx);
  if (wanted[1]) give(outGamma, dgamma);
  if (wanted[2]) give(outBeta, dbeta);
}

ACLNN(aclnnBatchNorm, (Tensor self, OptTensor weight, OptTensor bias, OptTensor meanRef, OptTensor varRef,
                       bool training, double momentum, double eps, Tensor out, Tensor outMean, Tensor outInvstd)) {
  OptTensor running_mean = wide(meanRef), running_var = wide(varRef);
  const auto [y, mean, invstd] =
      at::native_batch_norm(wide(self), wide(weight), wide(bias), running_mean, running_var, training, momentum, eps);
  write(out, y);
  if (!training) return;
  write(outMean, mean);
  write(outInvstd, invstd);
  if (meanRef) meanRef->copy_(*running_mean);
  if (varRef) varRef->copy_(*running_var);
}
ACLNN(aclnnBatchNormBackward, (Tensor grad, Tensor self, OptTensor weight, OptTensor running_mean,
                               OptTensor running_var, OptTensor mean, OptTensor invstd, bool training, double eps,
                               Bools wanted, OptTensor outX, OptTensor outWeight, OptTensor outBias)) {
  const auto [dx, dweight, dbias] = at::native_batch_norm_backward(
      wide(grad), wide(self), wide(weight), wide(running_mean), wide(running_var), wide(mean), wide(invstd), training,
      eps, {wanted.at(0), wanted.at(1), wanted.at(2)});
  if (wanted[0]) give(outX, dx);
  if (wanted[1]) give(outWeight, dweight);
  if (wanted[2]) give(outBias, dbias);
}
