// Norms that are fused with an activation or a residual, and the parts of batch norm over several ranks.
#include "outputs.h"

using namespace cann;

namespace {

Ints channels_but(const Tensor& x) {
  Ints dims{0};
  for (int64_t i = 2; i < x.dim(); ++i) dims.push_back(i);
  return dims;
}

Tensor per_channel(const Tensor& values, const Tensor& x) {
  Ints shape(size_t(x.dim()), 1);
  shape[1] = values.numel();
  return values.to(at::kFloat).reshape(shape);
}

// swish(x) = x * sigmoid(scale * x); silu for a scale of 1.
void group_norm_swish(const Tensor& self, const OptTensor& weight, const OptTensor& bias, int64_t groups, double eps,
                      double scale, bool activate, const Tensor& out, const Tensor& outMean, const Tensor& outRstd) {
  const int64_t n = self.size(0), c = self.size(1), hw = self.numel() / std::max<int64_t>(n * c, 1);
  const auto [y, mean, rstd] =
      at::native_group_norm(self.to(at::kFloat).contiguous(), wide(weight), wide(bias), n, c, hw, groups, eps);
  write(out, activate ? y * at::sigmoid(y * scale) : y);
  write(outMean, mean.reshape(outMean.sizes()));
  write(outRstd, rstd.reshape(outRstd.sizes()));
}

}  // namespace

ACLNN(aclnnGroupNormSilu, (Tensor self, OptTensor weight, OptTensor bias, int64_t groups, double eps, Tensor out,
                           Tensor outMean, Tensor outRstd)) {
  group_norm_swish(self, weight, bias, groups, eps, 1, true, out, outMean, outRstd);
}
ACLNN(aclnnGroupNormSwish, (Tensor self, OptTensor weight, OptTensor bias, int64_t groups, Text, double eps,
                            bool activate, double scale, Tensor out, Tensor outMean, Tensor outRstd)) {
  group_norm_swish(self, weight, bias, groups, eps, scale, activate, out, outMean, outRstd);
}
ACLNN(aclnnGroupNormSwishGrad,
      (Tensor grad, Tensor mean, Tensor rstd, Tensor self, Tensor weight, Tensor bias, int64_t groups, Text,
       double scale, bool want_weight, bool want_bias, Tensor outX, OptTensor outWeight, OptTensor outBias)) {
  const int64_t n = self.size(0), c = self.size(1), hw = self.numel() / std::max<int64_t>(n * c, 1);
  const Tensor x = self.to(at::kFloat).contiguous();
  const auto per_group = [&](const Tensor& t) { return t.to(at::kFloat).reshape({n, groups, 1}); };
  const Tensor normal = ((x.reshape({n, groups, -1}) - per_group(mean)) * per_group(rstd)).reshape(x.sizes());
  const Tensor before = normal * per_channel(weight, x) + per_channel(bias, x), s = at::sigmoid(before * scale);
  const Tensor g = (grad.to(at::kFloat) * (s + before * s * (1 - s) * scale)).contiguous();
  const auto [dx, dw, db] =
      at::native_group_norm_backward(g, x, wide(mean).reshape({n, groups}), wide(rstd).reshape({n, groups}),
                                     wide(weight), n, c, hw, groups, {true, true, true});
  write(outX, dx);
  if (want_weight) give(outWeight, dw);
  if (want_bias) give(outBias, db);
}

ACLNN(aclnnAddLayerNorm, (Tensor x1, Tensor x2, Tensor gamma, Tensor beta, OptTensor bias, double eps, bool with_sum,
                          Tensor outY, Tensor outMean, Tensor outRstd, Tensor outX)) {
  Tensor sum = x1.to(at::kFloat) + x2.to(at::kFloat);
  if (bias) sum = sum + bias->to(at::kFloat);
  const auto [y, mean, rstd] =
      at::native_layer_norm(sum, gamma.sizes(), gamma.to(at::kFloat), beta.to(at::kFloat), eps);
  write(outY, y);
  write(outMean, mean.reshape(outMean.sizes()));
  write(outRstd, rstd.reshape(outRstd.sizes()));
  if (with_sum) write(outX, sum);
}

// x * alpha + gx, then a layer norm.
ACLNN(aclnnDeepNorm, (Tensor x, Tensor gx, Tensor beta, Tensor gamma, double alpha, double eps, Tensor outMean,
                      Tensor outRstd, Tensor outY)) {
  const Tensor sum = x.to(at::kFloat) * alpha + gx.to(at::kFloat);
  const auto [y, mean, rstd] =
      at::native_layer_norm(sum, gamma.sizes(), gamma.to(at::kFloat), beta.to(at::kFloat), eps);
  write(outMean, mean.reshape(outMean.sizes()));
  write(outRstd, rstd.reshape(outRstd.sizes()));
  write(outY, y);
}
ACLNN(aclnnDeepNormGrad, (Tensor dy, Tensor x, Tensor gx, Tensor gamma, Tensor mean, Tensor rstd, double alpha,
                          Tensor outDx, Tensor outDgx, Tensor outDbeta, Tensor outDgamma)) {
  const Tensor sum = x.to(at::kFloat) * alpha + gx.to(at::kFloat);
  const Tensor beta = at::zeros_like(gamma, at::kFloat);
  const auto [d, dgamma, dbeta] = at::native_layer_norm_backward(dy.to(at::kFloat), sum, gamma.sizes(), mean, rstd,
                                                                 gamma.to(at::kFloat), beta, {true, true, true});
  write(outDx, d * alpha);
  write(outDgx, d);
  write(outDbeta, dbeta);
  write(outDgamma, dgamma);
}

// Batch norm whose ranks share their sums.
ACLNN(aclnnBatchNormStats, (Tensor self, double eps, Tensor outMean, Tensor outInvstd)) {
  const Tensor x = self.to(at::kFloat), mean = x.mean(channels_but(x));
  write(outMean, mean);
  write(outInvstd, at::rsqrt((x - per_channel(mean, x)).square().mean(channels_but(x)) + eps));
}
ACLNN(aclnnBatchNormReduce, (Tensor self, Tensor outSum, Tensor outSquares)) {
  const Tensor x = self.to(at::kFloat);
  write(outSum, x.sum(channels_but(x)));
  write(outSquares, x.square().sum(channels_but(x)));
}
ACLNN(aclnnSyncBatchNormGatherStats, (Tensor sums, Tensor squares, Tensor counts, OptTensor meanRef, OptTensor varRef,
                                      float momentum, float eps, Tensor outMean, Tensor outInvstd)) {
  const Tensor total = counts.to(at::kFloat).sum(), mean = sums.to(at::kFloat).sum(0) / total;
  const Tensor var = squares.to(at::kFloat).sum(0) / total - mean.square();
  write(outMean, mean);
  write(outInvstd, at::rsqrt(var + eps));
  if (meanRef) meanRef->copy_(meanRef->to(at::kFloat) * (1 - momentum) + mean * momentum);
  if (varRef) varRef->copy_(varRef->to(at::kFloat) * (1 - momentum) + var * (total / (total - 1)) * momentum);
}
ACLNN(aclnnBatchNormElemt,
      (Tensor self, OptTensor weight, OptTensor bias, Tensor mean, Tensor invstd, double, Tensor out)) {
  Tensor y = (self.to(at::kFloat) - per_channel(mean, self)) * per_channel(invstd, self);
  if (weight && weight->numel()) y = y * per_channel(*weight, self);
  if (bias && bias->numel()) y = y + per_channel(*bias, self);
  write(out, y);
}
ACLNN(aclnnBatchNormReduceBackward,
      (Tensor grad, Tensor self, Tensor mean, Tensor invstd, OptTensor, bool want_input, bool want_weight,
       bool want_bias, OptTensor outSum, OptTensor outSumXmu, OptTensor outWeight, OptTensor outBias)) {
  const Tensor g = grad.to(at::kFloat), sum = g.sum(channels_but(g));
  const Tensor with_x = (g * (self.to(at::kFloat) - per_channel(mean, self))).sum(channels_but(g));
  if (want_input) give(outSum, sum), give(outSumXmu, with_x);
  if (want_weight) give(outWeight, with_x * invstd.to(at::kFloat));
  if (want_bias) give(outBias, sum);
}
ACLNN(aclnnBatchNormElemtBackward, (Tensor grad, Tensor self, Tensor mean, Tensor invstd, OptTensor weight, Tensor sum,
                                    Tensor sum_xmu, Tensor count, Tensor out)) {
  const Tensor total = count.to(at::kFloat).sum(), r = per_channel(invstd, self);
  const Tensor centred = self.to(at::kFloat) - per_channel(mean, self);
  Tensor dx = grad.to(at::kFloat) - per_channel(sum.to(at::kFloat) / total, self) -
              centred * r.square() * per_channel(sum_xmu.to(at::kFloat) / total, self);
  dx = dx * r;
  write(out, weight && weight->numel() ? dx * per_channel(*weight, self) : dx);
}
