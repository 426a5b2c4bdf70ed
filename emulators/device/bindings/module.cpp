// The device for Python: what torch.cuda and torch.supa are made of here.
#include <torch/extension.h>
#include <torch/csrc/Generator.h>

#include "faults.h"
#include "memory.h"
#include "register.h"
#include "streams.h"
#include "tensors.h"

namespace py = pybind11;
using namespace hetero;

void bind_process_group(py::module_& m);


namespace {

using StreamTuple = std::tuple<int64_t, int64_t, int64_t>;  // id, device's index, device type: as torch passes them

StreamTuple tuple(const c10::Stream& s) { return {s.id(), s.device_index(), static_cast<int64_t>(s.device_type())}; }
c10::Stream stream(int64_t id, int64_t index) { return c10::Stream(c10::Stream::UNSAFE, device(checked(index)), id); }

py::dict counts(const Count& c) {
  py::dict d;
  d["current"] = c.current;
  d["peak"] = c.peak;
  d["allocated"] = c.allocated;
  d["freed"] = c.freed;
  return d;
}

py::dict stats(int64_t index) {
  const Statistics s = statistics(checked(index));
  py::dict result;
  for (const auto& [name, each] : s.counts) {
    py::dict pools;
    pools["all"] = counts(each[0]);
    pools["small_pool"] = counts(each[1]);
    pools["large_pool"] = counts(each[2]);
    result[name.c_str()] = pools;
  }
  for (const auto& [name, n] : s.numbers) result[name.c_str()] = n;
  result["oversize_allocations"] = counts({});
  result["oversize_segments"] = counts({});
  return result;
}

py::list segments() {
  py::list all;
  for (const auto& [segment, blocks] : snapshot()) {
    py::list inside;
    size_t live = 0, requested = 0;
    for (const Block& b : blocks) {
      py::dict one;
      one["address"] = b.address;
      one["size"] = b.size;
      one["requested_size"] = b.live ? b.requested : 0;
      one["state"] = b.live ? "active_allocated" : "inactive";
      one["frames"] = py::list();
      inside.append(one);
      if (b.live) live += b.size, requested += b.requested;
    }
    py::dict d;
    d["device"] = int(segment.device);
    d["address"] = segment.address;
    d["total_size"] = segment.size;
    d["allocated_size"] = live;
    d["active_size"] = live;
    d["requested_size"] = requested;
    d["stream"] = segment.stream;
    d["segment_type"] = segment.large ? "large" : "small";
    d["segment_pool_id"] = py::make_tuple(0, 0);
    d["is_expandable"] = false;
    d["frames"] = py::list();
    d["blocks"] = inside;
    all.append(d);
  }
  return all;
}

}  // namespace

PYBIND11_MODULE(hetero_device, m) {
  m.def("device_count", [] { return bad_fork() ? 0 : machine().devices; });
  m.def("bad_fork", &bad_fork);
  m.def("use", &use);
  m.def("current_device", [] { return int(current_device()); });
  m.def("set_device", [](int64_t i) { exchange_device(checked(i)); });
  m.def("exchange_device", [](int64_t i) { return int(i < 0 ? -1 : exchange_device(checked(i))); });
  m.def("maybe_exchange_device", [](int64_t i) { return int(i < 0 ? current_device() : exchange_device(checked(i))); });
  m.def("synchronize", [](int64_t i) { synchronize_device(static_cast<c10::DeviceIndex>(i)); }, py::arg("device") = -1,
        py::call_guard<py::gil_scoped_release>());
  m.def("current_stream", [](int64_t i) { return tuple(current_stream(static_cast<c10::DeviceIndex>(i))); });
  m.def("default_stream", [](int64_t i) { return tuple(stream(0, i < 0 ? current_device() : i)); });
  m.def("set_stream", [](int64_t id, int64_t index) {
    exchange_stream(stream(id, index));
    exchange_device(checked(index));
  });
  m.def("elapsed", [](uintptr_t from, uintptr_t to) {  // of torch.Event's event_id
    TORCH_CHECK(from && to, "Both events must be recorded before calculating elapsed time.");
    return elapsed(*reinterpret_cast<Event*>(from), *reinterpret_cast<Event*>(to));
  });
  m.def("memory_stats", &stats);
  m.def("memory_snapshot", &segments);
  m.def("memory_info", [](int64_t i) { return memory_info(checked(i)); });
  m.def("set_memory_fraction", [](double f, int64_t i) { set_fraction(checked(i), f); });
  m.def("memory_fraction", [](int64_t i) { return fraction(checked(i)); });
  m.def("reset_peak_memory_stats", [](int64_t i) { reset_peaks(checked(i)); });
  m.def("reset_accumulated_memory_stats", [](int64_t i) { reset_accumulated(checked(i)); });
  m.def("empty_cache", &empty_cache);
  m.def("raw_alloc", [](size_t bytes, int64_t) {
    return reinterpret_cast<uintptr_t>(device_allocator()->raw_allocate(bytes));
  });
  m.def("raw_delete", [](uintptr_t p) { device_allocator()->raw_deallocate(reinterpret_cast<void*>(p)); });
  m.def("resize_storage", [](const at::Tensor& whole, size_t bytes) {
    at::Storage storage = whole.storage();
    TORCH_CHECK(ours(whole), "resize_storage: the storage is on ", whole.device());
    hetero::resize_storage(storage.unsafeGetStorageImpl(), bytes);
  });
  m.def("default_generator", [](int64_t i) {
    return py::reinterpret_steal<py::object>(THPGenerator_initDefaultGenerator(default_generator(checked(i))));
  });
  m.def("fallen_through", [] {
    py::dict all;
    for (const auto& [name, n] : fallen_through()) all[name.c_str()] = n;
    return all;
  });
  m.def("fault", [](const std::string& kind, const std::string& name) { return fault(kind.c_str(), name.c_str()); });
  bind_process_group(m);
}
