#include "attention.h"

#include <cmath>
#include <limits>

namespace cann {
namespace {

constexpr float kLowest =
    std::numeric_limits<float>::lowest();  // a score that is left out, so that all of a row can be

// Any layout as [B, N, S, D] of float32, and the way back.
Tensor heads_first(const Tensor& t, const Text& layout, int64_t heads) {
  const Tensor x = t.to(at::kFloat);
  if (layout == "BNSD") return x;
  if (layout == "BSND") return x.transpose(1, 2);
  if (layout == "BSH") return x.unflatten(2, {heads, -1}).transpose(1, 2);
  if (layout == "SBH") return x.unflatten(2, {heads, -1}).permute({1, 2, 0, 3});
  if (layout == "TND") return x.transpose(0, 1).unsqueeze(0);
  TORCH_CHECK(false, "input_layout ", layout, " is unknown");
}

Tensor laid_out(const Tensor& x, const Text& layout) {
  if (layout == "BNSD") return x;
  if (layout == "BSND") return x.transpose(1, 2);
  if (layout == "BSH") return x.transpose(1, 2).flatten(2);
  if (layout == "SBH") return x.permute({2, 0, 1, 3}).flatten(2);
  return x.squeeze(0).transpose(0, 1);
}

int64_t key_heads(const Attention& call) {
  const int64_t d = call.layout == "BSH" || call.layout == "SBH" ? call.query.size(2) / call.heads : 0;
  if (d) return call.key.size(2) / d;
  return call.key.size(call.layout == "BNSD" || call.layout == "TND" ? 1 : 2);
}

// One piece of a call: a batch with all of its entries, or a sequence of a TND call.
struct Piece {
  Tensor q, k, v;            // [B, N, S, D], [B, Nkv, S, D]
  OptTensor left_out, bias;  // broadcast against [B, N, Sq, Skv]; the bias as the scale does not touch it
  Tensor kept;               // 1 / keep_prob or 0 for each score; undefined without dropout
  int64_t q_begin = 0, k_begin = 0;
  bool empty_rows_are_zero = false;
};

Tensor repeated(const Tensor& kv, int64_t heads) {
  return kv.size(1) == heads ? kv : kv.repeat_interleave(heads / kv.size(1), 1);
}

// Distances that kernels make themselves for ALiBi; pse holds each head's slope.
Tensor alibi(const Attention& call, int64_t sq, int64_t skv) {
  const int64_t shift =
      (call.query_start.empty() ? 0 : call.query_start[0]) - (call.key_start.empty() ? 0 : call.key_start[0]);
  Tensor far = (at::arange(sq).unsqueeze(1) + shift - at::arange(skv)).abs().to(at::kFloat);
  if (call.pse_type == 3) far = far.sqrt();
  const Tensor slopes = call.pse->to(at::kFloat).reshape({-1, call.heads, 1, 1});
  return -far * slopes;
}

Tensor scores(const Attention& call, const Piece& piece) {
  Tensor s = at::matmul(piece.q, repeated(piece.k, piece.q.size(1)).transpose(-1, -2));
  // The trap of pse_type 1, the default: the bias is scaled too.
  if (piece.bias && call.pse_type == 1)
    s = (s + *piece.bias) * call.scale;
  else
    s = piece.bias ? s * call.scale + *piece.bias : s * call.scale;
  if (piece.left_out) s = s.masked_fill(*piece.left_out, kLowest);
  return s;
}

// Bits of a dropout mask, from `begin` on, as factors.
Tensor factors(const Attention& call, int64_t begin, at::IntArrayRef shape) {
  if (!call.dropped || call.keep == 1 || !call.dropped->numel()) return {};
  const int64_t n = c10::multiply_integers(shape);
  TORCH_CHECK(call.dropped->numel() * 8 >= begin + n, "the dropout mask has ", call.dropped->numel() * 8, " bits of ",
              begin + n);
  const Tensor which = at::arange(begin, begin + n, at::kLong);
  const Tensor bytes = call.dropped->flatten().to(at::kByte).index_select(0, at::floor_divide(which, 8)).to(at::kLong);
  return at::bitwise_right_shift(bytes, at::remainder(which, 8))
      .bitwise_and(1)
      .to(at::kFloat)
      .div(call.keep)
      .reshape(shape);
}

template <typename Visit>
void each_piece(const Attention& call, const Visit& visit) {
  const int64_t kv_heads = key_heads(call);
  Tensor q = heads_first(call.query, call.layout, call.heads), k = heads_first(call.key, call.layout, kv_heads);
  const Tensor v = heads_first(call.value, call.layout, kv_heads);
  if (call.query_rope) q = at::cat({q, heads_first(*call.query_rope, call.layout, call.heads)}, -1);
  if (call.key_rope) k = at::cat({k, heads_first(*call.key_rope, call.layout, kv_heads)}, -1);

  const auto finish = [&](Piece piece, int64_t entry, int64_t first, int64_t last, int64_t bits) {
    const int64_t sq = piece.q.size(2), skv = piece.k.size(2);
    piece.left_out = left_out(call, sq, skv, entry, first, last);
    piece.empty_rows_are_zero = call.precise == 2 || (call.sparse == 3 && sq > skv);
    if (call.pse) {
      if (call.pse_type >= 2)
        piece.bias = alibi(call, sq, skv);
      else {
        TORCH_CHECK(call.layout != "TND", "pse of TND is emulated with pse_type 2 and 3 only");
        TORCH_CHECK(
            call.pse->dim() == 4 && (call.pse->size(2) == sq || call.pse->size(2) == 1) && call.pse->size(3) == skv,
            "pse of shape ", call.pse->sizes(), " is not emulated; [B or 1, N, Sq or 1, Skv] is");
        piece.bias = call.pse->to(at::kFloat);
      }
    }
    piece.kept = factors(call, bits, {piece.q.size(0), piece.q.size(1), sq, skv});
    visit(piece);
    return piece.q.size(0) * piece.q.size(1) * sq * skv;
  };

  if (call.layout != "TND") {
    finish({q, k, v, {}, {}, {}}, 0, 0, 0, 0);
    return;
  }
  TORCH_CHECK(!call.query_ends.empty() && call.query_ends.size() == call.key_ends.size(),
              "TND needs actual_seq_qlen and actual_seq_kvlen of one length");
  std::vector<std::pair<int64_t, Piece>> pieces;
  int64_t q_begin = 0, k_begin = 0;
  for (size_t i = 0; i < call.query_ends.size(); ++i) {
    const int64_t q_end = call.query_ends[i], k_end = call.key_ends[i];
    if (!q_end && !k_end && i) break;  // trailing zeros
    TORCH_CHECK(q_end >= q_begin && k_end >= k_begin && q_end <= q.size(2) && k_end <= k.size(2),
                "actual_seq_qlen and actual_seq_kvlen are sums that grow up to ", q.size(2), " and ", k.size(2),
                "; entry ", i, " is ", q_end, " and ", k_end);
    pieces.push_back({int64_t(i),
                      {q.slice(2, q_begin, q_end),
                       k.slice(2, k_begin, k_end),
                       v.slice(2, k_begin, k_end),
                       {},
                       {},
                       {},
                       q_begin,
                       k_begin}});
    q_begin = q_end, k_begin = k_end;
  }
  const auto not_empty = [](const auto& one) { return one.second.q.size(2) > 0; };
  const auto front = std::find_if(pieces.begin(), pieces.end(), not_empty);
  const auto back = std::find_if(pieces.rbegin(), pieces.rend(), not_empty);
  int64_t bits = 0;
  for (const auto& [entry, piece] : pieces)
    if (piece.q.size(2) && piece.k.size(2)) bits += finish(piece, entry, front->first, back->first, bits);
}

// [.., S, 1] statistics to and from the eight copies. TND's are [T, N, 8]; their memory holds [N, T, 8] by default.
Tensor statistics_view(const Attention& call, const Tensor& t) {
  if (call.layout != "TND") return t;
  // What torch_npu calls "TND" it hands on as "same_as_input".
  if (call.statistics_layout == "same_as_input") return t.transpose(0, 1).unsqueeze(0);
  return t.view({t.size(1), t.size(0), t.size(2)}).unsqueeze(0);
}

// The calls of a batch one by one where each has its own prefix.
template <typename Each>
bool by_entry(const Attention& call, const Each& each) {
  if (call.sparse != 6 || call.layout == "TND") return false;
  const int64_t dim = call.layout == "SBH" ? 1 : 0;
  for (int64_t b = 0; b < call.query.size(dim); ++b) {
    Attention one = call;
    for (Tensor* t : {&one.query, &one.key, &one.value}) *t = t->narrow(dim, b, 1);
    TORCH_CHECK(b < int64_t(call.prefix.size()), "prefix has no entry for batch ", b);
    TORCH_CHECK(!call.pse && !call.dropped, "sparse_mode 6 with dropout or pse is not emulated");
    one.sparse = 1;
    const int64_t s = call.layout == "SBH" ? 0 : call.layout == "BNSD" ? 2 : 1;
    Attention mask = call;
    mask.prefix = call.prefix;
    one.mask = left_out(mask, one.query.size(s), one.key.size(s), b, 0, 0);
    each(one, b, dim);
  }
  return true;
}

}  // namespace

void check(const Attention& call) {
  const auto type = call.query.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, "query is ", type);
  TORCH_CHECK(call.key.scalar_type() == type && call.value.scalar_type() == type, "query, key and value are ", type,
              ", ", call.key.scalar_type(), " and ", call.value.scalar_type());
  TORCH_CHECK(call.layout == "BSH" || call.layout == "SBH" || call.layout == "BSND" || call.layout == "BNSD" ||
                  call.layout == "TND",
              "input_layout ", call.layout, " is unknown");
  const int64_t ranks = call.layout == "BNSD" || call.layout == "BSND" ? 4 : 3;
  TORCH_CHECK(call.query.dim() == ranks && call.key.dim() == ranks && call.value.dim() == ranks, call.layout,
              " needs tensors of ", ranks, " dimensions");
  TORCH_CHECK(call.heads > 0 && call.heads <= 256, "head_num is ", call.heads, ", not 1 to 256");
  TORCH_CHECK(call.keep > 0 && call.keep <= 1, "keep_prob ", call.keep, " is not in (0, 1]");
  TORCH_CHECK(call.precise >= 0 && call.precise <= 4, "inner_precise ", call.precise, " is unknown");
  TORCH_CHECK(call.pse_type >= 0 && call.pse_type <= 3, "pse_type ", call.pse_type, " is unknown");

  const int64_t kv_heads = key_heads(call);
  TORCH_CHECK(kv_heads && call.heads % kv_heads == 0, call.heads, " heads cannot share ", kv_heads, " key heads");
  const auto view = [&](const Tensor& t, int64_t heads) {  // sizes only
    return heads_first(t.is_meta() ? t : at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta)),
                       call.layout, heads);
  };
  const Tensor q = view(call.query, call.heads), k = view(call.key, kv_heads), v = view(call.value, kv_heads);
  TORCH_CHECK(q.size(1) == call.heads, "head_num is ", call.heads, ", query has ", q.size(1), " heads");
  TORCH_CHECK(q.size(0) == k.size(0) && k.sizes().slice(0, 3) == v.sizes().slice(0, 3),
              "query, key and value of shapes ", call.query.sizes(), ", ", call.key.sizes(), " and ",
              call.value.sizes(), " do not belong together");
  TORCH_CHECK(q.size(3) == k.size(3) && v.size(3) <= k.size(3) && q.size(3) <= 768,
              "head sizes of query, key and value are ", q.size(3), ", ", k.size(3), ", ", v.size(3));
  check_mask(call, q.size(2), k.size(2));
}

void attend(const Attention& call, const OptTensor& max, const OptTensor& sum, const Tensor& out) {
  if (by_entry(call, [&](const Attention& one, int64_t b, int64_t dim) {
        const auto part = [&](const OptTensor& t) { return t ? OptTensor(t->narrow(0, b, 1)) : std::nullopt; };
        attend(one, part(max), part(sum), out.narrow(dim, b, 1));
      }))
    return;
  each_piece(call, [&](const Piece& piece) {
    const Tensor s = scores(call, piece);
    Tensor top = s.amax(-1, true);
    Tensor sink;
    if (call.sink) sink = call.sink->to(at::kFloat).reshape({1, -1, 1, 1}), top = at::maximum(top, sink);
    Tensor e = at::exp(s - top);
    if (piece.empty_rows_are_zero) e = e.masked_fill(top == kLowest, 0);
    Tensor total = e.sum(-1, true);
    if (call.sink) total = total + at::exp(sink - top);
    Tensor p = e / total.masked_fill(total == 0, 1);
    if (piece.kept.defined()) p = p * piece.kept;
    const Tensor result = at::matmul(p, repeated(piece.v, p.size(1)));
    if (call.layout == "TND") {
      out.slice(0, piece.q_begin, piece.q_begin + s.size(2)).copy_(laid_out(result, call.layout));
    } else {
      write(out, laid_out(result, call.layout));
    }
    const int64_t end = piece.q_begin + s.size(2);
    if (max) statistics_view(call, *max).slice(2, piece.q_begin, end).copy_(top.expand({-1, -1, -1, 8}));
    if (sum) statistics_view(call, *sum).slice(2, piece.q_begin, end).copy_(total.expand({-1, -1, -1, 8}));
  });
}

void attend_backward(const Attention& call, const Tensor& grad, const Tensor& max, const Tensor& sum,
                     const OptTensor& out, const AttentionGradients& into) {
  if (by_entry(call, [&](const Attention& one, int64_t b, int64_t dim) {
        attend_backward(
            one, grad.narrow(dim, b, 1), max.narrow(0, b, 1), sum.narrow(0, b, 1),
            out ? OptTensor(out->narrow(dim, b, 1)) : std::nullopt,
            {into.query.narrow(dim, b, 1), into.key.narrow(dim, b, 1), into.value.narrow(dim, b, 1), {}, {}, {}, {}});
      }))
    return;
  const Tensor grads = heads_first(grad, call.layout, call.heads);
  const OptTensor results = out ? OptTensor(heads_first(*out, call.layout, call.heads)) : std::nullopt;
  Tensor dsink = call.sink ? at::zeros({call.heads}, at::kFloat) : Tensor(), dpse;
  if (call.layout == "TND")
    for (const Tensor& t : {into.query, into.key, into.value}) t.zero_();
  each_piece(call, [&](const Piece& piece) {
    const Tensor s = scores(call, piece);
    const int64_t sq = s.size(2), end = piece.q_begin + sq, shared = s.size(1) / piece.k.size(1);
    const auto saved = [&](const Tensor& t) {
      return statistics_view(call, t).slice(2, piece.q_begin, end).slice(3, 0, 1);
    };
    const Tensor top = saved(max), total = saved(sum);
    Tensor p = at::exp(s - top) / total.masked_fill(total == 0, 1);
    if (piece.empty_rows_are_zero) p = p.masked_fill(top == kLowest, 0);
    const Tensor g = grads.slice(2, piece.q_begin, end);
    // Keys of one head serve `shared` query heads.
    const auto own = [&](const Tensor& t) {
      return shared == 1 ? t : t.unflatten(1, {piece.k.size(1), shared}).sum(2);
    };
    const Tensor dv = own(at::matmul((piece.kept.defined() ? p * piece.kept : p).transpose(-1, -2), g));
    Tensor dp = at::matmul(g, repeated(piece.v, s.size(1)).transpose(-1, -2));
    if (piece.kept.defined()) dp = dp * piece.kept;
    // From the saved output, with its rounding, as kernels do it.
    const Tensor delta = results ? (g * results->slice(2, piece.q_begin, end)).sum(-1, true) : (dp * p).sum(-1, true);
    const Tensor ds = p * (dp - delta);
    Tensor dq = at::matmul(ds, repeated(piece.k, s.size(1))) * call.scale;
    Tensor dk = own(at::matmul(ds.transpose(-1, -2), piece.q)) * call.scale;
    if (call.sink) {
      const Tensor weight = at::exp(call.sink->to(at::kFloat).reshape({1, -1, 1, 1}) - top) / total;
      dsink.sub_((weight * delta).sum({0, 2, 3}));
    }
    if (into.pse && piece.bias && call.pse_type < 2) dpse = call.pse_type == 1 ? ds * call.scale : ds;
    const auto put = [&](const Tensor& into_whole, const OptTensor& into_rope, const Tensor& d, int64_t begin) {
      const int64_t rope = into_rope ? into_rope->size(-1) : 0;
      const auto one = [&](const Tensor& to, const Tensor& from) {
        const Tensor laid = laid_out(from, call.layout);
        if (call.layout == "TND")
          to.slice(0, begin, begin + laid.size(0)).copy_(laid);
        else
          write(to, laid);
      };
      one(into_whole, d.slice(3, 0, d.size(3) - rope));
      if (rope) one(*into_rope, d.slice(3, d.size(3) - rope));
    };
    put(into.query, into.query_rope, dq, piece.q_begin);
    put(into.key, into.key_rope, dk, piece.k_begin);
    put(into.value, std::nullopt, dv, piece.k_begin);
  });
  if (into.sink && dsink.defined()) write(*into.sink, dsink.reshape(into.sink->sizes()));
  if (dpse.defined()) write(*into.pse, at::sum_to(dpse, into.pse->sizes()));
}

}  // namespace cann
