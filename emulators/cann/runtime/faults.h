#pragma once
#include <string>

namespace cann {

void read_faults(const std::string& text);  // throws std::invalid_argument that names the bad part

// What is to happen to the stream task that is being put on a stream now.
struct TaskFault {
  double stall = 0;  // seconds
  bool fails = false, device_lost = false;
};
TaskFault next_task(const char* name);

}  // namespace cann
