// HCCL's names for operations, dtypes and reductions, and the bytes of a dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "hccl/hccl_types.h"

namespace cann::hccl {

std::string operation_name(uint32_t operation);  // of an HcclCMDType: "HcclAllReduce"
std::string dtype_name(uint32_t dtype);          // "float32"
std::string reduction_name(uint32_t reduction);  // "sum"
size_t dtype_size(uint32_t dtype);               // bytes; 0 for what is no dtype

}  // namespace cann::hccl
