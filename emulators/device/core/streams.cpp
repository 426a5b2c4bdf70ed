#include "streams.h"

#include <chrono>
#include <deque>
#include <thread>

#include "faults.h"

namespace hetero {
namespace {

constexpr int kPool = 32;               // of each priority
constexpr int kStreams = 1 + 2 * kPool;  // of a device: the default one first

struct Deferred {
  uint64_t tick;
  std::function<void()> run;
};

struct State {
  Clock seen;  // of every stream, itself included
  std::deque<Deferred> deferred;
};

struct Runtime {
  std::vector<State> streams;
  Clock host;
  std::vector<int> next;       // pooled stream of each device and priority
  std::vector<std::string> failed, lost;  // of each device: what a later call has to say
};

Runtime& runtime() {
  static auto* one = [] {
    auto* r = new Runtime;
    const size_t count = static_cast<size_t>(machine().devices) * kStreams;
    r->streams.resize(count);
    for (State& s : r->streams) s.seen.resize(count);
    r->host.resize(count);
    r->next.resize(2 * machine().devices);
    r->failed.resize(machine().devices);
    r->lost.resize(machine().devices);
    return r;
  }();
  return *one;
}

thread_local std::vector<c10::StreamId> currents;

int slot(const c10::Stream& stream) {
  return stream.device_index() * kStreams + static_cast<int>(checked_stream(stream));
}

void merge(Clock& into, const Clock& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

// What `device` has to say of earlier work.
void raise_errors(c10::DeviceIndex device) {
  Runtime& r = runtime();
  if (!r.lost[device].empty()) TORCH_CHECK(false, r.lost[device]);
  if (r.failed[device].empty()) return;
  const std::string said = std::exchange(r.failed[device], {});
  TORCH_CHECK(false, said);
}

// Runs what was put off on the stream, up to `tick`.
void deliver(int at, uint64_t tick) {
  std::deque<Deferred> due;
  {
    std::lock_guard<std::recursive_mutex> hold(runtime_lock());
    auto& waiting = runtime().streams[at].deferred;
    while (!waiting.empty() && waiting.front().tick <= tick) {
      due.push_back(std::move(waiting.front()));
      waiting.pop_front();
    }
  }
  for (Deferred& one : due) one.run();
}

// All that happened before what `seen` stands for has happened.
void deliver_all(const Clock& seen) {
  for (size_t i = 0; i < seen.size(); ++i)
    if (seen[i]) deliver(static_cast<int>(i), seen[i]);
}

double milliseconds() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

c10::StreamId checked_stream(const c10::Stream& stream) {
  TORCH_CHECK(stream.device_type() == machine().type && stream.id() >= 0 && stream.id() < kStreams, machine().title,
              " error: invalid resource handle: ", stream);
  checked(stream.device_index());
  return stream.id();
}

c10::Stream current_stream(c10::DeviceIndex index) {
  if (index < 0) index = current_device();
  if (currents.empty()) currents.resize(machine().devices);
  return c10::Stream(c10::Stream::UNSAFE, device(checked(index)), currents[index]);
}

c10::Stream exchange_stream(const c10::Stream& stream) {
  const c10::Stream before = current_stream(stream.device_index());
  currents[stream.device_index()] = checked_stream(stream);
  return before;
}

c10::Stream pooled_stream(c10::DeviceIndex index, bool high) {
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  if (index < 0) index = current_device();
  int& next = runtime().next[2 * checked(index) + high];
  const int id = 1 + (high ? kPool : 0) + next;
  next = (next + 1) % kPool;
  return c10::Stream(c10::Stream::UNSAFE, device(index), id);
}

void launch(const c10::Stream& stream, const char* what) {
  use();
  const auto at = slot(stream);
  const auto index = stream.device_index();
  const double late = delay(what);
  if (late > 0) std::this_thread::sleep_for(std::chrono::duration<double>(late));
  const std::string of = std::string(" (injected: HETERO_EMULATED_FAULTS), at ") + what;
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  Runtime& r = runtime();
  if (fault("device-lost", "*")) r.lost[index] = machine().title + " error: the device is lost" + of;
  raise_errors(index);
  TORCH_CHECK(!fault("op", what), machine().title, " error: launch failure", of);
  if (fault("op-late", what)) r.failed[index] = machine().title + " error: unspecified launch failure" + of;
  State& s = r.streams[at];
  ++s.seen[at];
  if (machine().races) merge(s.seen, r.host);
}

void order(const c10::Stream& stream, const c10::Stream& other) {
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  Runtime& r = runtime();
  merge(r.streams[slot(stream)].seen, r.streams[slot(other)].seen);
}

bool ordered(const Stamp& stamp, const c10::Stream& stream) {
  return !stamp.tick || runtime().streams[slot(stream)].seen[stamp.slot] >= stamp.tick;
}

Stamp now(const c10::Stream& stream, const char* what) {
  const int at = slot(stream);
  return {at, runtime().streams[at].seen[at], what};
}

void synchronize_stream(const c10::Stream& stream) {
  const int at = slot(stream);
  Clock seen;
  {
    std::lock_guard<std::recursive_mutex> hold(runtime_lock());
    raise_errors(stream.device_index());
    seen = runtime().streams[at].seen;
    merge(runtime().host, seen);
  }
  deliver_all(seen);
}

void synchronize_device(c10::DeviceIndex index) {
  if (index < 0) index = current_device();
  checked(index);
  for (int id = 0; id < kStreams; ++id)
    synchronize_stream(c10::Stream(c10::Stream::UNSAFE, device(index), id));
}

void defer(const c10::Stream& stream, std::function<void()> run) {
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  const int at = slot(stream);
  State& s = runtime().streams[at];
  s.deferred.push_back({s.seen[at], std::move(run)});
}

void record_event(Event& event, const c10::Stream& stream) {
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  const int at = slot(stream);
  event.device = stream.device_index();
  event.stream = stream;
  event.recorded = true;
  event.seen = runtime().streams[at].seen;
  event.tick = event.seen[at];
  event.milliseconds = milliseconds();
}

void wait_event(const Event& event, const c10::Stream& stream) {
  if (!event.recorded) return;
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  merge(runtime().streams[slot(stream)].seen, event.seen);
}

void synchronize_event(const Event& event) {
  if (!event.recorded) return;
  {
    std::lock_guard<std::recursive_mutex> hold(runtime_lock());
    raise_errors(event.device);
    merge(runtime().host, event.seen);
  }
  deliver_all(event.seen);
}

double elapsed(const Event& from, const Event& to) {
  TORCH_CHECK(from.recorded && to.recorded, "Both events must be recorded before calculating elapsed time.");
  TORCH_CHECK(from.device == to.device, machine().title, " error: invalid resource handle: events of two devices");
  return to.milliseconds - from.milliseconds;
}

}  // namespace hetero
