// The SoCs that can be emulated. A2 and A3: cores as compilers' target tables give them (A3 counts a die as a device).
// 910A: cores of the published architecture; no bfloat16. 310P, 310B and 950 take other operators and are not emulated.
#include "soc.h"

namespace cann {
namespace {

constexpr Soc kSocs[] = {
    // name, cube cores, vector cores, L2 MiB, bfloat16
    {"Ascend910PremiumA", 32, 32, 32, false}, {"Ascend910ProA", 32, 32, 32, false}, {"Ascend910A", 32, 32, 32, false},
    {"Ascend910ProB", 30, 30, 32, false},     {"Ascend910B", 30, 30, 32, false},
    {"Ascend910B1", 24, 48, 192, true},       {"Ascend910B2", 24, 48, 192, true},   {"Ascend910B2C", 24, 48, 192, true},
    {"Ascend910B3", 20, 40, 192, true},       {"Ascend910B4", 20, 40, 96, true},    {"Ascend910B4-1", 20, 40, 192, true},
    {"Ascend910_9391", 24, 48, 192, true},    {"Ascend910_9392", 24, 48, 192, true},
    {"Ascend910_9381", 24, 48, 192, true},    {"Ascend910_9382", 24, 48, 192, true},
    {"Ascend910_9372", 20, 40, 192, true},    {"Ascend910_9362", 20, 40, 192, true},
    {"Ascend910_9363", 20, 40, 192, true},
};

}  // namespace

const Soc* find_soc(const std::string& name) {
  for (const Soc& one : kSocs)
    if (name == one.name) return &one;
  return nullptr;
}

std::string soc_names() {
  std::string all;
  for (const Soc& one : kSocs) all += (all.empty() ? "" : ", ") + std::string(one.name);
  return all;
}

}  // namespace cann
