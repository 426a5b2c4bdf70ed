// Numbers of a (seed, offset) pair as torch_npu's generator gives them: the same pair, the same numbers.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

namespace cann {

inline uint64_t mixed(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// ATen's engine reads 32 bits of its seed.
inline at::Generator generator(uint64_t seed, uint64_t offset) {
  return at::detail::createCPUGenerator(mixed(seed ^ mixed(offset)) >> 32);
}

}  // namespace cann
