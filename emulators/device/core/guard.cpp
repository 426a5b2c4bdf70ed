// torch's view of devices, streams and events: c10's device guard.
#include "memory.h"
#include "register.h"
#include "streams.h"

namespace hetero {
namespace {

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return machine().type; }
  c10::Device exchangeDevice(c10::Device d) const override { return device(exchange_device(checked(d.index()))); }
  c10::Device getDevice() const override { return device(current_device()); }
  void setDevice(c10::Device d) const override { exchange_device(checked(d.index())); }
  void uncheckedSetDevice(c10::Device d) const noexcept override { exchange_device(d.index()); }
  c10::DeviceIndex deviceCount() const noexcept override { return bad_fork() ? 0 : machine().devices; }

  c10::Stream getStream(c10::Device d) const override { return current_stream(d.index()); }
  c10::Stream getDefaultStream(c10::Device d) const override {
    return c10::Stream(c10::Stream::UNSAFE, device(d.index() < 0 ? current_device() : d.index()), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool high) const override { return pooled_stream(d.index(), high); }
  c10::Stream getNewStream(c10::Device d, int priority) const override { return pooled_stream(d.index(), priority < 0); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
#if HETERO_TORCH_AT_LEAST(2, 12)
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(checked_stream(stream));
  }
#endif

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag flag) const override {
    if (!*event) {
      auto* made = new Event;
      made->timed = flag == c10::EventFlag::BACKEND_DEFAULT;
      *event = made;
    }
    auto* known = static_cast<Event*>(*event);
    TORCH_CHECK(known->device < 0 || known->device == stream.device_index(), "Event device ", int(known->device),
                " does not match recording stream's device ", int(stream.device_index()), ".");
    record_event(*known, stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) wait_event(*static_cast<Event*>(event), stream);
  }
  bool queryEvent(void* event) const override {
    if (event) synchronize_event(*static_cast<Event*>(event));
    return true;
  }
  void synchronizeEvent(void* event) const override { queryEvent(event); }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    TORCH_CHECK(from && to, "Both events must be recorded before calculating elapsed time.");
    return elapsed(*static_cast<Event*>(from), *static_cast<Event*>(to));
  }

  bool queryStream(const c10::Stream& stream) const override {
    synchronize_stream(stream);
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize_stream(stream); }
#if HETERO_TORCH_AT_LEAST(2, 7)
  void synchronizeDevice(const c10::DeviceIndex index) const override { synchronize_device(index); }
#endif
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    record_stream(data.get(), stream);
  }
};

}  // namespace

void register_guard() {
  static auto* guard = new Guard;  // the registry does not own it
  static c10::impl::DeviceGuardImplRegistrar registrar(machine().type, guard);
}

}  // namespace hetero
