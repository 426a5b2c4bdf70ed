// What aclCreate* make: plain descriptions of arguments, turned into ATen values when an operator is prepared.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "emulator.h"

struct aclTensor {
  std::vector<int64_t> sizes, strides;
  int64_t offset;  // elements
  aclDataType type;
  aclFormat format;
  void* data;
};
struct aclScalar {
  at::Scalar value;
  aclDataType type;
};
struct aclIntArray {
  std::vector<int64_t> values;
};
struct aclFloatArray {
  std::vector<double> values;
};
struct aclBoolArray {
  std::vector<bool> values;
};
// Lists own what is in them: torch_npu destroys the list alone.
struct aclTensorList {
  std::vector<const aclTensor*> values;
};
struct aclScalarList {
  std::vector<const aclScalar*> values;
};

namespace cann {

at::ScalarType torch_type(int acl_type);       // throws for a code that no torch type has
at::Tensor view(const aclTensor* described);    // over the same memory; undefined for null

}  // namespace cann
