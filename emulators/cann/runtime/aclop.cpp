// The older operator path: descriptors work, execution always fails and names the operator. torch_npu falls back to it
// without a word where an aclnn operator is missing.
#include <string>
#include <vector>

#include "acl/acl_op_compiler.h"
#include "emulator.h"
#include "errors.h"

struct aclTensorDesc {
  aclDataType type;
  std::vector<int64_t> dims;
  aclFormat format;
};
struct aclDataBuffer {
  void* data;
  size_t bytes;
};
struct aclopAttr {};

using cann::fail;

extern "C" {

CANN_EXPORT aclTensorDesc* aclCreateTensorDesc(aclDataType type, int n, const int64_t* dims, aclFormat format) {
  return new aclTensorDesc{type, std::vector<int64_t>(dims, dims + n), format};
}
CANN_EXPORT void aclDestroyTensorDesc(const aclTensorDesc* desc) { delete desc; }
CANN_EXPORT aclDataType aclGetTensorDescType(const aclTensorDesc* desc) { return desc->type; }
CANN_EXPORT aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) { return desc->format; }
CANN_EXPORT size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) { return desc->dims.size(); }
CANN_EXPORT aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t i, int64_t* size) {
  if (i >= desc->dims.size()) return fail(ACL_ERROR_INVALID_PARAM, "aclGetTensorDescDimV2: no such dimension");
  *size = desc->dims[i];
  return ACL_SUCCESS;
}
CANN_EXPORT void aclSetTensorDescName(aclTensorDesc*, const char*) {}
CANN_EXPORT aclError aclSetTensorFormat(aclTensorDesc*, aclFormat) { return ACL_SUCCESS; }
CANN_EXPORT aclError aclSetTensorShape(aclTensorDesc*, int, const int64_t*) { return ACL_SUCCESS; }
CANN_EXPORT aclError aclSetTensorPlaceMent(aclTensorDesc*, aclMemType) { return ACL_SUCCESS; }
CANN_EXPORT aclDataBuffer* aclCreateDataBuffer(void* data, size_t bytes) { return new aclDataBuffer{data, bytes}; }
CANN_EXPORT aclError aclDestroyDataBuffer(const aclDataBuffer* buffer) {
  delete buffer;
  return ACL_SUCCESS;
}

CANN_EXPORT aclopAttr* aclopCreateAttr() { return new aclopAttr; }
CANN_EXPORT void aclopDestroyAttr(const aclopAttr* attr) { delete attr; }
#define ATTRIBUTE(NAME, ...) \
  CANN_EXPORT aclError aclopSetAttr##NAME(aclopAttr*, const char*, __VA_ARGS__) { return ACL_SUCCESS; }
ATTRIBUTE(Bool, uint8_t)
ATTRIBUTE(Int, int64_t)
ATTRIBUTE(Float, float)
ATTRIBUTE(String, const char*)
ATTRIBUTE(DataType, aclDataType)
ATTRIBUTE(ListBool, int, const uint8_t*)
ATTRIBUTE(ListInt, int, const int64_t*)
ATTRIBUTE(ListFloat, int, const float*)
ATTRIBUTE(ListListInt, int, const int*, const int64_t* const*)

CANN_EXPORT aclError aclopCompileAndExecute(const char* type, int, const aclTensorDesc* const[], const aclDataBuffer* const[], int,
                                            const aclTensorDesc* const[], aclDataBuffer* const[], const aclopAttr*, aclopEngineType,
                                            aclopCompileType, const char*, aclrtStream) {
  const std::string missing = cann::take_missing_operator();
  const std::string why = missing.empty() ? "torch_npu named no aclnn operator as missing, so it asks for none "
                                            "on this SoC (it names them under ASCEND_GLOBAL_LOG_LEVEL=2 only)"
                                          : missing + " is missing (docs/emulators.md says how to add an operator)";
  return fail(ACL_ERROR_OP_NOT_FOUND,
              std::string("operator ") + type + " was asked for on the aclop path, which is not emulated: " + why);
}

CANN_EXPORT aclError aclopCompileAndExecuteV2(const char* type, int, aclTensorDesc*[], aclDataBuffer*[], int, aclTensorDesc*[], aclDataBuffer*[],
                                              aclopAttr*, aclopEngineType, aclopCompileType, const char*, aclrtStream) {
  return aclopCompileAndExecute(type, 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, ACL_ENGINE_SYS, ACL_COMPILE_SYS, nullptr, nullptr);
}

CANN_EXPORT aclError aclSetCompileopt(aclCompileOpt, const char*) { return ACL_SUCCESS; }
CANN_EXPORT size_t aclGetCompileoptSize(aclCompileOpt) { return 256; }
CANN_EXPORT aclError aclGetCompileopt(aclCompileOpt, char* value, size_t bytes) {
  if (bytes) *value = 0;
  return ACL_SUCCESS;
}
}
