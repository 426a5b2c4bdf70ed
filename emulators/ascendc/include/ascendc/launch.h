// Starting a kernel: its blocks one after the other, each on a core of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "machine.h"

namespace ascendc {

constexpr int kFailed = 507015;  // ACL_ERROR_RT_AICORE_EXCEPTION: what CANN reports when a vector core stopped

// Runs all blocks now. Returns 0, or kFailed with the broken rule in last_error() of this thread. `body` is called once
// for each block. Blocks may not write what another one reads or writes: there is no order between them on a chip.
int run(const char* kernel, int blocks, const std::vector<Buffer>& buffers, const std::function<void()>& body);

// What a host calls in place of kernel<<<blocks, 0, stream>>>(...). Where it goes depends on what the kernels are
// linked with: launch_host.cpp runs it at once, launch_cann.cpp puts it on the emulated CANN's stream.
int launch(const char* kernel, int blocks, void* stream, std::vector<Buffer> buffers, std::function<void()> body);

const std::string& last_error();
int report(const std::string& message);  // remembers it and returns kFailed

}  // namespace ascendc
