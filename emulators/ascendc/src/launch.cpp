#include "ascendc/launch.h"

#include <algorithm>
#include <memory>

namespace ascendc {
namespace {

thread_local std::string error;

struct Use {
  uintptr_t begin, end;
  int block;
  bool writes;
};

// Two blocks at the same bytes, one of them writing. Sorted by start; what reaches furthest so far is enough to compare
// with.
void refuse_races(const char* kernel, std::vector<Use> uses, const std::vector<Buffer>& buffers) {
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.begin < b.begin; });
  Use write{0, 0, -1, true}, any{0, 0, -1, false}, other{0, 0, -1, false};
  auto clash = [&](const Use& a, const Use& b) {
    std::string where = "?";
    for (const Buffer& buffer : buffers) {
      const auto start = reinterpret_cast<uintptr_t>(buffer.data);
      if (b.begin >= start && b.begin < start + buffer.bytes)
        where = std::string(buffer.name) + ", byte " + std::to_string(b.begin - start);
    }
    throw Violation(std::string(kernel) + ", blocks " + std::to_string(a.block) + " and " + std::to_string(b.block) +
                    ": one block writes what another one uses: " + where);
  };
  for (const Use& use : uses) {
    if (write.block >= 0 && write.block != use.block && use.begin < write.end) clash(write, use);
    if (use.writes && any.block >= 0 && any.block != use.block && use.begin < any.end) clash(any, use);
    if (use.writes && other.block >= 0 && other.block != use.block && use.begin < other.end) clash(other, use);
    if (use.writes && use.end > write.end) write = use;
    if (use.end > any.end) {
      if (any.block != use.block) other = any;
      any = use;
    } else if (use.block != any.block && use.end > other.end) {
      other = use;
    }
  }
}

}  // namespace

int run(const char* kernel, int blocks, const std::vector<Buffer>& buffers, const std::function<void()>& body) {
  try {
    std::vector<Use> uses;
    for (int block = 0; block < blocks; ++block) {
      auto core = std::make_unique<Core>(kernel, block, blocks, buffers);
      try {
        body();
        core->finish();
      } catch (...) {
        leave_core();
        throw;
      }
      leave_core();
      for (const Interval& i : core->reads) uses.push_back({i.begin, i.end, block, false});
      for (const Interval& i : core->writes) uses.push_back({i.begin, i.end, block, true});
    }
    refuse_races(kernel, std::move(uses), buffers);
    return 0;
  } catch (const Violation& violation) {
    return report(violation.what());
  }
}

const std::string& last_error() { return error; }

int report(const std::string& message) {
  error = message;
  return kFailed;
}

}  // namespace ascendc
