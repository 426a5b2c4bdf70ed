// AdamW and gradient clipping over many tensors at once. Tensors are cut into blocks of fixed size, so that small
// and large ones share the threads evenly and sums do not depend on how many threads there are.
#pragma once

#include <cmath>

#include "parallel.hpp"
#include "simd.hpp"

namespace {

constexpr int64_t kOptimBlock = 16384, kShortSum = 1024;

inline int64_t blocks_of(int64_t size) { return (size + kOptimBlock - 1) / kOptimBlock; }

// body(tensor, offset, size, block) for every block; blocks are numbered through all tensors.
template <typename Body>
inline void for_blocks(int64_t count, const int64_t* sizes, int threads, Body body) {
  int64_t blocks = 0;
  for (int64_t i = 0; i < count; ++i) blocks += blocks_of(sizes[i]);
  parallel(blocks, parts_for(blocks, kOptimBlock, threads), [&](int64_t begin, int64_t end, int) {
    int64_t tensor = 0, first = 0;
    for (int64_t block = begin; block < end; ++block) {
      while (block >= first + blocks_of(sizes[tensor])) first += blocks_of(sizes[tensor++]);
      const int64_t offset = (block - first) * kOptimBlock, left = sizes[tensor] - offset;
      body(tensor, offset, left < kOptimBlock ? left : kOptimBlock, block);
    }
  });
}

struct AdamWStep {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, eps, keep, step_size, inverse_root_bias2, grad_scale;
};

template <typename P, typename G, bool kMaster>
inline void adamw_block(P* param, const G* grad, float* m, float* v, float* master, int64_t n, const AdamWStep& s) {
  for_lanes(n, [&](int64_t i, auto part, int) HETERO_BODY {
    const vfloat g = load(grad + i, part) * s.grad_scale;
    vfloat p;
    if constexpr (kMaster) p = load(master + i, part);
    else p = load(param + i, part);
    const vfloat first = load(m + i, part);
    const vfloat new_m = first + (g - first) * s.one_minus_beta1;
    const vfloat new_v = load(v + i, part) * s.beta2 + g * g * s.one_minus_beta2;
    vfloat root;
    for (int lane = 0; lane < kLanes; ++lane) root[lane] = __builtin_sqrtf(new_v[lane]);
    p = p * s.keep - s.step_size * new_m / (root * s.inverse_root_bias2 + s.eps);
    store(m + i, new_m, part);
    store(v + i, new_v, part);
    if constexpr (kMaster) store(master + i, p, part);
    store(param + i, p, part);
  });
}

int adamw(const hetero_adamw_args* args, int threads) {
  const hetero_adamw_args& a = *args;
  const double bias1 = 1. - std::pow(a.beta1, double(a.step)), bias2 = 1. - std::pow(a.beta2, double(a.step));
  const AdamWStep step{float(a.beta1),
                       float(1. - a.beta1),
                       float(a.beta2),
                       float(1. - a.beta2),
                       float(a.eps),
                       float(1. - a.lr * a.weight_decay),
                       float(a.lr / bias1),
                       float(1. / std::sqrt(bias2)),
                       a.grad_scale ? *a.grad_scale : 1.f};
  for_blocks(a.count, a.sizes, threads, [&](int64_t t, int64_t at, int64_t size, int64_t) {
    with_type(a.param_dtypes[t], [&](auto p) {
      with_type(a.grad_dtypes[t], [&](auto g) {
        using P = decltype(p);
        using G = decltype(g);
        P* param = static_cast<P*>(a.params[t]) + at;
        const G* grad = static_cast<const G*>(a.grads[t]) + at;
        float *m = a.exp_avgs[t] + at, *v = a.exp_avg_sqs[t] + at;
        if (a.masters && a.masters[t]) adamw_block<P, G, true>(param, grad, m, v, a.masters[t] + at, size, step);
        else adamw_block<P, G, false>(param, grad, m, v, nullptr, size, step);
      });
    });
  });
  return HETERO_OK;
}

int clip(const hetero_clip_args* args, int threads) {
  const hetero_clip_args& a = *args;
  int64_t blocks = 0;
  for (int64_t i = 0; i < a.count; ++i) blocks += blocks_of(a.sizes[i]);
  Scratch<double> scratch(blocks);
  double* squares = scratch.get();
  if (!squares) return no_memory();
  for_blocks(a.count, a.sizes, threads, [&](int64_t t, int64_t at, int64_t size, int64_t block) {
    with_type(a.dtypes[t], [&](auto g) {
      using G = decltype(g);
      const G* grad = static_cast<const G*>(a.grads[t]) + at;
      double total = 0;  // float32 sums stay short, so that they stay accurate
      for (int64_t start = 0; start < size; start += kShortSum) {
        const int64_t n = size - start < kShortSum ? size - start : kShortSum;
        total += sum_over<1>(n, [&](int64_t i, auto part) HETERO_BODY {
          const vfloat v = load(grad + start + i, part);
          return Terms<1>{v * v};
        }).of[0];
      }
      squares[block] = total;
    });
  });
  double total = 0;
  for (int64_t block = 0; block < blocks; ++block) total += squares[block];
  const float norm = float(std::sqrt(total));
  *a.norm = norm;
  const float factor = a.max_norm / (norm + 1e-6f);
  if (factor >= 1.f) return HETERO_OK;
  for_blocks(a.count, a.sizes, threads, [&](int64_t t, int64_t at, int64_t size, int64_t) {
    with_type(a.dtypes[t], [&](auto g) {
      using G = decltype(g);
      G* grad = static_cast<G*>(a.grads[t]) + at;
      for_lanes(size, [&](int64_t i, auto part, int) HETERO_BODY { store(grad + i, load(grad + i, part) * factor, part); });
    });
  });
  return HETERO_OK;
}

}  // namespace
