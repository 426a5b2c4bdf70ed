// A communicator of this process, and how operations of it are put on streams.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator.h"
#include "hccl/hccl.h"
#include "segment.h"

namespace cann::hccl {

// Operations of one kind run in the order in which the host called them, whichever streams they are on.
struct Turn {
  std::atomic<uint64_t> given{0}, serving{0};
};

struct Comm {
  std::shared_ptr<Segment> memory;
  uint32_t rank = 0, size = 1;
  std::string name;
  double exec_timeout = 0;  // seconds, 0: never
  std::atomic<bool> suspended{false};
  std::atomic<uint64_t> pending{0};
  std::mutex order;  // held while an operation takes its turns and is put on its stream
  Turn collectives;
  Turn sends[kMaxRanks], receives[kMaxRanks];  // by peer
  std::atomic<uint64_t> waits{0};                     // blocked messages so far

  // As Segment::wait, with the communicator's own timeout.
  void wait(const Segment::Ready& ready, const std::string& doing) {
    memory->wait(ready, doing, exec_timeout, "HCCL_EXEC_TIMEOUT");
  }
};

using CommPtr = std::shared_ptr<Comm>;

HcclComm put_comm(CommPtr comm);
CommPtr take_comm(HcclComm handle);  // forgets it; null if it was none
CommPtr find_comm(HcclComm handle);  // throws Failure

// HCCL's results of what `body` throws; `name` is the API's function.
HcclResult answer(const char* name, const std::function<void()>& body);

// Throws Failure unless `bytes` at `data` are live device memory, aligned for elements of `size` bytes.
void check_memory(const char* what, const void* data, size_t bytes, size_t size);

// What every rank throws alike: it ends the operation, and the communicator goes on.
struct Agreed : Failure {};

// Puts `work`, which uses `ranges` of device memory, on the stream. Throws Failure if that cannot be. A Failure that
// the work throws, or that it is never run since its stream has failed before, ends the communicator for all ranks.
// Counts and honours the faults that HETERO_CANN_FAULTS asks for.
void submit(const CommPtr& comm, aclrtStream stream, const char* name, std::vector<Range> ranges,
            std::function<void()> work);

}  // namespace cann::hccl
