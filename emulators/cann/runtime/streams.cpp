// The streams of the process: handles, the default ones, and what is done to all of a device.
#include "streams.h"

#include <cstdlib>
#include <map>

#include "device.h"
#include "errors.h"
#include "faults.h"
#include "memory.h"
#include "process.h"

namespace cann {
namespace {

// Not addresses, and never used twice: a handle that was destroyed stays known as such.
constexpr uintptr_t kHandles = uintptr_t(0x57E0) << 48;

struct Streams {
  std::mutex lock;
  int made = 0;
  std::map<uintptr_t, StreamPtr> live;
  aclrtStream defaults[kMaxDevices] = {};
};

Streams& streams() {
  static Streams* all = new Streams;  // never destroyed: their threads may still run at exit
  return *all;
}

std::vector<StreamPtr> live_streams(int device) {
  std::lock_guard<std::mutex> hold(streams().lock);
  std::vector<StreamPtr> all;
  for (const auto& [handle, stream] : streams().live)
    if (device < 0 || stream->device == device) all.push_back(stream);
  return all;
}

StreamPtr open_locked(int device, uint32_t priority, uint32_t flags, aclrtStream* handle) {
  Streams& s = streams();
  auto stream = std::make_shared<Stream>(device, ++s.made, priority, flags);
  const uintptr_t name = kHandles + uintptr_t(s.made) * 64;
  s.live[name] = stream;
  *handle = reinterpret_cast<aclrtStream>(name);
  device_used();
  return stream;
}

}  // namespace

StreamPtr open_stream(int device, uint32_t priority, uint32_t flags, aclrtStream* handle) {
  std::lock_guard<std::mutex> hold(streams().lock);
  return open_locked(device, priority, flags, handle);
}

StreamPtr find_stream(const char* call, aclrtStream handle, int* code) {
  if (forked()) {  // where another thread may have held the lock
    *code = check_device(call, current_device());
    return nullptr;
  }
  Streams& s = streams();
  std::lock_guard<std::mutex> hold(s.lock);
  *code = ACL_SUCCESS;
  if (!handle) {
    const int device = current_device();
    if ((*code = check_device(call, device))) return nullptr;
    if (!s.defaults[device]) open_locked(device, 0, 0, &s.defaults[device]);
    handle = s.defaults[device];
  }
  const uintptr_t name = uintptr_t(handle);
  if (auto found = s.live.find(name); found != s.live.end()) {
    *code = check_device(call, found->second->device);
    return *code ? nullptr : found->second;
  }
  const bool was = name > kHandles && name <= kHandles + uintptr_t(s.made) * 64 && name % 64 == 0;
  *code = fail(ACL_ERROR_RT_STREAM_CONTEXT, std::string(call) + (was ? ": the stream was destroyed" : ": not a stream"));
  return nullptr;
}

bool remove_stream(aclrtStream handle) {
  Streams& s = streams();
  std::lock_guard<std::mutex> hold(s.lock);
  for (aclrtStream& one : s.defaults)
    if (one == handle) one = nullptr;
  return s.live.erase(uintptr_t(handle));
}

int put_task(const char* call, aclrtStream handle, Task task) {
  int code;
  const StreamPtr stream = find_stream(call, handle, &code);
  if (!stream) return code;
  if (stream->device != current_device() && !stream->own_thread())
    return fail(ACL_ERROR_RT_STREAM_CONTEXT, std::string(call) + ": the stream is on device " + std::to_string(stream->device) +
                ", the thread's is " + std::to_string(current_device()));
  for (const Range& range : task.ranges)
    if (const std::string why = memory().problem(range, stream->device); !why.empty())
      return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(call) + ": memory that it uses " + why);
  if (const std::string race = races().task(stream->number, task.name, task.ranges); !race.empty())
    return fail(ACL_ERROR_RT_PARAM_INVALID, "race: " + race);
  const TaskFault fault = next_task(task.name.c_str());
  task.stall = fault.stall;
  task.fails = fault.fails;
  if (fault.device_lost) {
    lose_device(stream->device);
    abandon_device(stream->device, "the device was lost (injected fault)");
    return check_device(call, stream->device);
  }
  stream->put(std::move(task));
  return ACL_SUCCESS;
}

int enqueue(aclrtStream handle, const char* name, std::function<int()> work, std::vector<Range> ranges) {
  Task task;
  task.name = name;
  task.work = std::move(work);
  task.ranges = std::move(ranges);
  return put_task(name, handle, std::move(task));
}

int synchronize_device(int device, int timeout_ms) {
  int first = ACL_SUCCESS;
  std::string message;
  for (const StreamPtr& stream : live_streams(device)) {
    if (stream->own_thread()) continue;
    const int code = stream->synchronize("aclrtSynchronizeDevice", timeout_ms);
    if (!code || first) continue;
    first = code;
    message = take_message();
  }
  return first ? fail(first, message) : ACL_SUCCESS;
}

void abandon_device(int device, const std::string& why) {
  for (const StreamPtr& stream : live_streams(device)) stream->abandon(ACL_ERROR_RT_DEVICE_TASK_ABORT, why);
}

void end_streams_at_exit() {
  static const int once = std::atexit([] {
    if (!forked())
      for (const StreamPtr& stream : live_streams(-1)) stream->end();
  });
  (void)once;
}

}  // namespace cann
