// What torch's device-independent memory functions (torch.accelerator) ask of an allocator, where torch has them.
#pragma once
#include "memory.h"

#if HETERO_TORCH_AT_LEAST(2, 9)
#include <c10/core/CachingDeviceAllocator.h>
#endif

namespace hetero {

#if HETERO_TORCH_AT_LEAST(2, 9)
struct WrappedAllocator : c10::DeviceAllocator {
  bool initialized() override { return started(); }
  void emptyCache(c10::MempoolId_t) override { empty_cache(); }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override { record_stream(data.get(), stream); }
  void resetAccumulatedStats(c10::DeviceIndex index) override { reset_accumulated(index); }
  void resetPeakStats(c10::DeviceIndex index) override { reset_peaks(index); }
#if HETERO_TORCH_AT_LEAST(2, 10)
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override { return memory_info(index); }
#endif
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const Statistics from = statistics(index);
    c10::CachingDeviceAllocator::DeviceStats to;
    const auto put = [&](c10::CachingAllocator::StatArray& stats, const char* name) {
      const auto& counts = from.counts.at(name);
      for (size_t i = 0; i < counts.size(); ++i) {
        stats[i].current = counts[i].current;
        stats[i].peak = counts[i].peak;
        stats[i].allocated = counts[i].allocated;
        stats[i].freed = counts[i].freed;
      }
    };
    put(to.allocation, "allocation");
    put(to.segment, "segment");
    put(to.active, "active");
    put(to.inactive_split, "inactive_split");
    put(to.allocated_bytes, "allocated_bytes");
    put(to.reserved_bytes, "reserved_bytes");
    put(to.active_bytes, "active_bytes");
    put(to.inactive_split_bytes, "inactive_split_bytes");
    put(to.requested_bytes, "requested_bytes");
    to.num_alloc_retries = from.numbers.at("num_alloc_retries");
    to.num_ooms = from.numbers.at("num_ooms");
    to.num_device_alloc = from.numbers.at("num_device_alloc");
    to.num_device_free = from.numbers.at("num_device_free");
    return to;
  }
};
#else
struct WrappedAllocator : c10::Allocator {};
#endif

}  // namespace hetero
