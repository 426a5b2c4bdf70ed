// The address space of a device: addresses that no host allocation ever has, backed by one memory file a device, so that
// other processes can map it. An address says by itself whether it is, or was, device memory. Not synchronised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace cann {

constexpr size_t kPage = 4096;
inline size_t page_rounded(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

class Arena {
 public:
  explicit Arena(int device);
  bool usable() const { return file_ >= 0; }
  int file() const { return file_; }
  bool contains(uintptr_t at) const { return at >= base_ && at < base_ + size_; }

  uintptr_t take(size_t bytes);  // addresses, not accessible yet; 0 where none are left
  void give_back(uintptr_t at);
  bool taken(uintptr_t at) const { return taken_.count(at); }
  size_t taken_bytes(uintptr_t at) const { return taken_.at(at); }

  bool map(uintptr_t at, size_t bytes, size_t offset, int file = -1);  // the file's bytes; -1 is the device's own
  void unmap(uintptr_t at, size_t bytes);                              // an access is a segmentation fault again
  void discard(size_t offset, size_t bytes);                           // gives the host its memory back
  size_t offset_of(uintptr_t at) const { return at - base_; }          // where in the file an allocation at `at` has its bytes

 private:
  uintptr_t room(size_t bytes) const;

  uintptr_t base_ = 0, next_ = 0;
  size_t size_ = 0;
  int file_ = -1;
  std::map<uintptr_t, size_t> taken_;
};

}  // namespace cann
