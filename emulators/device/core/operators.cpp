// The operators that know of devices themselves: allocation, views, copies, storages. All others fall through.
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>

#include "memory.h"
#include "register.h"
#include "streams.h"
#include "tensors.h"

namespace hetero {
namespace {

c10::Device target(std::optional<c10::Device> where) {
  return device(where && where->has_index() ? checked(where->index()) : current_device());
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device> where, std::optional<bool> pin, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
  const auto type = c10::dtype_or_default(dtype);
  check_dtype(type);
  const c10::DeviceGuard guard(target(where));
  return at::detail::empty_generic(size, device_allocator(), c10::DispatchKeySet(machine().key), type, format);
}

at::Tensor empty_with_strides(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                              std::optional<at::Layout>, std::optional<at::Device> where, std::optional<bool> pin) {
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
  return empty_strided(size, stride, c10::dtype_or_default(dtype), target(where));
}

// Makes the storage large enough for what the tensor's shape says.
void fit(const at::Tensor& self) {
  auto* storage = self.storage().unsafeGetStorageImpl();
  const size_t need = self.numel() == 0 ? 0
                                        : at::detail::computeStorageNbytes(self.sizes(), self.strides(),
                                                                           self.dtype().itemsize(), self.storage_offset());
  if (need > storage->nbytes()) resize_storage(storage, need);
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) impl->set_sizes_contiguous(size);
  if (format && *format != at::MemoryFormat::Preserve) impl->empty_tensor_restride(*format);
  fit(self);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  TORCH_CHECK(source.device().type() == machine().type, "set_: the storage is on ", source.device(), ", the tensor on ",
              self.device());
  auto* impl = self.unsafeGetTensorImpl();
  if (!self.storage().is_alias_of(source)) impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  if (stride.data())
    impl->set_sizes_and_strides(size, stride);
  else
    impl->set_sizes_contiguous(size);
  fit(self);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  const auto count = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, {count}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return self.is_same(source) ? self
                              : set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_empty(at::Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  c10::Storage none(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                          device_allocator()->allocate(0), device_allocator(), true));
  return set_storage(self, std::move(none), 0, {0}, {});
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  at::Tensor result = to;
  return copy(result, self, non_blocking);
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  at::Tensor result = to;
  result.resize_(self.sizes());
  return copy(result, self, false);
}

at::Scalar local_scalar(const at::Tensor& self) {
  const c10::Stream stream = current_stream(self.device().index());
  launch(stream, "copy of a number to the host");
  Aliases aliases("copy of a number to the host");
  const at::Tensor cpu = aliases.cpu(self, false);
  synchronize_stream(stream);
  return at::_local_scalar_dense(cpu);
}

void record(at::Tensor& self, c10::Stream stream) {
  if (self.storage().nbytes()) record_stream(self.storage().data(), stream);
}

}  // namespace

void register_operators() {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", machine().key, __FILE__, __LINE__);
  torch::Library& m = *library;
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_with_strides);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("resize_", resize);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_", set_empty);
  m.impl("copy_", copy);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("record_stream", record);
}

void register_fallback() {
  static auto* all = new torch::Library(torch::Library::IMPL, "_", machine().key, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  // torch's own ways to compute these on a device lead to kernels that only CUDA's libraries have.
  static auto* some = new torch::Library(torch::Library::IMPL, "aten", machine().key, __FILE__, __LINE__);
  for (const char* name : {"convolution_overrideable", "convolution_backward_overrideable", "convolution", "convolution_backward",
                           "_embedding_bag", "_embedding_bag_forward_only"})
    some->impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace hetero
