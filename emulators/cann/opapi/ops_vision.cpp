// Convolution, pooling, resampling: what torch's own layers need. float32 inside.
#include "outputs.h"

using namespace cann;

namespace {

// One number of a kernel size, stride or padding stands for two.
Ints two(const Ints& values) { return values.size() == 1 ? Ints{values[0], values[0]} : values; }

OptTensor present(const OptTensor& t) { return t && t->numel() ? t : std::nullopt; }

// A scale of zero is "not given": the sizes tell it.
std::optional<double> given(double scale) { return scale > 0 ? std::optional<double>(scale) : std::nullopt; }

std::tuple<Tensor, Tensor> max_pool(const Tensor& self, const Ints& kernel, const Ints& stride, const Ints& padding,
                                    const Ints& dilation, bool ceil_mode) {
  return at::max_pool2d_with_indices(wide(self), two(kernel), two(stride), two(padding), two(dilation), ceil_mode);
}

}  // namespace

ACLNN(aclnnConvolution, (Tensor input, Tensor weight, OptTensor bias, Ints stride, Ints padding, Ints dilation,
                         bool transposed, Ints output_padding, int64_t groups, Tensor out, int8_t)) {
  write(out, at::convolution(wide(input), wide(weight), wide(present(bias)), stride, padding, dilation, transposed,
                             output_padding, groups));
}
ACLNN(aclnnConvolutionBackward, (Tensor grad, Tensor input, Tensor weight, OptInts bias_sizes, Ints stride,
                                 Ints padding, Ints dilation, bool transposed, Ints output_padding, int64_t groups,
                                 Bools wanted, int8_t, OptTensor outInput, OptTensor outWeight, OptTensor outBias)) {
  const Ints sizes = bias_sizes.value_or(Ints{});
  const auto [dx, dw, db] = at::convolution_backward(
      wide(grad), wide(input), wide(weight), sizes.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(sizes),
      stride, padding, dilation, transposed, output_padding, groups, {wanted.at(0), wanted.at(1), wanted.at(2)});
  if (wanted[0]) give(outInput, dx);
  if (wanted[1]) give(outWeight, dw);
  if (wanted[2]) give(outBias, db);
}
ACLNN(aclnnConvDepthwise2d, (Tensor self, Tensor weight, Ints, OptTensor bias, Ints stride, Ints padding, Ints dilation,
                             Tensor out, int8_t)) {
  write(out, at::conv2d(wide(self), wide(weight), wide(present(bias)), stride, padding, dilation, self.size(1)));
}

ACLNN(aclnnAvgPool2d, (Tensor self, Ints kernel, Ints stride, Ints padding, bool ceil_mode, bool count_padding,
                       int64_t divisor, int8_t, Tensor out)) {
  const auto by = divisor ? std::optional<int64_t>(divisor) : std::nullopt;
  write(out, at::avg_pool2d(wide(self), two(kernel), two(stride), two(padding), ceil_mode, count_padding, by));
}
ACLNN(aclnnAvgPool2dBackward, (Tensor grad, Tensor self, Ints kernel, Ints stride, Ints padding, bool ceil_mode,
                               bool count_padding, int64_t divisor, int8_t, Tensor out)) {
  const auto by = divisor ? std::optional<int64_t>(divisor) : std::nullopt;
  write(out, at::avg_pool2d_backward(wide(grad), wide(self), two(kernel), two(stride), two(padding), ceil_mode,
                                     count_padding, by));
}
ACLNN(aclnnAdaptiveAvgPool2d, (Tensor self, Ints size, Tensor out)) {
  write(out, at::_adaptive_avg_pool2d(wide(self), two(size)));
}
ACLNN(aclnnAdaptiveAvgPool2dBackward, (Tensor grad, Tensor self, Tensor out)) {
  write(out, at::_adaptive_avg_pool2d_backward(wide(grad), wide(self)));
}

// The mask's form is the kernels' own; the gradient is worked out from self again.
ACLNN(aclnnMaxPool2dWithMask, (Tensor self, Ints kernel, Ints stride, Ints padding, Ints dilation, bool ceil_mode,
                               Tensor out, Tensor outMask)) {
  write(out, std::get<0>(max_pool(self, kernel, stride, padding, dilation, ceil_mode)));
  outMask.zero_();
}
ACLNN(aclnnMaxPool2dWithMaskBackward, (Tensor grad, Tensor self, Tensor, Ints kernel, Ints stride, Ints padding,
                                       Ints dilation, bool ceil_mode, Tensor out)) {
  const Tensor where = std::get<1>(max_pool(self, kernel, stride, padding, dilation, ceil_mode));
  write(out, at::max_pool2d_with_indices_backward(wide(grad), wide(self), two(kernel), two(stride), two(padding),
                                                  two(dilation), ceil_mode, where));
}

ACLNN(aclnnIm2col, (Tensor self, Ints kernel, Ints dilation, Ints padding, Ints stride, Tensor out)) {
  write(out, at::im2col(self, two(kernel), two(dilation), two(padding), two(stride)));
}
ACLNN(aclnnIm2colBackward,
      (Tensor grad, Ints size, Ints kernel, Ints dilation, Ints padding, Ints stride, Tensor out)) {
  write(out, at::col2im(wide(grad), two(size), two(kernel), two(dilation), two(padding), two(stride)));
}

ACLNN(aclnnUpsampleNearest1d, (Tensor self, Ints size, Tensor out)) {
  write(out, at::upsample_nearest1d(wide(self), size));
}
ACLNN(aclnnUpsampleNearest2d, (Tensor self, Ints size, Tensor out)) {
  write(out, at::upsample_nearest2d(wide(self), size));
}
ACLNN(aclnnUpsampleNearest1dV2, (Tensor self, Ints size, float scale, Tensor out)) {
  write(out, at::upsample_nearest1d(wide(self), size, given(scale)));
}
ACLNN(aclnnUpsampleNearest2dV2, (Tensor self, Ints size, float scale_h, float scale_w, Tensor out)) {
  write(out, at::upsample_nearest2d(wide(self), size, given(scale_h), given(scale_w)));
}
ACLNN(aclnnUpsampleNearest1dBackward, (Tensor grad, Ints size, Ints input, double scale, Tensor out)) {
  write(out, at::upsample_nearest1d_backward(wide(grad), size, input, given(scale)));
}
ACLNN(aclnnUpsampleNearest2dBackward,
      (Tensor grad, Ints size, Ints input, double scale_h, double scale_w, Tensor out)) {
  write(out, at::upsample_nearest2d_backward(wide(grad), size, input, given(scale_h), given(scale_w)));
}
ACLNN(aclnnUpsampleLinear1d, (Tensor self, Ints size, bool align, double scale, Tensor out)) {
  write(out, at::upsample_linear1d(wide(self), size, align, given(scale)));
}
ACLNN(aclnnUpsampleLinear1dBackward, (Tensor grad, Ints size, Ints input, bool align, double scale, Tensor out)) {
  write(out, at::upsample_linear1d_backward(wide(grad), size, input, align, given(scale)));
}
ACLNN(aclnnUpsampleBilinear2d, (Tensor self, Ints size, bool align, double scale_h, double scale_w, Tensor out)) {
  write(out, at::upsample_bilinear2d(wide(self), size, align, given(scale_h), given(scale_w)));
}
ACLNN(aclnnUpsampleBilinear2dBackwardV2,
      (Tensor grad, Ints size, Ints input, bool align, double scale_h, double scale_w, Tensor out)) {
  write(out, at::upsample_bilinear2d_backward(wide(grad), size, input, align, given(scale_h), given(scale_w)));
}
ACLNN(aclnnUpsampleBilinear2dBackward,
      (Tensor grad, Ints size, Ints input, bool align, double scale_h, double scale_w, Tensor out)) {
  write(out, at::upsample_bilinear2d_backward(wide(grad), size, input, align, given(scale_h), given(scale_w)));
}
ACLNN(aclnnUpsampleBicubic2d, (Tensor self, Ints size, bool align, double scale_h, double scale_w, Tensor out)) {
  write(out, at::upsample_bicubic2d(wide(self), size, align, given(scale_h), given(scale_w)));
}
ACLNN(aclnnUpsampleBicubic2dBackward,
      (Tensor grad, Ints size, Ints input, bool align, double scale_h, double scale_w, Tensor out)) {
  write(out, at::upsample_bicubic2d_backward(wide(grad), size, input, align, given(scale_h), given(scale_w)));
}

#define PAD(KIND, AT)                                                                                \
  ACLNN(aclnn##KIND, (Tensor self, Ints padding, Tensor out)) { write(out, at::AT(self, padding)); } \
  ACLNN(aclnn##KIND##Backward, (Tensor grad, Tensor self, Ints padding, Tensor out)) {               \
    write(out, at::AT##_backward(wide(grad), wide(self), padding));                                  \
  }
PAD(ReflectionPad1d, reflection_pad1d)
PAD(ReflectionPad2d, reflection_pad2d)
PAD(ReflectionPad3d, reflection_pad3d)
PAD(ReplicationPad1d, replication_pad1d)
PAD(ReplicationPad2d, replication_pad2d)
PAD(ReplicationPad3d, replication_pad3d)
