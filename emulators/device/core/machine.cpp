#include "machine.h"

#include <pthread.h>

#include "faults.h"
#include "memory.h"
#include "register.h"
#include "streams.h"

namespace hetero {
namespace {

Machine& mutable_machine() {
  static auto* one = new Machine;
  return *one;
}
bool started_ = false, used_ = false, bad_fork_ = false;
thread_local c10::DeviceIndex current = 0;

}  // namespace

bool started() { return started_; }
const Machine& machine() { return mutable_machine(); }

std::recursive_mutex& runtime_lock() {
  static auto* one = new std::recursive_mutex;
  return *one;
}

c10::DeviceIndex checked(int64_t index) {
  TORCH_CHECK(index >= 0 && index < machine().devices, machine().title, " error: invalid device ordinal ", index,
              " (this emulated machine has ", machine().devices, " visible)");
  return static_cast<c10::DeviceIndex>(index);
}

c10::DeviceIndex current_device() { return current; }

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  const auto before = current;
  current = index;
  return before;
}

bool bad_fork() { return bad_fork_; }

void use() {
  TORCH_CHECK(!bad_fork_, "Cannot re-initialize ", machine().title, " in forked subprocess. To use ", machine().title,
              " with multiprocessing, you must use the 'spawn' start method");
  used_ = true;
}

}  // namespace hetero

// Makes this process see `devices` devices of a kind ("cuda", or any other name: PrivateUse1 is theirs). Called once,
// before torch asks for its accelerator. Returns null, or what is wrong.
extern "C" __attribute__((visibility("default"))) const char* hetero_device_start(
    const char* type, const char* title, int devices, size_t memory, int races, int float64, const char* faults) {
  using namespace hetero;
  static auto* wrong = new std::string;
  if (started_) return "the emulated devices of this process are started already";
  try {
    Machine& m = mutable_machine();
    m.name = type;
    m.title = title;
    const bool cuda = m.name == "cuda";
    m.type = cuda ? c10::kCUDA : c10::kPrivateUse1;
    m.key = cuda ? c10::DispatchKey::CUDA : c10::DispatchKey::PrivateUse1;
    m.devices = devices;
    m.memory = memory;
    m.races = races;
    m.float64 = float64;
    read_faults(faults);
    reserve_memory();
    c10::SetAllocator(m.type, device_allocator());
    register_guard();
    register_hooks();
    register_operators();
    register_fallback();
    register_autocast();
    pthread_atfork(nullptr, nullptr, [] { bad_fork_ = used_; });
    started_ = true;
    return nullptr;
  } catch (const std::exception& error) {
    *wrong = error.what();
    return wrong->c_str();
  }
}
