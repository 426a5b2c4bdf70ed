// rms_norm, fused_add_rms_norm and layer_norm, forward and backward, a row at a time: a row stays in the cache
// between its sweeps, so memory is read and written once.
#pragma once

#include "parallel.hpp"
#include "simd.hpp"

namespace {

// The weight as float32, `offset` added; ones where there is none.
template <typename W>
inline void effective_weight(const void* weight, int64_t n, float offset, float* out) {
  const W* w = static_cast<const W*>(weight);
  for (int64_t i = 0; i < n; ++i) out[i] = (w ? to_float(w[i]) : 1.f) + (w ? offset : 0.f);
}

template <typename T, bool kResidual, bool kRoundNormed>
inline void rms_norm_rows(const hetero_rms_norm_args& a, const float* weight, int64_t begin, int64_t end) {
  const int64_t n = a.width;
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
    T* y = static_cast<T*>(a.y) + row * n;
    float squares;
    if constexpr (kResidual) {
      const T* residual = static_cast<const T*>(a.residual) + row * a.residual_stride;
      T* s = static_cast<T*>(a.s) + row * n;
      squares = sum_over<1>(n, [&](int64_t i, auto part) HETERO_BODY {
        const vfloat v = round_to<T>(load(x + i, part) + load(residual + i, part));
        store(s + i, v, part);
        return Terms<1>{v * v};
      }).of[0];
      x = s;
    } else {
      squares = sum_over<1>(n, [&](int64_t i, auto part) HETERO_BODY {
        const vfloat v = load(x + i, part);
        return Terms<1>{v * v};
      }).of[0];
    }
    const float rstd = 1.f / __builtin_sqrtf(squares / float(n) + a.eps);
    a.rstd[row] = rstd;
    for_lanes(n, [&](int64_t i, auto part, int) HETERO_BODY {
      vfloat v = load(x + i, part) * rstd;
      if constexpr (kRoundNormed) v = round_to<T>(v);
      store(y + i, v * load(weight + i, part), part);
    });
  }
}

int rms_norm(const hetero_rms_norm_args* args, int threads) {
  const hetero_rms_norm_args& a = *args;
  Scratch<> weight(a.width);
  if (!weight.get()) return no_memory();
  with_type(a.weight_dtype, [&](auto w) {
    effective_weight<decltype(w)>(a.weight, a.width, a.offset, weight.get());
  });
  parallel(a.rows, parts_for(a.rows, a.width, threads), [&](int64_t begin, int64_t end, int) {
    with_type(a.dtype, [&](auto t) {
      using T = decltype(t);
      if (a.residual && a.round_normed) rms_norm_rows<T, true, true>(a, weight.get(), begin, end);
      else if (a.residual) rms_norm_rows<T, true, false>(a, weight.get(), begin, end);
      else if (a.round_normed) rms_norm_rows<T, false, true>(a, weight.get(), begin, end);
      else rms_norm_rows<T, false, false>(a, weight.get(), begin, end);
    });
  });
  return HETERO_OK;
}

// Column sums over many rows: rows go to `recent` and, a block of rows at a time, to `total`, which keeps the
// rounding error of a long float32 sum small.
constexpr int64_t kRowsPerBlock = 64;

inline void flush(float* recent, float* total, int64_t n) {
  for_lanes(n, [&](int64_t i, auto part, int) HETERO_BODY {
    store(total + i, load(total + i, part) + load(recent + i, part), part);
    store(recent + i, vfloat{}, part);
  });
}

// The sums of all parts, in the order of the parts, as W.
template <typename W>
inline void reduce_parts(const float* totals, int parts, int64_t stride, int64_t n, void* out) {
  for_lanes(n, [&](int64_t i, auto part, int) HETERO_BODY {
    vfloat sum = load(totals + i, part);
    for (int p = 1; p < parts; ++p) sum += load(totals + p * stride + i, part);
    store(static_cast<W*>(out) + i, sum, part);
  });
}

// Shared by the backward passes: kCentred is layer_norm (mean taken off, bias gradient), else rms_norm.
struct NormBackward {
  int64_t rows, width;
  const void *g, *x, *gs;
  int64_t g_stride, x_stride, gs_stride;
  const float *mean, *rstd;
  void* dx;
};

template <typename T, bool kCentred>
inline void norm_backward_rows(const NormBackward& a, const float* weight, int64_t begin, int64_t end, float* sums) {
  const int64_t n = a.width;
  float *recent_w = sums, *total_w = sums + n, *recent_b = sums + 2 * n, *total_b = sums + 3 * n;
  for_lanes((kCentred ? 4 : 2) * n, [&](int64_t i, auto part, int) HETERO_BODY { store(sums + i, vfloat{}, part); });
  for (int64_t row = begin; row < end; ++row) {
    const T* g = static_cast<const T*>(a.g) + row * a.g_stride;
    const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
    const T* gs = a.gs ? static_cast<const T*>(a.gs) + row * a.gs_stride : nullptr;
    T* dx = static_cast<T*>(a.dx) + row * n;
    const float rstd = a.rstd[row], mean = kCentred ? a.mean[row] : 0.f;
    constexpr int kTerms = kCentred ? 2 : 1;
    const Totals<kTerms> sums_h = sum_over<kTerms>(n, [&](int64_t i, auto part) HETERO_BODY {
      const vfloat h = rounded(load(g + i, part) * load(weight + i, part));
      const vfloat product = h * ((load(x + i, part) - mean) * rstd);
      if constexpr (kCentred) return Terms<2>{product, h};
      else return Terms<1>{product};
    });
    const float mean_hx = sums_h.of[0] / float(n), mean_h = kCentred ? sums_h.of[kTerms - 1] / float(n) : 0.f;
    for_lanes(n, [&](int64_t i, auto part, int) HETERO_BODY {
      const vfloat grad = load(g + i, part);
      const vfloat normed = (load(x + i, part) - mean) * rstd;
      // Rounded as in the sum above, so that equal h cancel their mean exactly.
      const vfloat h = rounded(grad * load(weight + i, part));
      vfloat d = (h - mean_h - normed * mean_hx) * rstd;
      if (gs) d += load(gs + i, part);
      store(dx + i, d, part);
      store(recent_w + i, load(recent_w + i, part) + grad * normed, part);
      if constexpr (kCentred) store(recent_b + i, load(recent_b + i, part) + grad, part);
    });
    if ((row - begin) % kRowsPerBlock == kRowsPerBlock - 1 || row + 1 == end) {
      flush(recent_w, total_w, n);
      if constexpr (kCentred) flush(recent_b, total_b, n);
    }
  }
}

template <bool kCentred>
inline int norm_backward(const NormBackward& a, const void* weight, int dtype, int weight_dtype, float offset,
                         void* dweight, void* dbias, int threads) {
  const int parts = parts_for(a.rows, a.width, threads);
  const int64_t n = a.width, stride = (kCentred ? 4 : 2) * n;
  Scratch<> scratch(n + parts * stride);
  if (!scratch.get()) return no_memory();
  float *effective = scratch.get(), *sums = effective + n;
  for (int64_t i = 0; i < parts * stride; ++i) sums[i] = 0.f;
  with_type(weight_dtype, [&](auto w) { effective_weight<decltype(w)>(weight, n, offset, effective); });
  parallel(a.rows, parts, [&](int64_t begin, int64_t end, int part) {
    with_type(dtype, [&](auto t) {
      norm_backward_rows<decltype(t), kCentred>(a, effective, begin, end, sums + part * stride);
    });
  });
  with_type(weight_dtype, [&](auto w) {
    if (dweight) reduce_parts<decltype(w)>(sums + n, parts, stride, n, dweight);
    if (dbias) reduce_parts<decltype(w)>(sums + 3 * n, parts, stride, n, dbias);
  });
  return HETERO_OK;
}

int rms_norm_backward(const hetero_rms_norm_backward_args* args, int threads) {
  const hetero_rms_norm_backward_args& a = *args;
  const NormBackward common{a.rows, a.width, a.g, a.x, a.gs, a.g_stride, a.x_stride, a.gs_stride, nullptr, a.rstd, a.dx};
  return norm_backward<false>(common, a.weight, a.dtype, a.weight_dtype, a.offset, a.dweight, nullptr, threads);
}

int layer_norm_backward(const hetero_layer_norm_backward_args* args, int threads) {
  const hetero_layer_norm_backward_args& a = *args;
  const NormBackward common{a.rows, a.width, a.g, a.x, nullptr, a.g_stride, a.x_stride, 0, a.mean, a.rstd, a.dx};
  return norm_backward<true>(common, a.weight, a.dtype, a.weight_dtype, 0.f, a.dweight, a.dbias, threads);
}

template <typename T>
inline void layer_norm_rows(const hetero_layer_norm_args& a, const float* weight, const float* bias, int64_t begin,
                            int64_t end) {
  const int64_t n = a.width;
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
    T* y = static_cast<T*>(a.y) + row * n;
    const float mean = sum_over<1>(n, [&](int64_t i, auto part) HETERO_BODY {
      return Terms<1>{load(x + i, part)};
    }).of[0] / float(n);
    const float squares = sum_over<1>(n, [&](int64_t i, auto part) HETERO_BODY {
      const vfloat d = keep(load(x + i, part) - mean, part, 0.f);
      return Terms<1>{d * d};
    }).of[0];
    const float rstd = 1.f / __builtin_sqrtf(squares / float(n) + a.eps);
    a.mean[row] = mean;
    a.rstd[row] = rstd;
    for_lanes(n, [&](int64_t i, auto part, int) HETERO_BODY {
      store(y + i, (load(x + i, part) - mean) * rstd * load(weight + i, part) + load(bias + i, part), part);
    });
  }
}

int layer_norm(const hetero_layer_norm_args* args, int threads) {
  const hetero_layer_norm_args& a = *args;
  Scratch<> scratch(2 * a.width);
  if (!scratch.get()) return no_memory();
  float *weight = scratch.get(), *bias = weight + a.width;
  with_type(a.weight_dtype, [&](auto w) {
    using W = decltype(w);
    effective_weight<W>(a.weight, a.width, 0.f, weight);
    for (int64_t i = 0; i < a.width; ++i) bias[i] = a.bias ? to_float(static_cast<const W*>(a.bias)[i]) : 0.f;
  });
  parallel(a.rows, parts_for(a.rows, a.width, threads), [&](int64_t begin, int64_t end, int) {
    with_type(a.dtype, [&](auto t) { layer_norm_rows<decltype(t)>(a, weight, bias, begin, end); });
  });
  return HETERO_OK;
}

}  // namespace
