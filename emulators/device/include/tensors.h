// Tensors on a device as tensors of the CPU on the same bytes, for the time of one operator.
#pragma once
#include <vector>

#include "machine.h"

namespace hetero {

// Gives out CPU tensors for device tensors; those that share a storage share it there too.
class Aliases {
 public:
  explicit Aliases(const char* what) : what_(what) {}
  Aliases(const Aliases&) = delete;
  Aliases& operator=(const Aliases&) = delete;

  // `write`: the operator changes it.
  at::Tensor cpu(const at::Tensor& device, bool write);
  // What the operator did to a tensor's shape or storage is done to the device's tensor.
  void finish();
  // The device's tensor for one that the operator returned: the same, a view, or a new one on `where`.
  at::Tensor device(const at::Tensor& cpu, c10::Device where);

 private:
  struct Shared {
    c10::Storage device, cpu;
    const void* bytes;  // where the CPU's storage began
    bool written;
  };
  struct One {
    at::Tensor device, cpu;
    bool write;
  };
  Shared& shared(const at::Tensor& device, bool write);

  const char* what_;
  std::vector<Shared> storages_;
  std::vector<One> tensors_;
};

// A new tensor on `where` with these strides.
at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType dtype, c10::Device where);
void resize_storage(c10::StorageImpl* storage, size_t bytes);
void check_dtype(c10::ScalarType dtype);

}  // namespace hetero
