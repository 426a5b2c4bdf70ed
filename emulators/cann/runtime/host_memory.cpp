// Pinned host memory, registered host memory, and what kind of memory an address is.
#include "host_memory.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "memory.h"

namespace cann {
namespace {

struct Pinned {
  size_t bytes;
  bool ours;    // from aclrtMallocHost
  bool mapped;  // the device may use its address
};

struct HostMemory {
  std::mutex lock;
  std::map<uintptr_t, Pinned> blocks;

  std::map<uintptr_t, Pinned>::iterator find(const void* data) {
    auto next = blocks.upper_bound(uintptr_t(data));
    if (next == blocks.begin()) return blocks.end();
    auto block = std::prev(next);
    return uintptr_t(data) < block->first + block->second.bytes ? block : blocks.end();
  }
};

HostMemory& host() {
  static auto* all = new HostMemory;
  return *all;
}

int allocate_host(const char* call, void** out, size_t bytes) {
  if (!out || !bytes) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(call) + ": no bytes, or no place for the address");
  if (int code = check_device(call, current_device())) return code;
  *out = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!*out) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, std::string(call) + ": the host is out of memory");
  std::lock_guard<std::mutex> hold(host().lock);
  host().blocks[uintptr_t(*out)] = {bytes, true, false};
  return ACL_SUCCESS;
}

int register_host(const char* call, void* data, size_t bytes, bool mapped) {
  if (!data || !bytes) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(call) + ": no memory");
  if (memory().inside(data)) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(call) + ": the address is device memory");
  std::lock_guard<std::mutex> hold(host().lock);
  auto found = host().find(data);
  if (found == host().blocks.end()) {
    host().blocks[uintptr_t(data)] = {bytes, false, mapped};
    return ACL_SUCCESS;
  }
  if (!found->second.ours || found->second.mapped)
    return fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, std::string(call) + ": the memory is registered already");
  found->second.mapped = mapped;
  return ACL_SUCCESS;
}

}  // namespace

bool host_on_device(const void* data, size_t bytes) {
  std::lock_guard<std::mutex> hold(host().lock);
  auto found = host().find(data);
  return found != host().blocks.end() && found->second.mapped && uintptr_t(data) + bytes <= found->first + found->second.bytes;
}

bool host_pinned(const void* data) {
  std::lock_guard<std::mutex> hold(host().lock);
  return host().find(data) != host().blocks.end();
}

}  // namespace cann

using cann::fail;
using cann::host;

extern "C" {

CANN_EXPORT aclError aclrtMallocHost(void** out, size_t bytes) { return cann::allocate_host("aclrtMallocHost", out, bytes); }
CANN_EXPORT aclError aclrtMallocHostWithCfg(void** out, uint64_t bytes, aclrtMallocConfig*) {
  return cann::allocate_host("aclrtMallocHostWithCfg", out, bytes);
}
CANN_EXPORT aclError aclrtFreeHost(void* data) {
  {
    std::lock_guard<std::mutex> hold(host().lock);
    auto found = host().blocks.find(uintptr_t(data));
    if (found == host().blocks.end() || !found->second.ours)
      return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFreeHost: not the start of live memory of aclrtMallocHost");
    host().blocks.erase(found);
  }
  std::free(data);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtHostRegister(void* data, uint64_t bytes, aclrtHostRegisterType type, void** device_address) {
  if (type != ACL_HOST_REGISTER_MAPPED) return fail(ACL_ERROR_API_NOT_SUPPORT, "aclrtHostRegister: only mapped memory is emulated");
  if (int code = cann::register_host("aclrtHostRegister", data, bytes, true)) return code;
  *device_address = data;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtHostRegisterV2(void* data, uint64_t bytes, uint32_t flags) {
  if (flags & ~uint32_t(ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED))
    return fail(ACL_ERROR_API_NOT_SUPPORT, "aclrtHostRegisterV2: only mapped and pinned memory are emulated");
  return cann::register_host("aclrtHostRegisterV2", data, bytes, flags & ACL_HOST_REG_MAPPED);
}
CANN_EXPORT aclError aclrtHostUnregister(void* data) {
  std::lock_guard<std::mutex> hold(host().lock);
  auto found = host().blocks.find(uintptr_t(data));
  if (found == host().blocks.end() || (found->second.ours && !found->second.mapped))
    return fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "aclrtHostUnregister: the memory is not registered");
  if (found->second.ours) found->second.mapped = false;
  else host().blocks.erase(found);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtPointerGetAttributes(const void* data, aclrtPtrAttributes* attributes) {
  if (!data || !attributes) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtPointerGetAttributes: null");
  *attributes = {};
  const int device = cann::memory().device_of(data);
  attributes->pageSize = uint32_t(cann::kPage);
  attributes->location.id = device < 0 ? 0 : uint32_t(device);
  attributes->location.type = device >= 0                ? ACL_MEM_LOCATION_TYPE_DEVICE
                              : cann::host_pinned(data) ? ACL_MEM_LOCATION_TYPE_HOST
                                                        : ACL_MEM_LOCATION_TYPE_UNREGISTERED;
  return ACL_SUCCESS;
}
}
