#include "segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "names.h"
#include "process.h"

namespace cann::hccl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kMagic[16] = "hetero-hccl-1";
constexpr uint32_t kBreaking = UINT32_MAX;
constexpr auto kNap = std::chrono::milliseconds(50);     // a missed wake-up costs no more
constexpr auto kPulse = std::chrono::milliseconds(100);  // how often the missing are looked for
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

size_t rounded(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
size_t members_at() { return rounded(sizeof(Shared)); }
size_t slots_at(size_t ranks) { return members_at() + rounded(ranks * sizeof(Member)); }
size_t channels_at(size_t ranks) { return slots_at(ranks) + ranks * 2 * kSlot; }
size_t bytes_of(size_t ranks) { return channels_at(ranks) + rounded(ranks * ranks * sizeof(Channel)); }

Failure system_failure(const std::string& what) { return {HCCL_E_SYSCALL, what + ": " + std::strerror(errno)}; }

void nap(std::atomic<uint32_t>& word, uint32_t seen) {
  const timespec limit{0, std::chrono::nanoseconds(kNap).count()};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

}  // namespace

double second() {
  static const double scale = [] {
    const char* text = std::getenv("HETERO_CANN_SECOND");
    const double value = text ? std::atof(text) : 1.0;
    return value > 0 ? value : 1.0;
  }();
  return scale;
}

std::shared_ptr<Segment> Segment::create() {
  std::shared_ptr<Segment> made(new Segment);
  made->file_ = memfd_create("hetero-hccl", MFD_CLOEXEC);
  if (made->file_ < 0) throw system_failure("memfd_create");
  if (ftruncate(made->file_, static_cast<off_t>(members_at()))) throw system_failure("ftruncate");
  made->map(members_at());
  std::random_device random;
  made->shared_->token = static_cast<uint64_t>(random()) << 32 | random();
  std::memcpy(made->shared_->magic, kMagic, sizeof kMagic);
  char text[128];
  std::snprintf(text, sizeof text, "%s %d %d %llx", kMagic, getpid(), made->file_,
                static_cast<unsigned long long>(made->shared_->token));
  made->root_ = text;
  return made;
}

std::shared_ptr<Segment> Segment::open(const std::string& root) {
  int pid = 0, file = -1;
  unsigned long long token = 0;
  char format[64];
  std::snprintf(format, sizeof format, "%s %%d %%d %%llx", kMagic);
  if (std::sscanf(root.c_str(), format, &pid, &file, &token) != 3)
    throw Failure{HCCL_E_PARA, "the root info is not one that the emulated HcclGetRootInfo gave"};
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, file);
  std::shared_ptr<Segment> made(new Segment);
  made->root_ = root;
  made->file_ = ::open(path, O_RDWR | O_CLOEXEC);
  const std::string gone = "process " + std::to_string(pid) +
                           ", which called HcclGetRootInfo, has ended or is not of this machine and user (emulated "
                           "HCCL joins processes of one machine)";
  struct stat status;
  if (made->file_ < 0 || fstat(made->file_, &status) || status.st_size < static_cast<off_t>(members_at()))
    throw Failure{HCCL_E_TCP_CONNECT, gone};
  made->map(members_at());
  if (std::memcmp(made->shared_->magic, kMagic, sizeof kMagic) || made->shared_->token != token)
    throw Failure{HCCL_E_TCP_CONNECT, gone};
  return made;
}

void Segment::map(size_t bytes) {
  if (shared_) munmap(shared_, mapped_);
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  shared_ = at == MAP_FAILED ? nullptr : static_cast<Shared*>(at);
  mapped_ = bytes;
  if (!shared_) throw system_failure("mmap of a communicator's memory");
}

Segment::~Segment() {
  if (shared_) munmap(shared_, mapped_);
  seal();
}

void Segment::seal() {
  if (file_ >= 0) close(file_);
  file_ = -1;
}

void Segment::join(uint32_t ranks, uint32_t rank, uint32_t device) {
  if (ranks < 1 || ranks > kMaxRanks)
    throw Failure{HCCL_E_PARA, "a communicator of " + std::to_string(ranks) + " ranks; emulated HCCL takes 1 to " +
                                   std::to_string(kMaxRanks)};
  if (rank >= ranks)
    throw Failure{HCCL_E_PARA, "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " ranks"};
  uint32_t agreed = 0;
  if (!shared_->ranks.compare_exchange_strong(agreed, ranks) && agreed != ranks)
    throw Failure{HCCL_E_PARA, "rank " + std::to_string(rank) + " says " + std::to_string(ranks) +
                                   " ranks, another rank of this root info said " + std::to_string(agreed)};
  if (ftruncate(file_, static_cast<off_t>(bytes_of(ranks)))) throw system_failure("ftruncate");
  map(bytes_of(ranks));
  auto* base = reinterpret_cast<char*>(shared_);
  members_ = reinterpret_cast<Member*>(base + members_at());
  slots_ = base + slots_at(ranks);
  channels_ = reinterpret_cast<Channel*>(base + channels_at(ranks));
  size_ = ranks;
  rank_ = rank;
  Member& me = members_[rank];
  uint32_t absent = kAbsent;
  const uint32_t coming = UINT32_MAX;  // so that nobody reads pid and device before they are there
  if (!me.state.compare_exchange_strong(absent, coming))
    throw Failure{HCCL_E_PARA, "rank " + std::to_string(rank) + " is taken by process " + std::to_string(me.pid)};
  me.pid = getpid();
  me.born = born(getpid());
  me.device = device;
  me.state = kHere;
  notify();
}

void Segment::leave(uint32_t rank) {
  members_[rank].state = kLeft;
  notify();
}

void Segment::notify() {
  shared_->wake.fetch_add(1);
  if (shared_->sleepers.load())
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&shared_->wake), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

HcclResult Segment::broken() const {
  for (int tries = 0; tries < 1000; ++tries) {
    const uint32_t code = shared_->broken.load();
    if (code != kBreaking) return static_cast<HcclResult>(code);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return HCCL_E_INTERNAL;  // whoever was writing the reason died over it
}

std::string Segment::why() const { return broken() ? shared_->why : ""; }

Failure Segment::fail(HcclResult code, const std::string& message) {
  uint32_t none = 0;
  if (shared_->broken.compare_exchange_strong(none, kBreaking)) {
    std::snprintf(shared_->why, sizeof shared_->why, "%s", message.c_str());
    shared_->broken = code;
    notify();
  }
  return {broken(), why()};
}

std::string Segment::last_call(uint32_t rank) {
  const Member& other = members_[rank];
  const uint64_t calls = other.calls.load();
  if (!calls) return "which has called no collective yet";
  return "whose last collective was its number " + std::to_string(calls) + ", " + operation_name(other.doing);
}

void Segment::wait(const Ready& ready, const std::string& doing, double seconds, const char* setting) {
  for (int spin = 0; spin < 30; ++spin) {
    if (ready(nullptr)) return;
    sched_yield();
  }
  const auto begin = Clock::now();
  auto pulse = begin + kPulse;
  for (;;) {
    const uint32_t seen = shared_->wake.load();
    if (ready(nullptr)) return;
    if (broken()) throw Failure{broken(), doing + ": " + why()};
    if (given_up_)
      throw Failure{HCCL_E_UNAVAIL, doing + ": the communicator was destroyed while ranks had not come to it"};
    const auto now = Clock::now();
    if (now >= pulse) {
      pulse = now + kPulse;
      std::vector<uint32_t> missing;
      std::string lost;
      if (ready(&missing)) return;
      for (uint32_t rank : missing) {
        const Member& other = members_[rank];
        const uint32_t state = other.state.load();
        const std::string who = "rank " + std::to_string(rank) + " (process " + std::to_string(other.pid) + ")";
        if (state == kLeft) lost = who + " has destroyed its communicator";
        else if (state == kHere && !alive(other.pid, other.born)) lost = who + " has died";
      }
      if (!lost.empty()) {
        if (ready(nullptr)) return;  // it did its part before it went
        fail(HCCL_E_REMOTE, lost + " while rank " + std::to_string(rank_) + " was in " + doing);
        throw Failure{broken(), doing + ": " + why()};
      }
      if (seconds > 0 && now - begin > std::chrono::duration<double>(seconds * second()) && !missing.empty()) {
        const uint32_t state = members_[missing[0]].state.load();
        const std::string where = state == kHere ? last_call(missing[0]) : "which has not joined the communicator";
        char limit[64];
        std::snprintf(limit, sizeof limit, "%s of %g s", setting, seconds);
        fail(HCCL_E_TIMEOUT, "rank " + std::to_string(rank_) + " was in " + doing + " for longer than " + limit +
                                 ", waiting for rank " + std::to_string(missing[0]) + ", " + where);
        throw Failure{broken(), doing + ": " + why()};
      }
    }
    shared_->sleepers.fetch_add(1);
    nap(shared_->wake, seen);
    shared_->sleepers.fetch_sub(1);
  }
}

}  // namespace cann::hccl
