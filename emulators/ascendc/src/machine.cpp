#include "ascendc/machine.h"

#include <algorithm>
#include <cstring>

namespace ascendc {
namespace {

thread_local Core* current = nullptr;

void note(std::vector<Interval>& all, uintptr_t begin, uintptr_t end) {
  if (!all.empty()) {
    Interval& last = all.back();
    if (begin >= last.begin && end <= last.end) return;
    if (begin == last.end) {
      last.end = end;
      return;
    }
  }
  all.push_back({begin, end});
}

}  // namespace

const char* name_of(pipe_t pipe) {
  static const char* names[] = {"scalar unit", "vector unit", "copy in (MTE2)", "copy out (MTE3)", "all"};
  return names[pipe];
}

Core::Core(const char* kernel, int index, int count, const std::vector<Buffer>& given)
    : block(index), blocks(count), buffers(given), kernel_(kernel) {
  ub_.fill(0xff);  // reads as NaN
  defined_.fill(0);
  current = this;
}

Core& Core::now() {
  if (!current) throw Violation("AscendC: a device function was called outside of a launch");
  return *current;
}

bool Core::running() { return current != nullptr; }

void leave_core() { current = nullptr; }

void Core::fail(const std::string& rule, const std::string& place) const {
  throw Violation(std::string(kernel_) + ", block " + std::to_string(block) + " of " + std::to_string(blocks) + ": " +
                  rule + ": " + instruction + ": " + place);
}

// -- unified buffer
// -----------------------------------------------------------------------------------------------------

void Core::issue(pipe_t pipe, const char* name) {
  instruction = name;
  unit_ = pipe;
  ++ticks_[pipe];
  for (int other = 0; other < kPipes; ++other)  // the scalar unit hands out work, so what it waited for is over
    known_[pipe][other] = std::max(known_[pipe][other], known_[PIPE_S][other]);
}

void Core::after(const Access& earlier, uint32_t offset, const char* operand, const char* what) const {
  if (!earlier.tick || known_[unit_][earlier.pipe] >= earlier.tick) return;
  if (earlier.pipe == unit_ && (unit_ == PIPE_S || earlier.tick == ticks_[unit_])) return;
  const auto by = static_cast<pipe_t>(earlier.pipe);
  fail(std::string("no order between ") + name_of(unit_) + " and what the " + name_of(by) + " still " + what,
       std::string(operand) + " at byte " + std::to_string(offset) +
           (by == unit_ ? ": PipeBarrier is missing" : ": SetFlag and WaitFlag, or a queue, are missing"));
}

void Core::touch(uint32_t offset, uint32_t bytes, const char* operand, bool writing) {
  if (uint64_t(offset) + bytes > kUsable)
    fail("outside of the unified buffer", std::string(operand) + " at byte " + std::to_string(offset));
  if (!bytes) return;
  for (uint32_t b = offset / kBlock; b <= (offset + bytes - 1) / kBlock; ++b) {
    after(written_[b], b * kBlock, operand, "writes");
    if (!writing) {
      read_[b][unit_] = ticks_[unit_];
      continue;
    }
    // What the scalar unit reads it has before it hands out the next instruction.
    for (int pipe = PIPE_V; pipe < kPipes; ++pipe)
      after({read_[b][pipe], static_cast<uint8_t>(pipe)}, b * kBlock, operand, "reads");
    written_[b] = {ticks_[unit_], static_cast<uint8_t>(unit_)};
  }
}

void Core::read(uint32_t offset, uint32_t bytes, const char* operand) {
  touch(offset, bytes, operand, false);
  const auto* first = defined_.data() + offset;
  if (const void* hole = std::memchr(first, 0, bytes))
    fail("read of bytes that were never written", std::string(operand) + ": byte " +
                                                      std::to_string(static_cast<const uint8_t*>(hole) - first) +
                                                      " of " + std::to_string(bytes));
}

void Core::write(uint32_t offset, uint32_t bytes, const char* operand) {
  touch(offset, bytes, operand, true);
  std::memset(defined_.data() + offset, 1, bytes);
}

void Core::forget(uint32_t offset, uint32_t bytes) {
  std::memset(defined_.data() + offset, 0, bytes);
  std::memset(ub_.data() + offset, 0xff, bytes);
}

void Core::aligned(uint32_t offset, uint32_t to, const char* operand) const {
  if (offset % to)
    fail("address in the unified buffer is not a multiple of " + std::to_string(to),
         std::string(operand) + " at byte " + std::to_string(offset));
}

uint32_t Core::reserve(uint32_t bytes, uint32_t count, const char* what) {
  if (!bytes) fail("a buffer of no bytes", what);
  if (uint64_t(used_) + uint64_t(bytes) * count > kUsable)
    fail("the unified buffer is full", std::string(what) + " of " + std::to_string(count) + " x " +
                                           std::to_string(bytes) + " bytes, " + std::to_string(kUsable - used_) +
                                           " of " + std::to_string(kUsable) + " are left");
  if ((buffers_ += count) > 64) fail("more than 64 buffers in one kernel", what);
  const uint32_t at = used_;
  used_ += bytes * count;
  return at;
}

// -- global memory
// ------------------------------------------------------------------------------------------------------

void Core::find(const void* at, size_t bytes, bool writing) const {
  const auto begin = reinterpret_cast<uintptr_t>(at);
  const Buffer* nearest = nullptr;
  for (const Buffer& b : buffers) {
    const auto start = reinterpret_cast<uintptr_t>(b.data);
    if (begin >= start && begin + bytes <= start + b.bytes && (b.written || !writing)) return;
    if (begin >= start && (!nearest || b.data > nearest->data)) nearest = &b;
  }
  std::string place = (writing ? "write of " : "read of ") + std::to_string(bytes) + " bytes";
  if (nearest)
    place += ", " + std::to_string(begin - reinterpret_cast<uintptr_t>(nearest->data)) + " bytes into \"" +
             nearest->name + "\", which has " + std::to_string(nearest->bytes) +
             (nearest->written ? "" : " and is read only");
  fail("outside of the global memory that the launch named", place);
}

void Core::read_global(const void* at, size_t bytes) {
  if (!bytes) return;
  find(at, bytes, false);
  note(reads, reinterpret_cast<uintptr_t>(at), reinterpret_cast<uintptr_t>(at) + bytes);
}

void Core::write_global(const void* at, size_t bytes) {
  if (!bytes) return;
  find(at, bytes, true);
  note(writes, reinterpret_cast<uintptr_t>(at), reinterpret_cast<uintptr_t>(at) + bytes);
}

// -- order
// --------------------------------------------------------------------------------------------------------------

Clock Core::point(pipe_t pipe) const {
  Clock clock = known_[pipe];
  clock[pipe] = ticks_[pipe];
  return clock;
}

void Core::learn(pipe_t pipe, const Clock& point) {
  for (int other = 0; other < kPipes; ++other) known_[pipe][other] = std::max(known_[pipe][other], point[other]);
}

void Core::barrier(pipe_t pipe) {
  instruction = "PipeBarrier";
  if (pipe == PIPE_ALL)
    for (auto& known : known_) known = ticks_;
  else
    known_[pipe][pipe] = ticks_[pipe];
}

void Core::set_flag(pipe_t from, pipe_t to, int event) {
  instruction = "SetFlag";
  if (event < 0 || event >= kEvents) fail("an event id outside of 0 to 7", std::to_string(event));
  Flag& flag = flags_[from][to][event];
  if (flag.set) fail("SetFlag twice without WaitFlag", "event " + std::to_string(event));
  flag = {true, point(from)};
}

void Core::wait_flag(pipe_t from, pipe_t to, int event) {
  instruction = "WaitFlag";
  if (event < 0 || event >= kEvents) fail("an event id outside of 0 to 7", std::to_string(event));
  Flag& flag = flags_[from][to][event];
  if (!flag.set) fail("WaitFlag for an event that nothing sets: the core would hang", "event " + std::to_string(event));
  flag.set = false;
  learn(to, flag.point);
}

void Core::finish() const {
  if (!unfinished.empty()) fail(unfinished.front(), "at the end of the kernel");
  for (const auto& from : flags_)
    for (const auto& to : from)
      for (const Flag& flag : to)
        if (flag.set) fail("SetFlag without WaitFlag", "at the end of the kernel");
}

}  // namespace ascendc
