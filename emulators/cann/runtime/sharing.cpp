// Device memory of other processes: each device's memory is a file that its process holds open.
#include "sharing.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "memory.h"

namespace cann {
namespace {

constexpr int kPageBits = 32, kDeviceBits = 3;  // the rest is the process

struct Import {
  void* data;
  size_t bytes;
  int device, uses;
};
std::map<std::string, Import>& imports() {  // guarded by memory().lock
  static auto* all = new std::map<std::string, Import>;
  return *all;
}

}  // namespace

uint64_t lend(int device, size_t offset) {
  return (uint64_t(getpid()) << kDeviceBits | uint64_t(device)) << kPageBits | offset / kPage;
}

int open_lent(uint64_t lent, size_t* offset) {
  *offset = size_t(lent & ((uint64_t(1) << kPageBits) - 1)) * kPage;
  const std::string folder = "/proc/" + std::to_string(lent >> (kPageBits + kDeviceBits)) + "/fd/";
  const std::string wanted = "/memfd:hetero-cann-" + std::to_string(lent >> kPageBits & 7) + " ";
  DIR* files = opendir(folder.c_str());
  if (!files) return -1;
  int file = -1;
  while (const dirent* one = file < 0 ? readdir(files) : nullptr) {
    char target[64] = {};
    const std::string path = folder + one->d_name;
    if (readlink(path.c_str(), target, sizeof target - 1) > 0 && !std::strncmp(target, wanted.c_str(), wanted.size()))
      file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  closedir(files);
  return file;
}

void close_lent(int file) { close(file); }

}  // namespace cann

using cann::fail;
using cann::imports;
using cann::memory;

extern "C" {

CANN_EXPORT aclError aclrtIpcMemGetExportKey(void* data, size_t bytes, char* key, size_t room, uint64_t) {
  std::lock_guard<std::mutex> hold(memory().lock);
  auto found = memory().blocks.find(uintptr_t(data));
  if (found == memory().blocks.end() || !found->second.own || found->second.mapped || bytes > found->second.bytes)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtIpcMemGetExportKey: not the start of an allocation of that size");
  const uint64_t lent = cann::lend(found->second.device, found->second.offset);
  const int length = std::snprintf(key, room, "%llx-%zx", static_cast<unsigned long long>(lent), found->second.bytes);
  return size_t(length) < room ? int(ACL_SUCCESS) : fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtIpcMemGetExportKey: the key has no room");
}
CANN_EXPORT aclError aclrtIpcMemSetImportPid(const char*, int32_t*, size_t) { return ACL_SUCCESS; }

CANN_EXPORT aclError aclrtIpcMemImportByKey(void** out, const char* key, uint64_t) {
  const int device = cann::current_device();
  if (int code = cann::check_device("aclrtIpcMemImportByKey", device)) return code;
  unsigned long long lent;
  size_t bytes, offset;
  if (!key || std::sscanf(key, "%llx-%zx", &lent, &bytes) != 2) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtIpcMemImportByKey: not a key");
  std::lock_guard<std::mutex> hold(memory().lock);
  if (auto again = imports().find(key); again != imports().end()) {
    ++again->second.uses;
    *out = again->second.data;
    return ACL_SUCCESS;
  }
  const int file = cann::open_lent(lent, &offset);
  if (file < 0) return fail(ACL_ERROR_RT_IPC_ERROR, "aclrtIpcMemImportByKey: the process that lent the memory is gone");
  cann::Arena& space = memory().arena(device);
  const uintptr_t at = space.usable() ? space.take(bytes) : 0;
  const bool mapped = at && space.map(at, bytes, offset, file);
  close(file);
  if (!mapped) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtIpcMemImportByKey: the host refused the mapping");
  memory().blocks[at] = {bytes, device, offset, false};
  *out = reinterpret_cast<void*>(at);
  imports()[key] = {*out, bytes, device, 1};
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtIpcMemClose(const char* key) {
  std::lock_guard<std::mutex> hold(memory().lock);
  auto found = key ? imports().find(key) : imports().end();
  if (found == imports().end()) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtIpcMemClose: not the key of memory that is imported");
  if (--found->second.uses) return ACL_SUCCESS;
  cann::Arena& space = memory().arena(found->second.device);
  space.unmap(uintptr_t(found->second.data), found->second.bytes);
  space.give_back(uintptr_t(found->second.data));
  memory().blocks.erase(uintptr_t(found->second.data));
  imports().erase(found);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtDeviceGetBareTgid(int32_t* pid) {
  *pid = getpid();
  return ACL_SUCCESS;
}
}
