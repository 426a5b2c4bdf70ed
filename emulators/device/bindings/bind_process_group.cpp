#include <torch/extension.h>

#include "process_group.h"

namespace py = pybind11;
using namespace hetero;

namespace {

c10::intrusive_ptr<ProcessGroup> make(const py::object& store, int rank, int size, const py::object& options) {
  const py::module_ c10d = py::module_::import("torch._C._distributed_c10d");
  const py::object timeout = options.attr("_timeout");
  const py::object inner = c10d.attr("PrefixStore")(collectives().name + "/gloo", store);
  const py::object gloo = c10d.attr("ProcessGroupGloo")(inner, rank, size, timeout);
  return c10::make_intrusive<ProcessGroup>(gloo.cast<c10::intrusive_ptr<c10d::Backend>>(),
                                           options.cast<c10::intrusive_ptr<c10d::Backend::Options>>(),
                                           py::module_::import("hetero_device").attr("first_device").cast<int64_t>());
}

}  // namespace

void bind_process_group(py::module_& m) {
  m.def("serve", [](const std::string& name, const std::string& library, const std::set<std::string>& refused) {
    collectives() = {name, library, refused};
  });
  m.def("bind_process_group", [m]() mutable {  // after torch's own classes of it are there
    const py::object base = py::module_::import("torch._C._distributed_c10d").attr("Backend");
    auto group = py::class_<ProcessGroup, c10::intrusive_ptr<ProcessGroup>, c10d::Backend>(m, "ProcessGroup");
    group.def(py::init(&make), py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"))
        .def_property_readonly("options", &ProcessGroup::getBackendOptions)
        .def("_set_default_timeout", &ProcessGroup::setTimeout)
        .def("_shutdown", [](ProcessGroup&) {})
        .def("abort", [](ProcessGroup&) {});
    py::class_<ProcessGroupOptions, c10::intrusive_ptr<ProcessGroupOptions>, c10d::Backend::Options>(
        group, "Options", py::dynamic_attr())
        .def(py::init([](bool high_priority) {
               (void)high_priority;
               return c10::make_intrusive<ProcessGroupOptions>();
             }),
             py::arg("is_high_priority_stream") = false);
    return group;
  });
}
