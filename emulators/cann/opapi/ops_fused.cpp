// Fused calls of language models: rotary embedding, gated activations, cross entropy. float32 inside.
#include "outputs.h"

using namespace cann;

namespace {

void floating(const Tensor& t) {
  const auto type = t.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, type, " is not supported");
}

enum Rotation { kHalf = 0, kInterleave = 1 };

Tensor rotated(const Tensor& x, int64_t mode) {
  if (mode == kInterleave) {
    const Tensor pairs = x.unflatten(-1, {-1, 2});
    return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
  }
  const int64_t half = x.size(-1) / 2;
  return at::cat({-x.slice(-1, half), x.slice(-1, 0, half)}, -1);
}

Tensor rotated_back(const Tensor& g, int64_t mode) { return -rotated(g, mode); }  // rotations by a right angle

void rotary_arguments(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode) {
  floating(x);
  TORCH_CHECK(mode == kHalf || mode == kInterleave, "rotary mode ", mode, " is not emulated");
  TORCH_CHECK(x.dim() == 3 || x.dim() == 4, "x has ", x.dim(), " dimensions");
  TORCH_CHECK(x.size(-1) % 2 == 0 && x.size(-1) < 896, "the head size ", x.size(-1), " is odd or not below 896");
  TORCH_CHECK(x.dim() == 3 || (x.size(0) < 1000 && x.size(1) < 1000), "batch and heads of ", x.sizes(),
              " are not below 1000");
  TORCH_CHECK(cos.sizes() == sin.sizes() && cos.dim() == x.dim() && cos.size(-1) == x.size(-1) &&
                  x.scalar_type() == cos.scalar_type(),
              "cos and sin are ", cos.sizes(), " and ", sin.sizes(), " with x ", x.sizes());
}

Tensor rotary(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode) {
  const Tensor wide_x = x.to(at::kFloat);
  return wide_x * cos.to(at::kFloat) + rotated(wide_x, mode) * sin.to(at::kFloat);
}

}  // namespace

// torch_npu runs the second version, and that only where it finds the first.
ACLNN(aclnnRotaryPositionEmbedding, (Tensor x, Tensor cos, Tensor sin, int64_t mode, Tensor out)) {
  write(out, rotary(x, cos, sin, mode));
}
ACLNN_RULE(aclnnRotaryPositionEmbedding, (Tensor x, Tensor cos, Tensor sin, int64_t mode, Tensor)) {
  rotary_arguments(x, cos, sin, mode);
}
ACLNN(aclnnRotaryPositionEmbeddingV2, (Tensor x, Tensor cos, Tensor sin, int64_t mode, OptTensor, Tensor out)) {
  write(out, rotary(x, cos, sin, mode));
}
ACLNN_RULE(aclnnRotaryPositionEmbeddingV2, (Tensor x, Tensor cos, Tensor sin, int64_t mode, OptTensor rotate, Tensor)) {
  TORCH_CHECK(!rotate, "a rotation matrix is not emulated");
  rotary_arguments(x, cos, sin, mode);
}
// Without x the gradients of cos and sin are not computed, and what memory held stays in them.
ACLNN(aclnnRotaryPositionEmbeddingGrad, (Tensor grad, Tensor cos, Tensor sin, OptTensor x, int64_t mode, Tensor outDx,
                                         OptTensor outDcos, OptTensor outDsin)) {
  const Tensor g = grad.to(at::kFloat);
  write(outDx, g * cos.to(at::kFloat) + rotated_back(g * sin.to(at::kFloat), mode));
  if (!x) return;
  const Tensor wide_x = x->to(at::kFloat);
  give(outDcos, at::sum_to(g * wide_x, cos.sizes()));
  give(outDsin, at::sum_to(g * rotated(wide_x, mode), sin.sizes()));
}
ACLNN_RULE(aclnnRotaryPositionEmbeddingGrad,
           (Tensor grad, Tensor cos, Tensor sin, OptTensor x, int64_t mode, Tensor, OptTensor, OptTensor)) {
  rotary_arguments(grad, cos, sin, mode);
  TORCH_CHECK(!x || grad.dim() == 3 || grad.size(0) * grad.size(1) <= 1024,
              "gradients of cos and sin need batch * heads of at most 1024");
}

namespace {

// layout 1 BSND (or BSH), 2 SBND, 3 BNSD, 4 TND. Both are written in place, though torch's schema does not say so.
void apply_arguments(const Tensor& query, const Tensor& key, const Tensor& cos, const Tensor& sin, int64_t layout,
                     const Text& mode) {
  TORCH_CHECK(layout == 1 || layout == 4, "only BSND and TND are supported");
  TORCH_CHECK(mode == "half", "rotary_mode ", mode, " is not emulated");
  const int64_t d = cos.size(-1);
  TORCH_CHECK(d == 64 || d == 128, "the head size is ", d, ", not 64 or 128");
  for (const Tensor& x : {query, key}) {
    TORCH_CHECK(x.scalar_type() == cos.scalar_type() && cos.scalar_type() == sin.scalar_type(),
                "query, key, cos and sin share one dtype");
    TORCH_CHECK(x.size(-1) == d, "the last dimension of query or key is ", x.size(-1), ", of cos ", d);
  }
}

void apply_rotary(const Tensor& query, const Tensor& key, const Tensor& cos, const Tensor& sin) {
  for (const Tensor& x : {query, key}) {
    const Tensor wide_x = x.to(at::kFloat);
    x.copy_(wide_x * cos.to(at::kFloat) + rotated(wide_x, kHalf) * sin.to(at::kFloat));
  }
}

}  // namespace

ACLNN(aclnnApplyRotaryPosEmbV2, (Tensor queryRef, Tensor keyRef, Tensor cos, Tensor sin, int64_t, Text)) {
  apply_rotary(queryRef, keyRef, cos, sin);
}
ACLNN_RULE(aclnnApplyRotaryPosEmbV2, (Tensor query, Tensor key, Tensor cos, Tensor sin, int64_t layout, Text mode)) {
  apply_arguments(query, key, cos, sin, layout, mode);
}

namespace {

void gated(const Tensor& x, int64_t dim) {
  floating(x);
  TORCH_CHECK(x.numel(), "empty tensors are not supported");
  TORCH_CHECK(x.size(dim) % 2 == 0, "size ", x.size(dim), " of dimension ", dim, " is odd");
}

Tensor tanh_or_erf(int64_t approximate, const Tensor& x) { return at::gelu(x, approximate == 1 ? "tanh" : "none"); }

}  // namespace

ACLNN(aclnnSwiGlu, (Tensor self, int64_t dim, Tensor out)) {
  const auto halves = self.to(at::kFloat).chunk(2, dim);
  write(out, at::silu(halves[0]) * halves[1]);
}
ACLNN_RULE(aclnnSwiGlu, (Tensor self, int64_t dim, Tensor)) { gated(self, dim); }
ACLNN(aclnnSwiGluGrad, (Tensor grad, Tensor self, int64_t dim, Tensor out)) {
  const auto halves = self.to(at::kFloat).chunk(2, dim);
  const Tensor g = grad.to(at::kFloat);
  write(out, at::cat({at::silu_backward(g * halves[1], halves[0]), g * at::silu(halves[0])}, dim));
}
ACLNN_RULE(aclnnSwiGluGrad, (Tensor, Tensor self, int64_t dim, Tensor)) { gated(self, dim); }
// activate_left says which half goes through gelu; the default is the right one.
ACLNN(aclnnGeGluV3, (Tensor self, int64_t dim, int64_t approximate, bool activate_left, Tensor out, Tensor outGelu)) {
  const auto halves = self.to(at::kFloat).chunk(2, dim);
  const Tensor gelu = tanh_or_erf(approximate, halves[activate_left ? 0 : 1]);
  write(out, gelu * halves[activate_left ? 1 : 0]);
  write(outGelu, gelu);
}
ACLNN_RULE(aclnnGeGluV3, (Tensor self, int64_t dim, int64_t, bool, Tensor, Tensor)) { gated(self, dim); }
ACLNN(aclnnGeGluV3Backward,
      (Tensor grad, Tensor self, Tensor gelu, int64_t dim, int64_t approximate, bool activate_left, Tensor out)) {
  const auto halves = self.to(at::kFloat).chunk(2, dim);
  const Tensor g = grad.to(at::kFloat);
  const Tensor through = at::gelu_backward(g * halves[activate_left ? 1 : 0], halves[activate_left ? 0 : 1],
                                           approximate == 1 ? "tanh" : "none");
  const Tensor beside = g * gelu.to(at::kFloat);
  write(out, activate_left ? at::cat({through, beside}, dim) : at::cat({beside, through}, dim));
}

namespace {

// A negative ignore_index ignores nothing; then, and for all that is not ignored, targets lie in [0, C).
Tensor counted(const Tensor& target, int64_t classes, int64_t ignore) {
  const Tensor kept = ignore >= 0 ? target != ignore : at::ones_like(target, at::kBool);
  const Tensor wrong = kept.logical_and((target < 0).logical_or(target >= classes));
  TORCH_CHECK(!wrong.any().item<bool>(), "a target lies outside [0, ", classes,
              "); a negative ignore_index means that none is ignored");
  return kept;
}

Tensor class_weights(const OptTensor& weight, int64_t classes) {
  if (!weight || !weight->numel()) return at::ones({classes}, at::kFloat);
  TORCH_CHECK(weight->scalar_type() == at::kFloat, "weight is ", weight->scalar_type(), ", not float32");
  return *weight;
}

void reduction_name(const Text& reduction) {
  TORCH_CHECK(reduction == "mean" || reduction == "sum" || reduction == "none", "reduction ", reduction, " is unknown");
}

}  // namespace

ACLNN(aclnnCrossEntropyLoss,
      (Tensor input, Tensor target, OptTensor weight, Text reduction, int64_t ignore, double smoothing, double z_scale,
       bool with_z, Tensor outLoss, Tensor outLogProb, OptTensor outZ, OptTensor outLse)) {
  const int64_t classes = input.size(1);
  const Tensor at_ = indices(target), kept = counted(at_, classes, ignore), w = class_weights(weight, classes);
  const Tensor log_prob = at::log_softmax(input.to(at::kFloat), 1);
  const Tensor safe = at_.masked_fill(kept.logical_not(), 0), own = w.index_select(0, safe) * kept;
  Tensor loss = -log_prob.gather(1, safe.unsqueeze(1)).squeeze(1) * own;
  if (smoothing != 0) {
    const Tensor spread = -(log_prob * w).sum(1) * kept;
    loss = loss * (1 - smoothing) + spread * (smoothing / double(classes));
  }
  const auto reduce = [&](const Tensor& each, const Tensor& count) {
    return reduction == "none" ? each : reduction == "sum" ? each.sum() : each.sum() / count;
  };
  Tensor result = reduce(loss, own.sum());
  if (z_scale != 0) {
    const Tensor lse = at::logsumexp(input.to(at::kFloat), Ints{1});
    const Tensor z = reduce(lse.square() * z_scale * kept, kept.sum());
    result = result + z;
    if (outLse && outLse->numel()) write(*outLse, lse);
    if (with_z && outZ && outZ->numel()) write(*outZ, z.reshape(outZ->sizes()));
  }
  write(outLoss, result.reshape(outLoss.sizes()));
  write(outLogProb, log_prob);
}
ACLNN_RULE(aclnnCrossEntropyLoss, (Tensor input, Tensor target, OptTensor, Text reduction, int64_t, double, double,
                                   bool, Tensor, Tensor, OptTensor, OptTensor)) {
  reduction_name(reduction);
  floating(input);
  TORCH_CHECK(input.dim() == 2 && target.dim() == 1 && target.size(0) == input.size(0),
              "input is [N, C] and target [N], not ", input.sizes(), " and ", target.sizes());
}
ACLNN(aclnnCrossEntropyLossGrad, (Tensor grad, Tensor log_prob, Tensor target, OptTensor weight, OptTensor, OptTensor,
                                  Text reduction, int64_t ignore, double, double, Tensor out)) {
  const int64_t classes = log_prob.size(1);
  const Tensor at_ = indices(target), kept = counted(at_, classes, ignore);
  const Tensor safe = at_.masked_fill(kept.logical_not(), 0),
               own = class_weights(weight, classes).index_select(0, safe) * kept;
  Tensor each = grad.to(at::kFloat) * own;
  if (reduction == "mean") each = each / own.sum();
  const Tensor share =
      at::exp(log_prob.to(at::kFloat)).scatter_add(1, safe.unsqueeze(1), at::full({safe.size(0), 1}, -1.0f));
  write(out, share * each.unsqueeze(1));
}
ACLNN_RULE(aclnnCrossEntropyLossGrad, (Tensor, Tensor log_prob, Tensor, OptTensor weight, OptTensor grad_z, OptTensor,
                                       Text reduction, int64_t ignore, double smoothing, double z_scale, Tensor)) {
  reduction_name(reduction);
  TORCH_CHECK(!grad_z && z_scale == 0, "z-loss has no gradient here");
  TORCH_CHECK(smoothing == 0, "label_smoothing has no gradient here");
  TORCH_CHECK(reduction != "mean" || (ignore == -100 && !weight),
              "the gradient of reduction mean takes neither weight nor ignore_index");
  TORCH_CHECK(log_prob.size(0) <= 200000, "the gradient takes at most 200000 rows");
}
