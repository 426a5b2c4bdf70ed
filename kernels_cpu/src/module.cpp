// hetero.backends.cpu._kernels: the C ABI as Python functions on addresses (`tensor.data_ptr()`), sizes and strides
// in elements, and dtype codes. An address of 0 leaves an operand out. The wrappers in hetero.backends.cpu check
// shapes; errors found in the data come back as Python exceptions.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "hetero_cpu.h"

namespace py = pybind11;

namespace {

using Address = uintptr_t;

template <typename T = void>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

void raise_unless_ok(int code) {
  if (code == HETERO_OK) return;
  const char* text = hetero_cpu_error();
  if (code == HETERO_OUT_OF_RANGE) throw py::index_error(text);
  if (code == HETERO_NO_MEMORY) {
    PyErr_SetString(PyExc_MemoryError, text);
    throw py::error_already_set();
  }
  throw py::value_error(text);
}

// Runs a kernel, without the GIL unless the work is too short to be worth giving it up.
template <typename Args>
void call(int (*kernel)(const Args*, int), const Args& args, int64_t elements, int threads) {
  int code;
  {
    std::optional<py::gil_scoped_release> release;
    if (elements > 32768) release.emplace();
    code = kernel(&args, threads);
  }
  raise_unless_ok(code);
}

template <typename T>
std::vector<T*> pointers(const std::vector<Address>& addresses) {
  std::vector<T*> result(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) result[i] = at<T>(addresses[i]);
  return result;
}

void same_length(size_t expected, std::initializer_list<size_t> lengths) {
  for (size_t length : lengths)
    if (length != expected) throw py::value_error("the lists of tensors differ in length");
}

int64_t sum(const std::vector<int64_t>& sizes) {
  int64_t total = 0;
  for (int64_t size : sizes) total += size;
  return total;
}

void bind_norms(py::module_& m) {
  m.def("rms_norm", [](int64_t rows, int64_t width, Address x, int64_t x_stride, Address residual, int64_t residual_stride,
                       int dtype, Address weight, int weight_dtype, Address y, Address s, Address rstd, float eps,
                       float offset, bool round_normed, int threads) {
    const hetero_rms_norm_args a{rows,  width,        at(x),  at(residual), at(weight),      x_stride, residual_stride,
                                 dtype, weight_dtype, at(y),  at(s),        at<float>(rstd), eps,      offset,
                                 round_normed};
    call(hetero_cpu_rms_norm, a, rows * width, threads);
  });
  m.def("rms_norm_backward", [](int64_t rows, int64_t width, Address g, int64_t g_stride, Address x, int64_t x_stride,
                                Address gs, int64_t gs_stride, int dtype, Address weight, int weight_dtype, Address rstd,
                                float offset, Address dx, Address dweight, int threads) {
    const hetero_rms_norm_backward_args a{rows,      width,  at(g),        at(x),           at(weight), at(gs), g_stride,
                                          x_stride,  gs_stride, dtype,     weight_dtype,    at<float>(rstd),
                                          offset,    at(dx), at(dweight)};
    call(hetero_cpu_rms_norm_backward, a, rows * width, threads);
  });
  m.def("layer_norm", [](int64_t rows, int64_t width, Address x, int64_t x_stride, int dtype, Address weight, Address bias,
                         int weight_dtype, Address y, Address mean, Address rstd, float eps, int threads) {
    const hetero_layer_norm_args a{rows,  width,        at(x), at(weight),      at(bias),        x_stride,
                                   dtype, weight_dtype, at(y), at<float>(mean), at<float>(rstd), eps};
    call(hetero_cpu_layer_norm, a, rows * width, threads);
  });
  m.def("layer_norm_backward", [](int64_t rows, int64_t width, Address g, int64_t g_stride, Address x, int64_t x_stride,
                                  int dtype, Address weight, int weight_dtype, Address mean, Address rstd, Address dx,
                                  Address dweight, Address dbias, int threads) {
    const hetero_layer_norm_backward_args a{rows,     width, at(g),        at(x),           at(weight),      g_stride,
                                            x_stride, dtype, weight_dtype, at<float>(mean), at<float>(rstd), at(dx),
                                            at(dweight), at(dbias)};
    call(hetero_cpu_layer_norm_backward, a, rows * width, threads);
  });
}

void bind_elementwise(py::module_& m) {
  m.def("glu", [](int64_t rows, int64_t width, Address gate, int64_t gate_stride, Address up, int64_t up_stride, Address g,
                  int64_t g_stride, int dtype, int activation, Address y, Address dgate, Address dup, int threads) {
    const hetero_glu_args a{rows,     width, at(gate),   at(up), at(g),     gate_stride, up_stride,
                            g_stride, dtype, activation, at(y),  at(dgate), at(dup)};
    call(hetero_cpu_glu, a, rows * width, threads);
  });
  m.def("rope", [](std::array<int64_t, 4> shape, int64_t half, Address x, std::array<int64_t, 3> strides, int dtype,
                   Address cos, Address sin, int64_t table_batch_stride, int64_t table_stride, int64_t table_rows,
                   Address positions, bool interleaved, bool inverse, Address y, int threads) {
    const hetero_rope_args a{shape[0],
                             shape[1],
                             shape[2],
                             shape[3],
                             half,
                             at(x),
                             strides[0],
                             strides[1],
                             strides[2],
                             dtype,
                             at<float>(cos),
                             at<float>(sin),
                             table_batch_stride,
                             table_stride,
                             table_rows,
                             at<int64_t>(positions),
                             interleaved,
                             inverse,
                             at(y)};
    call(hetero_cpu_rope, a, shape[0] * shape[1] * shape[2] * shape[3], threads);
  });
}

void bind_losses(py::module_& m) {
  m.def("cross_entropy", [](int64_t rows, int64_t vocab, Address logits, int64_t stride, int dtype, Address labels,
                            int64_t ignore_index, float label_smoothing, float z_loss, float softcap, Address scale,
                            Address lse_in, Address loss, Address lse, Address dlogits, int64_t dlogits_stride,
                            int threads) {
    const hetero_cross_entropy_args a{rows,
                                      vocab,
                                      at(logits),
                                      stride,
                                      dlogits_stride,
                                      dtype,
                                      at<int64_t>(labels),
                                      ignore_index,
                                      label_smoothing,
                                      z_loss,
                                      softcap,
                                      at<float>(scale),
                                      at<float>(lse_in),
                                      at<float>(loss),
                                      at<float>(lse),
                                      at(dlogits)};
    call(hetero_cpu_cross_entropy, a, rows * vocab, threads);
  });
  m.def("log_prob", [](int64_t rows, int64_t vocab, Address logits, int64_t stride, int dtype, Address labels,
                       int64_t ignore_index, float temperature, float softcap, Address logp, Address entropy, Address lse,
                       Address g_logp, Address g_entropy, Address dlogits, int64_t dlogits_stride, int threads) {
    const hetero_log_prob_args a{rows,
                                 vocab,
                                 at(logits),
                                 stride,
                                 dlogits_stride,
                                 dtype,
                                 at<int64_t>(labels),
                                 ignore_index,
                                 temperature,
                                 softcap,
                                 at<float>(logp),
                                 at<float>(entropy),
                                 at<float>(lse),
                                 at<float>(g_logp),
                                 at<float>(g_entropy),
                                 at(dlogits)};
    call(hetero_cpu_log_prob, a, rows * vocab, threads);
  });
  m.def("check_labels", [](Address labels, int64_t n, int64_t vocab, int64_t ignore_index) {
    raise_unless_ok(hetero_cpu_check_labels(at<int64_t>(labels), n, vocab, ignore_index));
  });
}

void bind_optim(py::module_& m) {
  m.def("adamw", [](const std::vector<int64_t>& sizes, const std::vector<Address>& params, const std::vector<Address>& grads,
                    const std::vector<Address>& exp_avgs, const std::vector<Address>& exp_avg_sqs,
                    const std::vector<Address>& masters, const std::vector<int>& param_dtypes,
                    const std::vector<int>& grad_dtypes, Address grad_scale, double lr, double beta1, double beta2,
                    double eps, double weight_decay, int64_t step, int threads) {
    same_length(sizes.size(), {params.size(), grads.size(), exp_avgs.size(), exp_avg_sqs.size(), param_dtypes.size(),
                               grad_dtypes.size(), masters.empty() ? sizes.size() : masters.size()});
    const auto p = pointers<void>(params);
    const auto g = pointers<const void>(grads);
    const auto m1 = pointers<float>(exp_avgs), m2 = pointers<float>(exp_avg_sqs), master = pointers<float>(masters);
    const hetero_adamw_args a{int64_t(sizes.size()),
                              sizes.data(),
                              p.data(),
                              g.data(),
                              m1.data(),
                              m2.data(),
                              masters.empty() ? nullptr : master.data(),
                              param_dtypes.data(),
                              grad_dtypes.data(),
                              at<float>(grad_scale),
                              lr,
                              beta1,
                              beta2,
                              eps,
                              weight_decay,
                              step};
    call(hetero_cpu_adamw, a, sum(sizes), threads);
  });
  m.def("clip", [](const std::vector<int64_t>& sizes, const std::vector<Address>& grads, const std::vector<int>& dtypes,
                   float max_norm, Address norm, int threads) {
    same_length(sizes.size(), {grads.size(), dtypes.size()});
    const auto g = pointers<void>(grads);
    const hetero_clip_args a{int64_t(sizes.size()), sizes.data(), g.data(), dtypes.data(), max_norm, at<float>(norm)};
    call(hetero_cpu_clip, a, sum(sizes), threads);
  });
}

void bind_math(py::module_& m) {
  m.def("math", [](int function, int64_t n, Address x, Address y) {
    const hetero_math_args a{n, function, at<float>(x), at<float>(y)};
    call(hetero_cpu_math, a, n, 1);
  });
  m.attr("EXP") = int(HETERO_EXP);
  m.attr("EXP_SOFTMAX") = int(HETERO_EXP_SOFTMAX);
  m.attr("TANH") = int(HETERO_TANH);
  m.attr("SIGMOID") = int(HETERO_SIGMOID);
  m.attr("NORMAL_CDF") = int(HETERO_NORMAL_CDF);
}

}  // namespace

PYBIND11_MODULE(_kernels, m, py::mod_gil_not_used()) {
  m.doc() = "CPU kernels of hetero; see kernels_cpu/include/hetero_cpu.h";
  m.def("isa", hetero_cpu_isa, "The build of the kernels in use.");
  m.def("set_isa", [](const std::string& name) { raise_unless_ok(hetero_cpu_set_isa(name.c_str())); });
  m.def("available_isas", [] {
    std::vector<std::string> names;
    while (const char* name = hetero_cpu_available_isa(int(names.size()))) names.emplace_back(name);
    return names;
  });
  m.def("source_hash", hetero_cpu_source_hash, "SHA-256 over the kernel sources this was built from.");
  m.def("openmp", hetero_cpu_openmp, "File of the OpenMP runtime whose threads are used; empty: one thread.");
  bind_norms(m);
  bind_elementwise(m);
  bind_losses(m);
  bind_optim(m);
  bind_math(m);
}
