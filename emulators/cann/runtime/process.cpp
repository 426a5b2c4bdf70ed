#include "process.h"

#include <pthread.h>

#include <atomic>

namespace cann {
namespace {
std::atomic<bool> used{false}, child{false};
}

void device_used() {
  if (used.exchange(true)) return;
  pthread_atfork(nullptr, nullptr, [] { child = true; });
}

bool forked() { return child; }

}  // namespace cann
