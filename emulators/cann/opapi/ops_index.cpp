// Reading and writing by index.
#include "outputs.h"

using namespace cann;

namespace {

// A dimension that is not indexed arrives as an empty one-dimensional tensor.
c10::List<std::optional<Tensor>> per_dimension(const Tensors& given) {
  c10::List<std::optional<Tensor>> list;
  for (const Tensor& one : given) {
    if (one.dim() == 1 && one.numel() == 0)
      list.push_back(std::nullopt);
    else
      list.push_back(indices(one));
  }
  return list;
}

// Codes of aclnnScatter: 0 put, 1 add, 2 multiply.
const char* scatter_name(int64_t code) {
  TORCH_CHECK(code == 1 || code == 2, "reduction ", code, " is unknown");
  return code == 1 ? "add" : "multiply";
}

Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, int64_t code) {
  const Tensor from = src.to(self.scalar_type());
  if (code == 0) return at::scatter(self, dim, indices(index), from);
  return at::scatter(self, dim, indices(index), from, scatter_name(code));
}

Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, int64_t code) {
  if (code == 0) return at::scatter(self, dim, indices(index), value);
  return at::scatter(self, dim, indices(index), value, scatter_name(code));
}

// Codes of aclnnScatterReduce: 0 put and 1 to 5, these.
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, int64_t code,
                      bool include) {
  if (code == 0) return at::scatter(self, dim, indices(index), src);
  const char* names[] = {"sum", "prod", "amax", "amin", "mean"};
  TORCH_CHECK(code >= 1 && code <= 5, "reduction ", code, " is unknown");
  return at::scatter_reduce(self, dim, indices(index), src, names[code - 1], include);
}

}  // namespace

ACLNN(aclnnIndex, (Tensor self, Tensors which, Tensor out)) {
  if (out.numel()) write(out, at::index(self, per_dimension(which)));
}
ACLNN(aclnnIndexPutImpl, (Tensor selfRef, Tensors which, Tensor values, bool accumulate, bool)) {
  selfRef.index_put_(per_dimension(which), values.to(selfRef.scalar_type()), accumulate);
}
ACLNN(aclnnIndexSelect, (Tensor self, int64_t dim, Tensor index, Tensor out)) {
  write(out, at::index_select(self, dim, indices(index)).reshape(out.sizes()));
}
ACLNN(aclnnIndexAdd, (Tensor self, int64_t dim, Tensor index, Tensor source, Scalar alpha, Tensor out)) {
  write(out, at::index_add(self, dim, indices(index), source, alpha));
}
ACLNN(aclnnIndexAddV2, (Tensor self, int64_t dim, Tensor index, Tensor source, Scalar alpha, int64_t, Tensor out)) {
  write(out, at::index_add(self, dim, indices(index), source, alpha));
}
ACLNN(aclnnIndexCopy, (Tensor self, int64_t dim, Tensor index, Tensor source, Tensor out)) {
  write(out, at::index_copy(self, dim, indices(index), source));
}
ACLNN(aclnnInplaceIndexCopy, (Tensor self, int64_t dim, Tensor index, Tensor source)) {
  self.index_copy_(dim, indices(index), source);
}
ACLNN(aclnnIndexFill, (Tensor self, int64_t dim, Tensor index, Scalar value, Tensor out)) {
  write(out, at::index_fill(self, dim, indices(index), value));
}
ACLNN(aclnnInplaceIndexFill, (Tensor self, int64_t dim, Tensor index, Scalar value)) {
  self.index_fill_(dim, indices(index), value);
}
ACLNN(aclnnGather, (Tensor self, int64_t dim, Tensor index, Tensor out)) {
  write(out, at::gather(self, dim, indices(index)));
}
ACLNN(aclnnGatherV3, (Tensor self, int64_t dim, Tensor index, int64_t, int64_t, Tensor out)) {
  TORCH_CHECK(dim == 0, "only dimension 0 is emulated");
  write(out, at::index_select(self, 0, indices(index).flatten()).reshape(out.sizes()));
}
ACLNN(aclnnScatter, (Tensor self, int64_t dim, Tensor index, Tensor src, int64_t reduction, Tensor out)) {
  write(out, scatter(self, dim, index, src, reduction));
}
ACLNN(aclnnInplaceScatter, (Tensor self, int64_t dim, Tensor index, Tensor src, int64_t reduction)) {
  write(self, scatter(self, dim, index, src, reduction));
}
ACLNN(aclnnScatterValue, (Tensor self, int64_t dim, Tensor index, Scalar value, int64_t reduction, Tensor out)) {
  write(out, scatter(self, dim, index, value, reduction));
}
ACLNN(aclnnInplaceScatterValue, (Tensor self, int64_t dim, Tensor index, Scalar value, int64_t reduction)) {
  write(self, scatter(self, dim, index, value, reduction));
}
ACLNN(aclnnScatterAdd, (Tensor self, int64_t dim, Tensor index, Tensor src, Tensor out)) {
  write(out, at::scatter_add(self, dim, indices(index), src));
}
ACLNN(aclnnScatterReduce,
      (Tensor self, int64_t dim, Tensor index, Tensor src, int64_t reduction, bool include, Tensor out)) {
  write(out, scatter_reduce(self, dim, index, src, reduction, include));
}
ACLNN(aclnnInplaceScatterReduce,
      (Tensor self, int64_t dim, Tensor index, Tensor src, int64_t reduction, bool include)) {
  write(self, scatter_reduce(self, dim, index, src, reduction, include));
}
// indices [..., k] name the first k dimensions of what is updated.
ACLNN(aclnnScatterNdUpdate, (Tensor selfRef, Tensor index, Tensor updates)) {
  c10::List<std::optional<Tensor>> list;
  for (const Tensor& one : at::unbind(indices(index), -1)) list.push_back(one);
  selfRef.index_put_(list, updates.to(selfRef.scalar_type()));
}
ACLNN(aclnnTake, (Tensor self, Tensor index, Tensor out)) { write(out, at::take(self, indices(index))); }
ACLNN(aclnnInplacePut, (Tensor self, Tensor index, Tensor source, bool accumulate)) {
  self.put_(indices(index), source.to(self.scalar_type()), accumulate);
}

ACLNN(aclnnRepeatInterleave, (Tensor self, Tensor repeats, int64_t size, Tensor out)) {
  write(out, at::repeat_interleave(self, repeats, std::nullopt, size));
}
ACLNN(aclnnRepeatInterleaveWithDim, (Tensor self, Tensor repeats, int64_t dim, int64_t size, Tensor out)) {
  write(out, at::repeat_interleave(self, repeats, dim, size));
}
ACLNN(aclnnRepeatInterleaveInt, (Tensor self, int64_t repeats, int64_t size, Tensor out)) {
  write(out, at::repeat_interleave(self, repeats, std::nullopt, size));
}
ACLNN(aclnnRepeatInterleaveIntWithDim, (Tensor self, int64_t repeats, int64_t dim, int64_t size, Tensor out)) {
  write(out, at::repeat_interleave(self, repeats, dim, size));
}
ACLNN(aclnnRepeatInterleaveTensor, (Tensor repeats, int64_t size, Tensor out)) {
  write(out, at::repeat_interleave(indices(repeats), std::optional<int64_t>(size)));
}
ACLNN(aclnnRepeatInterleaveGrad, (Tensor grad, Tensor repeats, int64_t dim, Tensor out)) {
  const Tensor owners =
      at::repeat_interleave(indices(repeats).expand({out.size(dim)}), std::optional<int64_t>(grad.size(dim)));
  write(out, at::zeros(out.sizes(), wide(grad).options()).index_add(dim, owners, wide(grad)));
}

ACLNN(aclnnNonzero, (Tensor self, Sized out)) { out.write(at::nonzero(self)); }
// One row a dimension.
ACLNN(aclnnNonzeroV2, (Tensor self, Sized out)) { out.write(at::nonzero(self).t()); }

// Embeddings.
ACLNN(aclnnEmbedding, (Tensor weight, Tensor index, Tensor out)) { write(out, at::embedding(weight, indices(index))); }
ACLNN(aclnnEmbeddingDenseBackward,
      (Tensor grad, Tensor index, uint64_t rows, uint64_t padding, bool scale_by_frequency, Tensor out)) {
  const Tensor dense =
      at::embedding_dense_backward(wide(grad), indices(index), int64_t(rows), int64_t(padding), scale_by_frequency);
  write(out, dense);
}
ACLNN(aclnnEmbeddingRenorm, (Tensor selfRef, Tensor index, double max_norm, double norm)) {
  Tensor rows = selfRef;
  at::embedding_renorm_(rows, indices(index), max_norm, norm);
}
ACLNN(aclnnEmbeddingBag,
      (Tensor weight, Tensor index, Tensor offsets, bool scale_by_frequency, int64_t mode, bool, OptTensor per_sample,
       bool include_last, int64_t padding, Tensor out, Tensor outBags, Tensor outSizes, Tensor outMax)) {
  const auto [sum, bags, sizes, max] =
      at::_embedding_bag(wide(weight), indices(index), indices(offsets), scale_by_frequency, mode, false,
                         wide(per_sample), include_last, padding);
  write(out, sum);
  if (outBags.sizes() == bags.sizes()) write(outBags, bags);
  if (outSizes.numel()) write(outSizes, sizes.narrow(0, 0, outSizes.numel()));
  if (outMax.sizes() == max.sizes()) write(outMax, max);
}
