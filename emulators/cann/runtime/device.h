#pragma once

#include "emulator.h"

namespace cann {

constexpr int kMaxDevices = 8;

int device_count();
int current_device();  // of this thread; -1 before any was set
aclrtStream default_stream(int device);
int synchronize_device(int device);

}  // namespace cann
