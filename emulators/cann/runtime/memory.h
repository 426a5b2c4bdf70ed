// Device memory: what is live, on which device, and who uses it. A process has one of these.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "arena.h"
#include "device.h"

namespace cann {

class Memory {
 public:
  struct Block {
    size_t bytes;
    int device;
    size_t offset;      // of its bytes in the device's file
    bool own = true;    // counts towards the device's memory; not so what another process lent
    bool mapped = false;  // by aclrtMapMem, which the allocation below it outlives
    int pins = 0;       // running tasks that use it
  };

  int allocate(const char* call, void** out, size_t bytes);
  int release(void* data);
  void info(int device, size_t* free, size_t* total);

  std::string problem(const void* data, size_t bytes);        // "" where the range is live device memory
  int device_of(const void* data);                            // -1 where it is not live
  bool inside(const void* data);                              // it is, or was, device memory
  std::string problem(const Range& range, int device);        // also: memory of another device
  std::string pin(const std::vector<Range>& ranges);          // keeps them mapped, or says why not
  std::string unpin(const std::vector<Range>& ranges);        // says which was freed meanwhile

  // For virtual_memory.cpp and sharing.cpp.
  std::mutex lock;
  Arena& arena(int device);                                   // these need the lock
  std::map<uintptr_t, Block> blocks;
  int take_physical(const char* call, int device, size_t bytes, uintptr_t* at);
  void free_physical(int device, uintptr_t at, size_t bytes);
  std::string problem_locked(uintptr_t at, size_t bytes);

 private:
  std::map<uintptr_t, Block>::iterator find(uintptr_t at);    // the block that holds it, or end()

  std::unique_ptr<Arena> arenas_[kMaxDevices];
  std::map<uintptr_t, Block> dying_;                          // freed while pinned
  size_t used_[kMaxDevices] = {};
};

Memory& memory();

}  // namespace cann
