// Order: sorting, selecting, searching, counting.
#include "outputs.h"

using namespace cann;

namespace {

// A sorter that hardware has for no float64.
void sortable(const Tensor& self) { TORCH_CHECK(self.scalar_type() != at::kDouble, "float64 cannot be sorted"); }

void pair(const std::tuple<Tensor, Tensor>& result, const Tensor& values, const Tensor& where) {
  write(values, std::get<0>(result));
  write(where, std::get<1>(result));
}

}  // namespace

ACLNN(aclnnSort, (Tensor self, bool stable, int64_t dim, bool descending, Tensor outValues, Tensor outIndices)) {
  sortable(self);
  pair(at::sort(self, stable, dim, descending), outValues, outIndices);
}
ACLNN(aclnnTopk,
      (Tensor self, int64_t k, int64_t dim, bool largest, bool sorted, Tensor outValues, Tensor outIndices)) {
  sortable(self);
  pair(at::topk(self, k, dim, largest, sorted), outValues, outIndices);
}
ACLNN(aclnnKthvalue, (Tensor self, int64_t k, int64_t dim, bool keepdim, Tensor outValues, Tensor outIndices)) {
  pair(at::kthvalue(self, k, dim, keepdim), outValues, outIndices);
}
ACLNN(aclnnMedian, (Tensor self, Tensor out)) { write(out, at::median(self)); }
ACLNN(aclnnNanMedian, (Tensor self, Tensor out)) { write(out, at::nanmedian(self)); }
ACLNN(aclnnMedianDim, (Tensor self, int64_t dim, bool keepdim, Tensor outValues, Tensor outIndices)) {
  pair(at::median(self, dim, keepdim), outValues, outIndices);
}
ACLNN(aclnnNanMedianDim, (Tensor self, int64_t dim, bool keepdim, Tensor outValues, Tensor outIndices)) {
  pair(at::nanmedian(self, dim, keepdim), outValues, outIndices);
}

ACLNN(aclnnUnique, (Tensor self, bool sorted, bool inverse, Sized out, Tensor outInverse)) {
  const auto [values, from] = at::_unique(self, sorted, inverse);
  out.write(values);
  if (inverse) write(outInverse, from);
}
ACLNN(aclnnUnique2,
      (Tensor self, bool sorted, bool inverse, bool counts, Sized out, Tensor outInverse, Sized outCounts)) {
  const auto [values, from, count] = at::_unique2(self, sorted, inverse || counts, counts);
  out.write(values);
  if (inverse || counts) write(outInverse, from);
  if (counts) outCounts.write(count);
}
ACLNN(aclnnUniqueDim,
      (Tensor self, bool sorted, bool inverse, int64_t dim, Sized out, Tensor outInverse, Sized outCounts)) {
  const auto [values, from, count] = at::unique_dim(self, dim, sorted, true, true);
  out.write(values);
  if (inverse) write(outInverse, from);
  outCounts.write(count);
}
// No dimension is told by 1000.
ACLNN(aclnnUniqueConsecutive,
      (Tensor self, bool inverse, bool counts, int64_t dim, Sized out, Tensor outInverse, Sized outCounts)) {
  const auto which = dim == 1000 ? std::nullopt : std::optional<int64_t>(dim);
  const auto [values, from, count] = at::unique_consecutive(self, inverse, counts, which);
  out.write(values);
  if (inverse) write(outInverse, from);
  outCounts.write(count);
}

ACLNN(aclnnSearchSorted, (Tensor sorted, Tensor self, bool out_int32, bool right, OptTensor sorter, Tensor out)) {
  const OptTensor order = sorter ? OptTensor(indices(*sorter)) : std::nullopt;
  write(out, at::searchsorted(sorted, self, out_int32, right, std::nullopt, order));
}
ACLNN(aclnnSearchSorteds, (Tensor sorted, Scalar self, bool out_int32, bool right, OptTensor sorter, Tensor out)) {
  const OptTensor order = sorter ? OptTensor(indices(*sorter)) : std::nullopt;
  write(out, at::searchsorted(sorted, self, out_int32, right, std::nullopt, order));
}
ACLNN(aclnnBincount, (Tensor self, OptTensor weights, int64_t minimum, Tensor out)) {
  write(out, at::bincount(self, weights, minimum));
}
ACLNN(aclnnHistc, (Tensor self, int64_t bins, Scalar min, Scalar max, Tensor out)) {
  write(out, at::histc(self.to(at::kFloat), bins, min, max));
}
ACLNN(aclnnCdist, (Tensor x1, Tensor x2, float p, int64_t mode, Tensor out)) {
  write(out, at::_cdist_forward(wide(x1), wide(x2), p, mode));
}
// p of -1 is infinity.
ACLNN(aclnnCdistBackward, (Tensor grad, Tensor x1, Tensor x2, Tensor distances, float p, Tensor out)) {
  const double power = p == -1 ? std::numeric_limits<double>::infinity() : double(p);
  write(out, at::_cdist_backward(wide(grad), wide(x1), wide(x2), power, wide(distances)));
}
ACLNN(aclnnPdist, (Tensor self, float p, Tensor out)) { write(out, at::pdist(wide(self), p)); }
