// Device memory. A device address is the address of a page that nobody may touch; the byte that it stands for lies at
// a fixed distance, where only this emulator looks. Host code that follows a device pointer ends with SIGSEGV.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "machine.h"
#include "streams.h"

namespace hetero {

// What reads and writes of one allocation came last, for the order between streams.
struct Accesses {
  Stamp write;
  std::vector<Stamp> reads;
};

struct Block {
  uintptr_t address = 0;
  size_t size = 0;       // with the rounding
  size_t requested = 0;
  bool live = false;
  bool large = false;
  uintptr_t segment = 0;  // address of the segment it is part of
  c10::StreamId stream = 0;
  Accesses accesses;
};

// Reserves address space; nothing is allocated yet.
void reserve_memory();

// The host's address of `device` memory; null stays null. Raises where no live allocation holds [address, +bytes).
void* host(const void* device, size_t bytes);
// As above and noted as an access on `stream`, in whose order races are looked for.
void* host(const void* device, size_t bytes, const c10::Stream& stream, bool write, const char* what);
// Device of an address of ours, or -1.
c10::DeviceIndex device_of(const void* address);

c10::Allocator* device_allocator();
void empty_cache();
std::pair<size_t, size_t> memory_info(c10::DeviceIndex index);  // free, total
void set_fraction(c10::DeviceIndex index, double fraction);
double fraction(c10::DeviceIndex index);
void record_stream(const void* address, const c10::Stream& stream);

// A number that moves up and down, and what torch.cuda.memory_stats says of it.
struct Count {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void add(int64_t n) {
    current += n;
    (n > 0 ? allocated : freed) += n > 0 ? n : -n;
    peak = std::max(peak, current);
  }
};
struct Statistics {
  // Each for all, the small and the large pool.
  std::map<std::string, std::array<Count, 3>> counts;
  std::map<std::string, int64_t> numbers;
};
Statistics statistics(c10::DeviceIndex index);
void reset_peaks(c10::DeviceIndex index);
void reset_accumulated(c10::DeviceIndex index);

struct Segment {
  c10::DeviceIndex device = 0;
  uintptr_t address = 0;
  size_t size = 0;
  bool large = false;
  c10::StreamId stream = 0;
};
// Every segment with its blocks, by address.
std::vector<std::pair<Segment, std::vector<Block>>> snapshot();

// Host memory that copies may use asynchronously.
c10::Allocator* pinned_allocator();
bool is_pinned(const void* address);

}  // namespace hetero
