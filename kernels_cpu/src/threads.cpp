// Threads without a second OpenMP runtime: the entry points are looked up in the runtime that torch has already
// loaded. GOMP_parallel is the interface GCC compiles `#pragma omp parallel` to; LLVM's and Intel's runtimes
// export it too.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <atomic>
#include <cstring>

#include "runtime.h"

namespace hetero {
namespace {

struct OpenMP {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  int (*thread_num)() = nullptr;
  int (*num_threads)() = nullptr;
  int (*in_parallel)() = nullptr;
  const char* file = "";
};

// A forked child has none of its parent's OpenMP threads, and the runtime would wait for them for ever.
std::atomic<bool> in_forked_child{false};
__attribute__((constructor)) void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });
}

bool resolve(void* handle, OpenMP& omp) {
  auto parallel = dlsym(handle, "GOMP_parallel");
  auto thread_num = dlsym(handle, "omp_get_thread_num");
  auto num_threads = dlsym(handle, "omp_get_num_threads");
  auto in_parallel = dlsym(handle, "omp_in_parallel");
  if (!parallel || !thread_num || !num_threads || !in_parallel) return false;
  omp.parallel = reinterpret_cast<decltype(omp.parallel)>(parallel);
  omp.thread_num = reinterpret_cast<decltype(omp.thread_num)>(thread_num);
  omp.num_threads = reinterpret_cast<decltype(omp.num_threads)>(num_threads);
  omp.in_parallel = reinterpret_cast<decltype(omp.in_parallel)>(in_parallel);
  Dl_info info;
  if (dladdr(parallel, &info) && info.dli_fname) omp.file = info.dli_fname;
  return true;
}

int find_torch(dl_phdr_info* info, size_t, void* found) {
  const char* slash = std::strrchr(info->dlpi_name, '/');
  if (std::strcmp(slash ? slash + 1 : info->dlpi_name, "libtorch_cpu.so") != 0) return 0;
  *static_cast<const char**>(found) = info->dlpi_name;
  return 1;
}

// The order in which the dynamic linker resolved torch's own calls: global scope, then torch's dependencies.
OpenMP find_openmp() {
  OpenMP omp;
  if (resolve(RTLD_DEFAULT, omp)) return omp;
  const char* torch = nullptr;
  dl_iterate_phdr(find_torch, &torch);
  if (!torch) return omp;
  if (void* handle = dlopen(torch, RTLD_LAZY | RTLD_NOLOAD)) {
    resolve(handle, omp);
    dlclose(handle);
  }
  return omp;
}

const OpenMP& openmp() {
  static const OpenMP omp = find_openmp();
  return omp;
}

struct Job {
  int parts;
  void (*task)(void*, int);
  void* context;
};

// The runtime may give fewer threads than were asked for; the parts stay the same.
void work(void* argument) {
  const Job& job = *static_cast<Job*>(argument);
  const int threads = openmp().num_threads();
  for (int part = openmp().thread_num(); part < job.parts; part += threads) job.task(job.context, part);
}

}  // namespace

void run_parts(int parts, void (*task)(void*, int), void* context) {
  const OpenMP& omp = openmp();
  if (parts > 1 && omp.parallel && !in_forked_child && !omp.in_parallel()) {
    Job job{parts, task, context};
    omp.parallel(work, &job, unsigned(parts), 0);
  } else {
    for (int part = 0; part < parts; ++part) task(context, part);
  }
}

}  // namespace hetero

const char* hetero_cpu_openmp(void) { return hetero::openmp().file; }
