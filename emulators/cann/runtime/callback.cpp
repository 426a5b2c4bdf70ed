// Host functions in a stream's order: run on the stream's thread (aclrtLaunchHostFunc), or by the host thread that
// subscribed to the stream and asks for them (aclrtSubscribeReport, aclrtLaunchCallback, aclrtProcessReport).
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "stream.h"

namespace cann {
namespace {

struct Call {
  aclrtCallback function;
  void* data;
  bool done = false;
};

struct Reports {
  std::mutex lock;
  std::condition_variable changed;
  std::map<int, uint64_t> thread_of;                                   // by stream number
  std::map<uint64_t, std::deque<std::shared_ptr<Call>>> of_thread;     // a subscribed thread has an entry
};

Reports& reports() {
  static auto* all = new Reports;
  return *all;
}

int hand_over(const Stream* stream, const std::shared_ptr<Call>& call, bool block) {
  Reports& r = reports();
  std::unique_lock<std::mutex> hold(r.lock);
  auto thread = r.thread_of.find(stream->number);
  if (thread == r.thread_of.end()) return fail(ACL_ERROR_RT_STREAM_NO_CB_REG, "the thread unsubscribed before the stream came to the callback");
  r.of_thread[thread->second].push_back(call);
  r.changed.notify_all();
  while (block && !call->done) {
    if (const_cast<Stream*>(stream)->cut()) return fail(ACL_ERROR_RT_STREAM_ABORT, "was given up before its thread ran it");
    r.changed.wait_for(hold, std::chrono::milliseconds(20));
  }
  return 0;
}

}  // namespace
}  // namespace cann

using cann::fail;
using cann::reports;

extern "C" {

CANN_EXPORT aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc function, void* args) {
  if (!function) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtLaunchHostFunc: the function is null");
  return cann::enqueue(stream, "aclrtLaunchHostFunc", [=] {
    function(args);
    return 0;
  });
}

CANN_EXPORT aclError aclrtSubscribeReport(uint64_t thread, aclrtStream handle) {
  int code;
  const auto stream = cann::find_stream("aclrtSubscribeReport", handle, &code);
  if (!stream) return code;
  std::lock_guard<std::mutex> hold(reports().lock);
  if (!reports().thread_of.insert({stream->number, thread}).second)
    return fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "aclrtSubscribeReport: a thread is subscribed to the stream already");
  reports().of_thread[thread];
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtUnSubscribeReport(uint64_t thread, aclrtStream handle) {
  int code;
  const auto stream = cann::find_stream("aclrtUnSubscribeReport", handle, &code);
  if (!stream) return code;
  std::lock_guard<std::mutex> hold(reports().lock);
  auto& threads = reports().thread_of;
  auto found = threads.find(stream->number);
  if (found == threads.end() || found->second != thread)
    return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "aclrtUnSubscribeReport: that thread is not subscribed to the stream");
  threads.erase(found);
  bool more = false;
  for (const auto& other : threads) more = more || other.second == thread;
  if (!more) reports().of_thread.erase(thread);
  reports().changed.notify_all();
  return ACL_SUCCESS;
}

CANN_EXPORT aclError aclrtLaunchCallback(aclrtCallback function, void* data, aclrtCallbackBlockType block, aclrtStream handle) {
  if (!function) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtLaunchCallback: the function is null");
  int code;
  const auto stream = cann::find_stream("aclrtLaunchCallback", handle, &code);
  if (!stream) return code;
  {
    std::lock_guard<std::mutex> hold(reports().lock);
    if (!reports().thread_of.count(stream->number))
      return fail(ACL_ERROR_RT_STREAM_NO_CB_REG, "aclrtLaunchCallback: no thread is subscribed to the stream");
  }
  const auto call = std::make_shared<cann::Call>(cann::Call{function, data});
  return cann::enqueue(handle, "aclrtLaunchCallback",
                       [call, block, on = stream.get()] { return cann::hand_over(on, call, block == ACL_CALLBACK_BLOCK); });
}

// Runs one callback for the calling thread; waits `timeout` ms for it (-1: until there is one).
CANN_EXPORT aclError aclrtProcessReport(int32_t timeout) {
  const auto thread = uint64_t(pthread_self());
  cann::Reports& r = reports();
  std::unique_lock<std::mutex> hold(r.lock);
  const auto ready = [&] { return !r.of_thread.count(thread) || !r.of_thread[thread].empty(); };
  if (timeout < 0) r.changed.wait(hold, ready);
  else if (!r.changed.wait_for(hold, std::chrono::milliseconds(timeout), ready))
    return fail(ACL_ERROR_RT_REPORT_TIMEOUT, "aclrtProcessReport: no callback in " + std::to_string(timeout) + " ms");
  auto own = r.of_thread.find(thread);
  if (own == r.of_thread.end()) return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "aclrtProcessReport: the thread is not subscribed to a stream");
  const auto call = own->second.front();
  own->second.pop_front();
  hold.unlock();
  call->function(call->data);
  hold.lock();
  call->done = true;
  r.changed.notify_all();
  return ACL_SUCCESS;
}
}
