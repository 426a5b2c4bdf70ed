// Messages between two ranks. As on hardware a send ends when the receiver has taken it all.
#pragma once

#include <string>
#include <vector>

#include "comm.h"

namespace cann::hccl {

struct Message {
  bool sends;
  uint32_t peer;
  char* data;
  uint64_t count;
  uint32_t dtype;
  uint64_t turn = 0;  // among this rank's messages to, or from, the peer
};

// Throws Failure for what cannot work: an unknown dtype, no such rank, memory that is not the device's.
void check_message(const Comm& comm, const Message& message);

// Runs all messages together until each has ended; those between the same two ranks and in the same direction one
// after the other. Throws Agreed, in both ranks, for messages that do not fit.
void transfer(Comm& comm, const std::string& doing, std::vector<Message> messages);

}  // namespace cann::hccl
