#include "transfer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "names.h"

namespace cann::hccl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kStuck = std::chrono::seconds(3);

std::string shown(uint32_t dtype, uint64_t count) { return dtype_name(dtype) + "[" + std::to_string(count) + "]"; }

class Transfer {
 public:
  Transfer(Comm& comm, const Message& message)
      : comm_(comm), message_(message), bytes_(message.count * dtype_size(message.dtype)),
        channel_(message.sends ? comm.memory->channel(comm.rank, message.peer)
                               : comm.memory->channel(message.peer, comm.rank)),
        turn_(message.sends ? comm.sends[message.peer] : comm.receives[message.peer]) {}

  bool done() const { return state_ == kDone; }
  bool open() const { return state_ == kFlowing; }
  const std::string& wrong() const { return wrong_; }
  const Message& message() const { return message_; }

  // Goes as far as it can; whether it went at all.
  bool step() {
    bool moved = false;
    while (!done() && (message_.sends ? send() : receive())) moved = true;
    return moved;
  }

 private:
  enum { kWaiting, kPosted, kFlowing, kDone } state_ = kWaiting;

  void end() {
    state_ = kDone;
    turn_.serving = message_.turn + 1;
  }

  bool send() {
    if (state_ == kWaiting) {
      if (turn_.serving != message_.turn || channel_.posted != channel_.taken) return false;
      channel_.dtype = message_.dtype;
      channel_.count = message_.count;
      number_ = channel_.posted + 1;
      channel_.posted = number_;
      state_ = kPosted;
      return true;
    }
    if (state_ == kPosted) {
      const uint64_t answer = channel_.answered;
      if (answer >> 1 != number_) return false;
      if (answer & 1) {
        wrong_ = channel_.refusal;
        channel_.taken = number_;
        end();
      } else {
        state_ = kFlowing;
      }
      return true;
    }
    const uint64_t written = channel_.written, room = kRing - (written - channel_.read);
    const uint64_t n = std::min<uint64_t>({bytes_ - moved_, room, kRing - written % kRing});
    if (n) {
      std::memcpy(channel_.ring + written % kRing, message_.data + moved_, n);
      channel_.written = written + n;
      moved_ += n;
      return true;
    }
    if (moved_ < bytes_ || channel_.taken != number_) return false;
    end();
    return true;
  }

  bool receive() {
    if (state_ == kWaiting) {
      if (turn_.serving != message_.turn || channel_.posted == channel_.taken) return false;
      number_ = channel_.posted;
      if (channel_.answered >> 1 == number_) return false;  // refused, and the sender has not seen it yet
      const bool fits = channel_.dtype == message_.dtype && channel_.count == message_.count;
      if (!fits) {
        std::snprintf(channel_.refusal, sizeof channel_.refusal,
                      "rank %u sends %s to rank %u, which receives %s (hardware would hang or write past the end)",
                      message_.peer, shown(channel_.dtype, channel_.count).c_str(), comm_.rank,
                      shown(message_.dtype, message_.count).c_str());
        wrong_ = channel_.refusal;
      }
      channel_.answered = number_ << 1 | (fits ? 0 : 1);
      if (fits) state_ = kFlowing;
      else end();
      return true;
    }
    const uint64_t read = channel_.read;
    const uint64_t n = std::min<uint64_t>({bytes_ - moved_, channel_.written - read, kRing - read % kRing});
    if (n) {
      std::memcpy(message_.data + moved_, channel_.ring + read % kRing, n);
      channel_.read = read + n;
      moved_ += n;
      return true;
    }
    if (moved_ < bytes_) return false;
    channel_.taken = number_;
    end();
    return true;
  }

  Comm& comm_;
  const Message message_;
  const uint64_t bytes_;
  Channel& channel_;
  Turn& turn_;
  uint64_t number_ = 0, moved_ = 0;
  std::string wrong_;
};

// Ranks that wait for each other in a circle, each in a single send or recv: hardware would hang until its time-out.
class Circle {
 public:
  explicit Circle(Comm& comm) : comm_(comm) {}
  ~Circle() {
    if (told_) comm_.memory->member(comm_.rank).waiting = 0;
  }

  // Publishes whom this rank waits for, and throws when the same circle has held for a while.
  void look(const Transfer& only, const std::string& doing) {
    auto& own = comm_.memory->member(comm_.rank).waiting;
    if (only.open()) {
      own = 0;
      return;
    }
    if (!told_) own = ++comm_.waits << 8 | (only.message().peer + 1);
    told_ = true;
    std::vector<uint64_t> now;
    std::string ring = std::to_string(comm_.rank);
    uint32_t rank = comm_.rank;
    do {
      now.push_back(comm_.memory->member(rank).waiting);
      if (!now.back() || now.size() > comm_.size) return seen_.clear();
      rank = (now.back() & 255) - 1;
      ring += " waits for " + std::to_string(rank);
    } while (rank != comm_.rank);
    if (now != seen_) {
      seen_ = now;
      since_ = Clock::now();
    } else if (Clock::now() - since_ > kStuck) {
      throw Failure{HCCL_E_TIMEOUT, doing + ": deadlock: rank " + ring +
                                        "; a send ends only when the peer receives, so order the messages or batch "
                                        "them (hardware would hang until HCCL_EXEC_TIMEOUT)"};
    }
  }

 private:
  Comm& comm_;
  bool told_ = false;
  std::vector<uint64_t> seen_;
  Clock::time_point since_;
};

}  // namespace

void check_message(const Comm& comm, const Message& message) {
  if (message.peer >= comm.size)
    throw Failure{HCCL_E_PARA, "peer " + std::to_string(message.peer) + " of " + std::to_string(comm.size) + " ranks"};
  const size_t size = dtype_size(message.dtype);
  check_memory(message.sends ? "sendBuf" : "recvBuf", message.data, message.count * size, size);
}

void transfer(Comm& comm, const std::string& doing, std::vector<Message> messages) {
  std::vector<Transfer> all;
  for (const Message& message : messages) all.emplace_back(comm, message);
  Circle circle(comm);
  comm.wait(
      [&](std::vector<uint32_t>* missing) {
        bool moved = false, done = true;
        for (Transfer& one : all) moved |= one.step();
        if (moved) comm.memory->notify();
        for (const Transfer& one : all) {
          done &= one.done();
          if (missing && !one.done()) missing->push_back(one.message().peer);
        }
        if (missing && !done && all.size() == 1) circle.look(all[0], doing);
        return done;
      },
      doing);
  for (const Transfer& one : all)
    if (!one.wrong().empty()) throw Agreed{{HCCL_E_PARA, doing + ": " + one.wrong()}};
}

}  // namespace cann::hccl
