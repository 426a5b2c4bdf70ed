// What torch asks an accelerator for by its hooks: CUDA's are found by the name CUDAHooks, PrivateUse1's are registered.
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "memory.h"
#include "register.h"
#include "streams.h"
#include "tensors.h"

namespace hetero {
namespace {

template <class Interface>
struct Common : Interface {
  void init() const override { use(); }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return machine().devices > 0 && !bad_fork(); }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(machine().devices); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { exchange_device(checked(index)); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { return exchange_device(checked(index)); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current_device() : exchange_device(checked(index));
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  c10::Device getDeviceFromPtr(void* data) const override {
    const auto index = device_of(data);
    TORCH_CHECK(index >= 0, "The specified pointer resides on host memory and is not registered with any ",
                machine().title, " device.");
    return device(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return new_generator(index); }
};

struct CudaHooks final : Common<at::CUDAHooksInterface> {
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  int getNumGPUs() const override { return machine().devices; }
  c10::DeviceIndex current_device() const override { return hetero::current_device(); }
  c10::Allocator* getCUDADeviceAllocator() const override { return device_allocator(); }
  std::string showConfig() const override { return "  - CUDA emulated by hetero on the CPU\n"; }
  void deviceSynchronize(c10::DeviceIndex index) const override { synchronize_device(index); }
};

struct PrivateHooks final : Common<at::PrivateUse1HooksInterface> {
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), bytes);
  }
};

}  // namespace

void register_hooks() {
  if (machine().type == c10::kCUDA)
    at::CUDAHooksRegistry()->Register(
        "CUDAHooks", [](at::CUDAHooksArgs) -> std::unique_ptr<at::CUDAHooksInterface> { return std::make_unique<CudaHooks>(); });
  else
    at::RegisterPrivateUse1HooksInterface(new PrivateHooks);
}

}  // namespace hetero
