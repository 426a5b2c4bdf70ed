// Flash attention as CANN documents it, computed at once and in float32: what all aclnnFlashAttention* operators share.
#pragma once

#include "outputs.h"

namespace cann {

// Arguments of a call, whatever its version. Layouts: BSH, SBH, BSND, BNSD, TND.
struct Attention {
  Tensor query, key, value;
  OptTensor query_rope, key_rope;  // further columns of queries and keys
  OptTensor pse, dropped, mask, sink;
  Ints prefix, query_ends, key_ends;  // the last two: cumulative lengths without a leading 0, TND only
  Ints query_start, key_start;
  double scale = 1, keep = 1;
  int64_t before = 0, after = 0, heads = 0;
  Text layout;
  int64_t precise = 0, sparse = 0, pse_type = 1;
  Text statistics_layout;  // "same_as_input", or whatever else for CANN's default order of max and sum, NTD
};

// What a call is refused for.
void check(const Attention& call);

// out may have fewer columns than query; max and sum are [B, N, S, 8] or, for TND, [T, N, 8] whose memory is [N, T, 8]
// unless the call asked otherwise. The eight are copies of one.
void attend(const Attention& call, const OptTensor& max, const OptTensor& sum, const Tensor& out);

struct AttentionGradients {
  Tensor query, key, value;
  OptTensor query_rope, key_rope, pse, sink;
};

// From what attend() left: max and sum.
void attend_backward(const Attention& call, const Tensor& grad, const Tensor& max, const Tensor& sum,
                     const OptTensor& out, const AttentionGradients& into);

// Refuses an atten_mask or sparse_mode that cannot be meant for sq queries and skv keys (of TND: in all).
void check_mask(const Attention& call, int64_t sq, int64_t skv);

// Which scores of one batch entry are left out, [.., Sq, Skv] with true for "left out"; nothing where none is.
OptTensor left_out(const Attention& call, int64_t sq, int64_t skv, int64_t entry, int64_t first_entry,
                   int64_t last_entry);

}  // namespace cann
