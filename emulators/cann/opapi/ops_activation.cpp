// Activations and their gradients. A backward takes its arguments as CANN orders them: the gradient first.
#include "operator.h"

using namespace cann;

namespace {

const char* approximation(int64_t mode) {
  TORCH_CHECK(mode == 0 || mode == 1, "there is no gelu approximation ", mode);
  return mode == 1 ? "tanh" : "none";
}

// Half precision is computed in float32 and rounded once.
Tensor widened(const Tensor& x) {
  return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}

constexpr double kFastGelu = 1.702;

// A weight of one number, or one a channel, laid along dimension 1 of x.
Tensor along_channels(const Tensor& weight, const Tensor& x) {
  Ints shape(size_t(x.dim()), 1);
  if (weight.numel() != 1) shape.at(1) = weight.numel();
  return weight.reshape(shape);
}

}  // namespace

ACLNN(aclnnRelu, (Tensor self, Tensor out)) { write(out, at::relu(self)); }
ACLNN(aclnnInplaceRelu, (Tensor self)) { self.relu_(); }
ACLNN(aclnnThreshold, (Tensor self, Scalar threshold, Scalar value, Tensor out)) {
  write(out, at::threshold(self, threshold, value));
}
ACLNN(aclnnInplaceThreshold, (Tensor self, Scalar threshold, Scalar value)) { at::threshold_(self, threshold, value); }
ACLNN(aclnnThresholdBackward, (Tensor grad, Tensor self, Scalar threshold, Tensor out)) {
  write(out, at::threshold_backward(grad, self, threshold));
}

// The older pair is the tanh approximation, as CANN documents it; torch_npu uses it on A2 and A3, whatever is asked
// for, unless TORCH_NPU_USE_COMPATIBLE_IMPL=1.
ACLNN(aclnnGelu, (Tensor self, Tensor out)) { write(out, at::gelu(self, "tanh")); }
ACLNN(aclnnGeluBackward, (Tensor grad, Tensor self, Tensor out)) { write(out, at::gelu_backward(grad, self, "tanh")); }
ACLNN(aclnnGeluV2, (Tensor self, int64_t approximate, Tensor out)) {
  write(out, at::gelu(self, approximation(approximate)));
}
ACLNN(aclnnGeluBackwardV2, (Tensor grad, Tensor self, Text approximate, Tensor out)) {
  write(out, at::gelu_backward(grad, self, approximate));
}
ACLNN(aclnnFastGelu, (Tensor self, Tensor out)) {
  const Tensor x = widened(self);
  write(out, at::mul(x, at::sigmoid(at::mul(x, kFastGelu))));
}
ACLNN(aclnnFastGeluBackward, (Tensor grad, Tensor self, Tensor out)) {
  const Tensor x = widened(self), s = at::sigmoid(at::mul(x, kFastGelu));
  write(out, widened(grad) * (s + x * kFastGelu * s * (1 - s)));
}
ACLNN(aclnnGeluMul, (Tensor self, Text approximate, Tensor out)) {
  const auto halves = widened(self).chunk(2, -1);
  write(out, at::mul(at::gelu(halves[0], approximate), halves[1]));
}

ACLNN(aclnnSilu, (Tensor self, Tensor out)) { write(out, at::silu(self)); }
ACLNN(aclnnSiluBackward, (Tensor grad, Tensor self, Tensor out)) { write(out, at::silu_backward(grad, self)); }
ACLNN(aclnnSigmoid, (Tensor self, Tensor out)) { write(out, at::sigmoid(self)); }
ACLNN(aclnnInplaceSigmoid, (Tensor self)) { self.sigmoid_(); }
ACLNN(aclnnSigmoidBackward, (Tensor grad, Tensor y, Tensor grad_out)) {
  write(grad_out, at::sigmoid_backward(grad, y));
}
ACLNN(aclnnTanh, (Tensor self, Tensor out)) { write(out, at::tanh(self)); }
ACLNN(aclnnInplaceTanh, (Tensor self)) { self.tanh_(); }
ACLNN(aclnnTanhBackward, (Tensor grad, Tensor y, Tensor grad_out)) {
  write(grad_out, at::tanh_backward(grad, y));
}
ACLNN(aclnnMish, (Tensor self, Tensor out)) { write(out, at::mish(self)); }
ACLNN(aclnnInplaceMish, (Tensor self)) { at::mish_(self); }
ACLNN(aclnnMishBackward, (Tensor grad, Tensor self, Tensor out)) { write(out, at::mish_backward(grad, self)); }

ACLNN(aclnnLogSigmoidForward, (Tensor self, Tensor out, Tensor buffer_out)) {
  const auto [result, buffer] = at::log_sigmoid_forward(self);
  write(out, result);
  if (buffer_out.sizes() == buffer.sizes()) buffer_out.copy_(buffer);  // torch_npu gives none
}
// Only looked for, by torch_npu, to know whether the one above is there.
ACLNN(aclnnLogSigmoid, (Tensor self, Tensor out)) { write(out, at::log_sigmoid(self)); }
ACLNN(aclnnLogSigmoidBackward, (Tensor grad, Tensor self, OptTensor, Tensor out)) {
  write(out, at::log_sigmoid_backward(grad, self, std::get<1>(at::log_sigmoid_forward(self))));
}

ACLNN(aclnnLeakyRelu, (Tensor self, Scalar slope, Tensor out)) { write(out, at::leaky_relu(self, slope)); }
ACLNN(aclnnInplaceLeakyRelu, (Tensor self, Scalar slope)) { at::leaky_relu_(self, slope); }
ACLNN(aclnnLeakyReluBackward, (Tensor grad, Tensor self, Scalar slope, bool is_result, Tensor out)) {
  write(out, at::leaky_relu_backward(grad, self, slope, is_result));
}
ACLNN(aclnnElu, (Tensor self, Scalar alpha, Scalar scale, Scalar input_scale, Tensor out)) {
  write(out, at::elu(self, alpha, scale, input_scale));
}
ACLNN(aclnnInplaceElu, (Tensor self, Scalar alpha, Scalar scale, Scalar input_scale)) {
  at::elu_(self, alpha, scale, input_scale);
}
ACLNN(aclnnEluBackward,
      (Tensor grad, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self, Tensor out)) {
  write(out, at::elu_backward(grad, alpha, scale, input_scale, is_result, self));
}
ACLNN(aclnnCelu, (Tensor self, Scalar alpha, Tensor out)) { write(out, at::celu(self, alpha)); }
ACLNN(aclnnInplaceCelu, (Tensor self, Scalar alpha)) { at::celu_(self, alpha); }

ACLNN(aclnnHardtanh, (Tensor self, Scalar min, Scalar max, Tensor out)) { write(out, at::hardtanh(self, min, max)); }
ACLNN(aclnnInplaceHardtanh, (Tensor self, Scalar min, Scalar max)) { at::hardtanh_(self, min, max); }
ACLNN(aclnnHardtanhBackward, (Tensor grad, Tensor self, Scalar min, Scalar max, Tensor out)) {
  write(out, at::hardtanh_backward(grad, self, min, max));
}
ACLNN(aclnnHardswish, (Tensor self, Tensor out)) { write(out, at::hardswish(self)); }
ACLNN(aclnnInplaceHardswish, (Tensor self)) { at::hardswish_(self); }
ACLNN(aclnnHardswishBackward, (Tensor grad, Tensor self, Tensor out)) {
  write(out, at::hardswish_backward(grad, self));
}
ACLNN(aclnnHardswishBackwardV2, (Tensor grad, Tensor self, Tensor out)) {
  write(out, at::hardswish_backward(grad, self));
}
ACLNN(aclnnHardsigmoid, (Tensor self, Tensor out)) { write(out, at::hardsigmoid(self)); }
ACLNN(aclnnInplaceHardsigmoid, (Tensor self)) { at::hardsigmoid_(self); }
ACLNN(aclnnHardsigmoidBackward, (Tensor grad, Tensor self, Tensor out)) {
  write(out, at::hardsigmoid_backward(grad, self));
}
ACLNN(aclnnHardshrink, (Tensor self, Scalar lambd, Tensor out)) { write(out, at::hardshrink(self, lambd)); }
ACLNN(aclnnHardshrinkBackward, (Tensor grad, Tensor self, Scalar lambd, Tensor out)) {
  write(out, at::hardshrink_backward(grad, self, lambd));
}
ACLNN(aclnnSoftshrink, (Tensor self, Scalar lambd, Tensor out)) { write(out, at::softshrink(self, lambd)); }
ACLNN(aclnnSoftshrinkBackward, (Tensor grad, Tensor self, Scalar lambd, Tensor out)) {
  write(out, at::softshrink_backward(grad, self, lambd));
}
ACLNN(aclnnSoftplus, (Tensor self, Scalar beta, Scalar threshold, Tensor out)) {
  write(out, at::softplus(self, beta, threshold));
}
ACLNN(aclnnSoftplusBackward, (Tensor grad, Tensor self, Scalar beta, Scalar threshold, Tensor out)) {
  write(out, at::softplus_backward(grad, self, beta, threshold));
}

ACLNN(aclnnPrelu, (Tensor self, Tensor weight, Tensor out)) {
  write(out, at::_prelu_kernel(self, weight));  // torch has laid the weight along the channels
}
ACLNN(aclnnPreluBackward, (Tensor grad, Tensor self, Tensor weight, Tensor grad_self_out, Tensor grad_weight_out)) {
  const Tensor laid = along_channels(weight, self);
  const auto [grad_self, grad_weight] = at::_prelu_kernel_backward(grad, self, laid);
  write(grad_self_out, grad_self);
  write(grad_weight_out, widened(grad_weight).sum_to_size(laid.sizes()).reshape(grad_weight_out.sizes()));
}
// Draws its slopes from a generator of its own: another stream of numbers than hardware's.
ACLNN(aclnnRReluWithNoise, (Tensor self, Tensor noise_out, Scalar lower, Scalar upper, bool training, int64_t seed,
                            int64_t offset, Tensor out)) {
  const auto generator = at::detail::createCPUGenerator(uint64_t(seed) ^ (uint64_t(offset) << 32));
  write(out, at::rrelu_with_noise(self, noise_out, lower, upper, training, generator));
}
ACLNN(aclnnInplaceRReluWithNoise,
      (Tensor self, Tensor noise_out, Scalar lower, Scalar upper, bool training, int64_t seed, int64_t offset)) {
  const auto generator = at::detail::createCPUGenerator(uint64_t(seed) ^ (uint64_t(offset) << 32));
  at::rrelu_with_noise_(self, noise_out, lower, upper, training, generator);
}

ACLNN(aclnnGlu, (Tensor self, int64_t dim, Tensor out)) { write(out, at::glu(self, dim)); }
ACLNN(aclnnGluBackward, (Tensor grad, Tensor self, int64_t dim, Tensor out)) {
  write(out, at::glu_backward(grad, self, dim));
}

// The dtype of the result is the output's: half precision in and float32 out is one operator.
ACLNN(aclnnSoftmax, (Tensor self, int64_t dim, Tensor out)) { write(out, at::softmax(self, dim, out.scalar_type())); }
ACLNN(aclnnLogSoftmax, (Tensor self, int64_t dim, Tensor out)) {
  write(out, at::log_softmax(self, dim, out.scalar_type()));
}
ACLNN(aclnnSoftmaxBackward, (Tensor grad, Tensor y, int64_t dim, Tensor grad_out)) {
  write(grad_out, at::_softmax_backward_data(grad, y, dim, grad.scalar_type()));
}
ACLNN(aclnnLogSoftmaxBackward, (Tensor grad, Tensor y, int64_t dim, Tensor grad_out)) {
  write(grad_out, at::_log_softmax_backward_data(grad, y, dim, grad.scalar_type()));
}
