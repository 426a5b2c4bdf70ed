#include "arena.h"

#include <sys/mman.h>

#include <map>
#include <vector>

namespace hetero {
namespace {

// Address space costs nothing, and a device whose memory is in pieces must still find room for a large segment.
constexpr size_t kRoom = 4;

struct Arenas {
  uintptr_t begin = 0;    // of device addresses
  uintptr_t behind = 0;   // of the host memory for them
  size_t each = 0;
  std::vector<std::map<uintptr_t, size_t>> free;  // ranges of each device, by address
};

Arenas& arenas() {
  static auto* one = new Arenas;
  return *one;
}

uintptr_t reserve(size_t bytes) {
  void* got = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TORCH_CHECK(got != MAP_FAILED, "no address space for the emulated devices' memory: ", bytes, " bytes");
  return reinterpret_cast<uintptr_t>(got);
}

}  // namespace

void reserve_arenas() {
  Arenas& a = arenas();
  a.each = kRoom * ((machine().memory + kGranule - 1) / kGranule * kGranule + 16 * kGranule);
  const size_t all = a.each * machine().devices;
  a.begin = reserve(all);
  a.behind = reserve(all);
  for (int i = 0; i < machine().devices; ++i) a.free.push_back({{a.begin + i * a.each, a.each}});
}

uintptr_t map_segment(c10::DeviceIndex device, size_t bytes) {
  auto& free = arenas().free[device];
  for (auto range = free.begin(); range != free.end(); ++range) {
    const auto [address, size] = *range;
    if (size < bytes) continue;
    if (mprotect(behind(address), bytes, PROT_READ | PROT_WRITE)) return 0;
    free.erase(range);
    if (size > bytes) free[address + bytes] = size - bytes;
    return address;
  }
  return 0;
}

void unmap_segment(c10::DeviceIndex device, uintptr_t address, size_t bytes) {
  // Mapped anew, so that the pages go back to the host and the next use reads zeros, whatever was there.
  void* got = mmap(behind(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  TORCH_CHECK(got != MAP_FAILED, "device memory could not be given back to the host");
  auto& free = arenas().free[device];
  auto [range, _] = free.emplace(address, bytes);
  if (auto next = std::next(range); next != free.end() && range->first + range->second == next->first) {
    range->second += next->second;
    free.erase(next);
  }
  if (range == free.begin()) return;
  if (auto before = std::prev(range); before->first + before->second == range->first) {
    before->second += range->second;
    free.erase(range);
  }
}

void* behind(uintptr_t address) {
  return reinterpret_cast<void*>(address - arenas().begin + arenas().behind);
}

c10::DeviceIndex arena_of(uintptr_t address) {
  const Arenas& a = arenas();
  if (!a.each || address < a.begin || address >= a.begin + a.each * machine().devices) return -1;
  return static_cast<c10::DeviceIndex>((address - a.begin) / a.each);
}

}  // namespace hetero
