#include "memory.h"

#include <algorithm>

#include "host_memory.h"
#include "process.h"
#include "races.h"
#include "settings.h"

namespace cann {

Memory& memory() {
  static Memory* all = new Memory;  // never destroyed: streams may outlive static destructors
  return *all;
}

Arena& Memory::arena(int device) {
  if (!arenas_[device]) {
    device_used();
    arenas_[device] = std::make_unique<Arena>(device);
  }
  return *arenas_[device];
}

int Memory::take_physical(const char* call, int device, size_t bytes, uintptr_t* at) {
  if (fault("oom", "") || bytes > settings().memory - used_[device])
    // torch_npu looks for "Failed to allocate" where an operator's own allocation fails.
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, std::string(call) + ": Failed to allocate " + std::to_string(bytes) + " bytes on device " +
                std::to_string(device) + ": " + std::to_string(settings().memory - used_[device]) + " of " +
                std::to_string(settings().memory) + " are free");
  Arena& space = arena(device);
  *at = space.usable() ? space.take(bytes) : 0;
  if (!*at) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, std::string(call) + ": the host has no address space left for device memory");
  used_[device] += bytes;
  return ACL_SUCCESS;
}

void Memory::free_physical(int device, uintptr_t at, size_t bytes) {
  Arena& space = arena(device);
  space.discard(space.offset_of(at), bytes);
  space.give_back(at);
  used_[device] -= bytes;
}

int Memory::allocate(const char* call, void** out, size_t bytes) {
  if (!out) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(call) + ": devPtr is null");
  if (bytes == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(call) + ": size is 0");
  const int device = current_device();
  if (int code = check_device(call, device)) return code;
  std::lock_guard<std::mutex> hold(lock);
  const size_t size = bytes > settings().memory ? bytes : page_rounded(bytes);
  uintptr_t at;
  if (int code = take_physical(call, device, size, &at)) return code;
  const size_t offset = arena(device).offset_of(at);
  if (!arena(device).map(at, size, offset)) {
    free_physical(device, at, size);
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, std::string(call) + ": Failed to allocate: the host is out of memory");
  }
  blocks[at] = {size, device, offset};
  *out = reinterpret_cast<void*>(at);
  return ACL_SUCCESS;
}

int Memory::release(void* data) {
  if (forked()) return ACL_SUCCESS;  // the parent's, whose bytes this would throw away
  const uintptr_t at = uintptr_t(data);
  Block block;
  {
    std::lock_guard<std::mutex> hold(lock);
    auto found = blocks.find(at);
    if (found == blocks.end() || found->second.mapped || !found->second.own) {
      const std::string why = problem_locked(at, 1);
      return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFree: the address " + (why.empty() ? "is not the start of an allocation" : why));
    }
    block = found->second;
    blocks.erase(found);
    if (block.pins) {
      dying_[at] = block;  // the running task's end unmaps it
    } else {
      arena(block.device).unmap(at, block.bytes);
      free_physical(block.device, at, block.bytes);
    }
  }
  const std::string race = races().freed(data, block.bytes);
  return race.empty() ? int(ACL_SUCCESS) : fail(ACL_ERROR_RT_MEMORY_FREE, "aclrtFree: " + race);
}

void Memory::info(int device, size_t* free, size_t* total) {
  std::lock_guard<std::mutex> hold(lock);
  *total = settings().memory;
  *free = settings().memory - used_[device];
}

std::map<uintptr_t, Memory::Block>::iterator Memory::find(uintptr_t at) {
  auto next = blocks.upper_bound(at);
  if (next == blocks.begin()) return blocks.end();
  auto block = std::prev(next);
  return at < block->first + block->second.bytes ? block : blocks.end();
}

std::string Memory::problem_locked(uintptr_t at, size_t bytes) {
  auto block = find(at);
  if (block == blocks.end()) {
    for (const auto& space : arenas_)
      if (space && space->contains(at)) return "was freed";
    return host_on_device(reinterpret_cast<void*>(at), bytes) ? "" : "is host memory";
  }
  uintptr_t end = block->first + block->second.bytes;  // of the blocks that follow without a gap (aclrtMapMem)
  while (end < at + bytes && ++block != blocks.end() && block->first == end) end += block->second.bytes;
  if (at + bytes <= end) return "";
  return "runs " + std::to_string(at + bytes - end) + " bytes past the end of its allocation";
}

std::string Memory::problem(const void* data, size_t bytes) {
  if (!data) return bytes ? "is null" : "";
  std::lock_guard<std::mutex> hold(lock);
  return problem_locked(uintptr_t(data), bytes);
}

int Memory::device_of(const void* data) {
  std::lock_guard<std::mutex> hold(lock);
  auto block = find(uintptr_t(data));
  return block == blocks.end() ? -1 : block->second.device;
}

bool Memory::inside(const void* data) {
  std::lock_guard<std::mutex> hold(lock);
  return std::any_of(std::begin(arenas_), std::end(arenas_), [&](const auto& a) { return a && a->contains(uintptr_t(data)); });
}

std::string Memory::problem(const Range& range, int device) {
  const std::string why = problem(range.data, range.bytes);
  if (!why.empty()) return why;
  const int on = range.data ? device_of(range.data) : -1;
  if (on < 0 || on == device) return "";
  if (!range.peer) return "is memory of device " + std::to_string(on) + ", the stream is on device " + std::to_string(device);
  if (may_access(device, on) || may_access(on, device)) return "";
  return "is memory of device " + std::to_string(on) + ", and neither aclrtDeviceEnablePeerAccess nor its device enabled the access";
}

std::string Memory::pin(const std::vector<Range>& ranges) {
  if (ranges.empty()) return "";
  std::lock_guard<std::mutex> hold(lock);
  for (const Range& range : ranges)
    if (range.bytes)
      if (const std::string why = problem_locked(uintptr_t(range.data), range.bytes); !why.empty())
        return "device memory " + why + " before the stream came to the task that uses it";
  for (const Range& range : ranges)
    if (auto block = find(uintptr_t(range.data)); block != blocks.end()) ++block->second.pins;
  return "";
}

std::string Memory::unpin(const std::vector<Range>& ranges) {
  std::string freed;
  if (ranges.empty()) return freed;
  std::lock_guard<std::mutex> hold(lock);
  for (const Range& range : ranges) {
    if (auto block = find(uintptr_t(range.data)); block != blocks.end()) {
      --block->second.pins;
      continue;
    }
    auto next = dying_.upper_bound(uintptr_t(range.data));
    if (next == dying_.begin()) continue;
    auto block = std::prev(next);
    if (uintptr_t(range.data) >= block->first + block->second.bytes) continue;
    freed = "device memory was freed while the task that uses it ran";
    if (--block->second.pins) continue;
    arena(block->second.device).unmap(block->first, block->second.bytes);
    free_physical(block->second.device, block->first, block->second.bytes);
    dying_.erase(block);
  }
  return freed;
}

bool on_device(const void* data, size_t bytes) { return memory().problem(data, bytes).empty(); }
std::string off_device(const void* data, size_t bytes) { return memory().problem(data, bytes); }

}  // namespace cann

using cann::memory;

extern "C" {

CANN_EXPORT aclError aclrtMalloc(void** out, size_t bytes, aclrtMemMallocPolicy) { return memory().allocate("aclrtMalloc", out, bytes); }
CANN_EXPORT aclError aclrtMallocAlign32(void** out, size_t bytes, aclrtMemMallocPolicy) {
  return memory().allocate("aclrtMallocAlign32", out, bytes);
}
CANN_EXPORT aclError aclrtMallocWithCfg(void** out, size_t bytes, aclrtMemMallocPolicy, aclrtMallocConfig*) {
  return memory().allocate("aclrtMallocWithCfg", out, bytes);
}
CANN_EXPORT aclError aclrtFree(void* data) { return memory().release(data); }

CANN_EXPORT aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
  if (int code = cann::check_device("aclrtGetMemInfo", cann::current_device())) return code;
  memory().info(cann::current_device(), free, total);
  return ACL_SUCCESS;
}
}
