// Filling, copying and casting memory, and ranges.
#include <chrono>
#include <thread>

#include "operator.h"

using namespace cann;

ACLNN(aclnnInplaceCopy, (Tensor self, Tensor source)) { self.copy_(source); }
ACLNN(aclnnCast, (Tensor self, int type, Tensor out)) { write(out, self.to(torch_type(type))); }
ACLNN(aclnnInplaceZero, (Tensor self)) { self.zero_(); }
ACLNN(aclnnInplaceOne, (Tensor self)) { self.fill_(1); }
ACLNN(aclnnInplaceFillScalar, (Tensor self, Scalar value)) { self.fill_(value); }
ACLNN(aclnnInplaceFillTensor, (Tensor self, Tensor value)) { self.fill_(value.reshape({})); }
ACLNN(aclnnInplaceFillDiagonal, (Tensor self, Scalar value, bool wrap)) { self.fill_diagonal_(value, wrap); }

ACLNN(aclnnArange, (Scalar start, Scalar end, Scalar step, Tensor out)) {
  write(out, at::arange(start, end, step, out.options()));
}
ACLNN(aclnnRange, (Scalar start, Scalar end, Scalar step, Tensor out)) {
  write(out, at::range(start, end, step, out.options()));
}
ACLNN(aclnnLinspace, (Scalar start, Scalar end, int64_t steps, Tensor out)) {
  write(out, at::linspace(start, end, steps, out.options()));
}
ACLNN(aclnnLogSpace, (Scalar start, Scalar end, int64_t steps, double base, Tensor out)) {
  write(out, at::logspace(start, end, steps, base, out.options()));
}
ACLNN(aclnnEye, (int64_t rows, int64_t columns, Tensor out)) { write(out, at::eye(rows, columns, out.options())); }

// torch.npu._sleep: the stream does nothing for so many cycles of a 50 MHz clock.
ACLNN(aclnnSleep, (Ints cycles)) {
  for (const int64_t each : cycles) std::this_thread::sleep_for(std::chrono::nanoseconds(each * 20));
}
