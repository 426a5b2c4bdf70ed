// Copies between host and device: the only way that bytes go from one to the other.
#include "faults.h"
#include "memory.h"
#include "register.h"
#include "streams.h"
#include "tensors.h"

namespace hetero {

at::Tensor& copy(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  TORCH_CHECK(self.defined() && src.defined(), "copy_: a tensor is undefined");
  if (self.is_same(src)) return self;
  TORCH_CHECK((ours(self) || self.device().is_cpu()) && (ours(src) || src.device().is_cpu()), "copy_: from ",
              src.device(), " to ", self.device(), " is not possible");
  const c10::Device where = ours(self) ? self.device() : src.device();
  const char* what = !ours(src) ? "copy to the device" : ours(self) ? "copy" : "copy to the host";
  const c10::Stream stream = current_stream(where.index());
  launch(stream, what);
  const bool peers = ours(self) && ours(src) && self.device() != src.device();
  const c10::Stream other = peers ? current_stream(src.device().index()) : stream;
  if (peers) {
    launch(other, what);
    order(stream, other);
    order(other, stream);
  }
  if (!self.numel() && !src.numel()) return self;
  Aliases aliases(what);
  at::Tensor to = ours(self) ? aliases.cpu(self, true) : self;
  const at::Tensor from = ours(src) ? aliases.cpu(src, false) : src;
  if (!ours(self) && non_blocking && is_pinned(self.const_data_ptr())) {
    // It arrives when the host waits for the stream; what the device has by then no longer matters.
    defer(stream, [to, taken = from.to(self.scalar_type()).clone()]() mutable {
      const at::AutoDispatchBelowAutograd below;
      to.copy_(taken);
    });
    return self;
  }
  if (!ours(self)) synchronize_stream(stream);
  to.copy_(from);
  return self;
}

}  // namespace hetero
