#include "descriptors.h"

#include <cstring>

namespace cann {

at::ScalarType torch_type(int acl_type) {
  switch (acl_type) {
    case ACL_FLOAT: return at::kFloat;
    case ACL_FLOAT16: return at::kHalf;
    case ACL_INT8: return at::kChar;
    case ACL_INT32: return at::kInt;
    case ACL_UINT8: return at::kByte;
    case ACL_INT16: return at::kShort;
    case ACL_INT64: return at::kLong;
    case ACL_DOUBLE: return at::kDouble;
    case ACL_BOOL: return at::kBool;
    case ACL_COMPLEX64: return at::kComplexFloat;
    case ACL_COMPLEX128: return at::kComplexDouble;
    case ACL_BF16: return at::kBFloat16;
    default: TORCH_CHECK(false, "dtype code ", acl_type, " is not emulated");
  }
}

at::Tensor view(const aclTensor* t) {
  if (!t) return {};
  const auto type = torch_type(t->type);
  char* data = static_cast<char*>(t->data) + t->offset * int64_t(c10::elementSize(type));
  return at::from_blob(data, t->sizes, t->strides, at::TensorOptions().dtype(type));
}

}  // namespace cann

namespace {

at::Scalar read_scalar(const void* value, aclDataType type) {
  const at::Tensor one = at::from_blob(const_cast<void*>(value), {}, at::TensorOptions().dtype(cann::torch_type(type)));
  return one.item();
}

}  // namespace

extern "C" {

CANN_EXPORT aclTensor* aclCreateTensor(const int64_t* sizes, uint64_t n, aclDataType type, const int64_t* strides, int64_t offset,
                                       aclFormat format, const int64_t*, uint64_t, void* data) {
  auto* t = new aclTensor{std::vector<int64_t>(sizes, sizes + n), std::vector<int64_t>(n), offset, type, format, data};
  int64_t step = 1;
  for (size_t i = n; i-- > 0; step *= sizes[i]) t->strides[i] = strides ? strides[i] : step;
  return t;
}
CANN_EXPORT int aclDestroyTensor(const aclTensor* t) {
  delete t;
  return 0;
}
CANN_EXPORT int aclGetViewShape(const aclTensor* t, int64_t** sizes, uint64_t* n) {
  *n = t->sizes.size();
  *sizes = new int64_t[*n];  // the caller's, as documented
  std::memcpy(*sizes, t->sizes.data(), *n * sizeof(int64_t));
  return 0;
}

CANN_EXPORT aclScalar* aclCreateScalar(void* value, aclDataType type) { return new aclScalar{read_scalar(value, type), type}; }
CANN_EXPORT int aclDestroyScalar(const aclScalar* s) {
  delete s;
  return 0;
}

#define ARRAY(KIND, TYPE)                                                                          \
  CANN_EXPORT acl##KIND##Array* aclCreate##KIND##Array(const TYPE* values, uint64_t n) {            \
    return new acl##KIND##Array{decltype(acl##KIND##Array::values)(values, values + n)};           \
  }                                                                                                \
  CANN_EXPORT int aclDestroy##KIND##Array(const acl##KIND##Array* array) {                          \
    delete array;                                                                                  \
    return 0;                                                                                      \
  }
ARRAY(Int, int64_t)
ARRAY(Float, float)
ARRAY(Bool, bool)

#define LIST(KIND)                                                                                                  \
  CANN_EXPORT acl##KIND##List* aclCreate##KIND##List(const acl##KIND* const* values, uint64_t n) {                   \
    return new acl##KIND##List{std::vector<const acl##KIND*>(values, values + n)};                                   \
  }                                                                                                                 \
  CANN_EXPORT int aclDestroy##KIND##List(const acl##KIND##List* list) {                                              \
    for (const auto* one : list->values) delete one;                                                                \
    delete list;                                                                                                    \
    return 0;                                                                                                       \
  }
LIST(Tensor)
LIST(Scalar)
}
