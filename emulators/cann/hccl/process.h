// Whether another process still lives.
#pragma once

#include <cstdint>

namespace cann::hccl {

// When a process began, in clock ticks since boot: with the pid it names one process for ever. 0: it has ended.
uint64_t born(int64_t pid);

inline bool alive(int64_t pid, uint64_t since) { return born(pid) == since; }

}  // namespace cann::hccl
