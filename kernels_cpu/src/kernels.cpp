// One build of all kernels. CMake compiles this file once per instruction set, with HETERO_ISA naming the build
// and HETERO_LANES its vector width.
#include "glu.hpp"
#include "norm.hpp"
#include "optim.hpp"
#include "rope.hpp"
#include "softmax.hpp"

#define HETERO_JOIN_(a, b) a##b
#define HETERO_JOIN(a, b) HETERO_JOIN_(a, b)

namespace hetero {

extern const Table HETERO_JOIN(table_, HETERO_ISA) = {
    rms_norm, rms_norm_backward, layer_norm, layer_norm_backward, glu, rope, cross_entropy, log_prob, adamw, clip, math,
};

}  // namespace hetero
