// Device and pinned host memory. Device memory is host memory that only the emulated device may be handed.
#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "device.h"
#include "emulator.h"

namespace cann {
namespace {

struct Block {
  size_t bytes;
  int device;
};

struct Memory {
  std::mutex lock;
  std::map<uintptr_t, Block> blocks;         // live
  std::map<uintptr_t, size_t> freed;         // addresses that were device memory, until they are again
  size_t used[kMaxDevices] = {};
};

Memory& memory() {
  static Memory* all = new Memory;  // never destroyed: streams may outlive static destructors
  return *all;
}

size_t limit() {
  static const size_t bytes = [] {
    const char* given = std::getenv("HETERO_CANN_MEMORY");
    return given ? std::strtoull(given, nullptr, 10) : size_t(4) << 30;
  }();
  return bytes;
}

size_t page_rounded(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

int allocate(void** out, size_t bytes) {
  if (!out) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMalloc: devPtr is null");
  if (bytes == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMalloc: size is 0");
  const int device = current_device();
  if (device < 0) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtMalloc: no device is set on this thread");
  const size_t size = page_rounded(bytes);
  Memory& m = memory();
  std::lock_guard<std::mutex> hold(m.lock);
  if (m.used[device] + size > limit() || fault("oom", ""))
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMalloc: " + std::to_string(bytes) + " bytes asked on device " +
                std::to_string(device) + ", " + std::to_string(limit() - m.used[device]) + " of " +
                std::to_string(limit()) + " free");
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMalloc: the host is out of memory");
  m.blocks[uintptr_t(data)] = {size, device};
  m.freed.erase(uintptr_t(data));
  m.used[device] += size;
  *out = data;
  return ACL_SUCCESS;
}

int release(void* data) {
  Memory& m = memory();
  std::lock_guard<std::mutex> hold(m.lock);
  auto found = m.blocks.find(uintptr_t(data));
  if (found == m.blocks.end()) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFree: not the start of live device memory");
  m.used[found->second.device] -= found->second.bytes;
  m.freed[found->first] = found->second.bytes;
  munmap(data, found->second.bytes);
  m.blocks.erase(found);
  return ACL_SUCCESS;
}

void memory_info(int device, size_t* free, size_t* total) {
  Memory& m = memory();
  std::lock_guard<std::mutex> hold(m.lock);
  *total = limit();
  *free = limit() - m.used[device];
}

std::string off_device(const void* data, size_t bytes) {
  if (!data) return bytes ? "is null" : "";
  Memory& m = memory();
  std::lock_guard<std::mutex> hold(m.lock);
  const uintptr_t at = uintptr_t(data);
  auto next = m.blocks.upper_bound(at);
  if (next != m.blocks.begin()) {
    auto block = std::prev(next);
    const uintptr_t end = block->first + block->second.bytes;
    if (at + bytes <= end) return "";
    if (at < end) return "runs " + std::to_string(at + bytes - end) + " bytes past the end of its allocation";
  }
  auto freed = m.freed.upper_bound(at);
  if (freed != m.freed.begin() && std::prev(freed)->first + std::prev(freed)->second > at) return "was freed";
  return "is host memory";
}

bool on_device(const void* data, size_t bytes) { return off_device(data, bytes).empty(); }

}  // namespace cann

extern "C" {

CANN_EXPORT aclError aclrtMalloc(void** out, size_t bytes, aclrtMemMallocPolicy) { return cann::allocate(out, bytes); }
CANN_EXPORT aclError aclrtMallocAlign32(void** out, size_t bytes, aclrtMemMallocPolicy) { return cann::allocate(out, bytes); }
CANN_EXPORT aclError aclrtFree(void* data) { return cann::release(data); }

CANN_EXPORT aclError aclrtMallocHost(void** out, size_t bytes) {
  *out = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  return *out ? ACL_SUCCESS : cann::fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMallocHost: the host is out of memory");
}
CANN_EXPORT aclError aclrtFreeHost(void* data) {
  std::free(data);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
  cann::memory_info(std::max(0, cann::current_device()), free, total);
  return ACL_SUCCESS;
}
}
