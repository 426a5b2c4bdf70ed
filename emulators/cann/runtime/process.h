// What a fork and the end of the process mean for the device.
#pragma once

namespace cann {

void device_used();  // memory was taken or a stream made: a child forked from here on cannot use the device
bool forked();       // this process is such a child

}  // namespace cann
