// What kernels.cpp needs from the rest of the library: threads, errors and the table that each build fills.
#pragma once

#include <cstdint>

#include "hetero_cpu.h"

namespace hetero {

// Runs task(context, part) for part in 0..parts-1, on torch's OpenMP threads where there are any.
// A part may run on any thread; what a part does must not depend on which.
void run_parts(int parts, void (*task)(void*, int), void* context);

// Records the error text for the calling thread and returns `code`.
int fail(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));

struct Table {
  int (*rms_norm)(const hetero_rms_norm_args*, int);
  int (*rms_norm_backward)(const hetero_rms_norm_backward_args*, int);
  int (*layer_norm)(const hetero_layer_norm_args*, int);
  int (*layer_norm_backward)(const hetero_layer_norm_backward_args*, int);
  int (*glu)(const hetero_glu_args*, int);
  int (*rope)(const hetero_rope_args*, int);
  int (*cross_entropy)(const hetero_cross_entropy_args*, int);
  int (*log_prob)(const hetero_log_prob_args*, int);
  int (*adamw)(const hetero_adamw_args*, int);
  int (*clip)(const hetero_clip_args*, int);
  int (*math)(const hetero_math_args*, int);
};

// One per build: HETERO_ISA names it.
extern const Table table_generic;
extern const Table table_avx2;
extern const Table table_avx2_wide;
extern const Table table_avx512;

}  // namespace hetero
