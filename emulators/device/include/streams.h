// Streams and events. Work runs when it is launched, on the thread that launches it; what a stream or an event has
// seen of the others is kept as vector clocks, so that accesses nothing orders are found. A copy to pinned host
// memory that is not blocking arrives when its stream is waited for, and no earlier.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "machine.h"

namespace hetero {

// The `tick`-th piece of work of stream `slot`; tick 0 is nothing at all.
struct Stamp {
  int slot = -1;
  uint64_t tick = 0;
  std::string what;
};

using Clock = std::vector<uint64_t>;

c10::Stream current_stream(c10::DeviceIndex index);
c10::Stream exchange_stream(const c10::Stream& stream);
// One of 32 a device and priority, in turn.
c10::Stream pooled_stream(c10::DeviceIndex index, bool high);
c10::StreamId checked_stream(const c10::Stream& stream);

// Begins a piece of work on `stream`: faults are due, and errors of earlier work.
void launch(const c10::Stream& stream, const char* what);
// `stream` waits for all that `other` was given so far.
void order(const c10::Stream& stream, const c10::Stream& other);
// Whether `stamp` is before what `stream` does next; empty if so, else what it collides with.
bool ordered(const Stamp& stamp, const c10::Stream& stream);
Stamp now(const c10::Stream& stream, const char* what);

void synchronize_stream(const c10::Stream& stream);
void synchronize_device(c10::DeviceIndex index);
// Has `run` done when `stream` is waited for.
void defer(const c10::Stream& stream, std::function<void()> run);

struct Event {
  c10::DeviceIndex device = -1;
  c10::Stream stream{c10::Stream::UNSAFE, c10::Device(c10::kCPU), 0};
  bool recorded = false;
  bool timed = false;
  uint64_t tick = 0;
  Clock seen;
  double milliseconds = 0;  // on a clock of this process
};
void record_event(Event& event, const c10::Stream& stream);
void wait_event(const Event& event, const c10::Stream& stream);
void synchronize_event(const Event& event);
double elapsed(const Event& from, const Event& to);

}  // namespace hetero
