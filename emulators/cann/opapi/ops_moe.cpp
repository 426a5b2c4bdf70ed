// Mixture of experts: gating, permuting tokens by expert and back.
#include "outputs.h"

using namespace cann;

namespace {

// Slot i, choice i % K of token i // K, goes to row result[i]: the inverse of sorting by expert. Stable.
Tensor destinations(const Tensor& experts) {
  return at::argsort(at::argsort(experts.flatten().to(at::kLong), true, 0, false), true, 0, false);
}

void not_padded(bool padded) { TORCH_CHECK(!padded, "padded_mode is not supported"); }

// rows[i] = from[where[i]], and zero where `where` lies beyond from.
Tensor gather_rows(const Tensor& from, const Tensor& where) {
  const Tensor there = where < from.size(0);
  const Tensor rows = from.index_select(0, where.clamp_max(std::max<int64_t>(from.size(0) - 1, 0)));
  return rows * there.unsqueeze(1);
}

// Rows of `from` put where `where` says, those beyond `size` dropped.
Tensor put_rows(const Tensor& from, const Tensor& where, int64_t size) {
  const Tensor there = (where < size).nonzero().squeeze(1);
  return at::zeros({size, from.size(1)}, from.options())
      .index_copy(0, where.index_select(0, there), from.index_select(0, there));
}

}  // namespace

ACLNN(aclnnMoeTokenPermute, (Tensor tokens, Tensor experts, int64_t rows, bool padded, Tensor out, Tensor outSorted)) {
  not_padded(padded);
  const int64_t k = experts.dim() == 2 ? experts.size(1) : 1;
  const Tensor to = destinations(experts);
  TORCH_CHECK(out.size(0) == rows, "num_out_tokens is ", rows, ", the output has ", out.size(0));
  write(out, put_rows(tokens.repeat_interleave(k, 0), to, out.size(0)));
  write(outSorted, to);
}
ACLNN(aclnnMoeTokenPermuteGrad, (Tensor grad, Tensor sorted, int64_t k, bool padded, Tensor out)) {
  not_padded(padded);
  write(out, gather_rows(wide(grad), indices(sorted)).unflatten(0, {-1, k}).sum(1));
}
ACLNN(aclnnMoeTokenUnpermute, (Tensor permuted, Tensor sorted, OptTensor probs, bool padded, OptInts, Tensor out)) {
  not_padded(padded);
  const int64_t k = sorted.numel() / std::max<int64_t>(out.size(0), 1);
  Tensor slots = gather_rows(wide(permuted), indices(sorted)).unflatten(0, {-1, k});
  if (probs) slots = slots * wide(*probs).reshape({-1, k, 1});
  write(out, slots.sum(1));
}
ACLNN(aclnnMoeTokenUnpermuteGrad, (OptTensor permuted, Tensor grad, Tensor sorted, OptTensor probs, bool padded,
                                   OptInts, Tensor outPermuted, OptTensor outProbs)) {
  not_padded(padded);
  const int64_t k = sorted.numel() / std::max<int64_t>(grad.size(0), 1);
  const Tensor to = indices(sorted), g = wide(grad).repeat_interleave(k, 0);
  write(outPermuted, put_rows(probs ? g * wide(*probs).reshape({-1, 1}) : g, to, outPermuted.size(0)));
  if (!probs || !outProbs) return;
  TORCH_CHECK(permuted, "gradients of probs need the permuted tokens");
  write(*outProbs, (gather_rows(wide(*permuted), to) * g).sum(1).reshape(outProbs->sizes()));
}

ACLNN(aclnnMoeGatingTopKSoftmax,
      (Tensor x, OptTensor finished, int64_t k, Tensor outY, Tensor outExpert, Tensor outRow)) {
  const auto [y, expert] = at::topk(at::softmax(x.to(at::kFloat), -1), k, -1);
  const int64_t rows = expert.numel() / std::max<int64_t>(k, 1);
  write(outY, y);
  write(outExpert, finished ? expert.masked_fill(finished->unsqueeze(-1), x.size(-1)) : expert);
  // Choice j of row i is j * rows + i.
  write(outRow, at::arange(rows * k, at::kLong).reshape({k, rows}).t().reshape(outRow.sizes()));
}
ACLNN(aclnnMoeGatingTopKSoftmaxV2, (Tensor x, OptTensor finished, int64_t k, int64_t renorm, bool with_softmax,
                                    Tensor outY, Tensor outExpert, OptTensor outSoftmax)) {
  const Tensor wide_x = x.to(at::kFloat), soft = at::softmax(wide_x, -1);
  auto [y, expert] = at::topk(renorm ? wide_x : soft, k, -1);
  if (renorm) y = at::softmax(y, -1);
  write(outY, y);
  write(outExpert, finished ? expert.masked_fill(finished->unsqueeze(-1), x.size(-1)) : expert);
  if (with_softmax && !renorm) give(outSoftmax, soft);
}

namespace {

// norm_type 0 softmax, 1 sigmoid; the bias chooses experts but does not weigh them.
void gate(const Tensor& x, const OptTensor& bias, int64_t k, int64_t kept_groups, int64_t groups, int64_t select,
          int64_t renorm, int64_t norm, bool with_out, double factor, double eps, const Tensor& y, const Tensor& expert,
          const OptTensor& out) {
  TORCH_CHECK(norm == 0 || norm == 1, "norm_type ", norm, " is unknown");
  const Tensor wide_x = x.to(at::kFloat), score = norm ? at::sigmoid(wide_x) : at::softmax(wide_x, -1);
  Tensor choice = bias ? score + bias->to(at::kFloat) : score;
  if (groups > 1 && kept_groups < groups) {
    const Tensor grouped = choice.unflatten(-1, {groups, -1});
    const Tensor worth = select == 0 ? grouped.amax(-1) : std::get<0>(at::topk(grouped, 2, -1)).sum(-1);
    const Tensor best = std::get<1>(at::topk(worth, kept_groups, -1));
    const Tensor keep = at::zeros_like(worth, at::kBool).scatter(-1, best, true);
    choice = grouped.masked_fill(keep.logical_not().unsqueeze(-1), -std::numeric_limits<float>::infinity()).flatten(-2);
  }
  const Tensor chosen = std::get<1>(at::topk(choice, k, -1));
  Tensor weights = score.gather(-1, chosen);
  if (norm == 1 || renorm) weights = weights / (weights.sum(-1, true) + eps);
  write(y, weights * factor);
  write(expert, chosen);
  if (with_out) give(out, score);
}

}  // namespace

ACLNN(aclnnMoeGatingTopK,
      (Tensor x, OptTensor bias, int64_t k, int64_t k_group, int64_t groups, int64_t select, int64_t renorm,
       int64_t norm, bool with_out, double factor, double eps, Tensor outY, Tensor outExpert, OptTensor out)) {
  gate(x, bias, k, k_group, groups, select, renorm, norm, with_out, factor, eps, outY, outExpert, out);
}
ACLNN(aclnnMoeGatingTopKBackward,
      (Tensor score, Tensor grad, Tensor expert, int64_t renorm, int64_t norm, double factor, double eps, Tensor out)) {
  const Tensor s = score.to(at::kFloat), chosen = indices(expert), picked = s.gather(-1, chosen);
  Tensor g = grad.to(at::kFloat) * factor;
  if (norm == 1 || renorm) {
    const Tensor sum = picked.sum(-1, true) + eps;
    g = (g - (g * picked).sum(-1, true) / sum) / sum;
  }
  const Tensor through = at::zeros_like(s).scatter_add(-1, chosen, g);
  write(out, norm ? through * s * (1 - s) : s * (through - (through * s).sum(-1, true)));
}

ACLNN(aclnnMoeInitRouting,
      (Tensor x, Tensor row, Tensor expert, int64_t active, Tensor outX, Tensor outRow, Tensor outExpert)) {
  const int64_t n = x.size(0), k = expert.size(1);
  const auto [sorted, order] = at::sort(expert.flatten(), true, 0, false);
  const Tensor from = indices(row).flatten().index_select(0, order);
  write(outExpert, sorted);
  write(outRow, at::empty({n * k}, at::kLong).index_copy(0, from, at::arange(n * k, at::kLong)));
  write(outX, x.index_select(0, at::remainder(from.slice(0, 0, std::min(active, n) * k), n)));
}

namespace {

// Row choice * N + i of source_to_row says where choice of token i was computed.
void finalize(const Tensor& rows, const Tensor& source_to_row, const OptTensor& skip1, const OptTensor& skip2,
              const OptTensor& bias, const OptTensor& scales, const OptTensor& experts, const Tensor& out) {
  const int64_t n = out.size(0), k = source_to_row.numel() / std::max<int64_t>(n, 1);
  Tensor each = wide(rows).index_select(0, indices(source_to_row)).unflatten(0, {k, n}).transpose(0, 1);
  if (bias) {
    TORCH_CHECK(experts, "a bias needs the experts of the rows");
    each = each + wide(*bias).index_select(0, indices(*experts).flatten()).reshape({n, k, -1});
  }
  if (scales) each = each * wide(*scales).reshape({n, k, 1});
  Tensor sum = each.sum(1);
  if (skip1) sum = sum + wide(*skip1);
  if (skip2) sum = sum + wide(*skip2);
  write(out, sum);
}

}  // namespace

ACLNN(aclnnMoeFinalizeRoutingV2, (Tensor rows, Tensor source_to_row, OptTensor skip1, OptTensor skip2, OptTensor bias,
                                  OptTensor scales, OptTensor experts, int64_t mode, Tensor out)) {
  TORCH_CHECK(mode == 0, "drop_pad_mode ", mode, " is not emulated");
  finalize(rows, source_to_row, skip1, skip2, bias, scales, experts, out);
}
ACLNN(aclnnMoeComputeExpertTokens, (Tensor sorted, int64_t experts, Tensor out)) {
  write(out, at::searchsorted(sorted.to(at::kLong), at::arange(experts, at::kLong), false, true));
}
