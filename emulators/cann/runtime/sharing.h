#pragma once
#include <cstddef>
#include <cstdint>

namespace cann {
// A number by which another process of the same user finds memory of this one: process, device, place in its file.
uint64_t lend(int device, size_t offset);
int open_lent(uint64_t lent, size_t* offset);  // a file descriptor; -1 where the process is gone
void close_lent(int file);
}  // namespace cann
