// Events: the n-th recording completes when the stream has come to it.
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "stream.h"

namespace cann {
namespace {

using Clock = std::chrono::steady_clock;

struct State {
  std::mutex lock;
  std::condition_variable changed;
  uint64_t recorded = 0, completed = 0;
  Clock::time_point at;

  void wait(uint64_t ticket) {
    std::unique_lock<std::mutex> hold(lock);
    changed.wait(hold, [&] { return completed >= ticket; });
  }
};

// Streams may still refer to an event that was destroyed, hence the shared state.
struct Event {
  std::shared_ptr<State> state = std::make_shared<State>();
};

State* state_of(aclrtEvent event) { return static_cast<Event*>(event)->state.get(); }

}  // namespace
}  // namespace cann

using cann::Event;
using cann::fail;

extern "C" {

CANN_EXPORT aclError aclrtCreateEvent(aclrtEvent* out) {
  *out = new Event;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtCreateEventWithFlag(aclrtEvent* out, uint32_t) { return aclrtCreateEvent(out); }
CANN_EXPORT aclError aclrtCreateEventExWithFlag(aclrtEvent* out, uint32_t) { return aclrtCreateEvent(out); }
CANN_EXPORT aclError aclrtDestroyEvent(aclrtEvent event) {
  delete static_cast<Event*>(event);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  auto state = static_cast<Event*>(event)->state;
  uint64_t ticket;
  {
    std::lock_guard<std::mutex> hold(state->lock);
    ticket = ++state->recorded;
  }
  return cann::enqueue(stream, "aclrtRecordEvent", [state, ticket] {
    std::lock_guard<std::mutex> hold(state->lock);
    state->completed = ticket;
    state->at = cann::Clock::now();
    state->changed.notify_all();
    return 0;
  });
}
CANN_EXPORT aclError aclrtResetEvent(aclrtEvent, aclrtStream) { return ACL_SUCCESS; }

CANN_EXPORT aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  auto state = static_cast<Event*>(event)->state;
  uint64_t ticket;
  {
    std::lock_guard<std::mutex> hold(state->lock);
    ticket = state->recorded;
  }
  return cann::enqueue(stream, "aclrtStreamWaitEvent", [state, ticket] {
    state->wait(ticket);
    return 0;
  });
}

CANN_EXPORT aclError aclrtSynchronizeEvent(aclrtEvent event) {
  auto* state = cann::state_of(event);
  uint64_t ticket;
  {
    std::lock_guard<std::mutex> hold(state->lock);
    ticket = state->recorded;
  }
  state->wait(ticket);
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  auto* state = cann::state_of(event);
  std::lock_guard<std::mutex> hold(state->lock);
  *status = state->completed == state->recorded ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  aclrtEventRecordedStatus recorded;
  aclrtQueryEventStatus(event, &recorded);
  *status = recorded == ACL_EVENT_RECORDED_STATUS_COMPLETE ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end) {
  auto *a = cann::state_of(start), *b = cann::state_of(end);
  if (!a->completed || !b->completed) return fail(ACL_ERROR_RT_EVENT_NOT_COMPLETE, "aclrtEventElapsedTime: an event is not complete");
  *ms = std::chrono::duration<float, std::milli>(b->at - a->at).count();
  return ACL_SUCCESS;
}
}
