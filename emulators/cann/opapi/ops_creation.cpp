#include "operator.h"

using namespace cann;

ACLNN(aclnnInplaceCopy, (Tensor self, Tensor source)) { self.copy_(source); }
ACLNN(aclnnInplaceZero, (Tensor self)) { self.zero_(); }
ACLNN(aclnnInplaceOne, (Tensor self)) { self.fill_(1); }
ACLNN(aclnnInplaceFillScalar, (Tensor self, Scalar value)) { self.fill_(value); }
