// Joining, selecting, moving and padding elements.
#include "operator.h"

using namespace cann;

ACLNN(aclnnSWhere, (Tensor condition, Tensor self, Tensor other, Tensor out)) {
  write(out, at::where(condition.to(at::kBool), self, other));
}
ACLNN(aclnnInplaceMaskedFillScalar, (Tensor self, Tensor mask, Scalar value)) { self.masked_fill_(mask, value); }
ACLNN(aclnnInplaceMaskedFillTensor, (Tensor self, Tensor mask, Tensor value)) {
  self.masked_fill_(mask, value.reshape({}));
}
ACLNN(aclnnInplaceMaskedScatter, (Tensor self, Tensor mask, Tensor source)) {
  self.masked_scatter_(mask.to(at::kBool), source);
}
ACLNN(aclnnMaskedSelect, (Tensor self, Tensor mask, Sized out)) {
  out.write(at::masked_select(self, mask.to(at::kBool)));
}
ACLNN(aclnnMaskedScale, (Tensor self, Tensor mask, double scale, Tensor out)) {
  write(out, at::mul(at::mul(self.to(at::kFloat), mask), scale));
}

ACLNN(aclnnCat, (Tensors tensors, int64_t dim, Tensor out)) { write(out, at::cat(tensors, dim)); }
ACLNN(aclnnStack, (Tensors tensors, int64_t dim, Tensor out)) { write(out, at::stack(tensors, dim)); }
ACLNN(aclnnChunkCat, (Tensors tensors, int64_t dim, int64_t chunks, Tensor out)) {
  write(out, at::_chunk_cat(tensors, dim, chunks));
}
ACLNN(aclnnSplitWithSize, (Tensor self, Ints sizes, int64_t dim, Tensors outs)) {
  const auto parts = at::split_with_sizes(self, sizes, dim);
  TORCH_CHECK(parts.size() == outs.size(), "it has ", outs.size(), " outputs for ", parts.size(), " parts");
  for (size_t i = 0; i < parts.size(); ++i) write(outs[i], parts[i]);
}
ACLNN(aclnnRepeat, (Tensor self, Ints repeats, Tensor out)) { write(out, self.repeat(repeats)); }
ACLNN(aclnnFlip, (Tensor self, Ints dims, Tensor out)) { write(out, at::flip(self, dims)); }
ACLNN(aclnnRoll, (Tensor self, Ints shifts, Ints dims, Tensor out)) { write(out, at::roll(self, shifts, dims)); }
ACLNN(aclnnTril, (Tensor self, int64_t diagonal, Tensor out)) { write(out, at::tril(self, diagonal)); }
ACLNN(aclnnTriu, (Tensor self, int64_t diagonal, Tensor out)) { write(out, at::triu(self, diagonal)); }
ACLNN(aclnnInplaceTril, (Tensor self, int64_t diagonal)) { self.tril_(diagonal); }
ACLNN(aclnnInplaceTriu, (Tensor self, int64_t diagonal)) { self.triu_(diagonal); }
ACLNN(aclnnConstantPadNd, (Tensor self, Ints pad, Scalar value, Tensor out)) {
  write(out, at::constant_pad_nd(self, pad, value));
}
ACLNN(aclnnChannelShuffle, (Tensor self, int64_t groups, Tensor out)) { write(out, at::channel_shuffle(self, groups)); }
ACLNN(aclnnUnfoldGrad, (Tensor grad, Ints sizes, int64_t dim, int64_t size, int64_t step, Tensor out)) {
  write(out, at::unfold_backward(grad, sizes, dim, size, step));
}
ACLNN(aclnnOneHot, (Tensor self, int64_t depth, Tensor on, Tensor off, int64_t axis, Tensor out)) {
  const Tensor range = at::arange(depth, self.options());
  Ints shape(size_t(self.dim() + 1), 1);
  axis = axis < 0 ? axis + self.dim() + 1 : axis;
  shape[size_t(axis)] = depth;
  write(out, at::where(at::eq(self.unsqueeze(axis), range.reshape(shape)), on, off));
}
ACLNN(aclnnTransformBiasRescaleQkv,
      (Tensor qkv, Tensor bias, int64_t heads, Tensor query_out, Tensor key_out, Tensor value_out)) {
  const auto [query, key, value] = at::_transform_bias_rescale_qkv(qkv, bias, heads);
  write(query_out, query);
  write(key_out, key);
  write(value_out, value);
}
