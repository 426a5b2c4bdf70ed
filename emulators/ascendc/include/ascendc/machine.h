// One vector core: its unified buffer, what is known of each byte, which unit touched what, and where global memory is.
//
// Rules that a core checks on every access:
//   - unified buffer: inside the memory that the kernel may use; 32-byte aligned where an instruction asks for it;
//   - no byte is read that was not written since its buffer was allocated (a map of one flag a byte);
//   - no unit reads or writes a 32-byte block that another one still works on (flags and barriers move what a unit
//   knows
//     of the others; the vector unit needs PipeBarrier<PIPE_V> between dependent instructions);
//   - global memory: inside the buffers that the launch named, never written where it said "read only".
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "types.h"

namespace ascendc {

constexpr uint32_t kUnifiedBuffer = 192 * 1024;
// 256 bytes are the hardware's; 8 KiB are kept by ordinary builds (for Select, printing).
constexpr uint32_t kUsable = kUnifiedBuffer - 256 - 8 * 1024;
constexpr uint32_t kBlock = 32;
constexpr int kPipes = 4;
constexpr int kEvents = 8;

// A broken rule. what() is "kernel NAME, block I of N: RULE: PLACE".
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A buffer in global memory that a launch uses.
struct Buffer {
  const char* name;
  const void* data;
  size_t bytes;
  bool written;
};

// Bytes [begin, end) of global memory that a block read or wrote.
struct Interval {
  uintptr_t begin, end;
};

// How far each unit's instructions are known to have finished.
using Clock = std::array<uint32_t, kPipes>;

class Core {
 public:
  Core(const char* kernel, int block, int blocks, const std::vector<Buffer>& buffers);

  static Core& now();  // the core that runs on this thread
  static bool running();

  [[noreturn]] void fail(const std::string& rule, const std::string& place) const;

  // -- instructions ---------------------------------------------------------------------------------------------------
  // A new instruction of `pipe`; the accesses that follow are its.
  void issue(pipe_t pipe, const char* name);
  void read(uint32_t offset, uint32_t bytes, const char* operand);
  void write(uint32_t offset, uint32_t bytes, const char* operand);
  void aligned(uint32_t offset, uint32_t to, const char* operand) const;
  // Bytes whose content no rule defines any more.
  void forget(uint32_t offset, uint32_t bytes);
  uint8_t* ub(uint32_t offset) { return ub_.data() + offset; }

  void read_global(const void* at, size_t bytes);
  void write_global(const void* at, size_t bytes);

  // -- order between units
  // ----------------------------------------------------------------------------------------------
  Clock point(pipe_t pipe) const;               // all that `pipe` was given so far, and all that it knew
  void learn(pipe_t pipe, const Clock& point);  // `pipe` goes on only after `point`
  void barrier(pipe_t pipe);
  void set_flag(pipe_t from, pipe_t to, int event);
  void wait_flag(pipe_t from, pipe_t to, int event);

  // -- the memory a kernel asks for
  // -------------------------------------------------------------------------------------
  uint32_t reserve(uint32_t bytes, uint32_t count, const char* what);

  void finish() const;  // what a kernel must have put right when it ends

  const char* instruction = "the start of the kernel";
  int block, blocks;
  const std::vector<Buffer>& buffers;
  std::vector<Interval> reads, writes;
  void* pipe = nullptr;  // the kernel's TPipe
  std::vector<const char*> unfinished;

 private:
  struct Access {
    uint32_t tick = 0;
    uint8_t pipe = 0;
  };
  struct Flag {
    bool set = false;
    Clock point{};
  };

  void touch(uint32_t offset, uint32_t bytes, const char* operand, bool writing);
  void after(const Access& earlier, uint32_t offset, const char* operand, const char* what) const;
  void find(const void* at, size_t bytes, bool writing) const;

  const char* kernel_;
  pipe_t unit_ = PIPE_S;
  Clock ticks_{};                      // instructions given to each unit
  std::array<Clock, kPipes> known_{};  // known_[a][b]: b's instructions that a may rely on
  std::array<std::array<std::array<Flag, kEvents>, kPipes>, kPipes> flags_{};
  uint32_t used_ = 0, buffers_ = 0;
  alignas(64) std::array<uint8_t, kUnifiedBuffer> ub_;
  std::array<uint8_t, kUnifiedBuffer> defined_;
  std::array<Access, kUnifiedBuffer / kBlock> written_{};
  std::array<Clock, kUnifiedBuffer / kBlock> read_{};
};

const char* name_of(pipe_t pipe);
void leave_core();  // no core runs on this thread any more

}  // namespace ascendc
