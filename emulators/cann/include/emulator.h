// What the emulated CANN's libraries share. Exported by libascendcl.so; used by libopapi.so, libhccl.so and kernels.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "acl/acl.h"

#define CANN_EXPORT __attribute__((visibility("default")))

namespace cann {

// Remembers `message` for aclGetRecentErrMsg of this thread and returns `code`, so that `return fail(...)` reads well.
CANN_EXPORT int fail(int code, const std::string& message);

// Whether [data, data + bytes) lies in one live allocation of device memory; an empty range needs a live address or null.
CANN_EXPORT bool on_device(const void* data, size_t bytes);

// Why it does not: "is host memory", "was freed", "runs 12 bytes past the end of its allocation".
CANN_EXPORT std::string off_device(const void* data, size_t bytes);

// Runs `work` on the stream's own thread after all that was put there before. Null is the default stream. Work returns 0
// or what fail() gave; the first failure stays on the stream and comes back from its next synchronisation.
CANN_EXPORT int enqueue(aclrtStream stream, const char* name, std::function<int()> work);

// Counts a call of `name` and says whether HETERO_CANN_FAULTS asks that this one fail (`op:aclnnMatmul@2`).
CANN_EXPORT bool fault(const char* kind, const char* name);

}  // namespace cann
