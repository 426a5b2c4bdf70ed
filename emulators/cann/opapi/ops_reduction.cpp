// Reductions and scans. Dimensions that are not named are all dimensions; the output already has the reduced shape.
#include "operator.h"

using namespace cann;

namespace {

Ints all_if_none(const Ints& dims, const Tensor& x) {
  if (!dims.empty()) return dims;
  Ints all;
  for (int64_t i = 0; i < x.dim(); ++i) all.push_back(i);
  return all;
}

void write_both(const Tensor& first_out, const Tensor& second_out, const std::tuple<Tensor, Tensor>& results) {
  write(first_out, std::get<0>(results));
  write(second_out, std::get<1>(results));
}

}  // namespace

ACLNN(aclnnReduceSum, (Tensor self, Ints dims, bool keepdim, int type, Tensor out)) {
  write(out, at::sum(self, dims, keepdim, torch_type(type)));
}
ACLNN(aclnnReduceNansum, (Tensor self, Ints dims, bool keepdim, int type, Tensor out)) {
  write(out, at::nansum(self, dims, keepdim, torch_type(type)));
}
ACLNN(aclnnMean, (Tensor self, Ints dims, bool keepdim, int type, Tensor out)) {
  write(out, at::mean(self, dims, keepdim, torch_type(type)));
}
ACLNN(aclnnProd, (Tensor self, int type, Tensor out)) { write(out, at::prod(self, torch_type(type))); }
ACLNN(aclnnProdDim, (Tensor self, int64_t dim, bool keepdim, int type, Tensor out)) {
  write(out, at::prod(self, dim, keepdim, torch_type(type)));
}

ACLNN(aclnnMax, (Tensor self, Tensor out)) { write(out, at::max(self)); }
ACLNN(aclnnMin, (Tensor self, Tensor out)) { write(out, at::min(self)); }
ACLNN(aclnnMaxDim, (Tensor self, int64_t dim, bool keepdim, Tensor out, Tensor indices_out)) {
  write_both(out, indices_out, at::max(self, dim, keepdim));
}
ACLNN(aclnnMinDim, (Tensor self, int64_t dim, bool keepdim, Tensor out, Tensor indices_out)) {
  write_both(out, indices_out, at::min(self, dim, keepdim));
}
ACLNN(aclnnAmax, (Tensor self, Ints dims, bool keepdim, Tensor out)) { write(out, at::amax(self, dims, keepdim)); }
ACLNN(aclnnAmin, (Tensor self, Ints dims, bool keepdim, Tensor out)) { write(out, at::amin(self, dims, keepdim)); }
ACLNN(aclnnAminmax, (Tensor self, Ints dims, bool keepdim, Tensor min_out, Tensor max_out)) {
  write(min_out, at::amin(self, dims, keepdim));
  write(max_out, at::amax(self, dims, keepdim));
}
ACLNN(aclnnAminmaxAll, (Tensor self, Tensor min_out, Tensor max_out)) {
  write_both(min_out, max_out, at::aminmax(self));
}
ACLNN(aclnnAminmaxDim, (Tensor self, int64_t dim, bool keepdim, Tensor min_out, Tensor max_out)) {
  write_both(min_out, max_out, at::aminmax(self, dim, keepdim));
}
ACLNN(aclnnArgMax, (Tensor self, int64_t dim, bool keepdim, Tensor out)) { write(out, at::argmax(self, dim, keepdim)); }
ACLNN(aclnnArgMin, (Tensor self, int64_t dim, bool keepdim, Tensor out)) { write(out, at::argmin(self, dim, keepdim)); }

ACLNN(aclnnAll, (Tensor self, Ints dims, bool keepdim, Tensor out)) {
  write(out, at::all(self, all_if_none(dims, self), keepdim));
}
ACLNN(aclnnAny, (Tensor self, Ints dims, bool keepdim, Tensor out)) {
  write(out, at::any(self, all_if_none(dims, self), keepdim));
}

// Scalar: a plain number would be taken for the flag of the older forms.
ACLNN(aclnnVarCorrection, (Tensor self, Ints dims, int64_t correction, bool keepdim, Tensor out)) {
  write(out, at::var(self, dims, Scalar(correction), keepdim));
}
ACLNN(aclnnStd, (Tensor self, Ints dims, int64_t correction, bool keepdim, Tensor out)) {
  write(out, at::std(self, dims, Scalar(correction), keepdim));
}
ACLNN(aclnnVarMean, (Tensor self, Ints dims, int64_t correction, bool keepdim, Tensor var_out, Tensor mean_out)) {
  write_both(var_out, mean_out, at::var_mean(self, dims, Scalar(correction), keepdim));
}
ACLNN(aclnnStdMeanCorrection,
      (Tensor self, Ints dims, int64_t correction, bool keepdim, Tensor std_out, Tensor mean_out)) {
  write_both(std_out, mean_out, at::std_mean(self, dims, Scalar(correction), keepdim));
}

ACLNN(aclnnNorm, (Tensor self, Scalar p, Ints dims, bool keepdim, Tensor out)) {
  write(out, at::linalg_vector_norm(self, p, dims, keepdim, out.scalar_type()));
}
ACLNN(aclnnLinalgVectorNorm, (Tensor self, Scalar order, Ints dims, bool keepdim, int type, Tensor out)) {
  // torch_npu sends the dtype of a complex tensor for that of its norm.
  const auto dtype = c10::toRealValueType(torch_type(type));
  const auto cast = self.is_complex() ? c10::toComplexType(dtype) : dtype;
  write(out, at::linalg_vector_norm(self.to(cast), order, dims, keepdim));
}
ACLNN(aclnnLogSumExp, (Tensor self, Ints dims, bool keepdim, Tensor out)) {
  write(out, at::logsumexp(self, dims, keepdim));
}
ACLNN(aclnnRenorm, (Tensor self, Scalar p, int64_t dim, Scalar most, Tensor out)) {
  write(out, at::renorm(self, p, dim, most));
}
ACLNN(aclnnInplaceRenorm, (Tensor self, Scalar p, int64_t dim, Scalar most)) { self.renorm_(p, dim, most); }
ACLNN(aclnnTrace, (Tensor self, Tensor out)) { write(out, at::trace(self)); }

ACLNN(aclnnCumsum, (Tensor self, int64_t dim, int type, Tensor out)) {
  write(out, at::cumsum(self, dim, torch_type(type)));
}
ACLNN(aclnnCumprod, (Tensor self, Scalar dim, int type, Tensor out)) {
  write(out, at::cumprod(self, dim.toLong(), torch_type(type)));
}
ACLNN(aclnnCummax, (Tensor self, int64_t dim, Tensor out, Tensor indices_out)) {
  write_both(out, indices_out, at::cummax(self, dim));
}
ACLNN(aclnnCummin, (Tensor self, int64_t dim, Tensor out, Tensor indices_out)) {
  write_both(out, indices_out, at::cummin(self, dim));
}
