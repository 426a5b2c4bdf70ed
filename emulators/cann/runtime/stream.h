// A stream: a thread that runs what is put on it, in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator.h"

namespace cann {

struct Task {
  std::string name;
  std::function<int()> work;
  std::vector<Range> ranges;
  double stall = 0;     // injected
  bool fails = false;   // injected
  bool always = false;  // runs on a stream that failed or was abandoned too: an event's record
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(int device, int number, uint32_t priority, uint32_t flags);

  void put(Task task);
  int synchronize(const char* call, int timeout_ms = -1);  // the first failure since the last call, which it clears
  bool idle();
  void abandon(int code, const std::string& why);  // what waits is not run; what runs is cut short where it only waits
  void close();                                    // its thread ends when nothing is left to run
  void end();                                      // its thread ends now: the process does
  bool cut();                                      // for work that only waits: stop waiting
  int failure(std::string* message);               // not cleared
  bool own_thread() const;

  const int device, number;
  const uint32_t priority, flags;
  uint64_t failure_mode = 0;   // set and read by the host only, from here on
  uint32_t overflow_switch = 0;
  uint32_t limits[2] = {0, 0};  // cube and vector cores; 0 is the device's

 private:
  void run();
  void run_one(Task& task);
  void note(int code, const std::string& message);  // needs the lock

  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool started_ = false, busy_ = false, closing_ = false, ending_ = false;
  int cuts_ = 0;  // that the running task has not seen
  int error_ = 0;
  std::string message_;
};

using StreamPtr = std::shared_ptr<Stream>;

StreamPtr open_stream(int device, uint32_t priority, uint32_t flags, aclrtStream* handle);
StreamPtr find_stream(const char* call, aclrtStream handle, int* code);  // null stands for the thread's default stream
bool remove_stream(aclrtStream handle);
int put_task(const char* call, aclrtStream handle, Task task);           // enqueue() with all of a task's fields
int synchronize_device(int device, int timeout_ms = -1);
void abandon_device(int device, const std::string& why);

}  // namespace cann
