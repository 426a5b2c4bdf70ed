// Matrix products of groups of rows, one weight a group.
#include "outputs.h"

using namespace cann;

namespace {

enum Axis { kNone = -1, kRows = 0, kInner = 2 };

struct Grouped {
  const Tensors &x, &weight;
  const OptTensors& bias;
  OptTensor groups;
  int64_t split, axis, counts, activation;
  const Tensors& out;
};

bool given(const OptTensors& list) { return list && !list->empty() && !(list->size() == 1 && !list->front().numel()); }

Tensor activated(const Tensor& y, int64_t kind) {
  switch (kind) {
    case 0: return y;
    case 1: return at::relu(y);
    case 2: return at::gelu(y, "tanh");
    case 3: return at::gelu(y);
    case 4: return y * at::sigmoid(y * 1.702);
    case 5: return at::silu(y);
    default: TORCH_CHECK(false, "act_type ", kind, " is unknown");
  }
}

// Row numbers where groups end.
Ints ends(const Tensor& groups, int64_t counts, int64_t rows) {
  TORCH_CHECK(groups.dim() == 1 && groups.scalar_type() == at::kLong && groups.numel() <= 1024,
              "group_list is a list of at most 1024 int64");
  TORCH_CHECK(counts == 0 || counts == 1, "group_list_type ", counts, " is not emulated");
  const Tensor sums = counts ? groups.cumsum(0) : groups;
  Ints all(sums.contiguous().data_ptr<int64_t>(), sums.contiguous().data_ptr<int64_t>() + sums.numel());
  int64_t last = 0;
  for (int64_t end : all) {
    TORCH_CHECK(end >= last && end <= rows, "group_list does not divide ", rows, " rows");
    last = end;
  }
  return all;
}

void check(const Grouped& call) {
  for (const auto* list : {&call.x, &call.weight}) {
    TORCH_CHECK(!list->empty() && list->size() <= 128, "x and weight are lists of 1 to 128 tensors");
    for (const Tensor& t : *list) {
      const auto type = t.scalar_type();
      TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, type, " is not emulated");
      TORCH_CHECK(type == call.x[0].scalar_type(), "x and weight share one dtype");
      TORCH_CHECK(t.size(-1) < 65536, "the last dimension ", t.size(-1), " is not below 65536");
    }
  }
  if (given(call.bias))
    for (const Tensor& b : *call.bias)
      TORCH_CHECK(call.x[0].scalar_type() != at::kBFloat16 || b.scalar_type() == at::kFloat,
                  "the bias of bfloat16 is float32");
  if (call.axis == kNone) return;
  TORCH_CHECK(call.axis == kRows || call.axis == kInner, "group_type ", call.axis, " is unknown");
  TORCH_CHECK(call.groups, "group_type ", call.axis, " needs group_list");
  TORCH_CHECK(call.x.size() == 1, "group_list needs one x");
  const Tensor& x = call.x[0];
  if (call.axis == kRows) {
    TORCH_CHECK(x.stride(-1) == 1 || x.size(-1) == 1, "x of group_type 0 is not transposed");
  } else {
    TORCH_CHECK(x.stride(0) == 1 || x.size(0) == 1, "x of group_type 2 is transposed");
    TORCH_CHECK(call.weight.size() == 1 && (call.split == 2 || call.split == 3),
                "group_type 2 is emulated with one weight and one output");
  }
}

// The i-th group's weight: of a list, or of one stacked tensor.
Tensor weight_of(const Grouped& call, size_t i) {
  if (call.weight.size() == 1 && call.weight[0].dim() == 3) return call.weight[0].select(0, int64_t(i));
  return call.weight.at(i);
}

Tensor product(const Grouped& call, const Tensor& x, size_t i) {
  Tensor y = at::matmul(x.to(at::kFloat), weight_of(call, i).to(at::kFloat));
  if (given(call.bias))
    y = y + (call.bias->size() == 1 && (*call.bias)[0].dim() == 2 ? (*call.bias)[0].select(0, int64_t(i))
                                                                  : call.bias->at(i))
                .to(at::kFloat);
  return activated(y, call.activation);
}

void run(const Grouped& call) {
  if (call.axis == kNone) {
    for (size_t i = 0; i < call.x.size(); ++i) write(call.out.at(i), product(call, call.x[i], i));
    return;
  }
  const Tensor& x = call.x[0];
  const bool one = call.split == 2 || call.split == 3;
  int64_t begin = 0;
  if (call.axis == kInner) {
    // x is [M, K] and a transposed view, weight [K, N], the output [groups, M, N].
    const Ints all = ends(*call.groups, call.counts, x.size(1));
    for (size_t i = 0; i < all.size(); ++i) {
      write(call.out[0].select(0, int64_t(i)), at::matmul(x.slice(1, begin, all[i]).to(at::kFloat),
                                                          call.weight[0].slice(0, begin, all[i]).to(at::kFloat)));
      begin = all[i];
    }
    return;
  }
  const Ints all = ends(*call.groups, call.counts, x.size(0));
  for (size_t i = 0; i < all.size(); ++i) {
    const Tensor y = product(call, x.slice(0, begin, all[i]), i);
    write(one ? call.out[0].slice(0, begin, all[i]) : call.out.at(i), y);
    begin = all[i];
  }
}

OptTensor listed(const OptInts& groups) {
  if (!groups || groups->empty()) return std::nullopt;
  return at::tensor(*groups, at::kLong);
}

#define NOT_QUANTISED                                                                       \
  TORCH_CHECK(!given(scale) && !given(offset) && !given(anti_scale) && !given(anti_offset), \
              "quantised products are not emulated")

}  // namespace

#define QUANTISED OptTensors scale, OptTensors offset, OptTensors anti_scale, OptTensors anti_offset
#define SETTINGS int64_t split, int64_t axis, int64_t counts, int64_t activation
// Macros in the arguments are expanded before ACLNN reads the parameters' names.
#define GROUPED(NAME, CALL, ...)            \
  ACLNN(NAME, (__VA_ARGS__)) { run(CALL); } \
  ACLNN_RULE(NAME, (__VA_ARGS__)) {         \
    NOT_QUANTISED;                          \
    check(CALL);                            \
  }
#define LATER_CALL Grouped({x, weight, bias, groups, split, axis, counts, activation, out})
#define FIRST_CALL \
  Grouped({x, weight, bias, listed(groups), split, groups && !groups->empty() ? kRows : kNone, 0, 0, out})

#pragma GCC diagnostic ignored "-Wunused-parameter"  // only rules read the quantised ones
GROUPED(aclnnGroupedMatmul, FIRST_CALL, Tensors x, Tensors weight, OptTensors bias, QUANTISED, OptInts groups,
        int64_t split, Tensors out)
// torch_npu runs the fifth version, and that only where it finds the fourth.
GROUPED(aclnnGroupedMatmulV4, LATER_CALL, Tensors x, Tensors weight, OptTensors bias, QUANTISED, OptTensors,
        OptTensor groups, OptTensors, OptTensors, OptTensors, SETTINGS, Tensors out, OptTensors, OptTensors)
GROUPED(aclnnGroupedMatmulV5, LATER_CALL, Tensors x, Tensors weight, OptTensors bias, QUANTISED, OptTensors,
        OptTensor groups, OptTensors, OptTensors, OptTensors, SETTINGS, OptInts, Tensors out, OptTensors, OptTensors)

// groups are sums, never counts: that is another version of this call, which torch_npu does not use on A2 and A3.
ACLNN(aclnnGroupedMatmulAdd, (Tensor x, Tensor weight, Tensor groups, Tensor selfRef, bool, bool, int64_t)) {
  const Ints all = ends(groups, 0, x.size(0));
  const Tensor sums = selfRef.view({int64_t(all.size()), x.size(1), weight.size(1)});
  int64_t begin = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto part = [&](const Tensor& t) { return t.slice(0, begin, all[i]).to(at::kFloat); };
    sums.select(0, int64_t(i)).add_(at::matmul(part(x).t(), part(weight)));
    begin = all[i];
  }
}
ACLNN_RULE(aclnnGroupedMatmulAdd,
           (Tensor, Tensor, Tensor, Tensor, bool transpose_x, bool transpose_weight, int64_t axis)) {
  TORCH_CHECK(transpose_x && !transpose_weight && axis == kInner, "only group_type 2 with a transposed x is supported");
}
