// Addresses and memory apart (expandable segments): reserved addresses, physical memory, and the one mapped to the other.
#include <set>

#include "memory.h"
#include "races.h"
#include "sharing.h"

namespace cann {
namespace {

struct Physical {
  int device;
  uintptr_t at;   // whose place in the device's file it has
  size_t bytes;
  int uses = 0;   // mappings
  bool freed = false;
  int file = -1;  // of another process, for what it lent
  size_t offset = 0;
};

struct Virtual {
  std::set<uintptr_t> reserved;
  std::set<Physical*> physical;
  std::map<uintptr_t, Physical*> mapped;
};

Virtual& state() {  // guarded by memory().lock
  static auto* all = new Virtual;
  return *all;
}

int reserved_on(uintptr_t at, size_t bytes) {
  auto& all = state().reserved;
  auto next = all.upper_bound(at);
  if (next == all.begin()) return -1;
  const uintptr_t begin = *std::prev(next);
  for (int device = 0; device < device_count(); ++device) {
    Arena& space = memory().arena(device);
    if (space.taken(begin) && at + bytes <= begin + space.taken_bytes(begin)) return device;
  }
  return -1;
}

void drop_if_unused(Physical* p) {
  if (!p->freed || p->uses) return;
  if (p->file < 0) memory().free_physical(p->device, p->at, p->bytes);
  else close_lent(p->file);
  state().physical.erase(p);
  delete p;
}

Physical* known(aclrtDrvMemHandle handle) {
  auto* p = static_cast<Physical*>(handle);
  return state().physical.count(p) && !p->freed ? p : nullptr;
}

}  // namespace
}  // namespace cann

using cann::fail;
using cann::memory;
using cann::Physical;
using cann::state;

extern "C" {

CANN_EXPORT aclError aclrtReserveMemAddress(void** out, size_t bytes, size_t, void*, uint64_t) {
  const int device = cann::current_device();
  if (int code = cann::check_device("aclrtReserveMemAddress", device)) return code;
  if (!out || !bytes) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReserveMemAddress: no bytes, or no place for the address");
  std::lock_guard<std::mutex> hold(memory().lock);
  cann::Arena& space = memory().arena(device);
  const uintptr_t at = space.usable() ? space.take(cann::page_rounded(bytes)) : 0;
  if (!at) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtReserveMemAddress: no addresses left");
  state().reserved.insert(at);
  *out = reinterpret_cast<void*>(at);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtReleaseMemAddress(void* data) {
  const uintptr_t at = uintptr_t(data);
  std::lock_guard<std::mutex> hold(memory().lock);
  if (!state().reserved.count(at)) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReleaseMemAddress: not the start of reserved addresses");
  cann::Arena& space = memory().arena(cann::reserved_on(at, 1));
  auto mapped = state().mapped.lower_bound(at);
  if (mapped != state().mapped.end() && mapped->first < at + space.taken_bytes(at))
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReleaseMemAddress: memory is still mapped there");
  space.give_back(at);
  state().reserved.erase(at);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp*, aclrtMemGranularityOptions, size_t* granularity) {
  *granularity = size_t(2) << 20;
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtMallocPhysical(aclrtDrvMemHandle* out, size_t bytes, const aclrtPhysicalMemProp* prop, uint64_t) {
  if (!out || !prop || !bytes || bytes % (size_t(2) << 20))
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMallocPhysical: not a multiple of 2 MiB, or no properties");
  if (prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
    return fail(ACL_ERROR_API_NOT_SUPPORT, "aclrtMallocPhysical: host memory is not emulated");
  const int device = int(prop->location.id);
  if (int code = cann::check_device("aclrtMallocPhysical", device)) return code;
  std::lock_guard<std::mutex> hold(memory().lock);
  uintptr_t at;
  if (int code = memory().take_physical("aclrtMallocPhysical", device, bytes, &at)) return code;
  auto* p = new Physical{device, at, bytes};
  p->offset = memory().arena(device).offset_of(at);
  state().physical.insert(p);
  *out = p;
  return ACL_SUCCESS;
}

// Memory that is mapped lives on until it is not.
CANN_EXPORT aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  std::lock_guard<std::mutex> hold(memory().lock);
  Physical* p = cann::known(handle);
  if (!p) return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtFreePhysical: not a live handle");
  p->freed = true;
  cann::drop_if_unused(p);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtMapMem(void* data, size_t bytes, size_t offset, aclrtDrvMemHandle handle, uint64_t) {
  const uintptr_t at = uintptr_t(data);
  std::lock_guard<std::mutex> hold(memory().lock);
  Physical* p = cann::known(handle);
  if (!p) return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtMapMem: not a live handle");
  if (!p->bytes) p->bytes = bytes;  // lent memory: the borrower says how much
  const int device = cann::reserved_on(at, bytes);
  if (device < 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem: the addresses are not reserved");
  if (offset || bytes != p->bytes) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem: not all of the memory");
  auto next = memory().blocks.lower_bound(at);
  if ((next != memory().blocks.end() && next->first < at + bytes) || memory().problem_locked(at, 1).empty())
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem: memory is mapped there already");
  if (!memory().arena(device).map(at, bytes, p->offset, p->file >= 0 ? p->file : memory().arena(p->device).file()))
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMapMem: the host refused the mapping");
  memory().blocks[at] = {bytes, p->device, p->offset, p->file < 0, true};
  state().mapped[at] = p;
  ++p->uses;
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtUnmapMem(void* data) {
  const uintptr_t at = uintptr_t(data);
  size_t bytes;
  {
    std::lock_guard<std::mutex> hold(memory().lock);
    auto found = state().mapped.find(at);
    if (found == state().mapped.end()) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtUnmapMem: no mapping starts there");
    if (memory().blocks.at(at).pins) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtUnmapMem: a running task uses the memory");
    Physical* p = found->second;
    bytes = p->bytes;
    memory().arena(cann::reserved_on(at, bytes)).unmap(at, bytes);
    memory().blocks.erase(at);
    state().mapped.erase(found);
    --p->uses;
    cann::drop_if_unused(p);
  }
  const std::string race = cann::races().freed(data, bytes);
  return race.empty() ? int(ACL_SUCCESS) : fail(ACL_ERROR_RT_MEMORY_FREE, "aclrtUnmapMem: " + race);
}

CANN_EXPORT aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType, uint64_t, uint64_t* out) {
  std::lock_guard<std::mutex> hold(memory().lock);
  Physical* p = cann::known(handle);
  if (!p || p->file >= 0) return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtMemExportToShareableHandle: not a live handle of this process");
  *out = cann::lend(p->device, p->offset);
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtMemSetPidToShareableHandle(uint64_t, int32_t*, size_t) { return ACL_SUCCESS; }

CANN_EXPORT aclError aclrtMemImportFromShareableHandle(uint64_t shared, int32_t device, aclrtDrvMemHandle* out) {
  if (int code = cann::check_device("aclrtMemImportFromShareableHandle", device)) return code;
  size_t offset;
  const int file = cann::open_lent(shared, &offset);
  if (file < 0) return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtMemImportFromShareableHandle: the process that lent it is gone");
  std::lock_guard<std::mutex> hold(memory().lock);
  auto* p = new Physical{device, 0, 0};
  p->file = file;
  p->offset = offset;
  state().physical.insert(p);
  *out = p;
  return ACL_SUCCESS;
}
}
