#include "arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace cann {
namespace {

constexpr size_t kMost = size_t(4) << 40, kLeast = size_t(16) << 30;
constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

}  // namespace

Arena::Arena(int device) {
  void* at = MAP_FAILED;
  for (size_ = kMost; size_ >= kLeast; size_ /= 2) {  // RLIMIT_AS may allow less
    at = mmap(nullptr, size_, PROT_NONE, kReserved, -1, 0);
    if (at != MAP_FAILED) break;
  }
  if (at == MAP_FAILED) return;
  base_ = next_ = uintptr_t(at);
  file_ = memfd_create(("hetero-cann-" + std::to_string(device)).c_str(), MFD_CLOEXEC);
  if (file_ >= 0 && ftruncate(file_, off_t(size_))) {
    close(file_);
    file_ = -1;
  }
}

// After the last one taken, so that freed addresses stay unused for long; from the start again at the end.
uintptr_t Arena::room(size_t bytes) const {
  if (next_ + bytes + kPage <= base_ + size_) {
    auto above = taken_.lower_bound(next_);
    if (above == taken_.end() || next_ + bytes + kPage <= above->first) return next_;
  }
  uintptr_t at = base_;
  for (const auto& [begin, size] : taken_) {
    if (at + bytes + kPage <= begin) return at;
    at = begin + size + kPage;
  }
  return at + bytes + kPage <= base_ + size_ ? at : 0;
}

uintptr_t Arena::take(size_t bytes) {
  const uintptr_t at = room(bytes);
  if (!at) return 0;
  taken_[at] = bytes;
  next_ = at + bytes + kPage;  // a page between: running over the end is a fault, not the neighbour
  return at;
}

void Arena::give_back(uintptr_t at) { taken_.erase(at); }

bool Arena::map(uintptr_t at, size_t bytes, size_t offset, int file) {
  return mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file < 0 ? file_ : file,
              off_t(offset)) != MAP_FAILED;
}

void Arena::unmap(uintptr_t at, size_t bytes) { mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, kReserved | MAP_FIXED, -1, 0); }

void Arena::discard(size_t offset, size_t bytes) {
  (void)!fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(offset), off_t(bytes));
}

}  // namespace cann
