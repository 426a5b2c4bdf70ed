// Events. An event may be recorded again, on another stream, before its last recording has completed: who waits does so
// for the recording that was the last when the wait was called.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "device.h"
#include "process.h"
#include "streams.h"

namespace cann {
namespace {

using Time = std::chrono::steady_clock;

struct Recording {
  bool complete = false;
  Clock clock;          // of the stream, when it was put there
  Time::time_point at;  // of its completion
  int failure = 0;      // of the stream, when it came to it
  std::string message;
};

struct Event {
  explicit Event(uint32_t number) : id(number) {}
  const uint32_t id;
  std::mutex lock;
  std::condition_variable changed;
  std::shared_ptr<Recording> last;  // null: never recorded

  bool idle() const { return !last || last->complete; }
};
using EventPtr = std::shared_ptr<Event>;  // streams may still refer to one that was destroyed

constexpr uintptr_t kHandles = uintptr_t(0x57E1) << 48;  // like a stream's

struct Events {
  std::mutex lock;
  uint32_t made = 0;
  std::map<uintptr_t, EventPtr> live;
};
Events& events() {
  static Events* all = new Events;
  return *all;
}

EventPtr find_event(const char* call, aclrtEvent handle, int* code) {
  if (forked()) {
    *code = check_device(call, current_device());
    return nullptr;
  }
  Events& e = events();
  std::lock_guard<std::mutex> hold(e.lock);
  *code = ACL_SUCCESS;
  const uintptr_t name = uintptr_t(handle);
  if (auto found = e.live.find(name); found != e.live.end()) return found->second;
  const bool was = name > kHandles && name <= kHandles + uintptr_t(e.made) * 64 && name % 64 == 0;
  *code = fail(ACL_ERROR_RT_PARAM_INVALID, std::string(call) + (was ? ": the event was destroyed" : ": not an event"));
  return nullptr;
}

// Until `recording` is complete; false where `timeout_ms` passed or `stop` said so before.
bool wait_for(Event& event, const Recording& recording, int timeout_ms, const std::function<bool()>& stop) {
  std::unique_lock<std::mutex> hold(event.lock);
  const auto end = Time::now() + std::chrono::milliseconds(std::max(0, timeout_ms));
  while (!recording.complete) {
    if ((timeout_ms >= 0 && Time::now() >= end) || (stop && stop())) return false;
    event.changed.wait_for(hold, std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace
}  // namespace cann

using cann::Event;
using cann::fail;
using cann::find_event;

extern "C" {

CANN_EXPORT aclError aclrtCreateEventExWithFlag(aclrtEvent* out, uint32_t flags) {
  if (int code = cann::check_device("aclrtCreateEvent", cann::current_device())) return code;
  if (flags & ACL_EVENT_IPC) return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtCreateEvent: events for other processes are not emulated");
  cann::Events& e = cann::events();
  std::lock_guard<std::mutex> hold(e.lock);
  const uintptr_t name = cann::kHandles + uintptr_t(++e.made) * 64;
  e.live[name] = std::make_shared<Event>(e.made);
  *out = reinterpret_cast<aclrtEvent>(name);
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtCreateEventWithFlag(aclrtEvent* out, uint32_t flags) { return aclrtCreateEventExWithFlag(out, flags); }
CANN_EXPORT aclError aclrtCreateEvent(aclrtEvent* out) { return aclrtCreateEventExWithFlag(out, 0); }

CANN_EXPORT aclError aclrtDestroyEvent(aclrtEvent handle) {
  int code;
  if (!find_event("aclrtDestroyEvent", handle, &code)) return code;
  std::lock_guard<std::mutex> hold(cann::events().lock);
  cann::events().live.erase(uintptr_t(handle));
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream stream_handle) {
  int code;
  const auto event = find_event("aclrtRecordEvent", handle, &code);
  if (!event) return code;
  const auto stream = cann::find_stream("aclrtRecordEvent", stream_handle, &code);
  if (!stream) return code;
  const auto recording = std::make_shared<cann::Recording>();
  recording->clock = cann::races().clock(stream->number);
  {
    std::lock_guard<std::mutex> hold(event->lock);
    event->last = recording;
  }
  cann::Task task;
  task.name = "aclrtRecordEvent";
  task.always = true;
  task.work = [event, recording, on = stream.get()] {
    std::string message;
    const int failure = on->failure(&message);
    std::lock_guard<std::mutex> hold(event->lock);
    recording->complete = true;
    recording->at = cann::Time::now();
    recording->failure = failure;
    recording->message = message;
    event->changed.notify_all();
    return 0;
  };
  code = cann::put_task("aclrtRecordEvent", stream_handle, std::move(task));
  if (code) {  // nothing will complete it
    std::lock_guard<std::mutex> hold(event->lock);
    recording->complete = true;
    event->changed.notify_all();
  }
  return code;
}

CANN_EXPORT aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream) {
  int code;
  if (!find_event("aclrtResetEvent", handle, &code) || !cann::find_stream("aclrtResetEvent", stream, &code)) return code;
  return ACL_SUCCESS;  // a wait is for one recording, so there is nothing to take back
}

CANN_EXPORT aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream_handle, aclrtEvent handle, int32_t timeout_ms) {
  int code;
  const auto event = find_event("aclrtStreamWaitEvent", handle, &code);
  if (!event) return code;
  const auto stream = cann::find_stream("aclrtStreamWaitEvent", stream_handle, &code);
  if (!stream) return code;
  std::shared_ptr<cann::Recording> recording;
  {
    std::lock_guard<std::mutex> hold(event->lock);
    recording = event->last;
  }
  if (!recording) return ACL_SUCCESS;
  cann::races().wait(stream->number, recording->clock);
  return cann::enqueue(stream_handle, "aclrtStreamWaitEvent", [event, recording, timeout_ms, on = stream.get()] {
    const bool done = cann::wait_for(*event, *recording, timeout_ms > 0 ? timeout_ms : -1, [on] { return on->cut(); });
    if (!done && !on->cut()) return fail(ACL_ERROR_RT_WAIT_TIMEOUT, "the event did not come in time");
    std::lock_guard<std::mutex> hold(event->lock);
    return recording->failure ? fail(recording->failure, "what it waited for failed: " + recording->message) : 0;
  });
}
CANN_EXPORT aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) { return aclrtStreamWaitEventWithTimeout(stream, event, -1); }

CANN_EXPORT aclError aclrtSynchronizeEventWithTimeout(aclrtEvent handle, int32_t timeout_ms) {
  int code;
  const auto event = find_event("aclrtSynchronizeEvent", handle, &code);
  if (!event) return code;
  std::shared_ptr<cann::Recording> recording;
  {
    std::lock_guard<std::mutex> hold(event->lock);
    recording = event->last;
  }
  if (!recording) return ACL_SUCCESS;
  if (!cann::wait_for(*event, *recording, timeout_ms > 0 ? timeout_ms : -1, nullptr))
    return fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "aclrtSynchronizeEvent: not complete after " + std::to_string(timeout_ms) + " ms");
  cann::races().synchronised(recording->clock);
  std::lock_guard<std::mutex> hold(event->lock);
  return recording->failure ? fail(recording->failure, recording->message) : ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtSynchronizeEvent(aclrtEvent event) { return aclrtSynchronizeEventWithTimeout(event, -1); }

CANN_EXPORT aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus* status) {
  int code;
  const auto event = find_event("aclrtQueryEventStatus", handle, &code);
  if (!event) return code;
  std::lock_guard<std::mutex> hold(event->lock);
  const bool done = event->idle();
  if (done && event->last) cann::races().synchronised(event->last->clock);
  *status = done ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  aclrtEventRecordedStatus recorded;
  if (int code = aclrtQueryEventStatus(event, &recorded)) return code;
  *status = recorded == ACL_EVENT_RECORDED_STATUS_COMPLETE ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  aclrtEventRecordedStatus recorded;
  if (int code = aclrtQueryEventStatus(event, &recorded)) return code;
  *status = recorded == ACL_EVENT_RECORDED_STATUS_COMPLETE ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end) {
  int code;
  const auto a = find_event("aclrtEventElapsedTime", start, &code);
  const auto b = a ? find_event("aclrtEventElapsedTime", end, &code) : nullptr;
  if (!b) return code;
  std::unique_lock<std::mutex> first(a->lock, std::defer_lock), second(b->lock, std::defer_lock);
  if (a == b) first.lock();
  else std::lock(first, second);
  for (const auto& one : {a, b}) {
    if (!one->last) return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "aclrtEventElapsedTime: an event was never recorded");
    if (!one->idle()) return fail(ACL_ERROR_RT_EVENT_NOT_COMPLETE, "aclrtEventElapsedTime: an event is not complete");
  }
  if (b->last->at < a->last->at) return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "aclrtEventElapsedTime: the end came before the start");
  *ms = std::chrono::duration<float, std::milli>(b->last->at - a->last->at).count();
  return ACL_SUCCESS;
}

// Microseconds of the device's clock.
CANN_EXPORT aclError aclrtEventGetTimestamp(aclrtEvent handle, uint64_t* timestamp) {
  int code;
  const auto event = find_event("aclrtEventGetTimestamp", handle, &code);
  if (!event) return code;
  std::lock_guard<std::mutex> hold(event->lock);
  if (!event->last) return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "aclrtEventGetTimestamp: the event was never recorded");
  if (!event->idle()) return fail(ACL_ERROR_RT_EVENT_NOT_COMPLETE, "aclrtEventGetTimestamp: the event is not complete");
  *timestamp = uint64_t(std::chrono::duration_cast<std::chrono::microseconds>(event->last->at.time_since_epoch()).count());
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtGetEventId(aclrtEvent handle, uint32_t* id) {
  int code;
  if (const auto event = find_event("aclrtGetEventId", handle, &code)) *id = event->id;
  return code;
}

CANN_EXPORT aclError aclrtIpcGetEventHandle(aclrtEvent, aclrtIpcEventHandle*) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtIpcGetEventHandle: events for other processes are not emulated");
}
CANN_EXPORT aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle, aclrtEvent*) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtIpcOpenEventHandle: events for other processes are not emulated");
}
}
