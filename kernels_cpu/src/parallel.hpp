// Splitting work among threads, and scratch memory.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "runtime.h"

namespace {

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kElementsPerThread = 16384;

// Number of parts for `items` of `elements` each.
inline int parts_for(int64_t items, int64_t elements, int threads) {
  const int64_t useful = items * elements / kElementsPerThread;
  int64_t parts = threads < items ? threads : items;
  if (useful < parts) parts = useful;
  return parts < 1 ? 1 : int(parts);
}

// body(begin, end, part) over `parts` equal ranges of 0..items.
template <typename Body>
inline void parallel(int64_t items, int parts, Body body) {
  if (items <= 0) return;
  struct Context {
    Body* body;
    int64_t items;
    int parts;
  } context{&body, items, parts};
  hetero::run_parts(
      parts,
      [](void* raw, int part) {
        const Context& c = *static_cast<Context*>(raw);
        (*c.body)(c.items * part / c.parts, c.items * (part + 1) / c.parts, part);
      },
      &context);
}

template <typename T = float>
class Scratch {
 public:
  explicit Scratch(int64_t n) : data_(static_cast<T*>(std::malloc(sizeof(T) * size_t(n + 1)))) {}
  ~Scratch() { std::free(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* get() const { return data_; }

 private:
  T* data_;
};

inline int no_memory() { return hetero::fail(HETERO_NO_MEMORY, "out of memory for the kernel's scratch space"); }

}  // namespace
