// One collective: rounds in which every rank fills a slot, all meet, and every rank reads what the others filled.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "comm.h"

namespace cann::hccl {

std::string describe(const Call& call, uint32_t ranks);

// Empty if the calls of all ranks make one collective, else why not.
using Agreement = std::function<std::string(const std::vector<Call>& calls)>;

class Meeting {
 public:
  // Waits for this collective's turn, and releases it at the end.
  Meeting(Comm& comm, const Call& call, uint64_t turn, Agreement agreement = nullptr);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  char* mine() { return memory_.slot(comm_.rank, round_); }
  // Returns when all ranks have filled their slots. Ranks read those of the round before the next one's are filled:
  // slots alternate. The first meeting compares the calls and throws Agreed, on every rank, when they do not fit.
  void meet();
  const char* of(uint32_t rank) { return memory_.slot(rank, round_ - 1); }
  const Call& call(uint32_t rank) { return calls_[rank]; }

 private:
  Comm& comm_;
  Segment& memory_;
  const std::string doing_;
  const Agreement agreement_;
  const uint64_t turn_;
  uint64_t first_ = 0, round_ = 0;
  std::vector<Call> calls_;  // a copy: the next collective's may come while this one is still being read
};

}  // namespace cann::hccl
