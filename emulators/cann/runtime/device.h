// Devices, and which one a thread has set.
#pragma once

#include "emulator.h"

namespace cann {

constexpr int kMaxDevices = 8;

int device_count();
int current_device();                    // of this thread; -1 before any was set
void set_thread_device(int device);      // for the threads of streams
void set_default_device(int device);     // for threads that set none (aclInit's file)
bool may_access(int device, int peer);   // the same, or enabled by aclrtDeviceEnablePeerAccess
void lose_device(int device);            // from now on calls for it fail
int check_device(const char* call, int device);  // 0, or the code of a bad number or of a lost device

}  // namespace cann
