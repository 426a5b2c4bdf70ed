#include "stream.h"

#include <chrono>
#include <cstdlib>
#include <set>

#include "device.h"
#include "errors.h"

namespace cann {
namespace {

struct Streams {
  std::mutex lock;
  std::set<Stream*> live;
  Stream* defaults[kMaxDevices] = {};
};

Streams& streams() {
  static Streams* all = new Streams;  // never destroyed: their threads may still run at exit
  return *all;
}

int delay_us() {
  static const int delay = std::getenv("HETERO_CANN_DELAY") ? std::atoi(std::getenv("HETERO_CANN_DELAY")) : 0;
  return delay;
}

Stream* open(int device) {
  auto* stream = new Stream(device);
  std::lock_guard<std::mutex> hold(streams().lock);
  streams().live.insert(stream);
  return stream;
}

}  // namespace

Stream::Stream(int on) : device(on), thread_([this] { run(); }) {}

Stream::~Stream() {
  {
    std::lock_guard<std::mutex> hold(lock_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::put(std::string name, std::function<int()> work) {
  {
    std::lock_guard<std::mutex> hold(lock_);
    tasks_.push_back({std::move(name), std::move(work)});
  }
  changed_.notify_all();
}

void Stream::run() {
  aclrtSetDevice(device);
  for (;;) {
    Task task;
    {
      std::unique_lock<std::mutex> hold(lock_);
      busy_ = false;
      changed_.notify_all();
      changed_.wait(hold, [this] { return closing_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      busy_ = true;
    }
    if (delay_us()) std::this_thread::sleep_for(std::chrono::microseconds(delay_us()));
    const int code = task.work();
    if (code) {
      std::lock_guard<std::mutex> hold(lock_);
      if (!error_) {
        error_ = code;
        message_ = task.name + ": " + recent_message();
      }
    }
  }
}

int Stream::synchronize(int timeout_ms) {
  std::unique_lock<std::mutex> hold(lock_);
  const auto done = [this] { return tasks_.empty() && !busy_; };
  if (timeout_ms < 0) changed_.wait(hold, done);
  else if (!changed_.wait_for(hold, std::chrono::milliseconds(timeout_ms), done))
    return fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream synchronisation timed out");
  const int code = error_;
  error_ = 0;
  return code ? fail(code, message_) : ACL_SUCCESS;
}

bool Stream::idle() {
  std::lock_guard<std::mutex> hold(lock_);
  return tasks_.empty() && !busy_;
}

aclrtStream default_stream(int device) {
  Streams& s = streams();
  {
    std::lock_guard<std::mutex> hold(s.lock);
    if (s.defaults[device]) return s.defaults[device];
  }
  Stream* stream = open(device);
  std::lock_guard<std::mutex> hold(s.lock);
  if (!s.defaults[device]) s.defaults[device] = stream;
  return s.defaults[device];
}

Stream* find_stream(aclrtStream handle) {
  if (!handle) {
    if (current_device() < 0) return nullptr;
    handle = default_stream(current_device());
  }
  Streams& s = streams();
  std::lock_guard<std::mutex> hold(s.lock);
  auto* stream = static_cast<Stream*>(handle);
  return s.live.count(stream) ? stream : nullptr;
}

int enqueue(aclrtStream handle, const char* name, std::function<int()> work) {
  Stream* stream = find_stream(handle);
  if (!stream) return fail(ACL_ERROR_RT_STREAM_CONTEXT, std::string(name) + ": not a live stream");
  stream->put(name, std::move(work));
  return ACL_SUCCESS;
}

int synchronize_device(int device) {
  std::set<Stream*> all;
  {
    std::lock_guard<std::mutex> hold(streams().lock);
    all = streams().live;
  }
  int first = ACL_SUCCESS;
  for (Stream* stream : all)
    if (stream->device == device)
      if (const int code = stream->synchronize(); code && !first) first = code;
  return first;
}

}  // namespace cann

using cann::fail;
using cann::Stream;

extern "C" {

CANN_EXPORT aclError aclrtCreateStream(aclrtStream* out) {
  if (cann::current_device() < 0) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtCreateStream: no device is set on this thread");
  *out = cann::open(cann::current_device());
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtCreateStreamWithConfig(aclrtStream* out, uint32_t, uint32_t) { return aclrtCreateStream(out); }

CANN_EXPORT aclError aclrtDestroyStream(aclrtStream handle) {
  Stream* stream = handle ? cann::find_stream(handle) : nullptr;
  if (!stream) return fail(ACL_ERROR_RT_STREAM_CONTEXT, "aclrtDestroyStream: not a live stream");
  {
    std::lock_guard<std::mutex> hold(cann::streams().lock);
    cann::streams().live.erase(stream);
  }
  delete stream;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtDestroyStreamForce(aclrtStream handle) { return aclrtDestroyStream(handle); }

CANN_EXPORT aclError aclrtSynchronizeStream(aclrtStream handle) {
  Stream* stream = cann::find_stream(handle);
  return stream ? stream->synchronize() : fail(ACL_ERROR_RT_STREAM_CONTEXT, "aclrtSynchronizeStream: not a live stream");
}
CANN_EXPORT aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, int32_t timeout) {
  Stream* stream = cann::find_stream(handle);
  return stream ? stream->synchronize(timeout) : fail(ACL_ERROR_RT_STREAM_CONTEXT, "aclrtSynchronizeStream: not a live stream");
}
CANN_EXPORT aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus* status) {
  Stream* stream = cann::find_stream(handle);
  if (!stream) return fail(ACL_ERROR_RT_STREAM_CONTEXT, "aclrtStreamQuery: not a live stream");
  *status = stream->idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
CANN_EXPORT aclError aclrtSetStreamFailureMode(aclrtStream, uint64_t) { return ACL_SUCCESS; }
}
