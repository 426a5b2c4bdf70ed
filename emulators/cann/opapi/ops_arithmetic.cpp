#include "operator.h"

using namespace cann;

ACLNN(aclnnAdd, (Tensor self, Tensor other, Scalar alpha, Tensor out)) { write(out, at::add(self, other, alpha)); }
ACLNN(aclnnAdds, (Tensor self, Scalar other, Scalar alpha, Tensor out)) { write(out, at::add(self, other, alpha)); }
ACLNN(aclnnInplaceAdd, (Tensor self, Tensor other, Scalar alpha)) { self.add_(other, alpha); }
ACLNN(aclnnInplaceAdds, (Tensor self, Scalar other, Scalar alpha)) { self.add_(other, alpha); }
ACLNN(aclnnMul, (Tensor self, Tensor other, Tensor out)) { write(out, at::mul(self, other)); }
ACLNN(aclnnMuls, (Tensor self, Scalar other, Tensor out)) { write(out, at::mul(self, other)); }
