#include "stream.h"

#include <chrono>
#include <thread>

#include "device.h"
#include "errors.h"
#include "memory.h"
#include "process.h"
#include "settings.h"
#include "streams.h"

namespace cann {
namespace {
thread_local const Stream* stream_of_thread = nullptr;
}

Stream::Stream(int on, int n, uint32_t p, uint32_t f) : device(on), number(n), priority(p), flags(f) {}

bool Stream::own_thread() const { return stream_of_thread == this; }

void Stream::put(Task task) {
  std::lock_guard<std::mutex> hold(lock_);
  if (ending_) return;
  tasks_.push_back(std::move(task));
  if (!started_) {
    started_ = true;
    end_streams_at_exit();
    std::thread([self = shared_from_this()] { self->run(); }).detach();
  }
  changed_.notify_all();
}

void Stream::run() {
  set_thread_device(device);
  stream_of_thread = this;
  for (;;) {
    Task task;
    {
      std::unique_lock<std::mutex> hold(lock_);
      busy_ = false;
      changed_.notify_all();
      changed_.wait(hold, [this] { return ending_ || closing_ || !tasks_.empty(); });
      if (ending_ || tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      busy_ = true;
      cuts_ = 0;
      if (error_ && !task.always) continue;
    }
    run_one(task);
  }
}

void Stream::run_one(Task& task) {
  const double pause = task.stall + double(settings().delay_us) * 1e-6;
  if (pause > 0) {
    std::unique_lock<std::mutex> hold(lock_);
    changed_.wait_for(hold, std::chrono::duration<double>(pause), [this] { return ending_ || cuts_; });
    if (ending_ || (cuts_ && !task.always)) return;
  }
  int code = 0;
  std::string message;
  if (task.fails) {
    code = ACL_ERROR_RT_AICORE_EXCEPTION;
    message = "injected fault";
  } else if (message = memory().pin(task.ranges); !message.empty()) {
    code = ACL_ERROR_RT_AICORE_EXCEPTION;
  } else {
    code = task.work();
    if (code) message = take_message();
    const std::string freed = memory().unpin(task.ranges);
    if (!code && !freed.empty()) {
      code = ACL_ERROR_RT_AICORE_EXCEPTION;
      message = freed;
    }
  }
  task.work = nullptr;  // what it holds goes before the stream is seen to be idle
  if (!code) return;
  std::lock_guard<std::mutex> hold(lock_);
  note(code, task.name + ": " + message);
}

void Stream::note(int code, const std::string& message) {
  if (error_) return;
  error_ = code;
  message_ = message;
}

int Stream::synchronize(const char* call, int timeout_ms) {
  if (own_thread()) return fail(ACL_ERROR_RT_STREAM_CONTEXT, std::string(call) + ": called by work that runs on the stream itself");
  const Clock clock = races().clock(number);
  std::unique_lock<std::mutex> hold(lock_);
  const auto done = [this] { return ending_ || (tasks_.empty() && !busy_); };
  if (timeout_ms < 0) changed_.wait(hold, done);
  else if (!changed_.wait_for(hold, std::chrono::milliseconds(timeout_ms), done))
    return fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, std::string(call) + ": stream " + std::to_string(number) + " is not done after " +
                std::to_string(timeout_ms) + " ms");
  races().synchronised(clock);
  const int code = error_;
  error_ = 0;
  return code ? fail(code, message_) : ACL_SUCCESS;
}

bool Stream::idle() {
  std::lock_guard<std::mutex> hold(lock_);
  return tasks_.empty() && !busy_;
}

int Stream::failure(std::string* message) {
  std::lock_guard<std::mutex> hold(lock_);
  if (error_) *message = message_;
  return error_;
}

void Stream::abandon(int code, const std::string& why) {
  std::lock_guard<std::mutex> hold(lock_);
  std::deque<Task> kept;
  for (Task& task : tasks_)
    if (task.always) kept.push_back(std::move(task));
  if (busy_ || kept.size() != tasks_.size()) note(code, why);
  tasks_.swap(kept);
  ++cuts_;
  changed_.notify_all();
}

void Stream::close() {
  std::lock_guard<std::mutex> hold(lock_);
  closing_ = true;
  changed_.notify_all();
}

void Stream::end() {
  std::unique_lock<std::mutex> hold(lock_);
  ending_ = true;
  tasks_.clear();
  changed_.notify_all();
  if (!own_thread()) changed_.wait_for(hold, std::chrono::seconds(5), [this] { return !busy_; });
}

bool Stream::cut() {
  std::lock_guard<std::mutex> hold(lock_);
  return ending_ || cuts_;
}

}  // namespace cann
