// On an emulated CANN: a kernel goes onto its stream behind what was put there before, and its buffers must be device
// memory.
#include "ascendc/launch.h"
#include "emulator.h"

namespace ascendc {

int launch(const char* kernel, int blocks, void* stream, std::vector<Buffer> buffers, std::function<void()> body) {
  std::vector<cann::Range> ranges;
  for (const Buffer& buffer : buffers) {
    if (!buffer.bytes) continue;
    if (!cann::on_device(buffer.data, buffer.bytes))
      return report(std::string(kernel) + ": \"" + buffer.name + "\" " + cann::off_device(buffer.data, buffer.bytes));
    // Rows may lie apart, so that not every byte in between is touched.
    ranges.push_back({buffer.data, buffer.bytes, buffer.written, false});
  }
  const int code = cann::enqueue(
      stream, kernel,
      [kernel, blocks, buffers = std::move(buffers), body = std::move(body)] {
        const int failed = run(kernel, blocks, buffers, body);
        return failed ? cann::fail(failed, last_error()) : 0;
      },
      std::move(ranges));
  return code ? report(std::string(kernel) + ": " + aclGetRecentErrMsg()) : 0;
}

}  // namespace ascendc
