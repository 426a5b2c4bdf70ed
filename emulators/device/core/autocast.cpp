// Autocast of a PrivateUse1 device: torch's own lists of operators. CUDA's is part of torch.
#include <ATen/autocast_mode.h>

#include "register.h"

namespace hetero {

#define LOWER(...) KERNEL(c10::DeviceType::PrivateUse1, __VA_ARGS__, lower_precision_fp)
#define FLOAT32(...) KERNEL(c10::DeviceType::PrivateUse1, __VA_ARGS__, fp32)
#define FLOAT32_DTYPE(...) KERNEL(c10::DeviceType::PrivateUse1, __VA_ARGS__, fp32_set_opt_dtype)
#define WIDEST(...) KERNEL(c10::DeviceType::PrivateUse1, __VA_ARGS__, promote)
#define OTHER_SIGNATURE(...) KERNEL_DIFFERENT_REDISPATCH_SIGNATURE(c10::DeviceType::PrivateUse1, __VA_ARGS__)

void register_autocast() {
  using namespace at;
  using namespace at::autocast;
  if (machine().type != c10::kPrivateUse1) return;
  static auto* all = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFallthrough());
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  torch::Library& m = *library;
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
  AT_FORALL_FP32(FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(OTHER_SIGNATURE)
  AT_FORALL_PROMOTE(WIDEST)
}

}  // namespace hetero
