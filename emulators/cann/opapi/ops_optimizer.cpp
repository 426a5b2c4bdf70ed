// Fused optimizer steps, computed in float32 and rounded once to the parameter's dtype.
#include <cmath>

#include "outputs.h"

using namespace cann;

namespace {

struct Adam {
  double lr, beta1, beta2, decay, epsilon;
  double left1, left2;  // beta powers of this step
  bool amsgrad, maximize;
};

void adam_w(const Tensor& var, const Tensor& m, const Tensor& v, const OptTensor& largest, const Tensor& grad,
            const Adam& how) {
  const Tensor g = how.maximize ? -grad.to(at::kFloat) : grad.to(at::kFloat);
  const Tensor mean = m.to(at::kFloat) * how.beta1 + g * (1 - how.beta1);
  const Tensor square = v.to(at::kFloat) * how.beta2 + g * g * (1 - how.beta2);
  Tensor under = square;
  if (how.amsgrad) {
    TORCH_CHECK(largest, "amsgrad needs the largest of past squares");
    under = at::maximum(largest->to(at::kFloat), square);
    largest->copy_(under);
  }
  const Tensor denominator = under.sqrt() / std::sqrt(1 - how.left2) + how.epsilon;
  var.copy_(var.to(at::kFloat) * (1 - how.lr * how.decay) - mean / denominator * (how.lr / (1 - how.left1)));
  m.copy_(mean);
  v.copy_(square);
}

void one_dtype(const Tensor& var, std::initializer_list<Tensor> others) {
  const auto type = var.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, "the parameter is ", type);
  for (const Tensor& t : others)
    TORCH_CHECK(t.scalar_type() == type, "parameter, moments and gradient share one dtype; one is ", t.scalar_type(),
                ", the parameter ", type);
}

}  // namespace

// step counts the steps before this one.
ACLNN(aclnnApplyAdamWV2,
      (Tensor varRef, Tensor mRef, Tensor vRef, OptTensor largestRef, Tensor grad, Tensor step, float lr, float beta1,
       float beta2, float decay, float epsilon, bool amsgrad, bool maximize)) {
  const double now = step.item().toDouble() + 1;
  adam_w(varRef, mRef, vRef, largestRef, grad,
         {lr, beta1, beta2, decay, epsilon, std::pow(double(beta1), now), std::pow(double(beta2), now), amsgrad,
          maximize});
}
ACLNN_RULE(aclnnApplyAdamWV2, (Tensor var, Tensor m, Tensor v, OptTensor largest, Tensor grad, Tensor, float, float,
                               float, float, float, bool amsgrad, bool)) {
  one_dtype(var, {m, v, grad});
  TORCH_CHECK(!amsgrad || largest, "amsgrad needs the largest of past squares");
}

ACLNN(aclnnFusedSgd, (Tensors paramsRef, Tensors gradsRef, Tensors momentumRef, OptTensor grad_scale, float decay,
                      float momentum, float lr, float dampening, bool nesterov, bool maximize, bool first)) {
  for (size_t i = 0; i < paramsRef.size(); ++i) {
    const Tensor &param = paramsRef[i], grad = gradsRef[i];
    Tensor g = grad.to(at::kFloat);
    if (grad_scale) grad.copy_(g = g / grad_scale->to(at::kFloat));  // torch hands back the unscaled gradient
    if (maximize) g = -g;
    if (decay != 0) g = g + param.to(at::kFloat) * decay;
    if (momentum != 0) {
      const Tensor buffer = first ? g.clone() : momentumRef.at(i).to(at::kFloat) * momentum + g * (1 - dampening);
      momentumRef.at(i).copy_(buffer);
      g = nesterov ? g + buffer * momentum : buffer;
    }
    param.copy_(param.to(at::kFloat) - g * lr);
  }
}
