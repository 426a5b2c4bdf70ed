// The memory that the ranks of one communicator share, and how they wait for each other in it.
//
// It is an anonymous memory file (memfd), reached through /proc/PID/fd/N of the process that made it: it has no name in
// any file system, so nothing is left behind whoever dies, and no limit on /dev/shm applies.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hccl/hccl_types.h"

namespace cann::hccl {

constexpr uint32_t kMaxRanks = 64;
constexpr size_t kSlot = 1 << 20;   // bytes of a rank in one round of a collective
constexpr size_t kRing = 256 << 10;  // bytes on their way from one rank to another
constexpr uint32_t kBoards = 64;     // subgroups that are being made at one time

// Why an operation ends early. `code` is HCCL's.
struct Failure {
  HcclResult code;
  std::string message;
};

// A collective as one rank has called it.
struct Call {
  uint32_t operation;  // HcclCMDType
  uint32_t dtype, reduction, root;
  uint64_t count;
  uint64_t send[kMaxRanks], receive[kMaxRanks];  // of the collectives that have a count for every rank
};

struct Member {
  std::atomic<uint32_t> state;  // Absent, Here, Left
  uint32_t device;
  int64_t pid;
  uint64_t born;
  std::atomic<uint64_t> step;     // rounds it has come to
  std::atomic<uint64_t> calls;    // collectives it has begun
  std::atomic<uint32_t> doing;    // the HcclCMDType of the last of them
  std::atomic<uint64_t> waiting;  // a blocked send or recv: its number << 8 | peer + 1, else 0
  Call call[2];                   // of the even and the odd rounds
};

enum : uint32_t { kAbsent = 0, kHere = 1, kLeft = 2 };

// Messages from one rank to another, one after the other: the sender posts a header, the receiver answers, bytes flow
// through the ring, and `taken` says that all have arrived.
struct Channel {
  std::atomic<uint64_t> posted, answered, taken;  // message numbers; answered: number << 1 | refused
  std::atomic<uint64_t> written, read;            // bytes, of all messages
  uint64_t count;
  uint32_t dtype;
  char refusal[256];
  char ring[kRing];
};

// Where the first rank of a subgroup tells the others of its memory.
struct Board {
  std::atomic<uint32_t> state;  // 0 free, 1 being written, 2 written
  uint64_t id, members;         // the caller's number and a digest of who belongs to it
  char root[128];
};

struct Shared {
  char magic[16];
  uint64_t token;
  std::atomic<uint32_t> ranks;
  std::atomic<uint32_t> wake, sleepers;  // a futex: anything in here has changed
  std::atomic<uint32_t> broken;          // 0, kBreaking, or the HcclResult that ended the communicator
  char why[1024];
  Board boards[kBoards];
};

class Segment {
 public:
  // Makes the memory. `root()` is what others need to join; the file stays open until `sealed()`.
  static std::shared_ptr<Segment> create();
  // Maps what `root` names. Throws Failure.
  static std::shared_ptr<Segment> open(const std::string& root);
  ~Segment();

  const std::string& root() const { return root_; }
  uint64_t token() const { return shared_->token; }
  // Takes the place of `rank` among `ranks`; does not wait for the others. Throws Failure.
  void join(uint32_t ranks, uint32_t rank, uint32_t device);
  void leave(uint32_t rank);
  void seal();  // all have mapped it: closes the file

  Shared& shared() { return *shared_; }
  Member& member(uint32_t rank) { return members_[rank]; }
  Channel& channel(uint32_t from, uint32_t to) { return channels_[from * size_ + to]; }
  char* slot(uint32_t rank, uint64_t round) { return slots_ + (rank * 2 + (round & 1)) * kSlot; }
  uint32_t size() const { return size_; }

  // Says whether it has come, and given a list adds the ranks that it waits for.
  using Ready = std::function<bool(std::vector<uint32_t>* missing)>;
  // Returns when `ready`. Throws Failure when a missing rank has died or left, when `seconds` (0: never) have passed,
  // when the communicator is broken, or when this process has given up. `doing` names the operation in messages.
  void wait(const Ready& ready, const std::string& doing, double seconds, const char* setting);
  void notify();  // wakes all that wait

  // Ends the communicator for all ranks; the first reason stays. Returns the reason as a Failure.
  Failure fail(HcclResult code, const std::string& message);
  HcclResult broken() const;
  std::string why() const;
  void give_up() { given_up_ = true; }  // this process's waits end

 private:
  Segment() = default;
  void map(size_t bytes);
  std::string last_call(uint32_t rank);

  int file_ = -1;
  std::string root_;
  Shared* shared_ = nullptr;
  size_t mapped_ = 0;
  Member* members_ = nullptr;
  char* slots_ = nullptr;
  Channel* channels_ = nullptr;
  uint32_t size_ = 0, rank_ = 0;
  std::atomic<bool> given_up_{false};
};

// Seconds of HCCL_EXEC_TIMEOUT and the like are multiplied by this (HETERO_CANN_SECOND, for tests; 1 by default).
double second();

}  // namespace cann::hccl
