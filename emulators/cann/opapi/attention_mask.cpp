// sparse_mode: which scores a call leaves out.
#include "attention.h"

namespace cann {
namespace {

constexpr int64_t kCompressed = 2048;

int64_t compressed_rows(int64_t mode) { return mode == 6 ? kCompressed + kCompressed / 2 : kCompressed; }
bool compressed(int64_t mode) { return mode >= 2 && mode != 5; }

// A compressed mask says for each distance of key from query, -2047 to 2047, whether the score is left out. Kernels cut
// their tiles out of it, so one that is not triu(ones, 1) gives what it says, not an error.
class Compressed {
 public:
  explicit Compressed(const Tensor& mask, int64_t rows) {
    const Tensor square = mask.to(at::kBool).reshape({rows, kCompressed});
    by_distance_ = at::cat({square.slice(0, 1, kCompressed).select(1, 0).flip(0), square.select(0, 0)});
  }
  Tensor operator()(const Tensor& distance) const {
    return by_distance_.index({(distance.clamp(1 - kCompressed, kCompressed - 1) + (kCompressed - 1))});
  }

 private:
  Tensor by_distance_;
};

// A mask of all scores: [S, S], [1, 1, S, S], [B, 1, S, S], [B, N, S, S].
Tensor full(const Attention& call, int64_t sq, int64_t skv) {
  const Tensor mask = call.mask->to(at::kBool);
  return call.layout == "TND" ? mask.slice(0, 0, sq).slice(1, 0, skv) : mask;
}

}  // namespace

void check_mask(const Attention& call, int64_t sq, int64_t skv) {
  const bool packed = call.layout == "TND";
  TORCH_CHECK(call.sparse >= 0 && call.sparse <= 8, "sparse_mode ", call.sparse, " is unknown");
  TORCH_CHECK(call.sparse < 7 || packed, "sparse_mode ", call.sparse, " is for TND only");
  TORCH_CHECK(call.sparse != 5 || !packed, "sparse_mode 5 is not for TND");
  if (!call.mask) return;
  const Tensor& mask = *call.mask;
  const auto type = mask.scalar_type();
  TORCH_CHECK(type == at::kBool || type == at::kByte, "atten_mask is ", type, ", not bool or uint8");
  if (compressed(call.sparse)) {
    const int64_t rows = compressed_rows(call.sparse);
    TORCH_CHECK(
        mask.dim() >= 2 && mask.size(-1) == kCompressed && mask.size(-2) == rows && mask.numel() == rows * kCompressed,
        "atten_mask of sparse_mode ", call.sparse, " has shape [", rows, ", ", kCompressed, "], not ", mask.sizes());
  } else if (packed) {
    TORCH_CHECK(mask.dim() == 2, "atten_mask of TND is [longest query, longest key], not ", mask.sizes());
  } else {
    TORCH_CHECK((mask.dim() == 2 || mask.dim() == 4) && mask.size(-2) == sq && mask.size(-1) == skv,
                "atten_mask of shape ", mask.sizes(), " with ", sq, " queries and ", skv, " keys");
  }
}

OptTensor left_out(const Attention& call, int64_t sq, int64_t skv, int64_t entry, int64_t first, int64_t last) {
  // The trap: a mode without a mask leaves nothing out, whatever it is called.
  if (!call.mask) return std::nullopt;

  const Tensor rows = at::arange(sq, at::kLong).unsqueeze(1), columns = at::arange(skv, at::kLong);
  const Tensor from_top = columns - rows, from_bottom = from_top - (skv - sq);
  const auto band = [&] {
    const Compressed beyond(*call.mask, kCompressed);
    return beyond(from_bottom - call.after).logical_or(beyond(-from_bottom - call.before));
  };
  switch (call.sparse) {
    case 0:  // outside the band, counted from the top left, kernels do not compute at all
      return full(call, sq, skv).logical_or(from_top > call.after).logical_or(-from_top > call.before);
    case 1:
    case 5: return full(call, sq, skv);
    case 2: return Compressed(*call.mask, kCompressed)(from_top);
    case 3: return Compressed(*call.mask, kCompressed)(from_bottom);
    case 4: return band();
    case 6: {
      const Compressed beyond(*call.mask, compressed_rows(6));
      TORCH_CHECK(entry < int64_t(call.prefix.size()), "prefix has no entry for batch ", entry);
      return beyond(from_bottom).logical_and(columns >= call.prefix[size_t(entry)]);
    }
    // One sequence of these was cut by the caller: the last with bottom-right alignment, the first with top-left.
    case 7: return entry == last ? band() : Compressed(*call.mask, kCompressed)(from_bottom);
    default: return entry == first ? band() : Compressed(*call.mask, kCompressed)(from_top);
  }
}

}  // namespace cann
