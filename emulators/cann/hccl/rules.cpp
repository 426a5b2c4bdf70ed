#include "rules.h"

#include <set>

#include "acl/acl.h"
#include "hccl/hccl_types.h"
#include "names.h"

namespace cann::hccl {
namespace {

// The pages of the public HCCL documentation, one for each operation, list these (hicann/hccl docs/zh/api_ref).
bool reducible(Generation on, uint32_t operation, uint32_t dtype) {
  static const std::set<uint32_t> everywhere = {HCCL_DATA_TYPE_INT8, HCCL_DATA_TYPE_INT32, HCCL_DATA_TYPE_INT64,
                                                HCCL_DATA_TYPE_FP16, HCCL_DATA_TYPE_FP32};
  static const std::set<uint32_t> since_a2 = {HCCL_DATA_TYPE_INT16, HCCL_DATA_TYPE_BFP16};
  if (operation == HCCL_CMD_REDUCE_SCATTER_V && on == Generation::kA2 && dtype == HCCL_DATA_TYPE_INT64) return false;
  return everywhere.count(dtype) || (on != Generation::kA1 && since_a2.count(dtype));
}

bool multiplies(Generation on, uint32_t operation, uint32_t dtype) {
  if (on == Generation::kA1) return true;
  if (operation == HCCL_CMD_REDUCE_SCATTER_V) return false;
  return dtype != HCCL_DATA_TYPE_INT16 && dtype != HCCL_DATA_TYPE_BFP16;
}

bool moves(Generation on, uint32_t dtype) {
  if (dtype == HCCL_DATA_TYPE_BFP16) return on != Generation::kA1;
  return dtype < HCCL_DATA_TYPE_INT128 && dtype_size(dtype) > 0;  // the 8-bit floats are of a later generation
}

bool exists(Generation on, uint32_t operation) {
  const bool later = operation == HCCL_CMD_ALLTOALLVC || operation == HCCL_CMD_ALLGATHER_V ||
                     operation == HCCL_CMD_REDUCE_SCATTER_V;
  return !later || on != Generation::kA1;
}

bool reduces(uint32_t operation) {
  return operation == HCCL_CMD_ALLREDUCE || operation == HCCL_CMD_REDUCE || operation == HCCL_CMD_REDUCE_SCATTER ||
         operation == HCCL_CMD_REDUCE_SCATTER_V;
}

const char* called(Generation on) {
  switch (on) {
    case Generation::kA1: return "the Atlas training series (910A)";
    case Generation::kA2: return "Atlas A2 (910B1 to B4)";
    case Generation::kA3: return "Atlas A3 (910_93xx)";
  }
  return "";
}

}  // namespace

Generation generation(const std::string& soc) {
  if (soc.rfind("Ascend910_93", 0) == 0) return Generation::kA3;
  if (soc.rfind("Ascend910B", 0) == 0 && soc.size() > 10 && soc[10] >= '1' && soc[10] <= '9') return Generation::kA2;
  return Generation::kA1;
}

Generation here() {
  const char* soc = aclrtGetSocName();
  return generation(soc ? soc : "");
}

std::string refusal(Generation on, uint32_t operation, uint32_t dtype, uint32_t reduction) {
  const std::string name = operation_name(operation);
  if (!exists(on, operation)) return name + " does not exist on " + called(on);
  if (operation == HCCL_CMD_BARRIER) return "";
  if (!reduces(operation))
    return moves(on, dtype) ? "" : name + " does not take " + dtype_name(dtype) + " on " + called(on);
  if (reduction > HCCL_REDUCE_MIN) return name + ": " + reduction_name(reduction) + " is not sum, prod, max or min";
  if (!reducible(on, operation, dtype)) return name + " does not reduce " + dtype_name(dtype) + " on " + called(on);
  if (reduction == HCCL_REDUCE_PROD && !multiplies(on, operation, dtype))
    return name + " does not take prod of " + dtype_name(dtype) + " on " + called(on);
  return "";
}

}  // namespace cann::hccl
