// Experts by a map [tokens, experts] of what goes where, as Megatron routes. Every token has as many choices as the
// others.
#include "outputs.h"

using namespace cann;

namespace {

void dropless(bool drop_and_pad) { TORCH_CHECK(!drop_and_pad, "drop_and_pad is not emulated"); }

// Rows are ordered by expert, then by token: the token of each.
Tensor tokens_of_rows(const Tensor& map) { return map.to(at::kBool).t().nonzero().select(1, 1); }

// Choice i % K of token i // K went to row result[i].
Tensor rows_of_choices(const Tensor& map) { return at::argsort(tokens_of_rows(map), true, 0, false); }

Tensor by_row(const Tensor& probs, const Tensor& map) { return probs.t().masked_select(map.to(at::kBool).t()); }

Tensor by_map(const Tensor& rows, const Tensor& map) {
  return at::zeros(map.t().sizes(), rows.options()).masked_scatter(map.to(at::kBool).t(), rows).t();
}

}  // namespace

ACLNN(aclnnMoeTokenPermuteWithRoutingMap, (Tensor tokens, Tensor map, OptTensor probs, int64_t, bool drop_and_pad,
                                           Tensor out, OptTensor outProbs, Tensor outSorted)) {
  dropless(drop_and_pad);
  write(out, tokens.index_select(0, tokens_of_rows(map)));
  if (probs) give(outProbs, by_row(*probs, map));
  write(outSorted, rows_of_choices(map));
}
ACLNN(aclnnMoeTokenPermuteWithRoutingMapGrad, (Tensor grad, OptTensor grad_probs, Tensor sorted, Tensor map, int64_t,
                                               int64_t tokens, bool drop_and_pad, Tensor out, OptTensor outProbs)) {
  dropless(drop_and_pad);
  write(out, wide(grad).index_select(0, indices(sorted)).unflatten(0, {tokens, -1}).sum(1));
  if (grad_probs) give(outProbs, by_map(*grad_probs, map));
}
ACLNN(aclnnMoeTokenUnpermuteWithRoutingMap,
      (Tensor permuted, Tensor sorted, OptTensor map, OptTensor probs, bool drop_and_pad, Ints, Tensor out,
       OptTensor outIndex, OptTensor outTokens, OptTensor outProbs)) {
  dropless(drop_and_pad);
  Tensor rows = wide(permuted);
  if (probs) {
    TORCH_CHECK(map, "probs need the routing map");
    const Tensor weights = by_row(*probs, *map);
    give(outProbs, weights);
    rows = rows * wide(weights).unsqueeze(1);
  }
  write(out, rows.index_select(0, indices(sorted)).unflatten(0, {out.size(0), -1}).sum(1));
  give(outIndex, sorted);
  if (map) give(outTokens, tokens_of_rows(*map));
}
// torch_npu passes the sorted indices for both of the indices here.
ACLNN(aclnnMoeTokenUnpermuteWithRoutingMapGrad,
      (Tensor grad, Tensor sorted, Tensor, OptTensor map, OptTensor permuted, OptTensor probs, bool drop_and_pad,
       OptInts, Tensor out, OptTensor outProbs)) {
  dropless(drop_and_pad);
  const int64_t k = sorted.numel() / std::max<int64_t>(grad.size(0), 1);
  const Tensor each = wide(grad).repeat_interleave(k, 0);
  const Tensor rows = at::zeros({sorted.numel(), grad.size(1)}, each.options()).index_copy(0, indices(sorted), each);
  if (!probs) return write(out, rows);
  TORCH_CHECK(map && permuted, "probs need the routing map and the permuted tokens");
  write(out, rows * wide(by_row(*probs, *map)).unsqueeze(1));
  if (outProbs) write(*outProbs, by_map((rows * wide(*permuted)).sum(1), *map));
}
