#include "tensors.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/DeviceGuard.h>

#include "memory.h"
#include "streams.h"

namespace hetero {

Aliases::Shared& Aliases::shared(const at::Tensor& tensor, bool write) {
  const c10::Storage& storage = tensor.storage();
  for (Shared& known : storages_)
    if (known.device.is_alias_of(storage)) return known;
  void* bytes = storage.nbytes() ? const_cast<void*>(storage.data()) : nullptr;
  if (bytes) bytes = host(bytes, storage.nbytes(), current_stream(tensor.device().index()), write, what_);
  auto* allocator = c10::GetCPUAllocator();
  auto cpu = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
                                                   c10::DataPtr(bytes, c10::Device(c10::kCPU)), allocator, true);
  storages_.push_back({storage, c10::Storage(std::move(cpu)), bytes, write});
  return storages_.back();
}

at::Tensor Aliases::cpu(const at::Tensor& tensor, bool write) {
  if (!tensor.defined()) return tensor;
  for (One& known : tensors_)
    if (known.device.is_same(tensor)) {
      known.write |= write;
      return known.cpu;
    }
  auto made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(shared(tensor, write).cpu),
                                                       c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_storage_offset(tensor.storage_offset());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  if (tensor.is_conj()) impl->_set_conj(true);
  if (tensor.is_neg()) impl->_set_neg(true);
  tensors_.push_back({tensor, made, write});
  return made;
}

void Aliases::finish() {
  for (One& one : tensors_) {
    if (!one.write) continue;
    auto* impl = one.device.unsafeGetTensorImpl();
    const bool moved = one.cpu.storage().data() != [&] {
      for (const Shared& s : storages_)
        if (s.cpu.is_alias_of(one.cpu.storage())) return s.bytes;
      return static_cast<const void*>(nullptr);
    }();
    if (moved) {  // the operator made it larger: so is the device's
      resize_storage(one.device.storage().unsafeGetStorageImpl(), one.cpu.storage().nbytes());
      const auto& to = one.device.storage();
      if (to.nbytes())
        std::memcpy(host(to.data(), to.nbytes()), one.cpu.storage().data(), to.nbytes());
    }
    if (one.device.sizes() != one.cpu.sizes() || one.device.strides() != one.cpu.strides() ||
        one.device.storage_offset() != one.cpu.storage_offset()) {
      impl->set_storage_offset(one.cpu.storage_offset());
      impl->set_sizes_and_strides(one.cpu.sizes(), one.cpu.strides());
    }
  }
}

at::Tensor Aliases::device(const at::Tensor& cpu, c10::Device where) {
  if (!cpu.defined() || !cpu.device().is_cpu()) return cpu;
  for (const One& one : tensors_)
    if (one.cpu.is_same(cpu)) return one.device;
  for (const Shared& s : storages_)
    if (s.cpu.is_alias_of(cpu.storage())) {
      auto view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(s.device),
                                                           c10::DispatchKeySet(machine().key), cpu.dtype());
      auto* impl = view.unsafeGetTensorImpl();
      impl->set_storage_offset(cpu.storage_offset());
      impl->set_sizes_and_strides(cpu.sizes(), cpu.strides());
      if (cpu.is_conj()) impl->_set_conj(true);
      if (cpu.is_neg()) impl->_set_neg(true);
      return view;
    }
  auto made = empty_strided(cpu.sizes(), cpu.strides(), cpu.scalar_type(), where);
  if (const auto& to = made.storage(); to.nbytes())
    std::memcpy(host(to.data(), to.nbytes(), current_stream(where.index()), true, what_), cpu.const_data_ptr(), to.nbytes());
  if (cpu.is_conj()) made.unsafeGetTensorImpl()->_set_conj(true);
  if (cpu.is_neg()) made.unsafeGetTensorImpl()->_set_neg(true);
  return made;
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType dtype, c10::Device where) {
  check_dtype(dtype);
  const c10::DeviceGuard guard(device(where.index() < 0 ? current_device() : checked(where.index())));
  return at::detail::empty_strided_generic(size, stride, device_allocator(), c10::DispatchKeySet(machine().key), dtype);
}

void resize_storage(c10::StorageImpl* storage, size_t bytes) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  const c10::DeviceGuard guard(storage->device());
  c10::DataPtr made = device_allocator()->allocate(bytes);
  if (const size_t kept = std::min(bytes, storage->nbytes()))
    std::memcpy(host(made.get(), kept), host(storage->data(), kept), kept);
  storage->set_data_ptr_noswap(std::move(made));
  storage->set_nbytes(bytes);
}

void check_dtype(c10::ScalarType dtype) {
  TORCH_CHECK(machine().float64 || (dtype != at::kDouble && dtype != at::kComplexDouble), machine().title,
              " device does not support double (float64): use float32, or compute it on the CPU");
}

}  // namespace hetero
