// Without an emulated CANN: a kernel runs in the call that launches it, on ordinary memory.
#include "ascendc/launch.h"

namespace ascendc {

int launch(const char* kernel, int blocks, void*, std::vector<Buffer> buffers, std::function<void()> body) {
  return run(kernel, blocks, buffers, body);
}

}  // namespace ascendc
