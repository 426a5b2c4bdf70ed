// AscendC for a machine without CANN: the part of the API that the kernels in kernels_ascend/ use, on the host.
//
// Written from the public documentation of the SIMD API (Memory vector computation, TPipe and TQue) for Atlas A2 / A3.
// Every call does what a vector core would do and checks what it would not: a broken rule ends the launch with an error
// that names kernel, block, rule and place (machine.h). No timing is modelled, and results of transcendental functions
// are the host's, not the chip's.
#pragma once

#include "ascendc/copy.h"
#include "ascendc/flags.h"
#include "ascendc/launch.h"
#include "ascendc/machine.h"
#include "ascendc/pipe.h"
#include "ascendc/reduce.h"
#include "ascendc/tensor.h"
#include "ascendc/types.h"
#include "ascendc/vector.h"
