// The devices' address space: where segments lie, and which host memory stands behind them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "machine.h"

namespace hetero {

constexpr size_t kGranule = 2 << 20;

void reserve_arenas();
// Address of `bytes` (a multiple of kGranule) of new device memory, or 0 where no such range is left.
uintptr_t map_segment(c10::DeviceIndex device, size_t bytes);
void unmap_segment(c10::DeviceIndex device, uintptr_t address, size_t bytes);
// The host's address of a device's.
void* behind(uintptr_t address);
c10::DeviceIndex arena_of(uintptr_t address);

}  // namespace hetero
