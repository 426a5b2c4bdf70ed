// Copies and fills. What is said to be device memory has to be, and what is said to be host memory has to be that.
#include <cstring>

#include "host_memory.h"
#include "memory.h"
#include "races.h"
#include "stream.h"

namespace cann {
namespace {

struct Copy {
  void* dst;
  const void* src;
  size_t bytes;
  bool to_device, from_device;

  std::vector<Range> ranges() const {
    std::vector<Range> all;
    if (from_device) all.push_back({src, bytes, false, true, true});
    if (to_device) all.push_back({dst, bytes, true, true, true});
    return all;
  }
  void run() const { std::memmove(dst, src, bytes); }
};

int check_host(const std::string& call, const char* side, const void* data) {
  if (!data) return fail(ACL_ERROR_RT_PARAM_INVALID, call + ": the " + side + " is null");
  if (memory().inside(data)) return fail(ACL_ERROR_RT_PARAM_INVALID, call + ": the " + side + " is device memory, the kind of copy says host");
  return ACL_SUCCESS;
}

int prepare_copy(const char* name, void* dst, size_t room, const void* src, size_t bytes, aclrtMemcpyKind kind, Copy* copy) {
  const std::string call = name;
  if (int code = check_device(name, current_device())) return code;
  if (bytes > room) return fail(ACL_ERROR_RT_PARAM_INVALID, call + ": " + std::to_string(bytes) + " bytes into room for " + std::to_string(room));
  bool to = false, from = false;
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST: break;
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE: to = true; break;
    case ACL_MEMCPY_DEVICE_TO_HOST: from = true; break;
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE: to = from = true; break;
    case ACL_MEMCPY_DEFAULT:
      to = memory().device_of(dst) >= 0;
      from = memory().device_of(src) >= 0;
      break;
    default: return fail(ACL_ERROR_RT_PARAM_INVALID, call + ": no such kind of copy: " + std::to_string(kind));
  }
  *copy = {dst, src, bytes, to, from};
  for (const Range& range : copy->ranges())
    if (const std::string why = memory().problem(range, current_device()); !why.empty())
      return fail(ACL_ERROR_RT_PARAM_INVALID, call + (range.writes ? ": the destination " : ": the source ") + why);
  if (!to)
    if (int code = check_host(call, "destination", dst)) return code;
  if (!from)
    if (int code = check_host(call, "source", src)) return code;
  return ACL_SUCCESS;
}

int copy_now(const char* name, void* dst, size_t room, const void* src, size_t bytes, aclrtMemcpyKind kind) {
  Copy copy;
  if (int code = prepare_copy(name, dst, room, src, bytes, kind, &copy)) return code;
  if (const std::string race = races().host(name, copy.ranges()); !race.empty()) return fail(ACL_ERROR_RT_PARAM_INVALID, "race: " + race);
  copy.run();
  return ACL_SUCCESS;
}

int copy_later(const char* name, void* dst, size_t room, const void* src, size_t bytes, aclrtMemcpyKind kind, aclrtStream stream) {
  Copy copy;
  if (int code = prepare_copy(name, dst, room, src, bytes, kind, &copy)) return code;
  // The host side is read or written when the stream comes to it, whether pinned or not: that is the contract.
  const void* host = copy.to_device && copy.from_device ? nullptr : copy.to_device ? src : dst;
  const bool pinned = host && host_pinned(host);
  return enqueue(stream, name, [copy, host, pinned] {
    if (pinned && !host_pinned(host))
      return fail(ACL_ERROR_RT_SYS_DMA, "pinned host memory was freed before the stream came to the copy that uses it");
    copy.run();
    return 0;
  }, copy.ranges());
}

int check_fill(const char* name, void* data, size_t room, size_t bytes) {
  if (int code = check_device(name, current_device())) return code;
  if (bytes > room) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(name) + ": " + std::to_string(bytes) + " bytes into room for " + std::to_string(room));
  const std::string why = memory().problem(Range{data, bytes, true}, current_device());
  return why.empty() ? int(ACL_SUCCESS) : fail(ACL_ERROR_RT_PARAM_INVALID, std::string(name) + ": the destination " + why);
}

aclrtMemcpyKind kind_of(const aclrtMemcpyBatchAttr& a) {
  const bool to = a.dstLoc.type == ACL_MEM_LOCATION_TYPE_DEVICE, from = a.srcLoc.type == ACL_MEM_LOCATION_TYPE_DEVICE;
  return to ? from ? ACL_MEMCPY_DEVICE_TO_DEVICE : ACL_MEMCPY_HOST_TO_DEVICE : from ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_HOST_TO_HOST;
}

// attrs[i] holds for the copies from indexes[i] on.
template <typename One>
int batch(void** dsts, size_t* rooms, void** srcs, size_t* sizes, size_t n, aclrtMemcpyBatchAttr* attrs, size_t* indexes, size_t attr_count,
          size_t* failed, const One& one) {
  if (!n || !attr_count || indexes[0] != 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemcpyBatch: no copies, or none has the first attributes");
  size_t attr = 0;
  for (size_t i = 0; i < n; ++i) {
    while (attr + 1 < attr_count && indexes[attr + 1] <= i) ++attr;
    if (int code = one(dsts[i], rooms[i], srcs[i], sizes[i], kind_of(attrs[attr]))) {
      *failed = i;
      return code;
    }
  }
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace cann

extern "C" {

CANN_EXPORT aclError aclrtMemcpy(void* dst, size_t room, const void* src, size_t bytes, aclrtMemcpyKind kind) {
  return cann::copy_now("aclrtMemcpy", dst, room, src, bytes, kind);
}
CANN_EXPORT aclError aclrtMemcpyAsync(void* dst, size_t room, const void* src, size_t bytes, aclrtMemcpyKind kind, aclrtStream stream) {
  return cann::copy_later("aclrtMemcpyAsync", dst, room, src, bytes, kind, stream);
}
// The condition is that pageable host memory makes the call wait.
CANN_EXPORT aclError aclrtMemcpyAsyncWithCondition(void* dst, size_t room, const void* src, size_t bytes, aclrtMemcpyKind kind, aclrtStream stream) {
  if (int code = cann::copy_later("aclrtMemcpyAsyncWithCondition", dst, room, src, bytes, kind, stream)) return code;
  const bool device_only = cann::memory().inside(dst) && cann::memory().inside(src);
  const void* host = cann::memory().inside(dst) ? src : dst;
  return device_only || cann::host_pinned(host) ? int(ACL_SUCCESS) : aclrtSynchronizeStream(stream);
}
CANN_EXPORT aclError aclrtMemcpyBatch(void** dsts, size_t* rooms, void** srcs, size_t* sizes, size_t n, aclrtMemcpyBatchAttr* attrs,
                                      size_t* indexes, size_t attr_count, size_t* failed) {
  return cann::batch(dsts, rooms, srcs, sizes, n, attrs, indexes, attr_count, failed,
                     [](void* dst, size_t room, void* src, size_t bytes, aclrtMemcpyKind kind) {
                       return cann::copy_now("aclrtMemcpyBatch", dst, room, src, bytes, kind);
                     });
}
CANN_EXPORT aclError aclrtMemcpyBatchAsync(void** dsts, size_t* rooms, void** srcs, size_t* sizes, size_t n, aclrtMemcpyBatchAttr* attrs,
                                           size_t* indexes, size_t attr_count, size_t* failed, aclrtStream stream) {
  return cann::batch(dsts, rooms, srcs, sizes, n, attrs, indexes, attr_count, failed,
                     [stream](void* dst, size_t room, void* src, size_t bytes, aclrtMemcpyKind kind) {
                       return cann::copy_later("aclrtMemcpyBatchAsync", dst, room, src, bytes, kind, stream);
                     });
}

CANN_EXPORT aclError aclrtMemset(void* data, size_t room, int32_t value, size_t bytes) {
  if (int code = cann::check_fill("aclrtMemset", data, room, bytes)) return code;
  if (const std::string race = cann::races().host("aclrtMemset", {{data, bytes, true}}); !race.empty())
    return cann::fail(ACL_ERROR_RT_PARAM_INVALID, "race: " + race);
  std::memset(data, value, bytes);
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtMemsetAsync(void* data, size_t room, int32_t value, size_t bytes, aclrtStream stream) {
  if (int code = cann::check_fill("aclrtMemsetAsync", data, room, bytes)) return code;
  return cann::enqueue(stream, "aclrtMemsetAsync", [=] {
    std::memset(data, value, bytes);
    return 0;
  }, {{data, bytes, true}});
}

// A hint to the cache.
CANN_EXPORT aclError aclrtCmoAsync(void* src, size_t bytes, aclrtCmoType, aclrtStream stream) {
  return cann::enqueue(stream, "aclrtCmoAsync", [] { return 0; }, {{src, bytes, false}});
}
}
