// The machine that this process sees: one kind of device, CUDA or PrivateUse1, decided once when it starts.
#pragma once
#include <mutex>
#include <string>

#include "torch.h"

namespace hetero {

struct Machine {
  c10::DeviceType type = c10::kCUDA;
  c10::DispatchKey key = c10::DispatchKey::CUDA;
  std::string name;       // of the device type, "cuda"
  std::string title;      // as the vendor's messages call it, "CUDA"
  int devices = 0;        // visible ones
  size_t memory = 0;      // bytes of each
  int races = 0;          // 0: not looked for, 1: an error, 2: a line on stderr
  bool float64 = true;    // whether the device has it
};

// Started or not; before the start there are no devices.
bool started();
const Machine& machine();

// The one lock of the runtime's own state. No tensor is made or freed under it.
std::recursive_mutex& runtime_lock();

inline c10::Device device(c10::DeviceIndex index) { return {machine().type, index}; }
inline bool ours(const at::Tensor& t) { return t.defined() && t.device().type() == machine().type; }

// A device number that exists, or an error as the vendor's runtime words it.
c10::DeviceIndex checked(int64_t index);

c10::DeviceIndex current_device();
c10::DeviceIndex exchange_device(c10::DeviceIndex index);

// Whether this process was forked from one that had used its devices: it cannot use them.
bool bad_fork();
// Notes that devices are in use; raises in a bad fork.
void use();

}  // namespace hetero
