// What the emulated CANN's libraries share. Exported by libascendcl.so; used by libopapi.so, libhccl.so and kernels.
//
// Settings are environment variables; a bad one ends the process at load with a line that names it (runtime/settings.cpp).
//   HETERO_CANN_DEVICES=1..8        devices of the machine (2); ASCEND_RT_VISIBLE_DEVICES narrows them, as on hardware
//   HETERO_CANN_SOC=NAME            the SoC's name (Ascend910B1); runtime/soc.cpp lists the ones that are known
//   HETERO_CANN_MEMORY=BYTES        memory of each device (4GiB); K, M, G, KiB, MiB, GiB may follow the number
//   HETERO_CANN_DELAY=MICROSECONDS  every stream task waits this long before it runs: a missing synchronisation shows
//   HETERO_CANN_RACES=1|report      an access to device memory that no event or synchronisation orders after an earlier,
//                                   conflicting one of another stream is an error at its launch | a line on stderr
//   HETERO_CANN_FAULTS=FAULT,...    faults to inject:
//     oom@N  oom@N+                 the N-th allocation of device memory fails | all from the N-th on
//     op:NAME@N  op:NAME@N+         the N-th launch of operator NAME is refused; NAME may be * in all of these
//     op-late:NAME@N                the N-th stream task NAME fails when the stream comes to it
//     stall:N@SECONDS               the N-th stream task of the process stands still for SECONDS before it runs
//     late:NAME@N:SECONDS           the N-th stream task NAME does
//     hccl:NAME@N                   the N-th call of collective NAME fails
//     device-lost@N                 the device of the N-th stream task is lost: that call and all later ones fail
//   A fault that ends in #RANK happens only in the process whose RANK is that.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "acl/acl.h"

#define CANN_EXPORT __attribute__((visibility("default")))

namespace cann {

// Remembers `message` for aclGetRecentErrMsg of this thread and returns `code`, so that `return fail(...)` reads well.
CANN_EXPORT int fail(int code, const std::string& message);

// What the SoC's name stands for.
struct Soc {
  const char* name;
  int cubes, vectors;  // cores of a device
  int l2_mib;
  bool bf16;
};
CANN_EXPORT const Soc& soc();

// Whether [data, data + bytes) lies in live device memory of any device; an empty range needs a live address or null.
CANN_EXPORT bool on_device(const void* data, size_t bytes);

// Why it does not: "is host memory", "was freed", "runs 12 bytes past the end of its allocation".
CANN_EXPORT std::string off_device(const void* data, size_t bytes);

// Device memory that a task uses. It is checked at launch (live, and on the stream's device), again when the task runs,
// and kept mapped until the task is done even if it is freed meanwhile, which is the task's failure.
struct Range {
  const void* data;
  size_t bytes;
  bool writes = false;
  bool exact = true;  // every byte is touched; where not, the race checker leaves the range alone
  bool peer = false;  // may lie on another device whose access was enabled (copies)
};

// Runs `work` on the stream's own thread after all that was put there before. Null is the default stream. Work returns 0
// or what fail() gave. The first failure stays on the stream, which skips what follows (events are still recorded, with
// that failure) until a synchronisation returns and clears it.
CANN_EXPORT int enqueue(aclrtStream stream, const char* name, std::function<int()> work, std::vector<Range> ranges = {});

// Counts a call and says whether HETERO_CANN_FAULTS asks that this one fail. Kinds: "oom", "op", "hccl".
CANN_EXPORT bool fault(const char* kind, const char* name);

}  // namespace cann
