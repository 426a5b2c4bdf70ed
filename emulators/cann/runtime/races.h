// Races between streams, found from what orders them and not from when they happen to run (HETERO_CANN_RACES).
// A vector clock for each stream and one for the host: a task advances its stream's, an event carries its stream's to
// those that wait for it, a synchronisation carries it to the host, and a launch carries the host's to the stream. Two
// accesses to a byte of which one writes are a race if neither is ordered before the other. What the host itself does to
// host memory is not seen. All calls of the host count as one thread's, so a race between host threads is not found.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "emulator.h"

namespace cann {

using Clock = std::vector<uint64_t>;  // by stream number; 0 is the host

class Races {
 public:
  bool on() const;
  // Each returns the race to fail with; "" where there is none, or where it was only reported.
  std::string task(int stream, const std::string& name, const std::vector<Range>& ranges);
  std::string host(const std::string& name, const std::vector<Range>& ranges);
  std::string freed(const void* data, size_t bytes);

  Clock clock(int stream);               // of a stream now
  void wait(int stream, const Clock&);   // what the stream does from here on comes after
  void synchronised(const Clock&);       // what the host does from here on comes after

 private:
  struct Access {
    int stream;
    uint64_t time;
    std::string name;
  };
  struct Cell {  // the bytes up to `end` have these last accesses
    uintptr_t end;
    Access write{-1, 0, ""};
    std::vector<Access> reads;
  };

  std::string access(int stream, const std::string& name, const Range& range);
  void split(uintptr_t at);
  Clock& of(int stream);
  bool before(const Access& earlier, int stream);
  std::string tell(const std::string& race);

  std::mutex lock_;
  std::vector<Clock> clocks_{1};
  std::map<uintptr_t, Cell> cells_;
};

Races& races();

}  // namespace cann
