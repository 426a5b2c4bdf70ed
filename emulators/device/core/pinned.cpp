// Pinned host memory: ordinary memory that is known to be pinned.
#include <cstdlib>
#include <map>

#include "memory.h"

namespace hetero {
namespace {

constexpr size_t kAlign = 4096;

std::map<uintptr_t, size_t>& ranges() {
  static auto* all = new std::map<uintptr_t, size_t>;
  return *all;
}

void free_pinned(void* pointer) {
  {
    std::lock_guard<std::recursive_mutex> hold(runtime_lock());
    ranges().erase(reinterpret_cast<uintptr_t>(pointer));
  }
  std::free(pointer);
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    use();
    if (!bytes) return {nullptr, c10::Device(c10::kCPU)};
    void* p = std::aligned_alloc(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
    TORCH_CHECK(p, "out of host memory: ", bytes, " bytes to pin");
    std::lock_guard<std::recursive_mutex> hold(runtime_lock());
    ranges()[reinterpret_cast<uintptr_t>(p)] = bytes;
    return {p, p, &free_pinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

c10::Allocator* pinned_allocator() {
  static auto* one = new PinnedAllocator;
  return one;
}

bool is_pinned(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  auto it = ranges().upper_bound(address);
  return it != ranges().begin() && address < std::prev(it)->first + std::prev(it)->second;
}

}  // namespace hetero
