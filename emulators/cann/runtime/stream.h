// A stream: a thread that runs what is put on it, in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "emulator.h"

namespace cann {

class Stream {
 public:
  explicit Stream(int device);
  ~Stream();  // after what was put on it has run

  void put(std::string name, std::function<int()> work);
  int synchronize(int timeout_ms = -1);  // the first failure since the last call, which it clears
  bool idle();
  const int device;

 private:
  struct Task {
    std::string name;
    std::function<int()> work;
  };
  void run();

  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool busy_ = false, closing_ = false;
  int error_ = 0;
  std::string message_;
  std::thread thread_;
};

Stream* find_stream(aclrtStream handle);  // null stands for the thread's default stream; nullptr if it is none

}  // namespace cann
