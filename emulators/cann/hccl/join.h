// Making a communicator of ranks that hold the same root info.
#pragma once

#include <memory>

#include "comm.h"
#include "settings.h"

namespace cann::hccl {

// The physical number of the calling thread's device. Throws Failure if none is set.
uint32_t current_device();

// Joins as `rank` and returns when all have come. Throws Failure: a rank did not come in time or died, two ranks have
// the same number, say different sizes, or use one device.
CommPtr join(std::shared_ptr<Segment> memory, uint32_t ranks, uint32_t rank, uint32_t device,
             const Settings& settings);

}  // namespace cann::hccl
