// Random numbers of a device: a seed and how far it was used, as CUDA keeps them. Each use draws from a generator of
// its own, seeded by both, so a state is 16 bytes and can be set to any point.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include "register.h"

namespace hetero {
namespace {

constexpr uint64_t kStep = 4;  // how far one use goes, as Philox counts
constexpr size_t kState = 2 * sizeof(uint64_t);

struct DeviceGenerator final : c10::GeneratorImpl {
  explicit DeviceGenerator(c10::DeviceIndex index)
      : c10::GeneratorImpl(hetero::device(index), c10::DispatchKeySet(machine().key)) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override {
    TORCH_CHECK(offset % kStep == 0, "offset must be a multiple of 4");
    offset_ = offset;
  }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom(true));
    return seed_;
  }
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == kState, "RNG state is wrong size: it has ", state.numel(), " bytes, not ", kState);
    const auto* from = static_cast<const uint8_t*>(state.data());
    std::memcpy(&seed_, from, sizeof seed_);
    std::memcpy(&offset_, from + sizeof seed_, sizeof offset_);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state = at::empty({kState}, at::TensorOptions(at::kCPU).dtype(at::kByte));
    std::memcpy(state.data_ptr(), &seed_, sizeof seed_);
    std::memcpy(static_cast<uint8_t*>(state.data_ptr()) + sizeof seed_, &offset_, sizeof offset_);
    return state.getIntrusivePtr();
  }
  uint64_t next() {
    uint64_t x = seed_ + 0x9E3779B97F4A7C15ull * (offset_ / kStep + 1);
    offset_ += kStep;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;  // splitmix64: neighbours become unlike
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
  }

 private:
  DeviceGenerator* clone_impl() const override {
    auto* made = new DeviceGenerator(device_.index());
    made->seed_ = seed_;
    made->offset_ = offset_;
    return made;
  }

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

}  // namespace

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<DeviceGenerator>(checked(index < 0 ? current_device() : index));
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* all = [] {
    auto* made = new std::vector<at::Generator>;
    for (int i = 0; i < machine().devices; ++i) made->push_back(new_generator(i));
    return made;
  }();
  return (*all)[checked(index < 0 ? current_device() : index)];
}

at::Generator draw(at::Generator generator) {
  TORCH_CHECK(generator.device().type() == machine().type, "Expected a '", machine().name,
              "' device type for generator but found '", c10::DeviceTypeName(generator.device().type(), true), "'");
  std::lock_guard<std::mutex> hold(generator.mutex());
  return at::detail::createCPUGenerator(static_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl())->next());
}

}  // namespace hetero
