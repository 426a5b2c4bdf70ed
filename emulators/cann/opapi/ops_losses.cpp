// Losses and their gradients, computed in float32.
#include "outputs.h"

using namespace cann;

namespace {

// ATen's codes: 0 none, 1 mean, 2 sum.
void reduction_code(int64_t reduction) {
  TORCH_CHECK(reduction >= 0 && reduction <= 2, "reduction ", reduction, " is unknown");
}

}  // namespace

ACLNN(aclnnNLLLoss, (Tensor self, Tensor target, Tensor weight, int64_t reduction, int64_t ignore_index, Tensor out,
                     Tensor outTotal)) {
  reduction_code(reduction);
  const auto [loss, total] = at::nll_loss_forward(wide(self), indices(target), wide(weight), reduction, ignore_index);
  write(out, loss.reshape(out.sizes()));
  write(outTotal, total);
}
ACLNN(aclnnNLLLossBackward, (Tensor grad, Tensor self, Tensor target, Tensor weight, int64_t reduction,
                             int64_t ignore_index, Tensor total, Tensor out)) {
  write(out, at::nll_loss_backward(wide(grad), wide(self), indices(target), wide(weight), reduction, ignore_index,
                                   wide(total)));
}
ACLNN(aclnnNLLLoss2d, (Tensor self, Tensor target, Tensor weight, int64_t reduction, int64_t ignore_index, Tensor out,
                       Tensor outTotal)) {
  reduction_code(reduction);
  const auto [loss, total] = at::nll_loss2d_forward(wide(self), indices(target), wide(weight), reduction, ignore_index);
  write(out, loss.reshape(out.sizes()));
  write(outTotal, total);
}
ACLNN(aclnnNLLLoss2dBackward, (Tensor grad, Tensor self, Tensor target, Tensor weight, int64_t reduction,
                               int64_t ignore_index, Tensor total, Tensor out)) {
  write(out, at::nll_loss2d_backward(wide(grad), wide(self), indices(target), wide(weight), reduction, ignore_index,
                                     wide(total)));
}

ACLNN(aclnnMseLoss, (Tensor self, Tensor target, int64_t reduction, Tensor out)) {
  write(out, at::mse_loss(wide(self), wide(target), reduction));
}
ACLNN(aclnnMseLossBackward, (Tensor grad, Tensor self, Tensor target, int64_t reduction, Tensor out)) {
  write(out, at::mse_loss_backward(wide(grad), wide(self), wide(target), reduction));
}
ACLNN(aclnnL1Loss, (Tensor self, Tensor target, int64_t reduction, Tensor out)) {
  write(out, at::l1_loss(wide(self), wide(target), reduction));
}
ACLNN(aclnnL1LossBackward, (Tensor grad, Tensor self, Tensor target, int64_t reduction, Tensor out)) {
  const Tensor sign = at::sign(wide(self) - wide(target));
  const Tensor slope = sign * wide(grad);
  write(out, (reduction == at::Reduction::Mean ? slope / double(std::max<int64_t>(sign.numel(), 1)) : slope)
                 .expand(out.sizes()));
}
// sigma is torch's beta; at zero both are the L1 loss.
ACLNN(aclnnSmoothL1Loss, (Tensor self, Tensor target, int64_t reduction, float sigma, Tensor out)) {
  const Tensor x = wide(self), y = wide(target);
  write(out, sigma == 0 ? at::l1_loss(x, y, reduction) : at::smooth_l1_loss(x, y, reduction, sigma));
}
ACLNN(aclnnSmoothL1LossBackward,
      (Tensor grad, Tensor self, Tensor target, int64_t reduction, float sigma, Tensor out)) {
  write(out, at::smooth_l1_loss_backward(wide(grad), wide(self), wide(target), reduction, sigma));
}
ACLNN(aclnnSoftMarginLoss, (Tensor self, Tensor target, int64_t reduction, Tensor out)) {
  write(out, at::soft_margin_loss(wide(self), wide(target), reduction));
}
ACLNN(aclnnSoftMarginLossBackward, (Tensor grad, Tensor self, Tensor target, int64_t reduction, Tensor out)) {
  write(out, at::soft_margin_loss_backward(wide(grad), wide(self), wide(target), reduction));
}

ACLNN(aclnnBinaryCrossEntropy, (Tensor self, Tensor target, OptTensor weight, int64_t reduction, Tensor out)) {
  write(out, at::binary_cross_entropy(wide(self), wide(target), wide(weight), reduction));
}
ACLNN(aclnnBinaryCrossEntropyBackward,
      (Tensor grad, Tensor self, Tensor target, OptTensor weight, int64_t reduction, Tensor out)) {
  write(out, at::binary_cross_entropy_backward(wide(grad), wide(self), wide(target), wide(weight), reduction));
}
ACLNN(aclnnBinaryCrossEntropyWithLogits,
      (Tensor self, Tensor target, OptTensor weight, OptTensor pos_weight, int64_t reduction, Tensor out)) {
  write(out, at::binary_cross_entropy_with_logits(wide(self), wide(target), wide(weight), wide(pos_weight), reduction));
}
ACLNN(aclnnBinaryCrossEntropyWithLogitsBackward, (Tensor grad, Tensor self, Tensor target, OptTensor weight,
                                                  OptTensor pos_weight, int64_t reduction, Tensor out)) {
  const Tensor x = wide(self), y = wide(target), positive = pos_weight ? wide(*pos_weight) * y : y;
  Tensor slope = (positive + 1 - y) * at::sigmoid(x) - positive;
  if (weight) slope = slope * wide(*weight);
  slope = slope * wide(grad);
  write(out, reduction == at::Reduction::Mean ? slope / double(std::max<int64_t>(x.numel(), 1)) : slope);
}

ACLNN(aclnnKlDiv, (Tensor self, Tensor target, int64_t reduction, bool log_target, Tensor out)) {
  write(out, at::kl_div(wide(self), wide(target), reduction, log_target));
}
ACLNN(aclnnKlDivBackward, (Tensor grad, Tensor self, Tensor target, int64_t reduction, bool log_target, Tensor out)) {
  const Tensor x = wide(self), y = wide(target);
  const Tensor slope = (log_target ? -at::exp(y) : at::where(y > 0, -y, at::zeros_like(y))) * wide(grad);
  write(
      out,
      (reduction == at::Reduction::Mean ? slope / double(std::max<int64_t>(x.numel(), 1)) : slope).expand(out.sizes()));
}
ACLNN(aclnnKlDivTargetBackward,
      (Tensor grad, Tensor self, Tensor target, int64_t reduction, bool log_target, Tensor out)) {
  const Tensor x = wide(self), y = wide(target);
  const Tensor log = log_target ? y : at::log(y);
  const Tensor inner = log_target ? (log - x + 1) * at::exp(y) : at::where(y > 0, log + 1 - x, at::zeros_like(x));
  const Tensor slope = inner * wide(grad);
  write(out, reduction == at::Reduction::Mean ? slope / double(std::max<int64_t>(y.numel(), 1)) : slope);
}
