// The Python module: the C ABI as functions on addresses (`tensor.data_ptr()`), sizes and strides in elements, and
// dtype codes. An address of 0 leaves an operand out. `place` is (stream, cores, unified buffer). The wrappers in
// hetero.backends.ascend check shapes; what the kernels' host side refuses is a ValueError, what the emulated core
// found wrong a RuntimeError.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <tuple>

#include "hetero_ascend.h"

namespace py = pybind11;

namespace {

using Address = uintptr_t;
using Place = std::tuple<Address, int32_t, uint32_t>;

template <typename T = void> T* at(Address address) { return reinterpret_cast<T*>(address); }

template <typename Args>
void call(int (*kernel)(const Args*, const hetero_ascend_place*), const Args& args, const Place& place) {
  const hetero_ascend_place where{at(std::get<0>(place)), std::get<1>(place), std::get<2>(place)};
  int code;
  std::string said;
  {
    py::gil_scoped_release release;
    code = kernel(&args, &where);
    if (code) said = hetero_ascend_error();
  }
  if (code == HETERO_BAD_ARGUMENT) throw py::value_error(said);
  if (code) throw std::runtime_error(said);
}

void bind_elementwise(py::module_& m) {
  m.def("swiglu", [](Place place, int64_t rows, int64_t width, Address gate, int64_t gate_stride, Address up,
                     int64_t up_stride, Address g, int64_t g_stride, int dtype, Address y, Address dgate, Address dup) {
    call(hetero_ascend_swiglu,
         hetero_swiglu_args{rows, width, at(gate), at(up), at(g), gate_stride, up_stride, g_stride, dtype, at(y),
                            at(dgate), at(dup)},
         place);
  });
  m.def("rope",
        [](Place place, std::array<int64_t, 4> shape, int64_t half, Address x, std::array<int64_t, 3> strides,
           int dtype, Address cos, Address sin, int64_t table_batch_stride, int64_t table_stride, int64_t table_rows,
           int64_t table_size, Address positions, bool interleaved, bool inverse, Address y) {
          call(hetero_ascend_rope,
               hetero_rope_args{shape[0],
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
                                table_size,
                                at<int64_t>(positions),
                                interleaved,
                                inverse,
                                at(y)},
               place);
        });
}

void bind_norms(py::module_& m) {
  m.def("add_rms_norm", [](Place place, int64_t rows, int64_t width, Address x, int64_t x_stride, Address residual,
                           int64_t residual_stride, int dtype, Address weight, int weight_dtype, Address y, Address s,
                           Address rstd, float eps, float offset, bool round_normed) {
    call(hetero_ascend_add_rms_norm,
         hetero_add_rms_norm_args{rows, width, at(x), at(residual), at(weight), x_stride, residual_stride, dtype,
                                  weight_dtype, at(y), at(s), at<float>(rstd), eps, offset, round_normed},
         place);
  });
  m.def("add_rms_norm_backward_work", hetero_ascend_add_rms_norm_backward_work);
  m.def("add_rms_norm_backward",
        [](Place place, int64_t rows, int64_t width, Address g, int64_t g_stride, Address gs, int64_t gs_stride,
           Address s, int64_t s_stride, int dtype, Address weight, int weight_dtype, Address rstd, float offset,
           Address ds, Address dweight, Address work) {
          call(hetero_ascend_add_rms_norm_backward,
               hetero_add_rms_norm_backward_args{rows, width, at(g), at(gs), at(s), at(weight), g_stride, gs_stride,
                                                 s_stride, dtype, weight_dtype, at<float>(rstd), offset, at(ds),
                                                 at(dweight), at<float>(work)},
               place);
        });
}

void bind_losses(py::module_& m) {
  m.def("cross_entropy", [](Place place, int64_t rows, int64_t vocab, Address logits, int64_t stride, int dtype,
                            Address labels, int64_t ignore_index, float label_smoothing, float z_loss, float softcap,
                            Address scale, Address loss, Address lse, Address dlogits, int64_t dlogits_stride) {
    call(hetero_ascend_cross_entropy,
         hetero_cross_entropy_args{rows, vocab, at(logits), stride, dlogits_stride, dtype, at<int64_t>(labels),
                                   ignore_index, label_smoothing, z_loss, softcap, at<float>(scale), at<float>(loss),
                                   at<float>(lse), at(dlogits)},
         place);
  });
  m.def("log_prob",
        [](Place place, int64_t rows, int64_t vocab, Address logits, int64_t stride, int dtype, Address labels,
           int64_t ignore_index, float temperature, float softcap, Address logp, Address entropy, Address lse,
           Address g_logp, Address g_entropy, Address dlogits, int64_t dlogits_stride) {
          call(hetero_ascend_log_prob,
               hetero_log_prob_args{rows, vocab, at(logits), stride, dlogits_stride, dtype, at<int64_t>(labels),
                                    ignore_index, temperature, softcap, at<float>(logp), at<float>(entropy),
                                    at<float>(lse), at<float>(g_logp), at<float>(g_entropy), at(dlogits)},
               place);
        });
}

}  // namespace

PYBIND11_MODULE(HETERO_MODULE, m) {
  m.doc() = "hetero's Ascend kernels; see hetero_ascend.h.";
  bind_elementwise(m);
  bind_norms(m);
  bind_losses(m);
  m.def("source_hash", [] { return std::string(hetero_ascend_source_hash()); });
#ifdef HETERO_ASCENDC_EMULATED
  m.attr("emulated") = true;
#else
  m.attr("emulated") = false;
#endif
}
