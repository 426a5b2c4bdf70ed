// What HCCL is documented to take on each generation of chips that is emulated.
#pragma once

#include <cstdint>
#include <string>

namespace cann::hccl {

enum class Generation { kA1, kA2, kA3 };

// Of a SoC name. "Ascend910B" without a digit is of the first generation, "Ascend910B1" of A2, "Ascend910_9391" of A3.
Generation generation(const std::string& soc);
Generation here();  // of aclrtGetSocName

// Empty, or why `operation` (an HcclCMDType) cannot be done with this dtype and reduction on this generation.
// `reduction` counts only for operations that reduce.
std::string refusal(Generation on, uint32_t operation, uint32_t dtype, uint32_t reduction);

}  // namespace cann::hccl
