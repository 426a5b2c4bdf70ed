// Chooses the build of the kernels for this processor and forwards the C ABI to it.
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "runtime.h"

namespace hetero {
namespace {

struct Build {
  const char* name;
  const Table* table;
  bool (*runs_here)();
};

// Best first.
const Build builds[] = {
#if defined(HETERO_X86)
    {"avx512", &table_avx512,
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
     }},
    {"avx2", &table_avx2, [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }},
#endif
    {"generic", &table_generic, [] { return true; }},
#if defined(HETERO_X86)
    {"avx2_wide", &table_avx2_wide, [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }},
#endif
};

const Build* best() {
#if defined(HETERO_X86)
  __builtin_cpu_init();
#endif
  for (const Build& build : builds)
    if (build.runs_here()) return &build;
  return nullptr;
}

std::atomic<const Build*> chosen{best()};
thread_local char error_text[256];

}  // namespace

int fail(int code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::vsnprintf(error_text, sizeof(error_text), format, args);
  va_end(args);
  return code;
}

}  // namespace hetero

using hetero::builds;
using hetero::chosen;

const char* hetero_cpu_isa(void) { return chosen.load()->name; }

int hetero_cpu_set_isa(const char* name) {
  for (const auto& build : builds)
    if (std::strcmp(build.name, name) == 0 && build.runs_here()) {
      chosen = &build;
      return HETERO_OK;
    }
  return hetero::fail(HETERO_BAD_ARGUMENT, "this processor runs no build of the CPU kernels called '%.64s'", name);
}

const char* hetero_cpu_available_isa(int i) {
  for (const auto& build : builds)
    if (build.runs_here() && i-- == 0) return build.name;
  return nullptr;
}

const char* hetero_cpu_source_hash(void) { return HETERO_SOURCE_HASH; }
const char* hetero_cpu_error(void) { return hetero::error_text; }

int hetero_cpu_check_labels(const int64_t* labels, int64_t n, int64_t vocab, int64_t ignore_index) {
  for (int64_t i = 0; i < n; ++i)
    if (labels[i] != ignore_index && (labels[i] < 0 || labels[i] >= vocab))
      return hetero::fail(HETERO_OUT_OF_RANGE, "row %lld: label %lld is outside [0, %lld) and not ignore_index %lld",
                          (long long)i, (long long)labels[i], (long long)vocab, (long long)ignore_index);
  return HETERO_OK;
}

#define FORWARD(name) \
  int hetero_cpu_##name(const hetero_##name##_args* args, int threads) { return chosen.load()->table->name(args, threads); }
FORWARD(rms_norm)
FORWARD(rms_norm_backward)
FORWARD(layer_norm)
FORWARD(layer_norm_backward)
FORWARD(glu)
FORWARD(rope)
FORWARD(cross_entropy)
FORWARD(log_prob)
FORWARD(adamw)
FORWARD(clip)
FORWARD(math)
#undef FORWARD
