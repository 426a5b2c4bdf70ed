// What cross entropy and log-probabilities share: one pass over a row of logits that keeps the running maximum and
// the sums relative to it. A block of the row is brought in and its maximum taken, then its exponentials are summed
// while it is still in the first-level cache, so memory is read once and the old sums are rescaled once a block.
#pragma once

#include <cmath>

#include "parallel.hpp"
#include "vmath.hpp"

namespace {

constexpr int64_t kBlock = 1024;
constexpr float kInf = __builtin_inff();

// z = cap(x) / temperature, cap(x) = softcap tanh(x / softcap), or x when softcap is 0.
struct LogitMap {
  float softcap, inverse_softcap, inverse_temperature;
  LogitMap(float cap, float temperature)
      : softcap(cap), inverse_softcap(cap != 0.f ? 1.f / cap : 0.f), inverse_temperature(1.f / temperature) {}
  bool identity() const { return softcap == 0.f && inverse_temperature == 1.f; }
};

struct Mapped {
  vfloat z, slope;
};
template <bool kCapped>
HETERO_INLINE Mapped map_logits(const LogitMap& map, vfloat x) {
  if constexpr (kCapped) {
    const vfloat t = vtanh(x * map.inverse_softcap);
    return {t * (map.softcap * map.inverse_temperature), (1.f - t * t) * map.inverse_temperature};
  } else {
    return {x * map.inverse_temperature, splat(map.inverse_temperature)};
  }
}

// The same for one logit, with the same rounding as in the row it belongs to.
HETERO_INLINE float mapped(const LogitMap& map, float x) {
  return (map.softcap != 0.f ? map_logits<true>(map, splat(x)) : map_logits<false>(map, splat(x))).z[0];
}
HETERO_INLINE float slope(const LogitMap& map, float x) {
  return (map.softcap != 0.f ? map_logits<true>(map, splat(x)) : map_logits<false>(map, splat(x))).slope[0];
}

// Over a row of z: the largest, sum e^(z - max), sum (z - max) e^(z - max), sum z. The sums over blocks are double.
struct RowStats {
  float max = -kInf;
  double sum = 0, weighted = 0, total = 0;
  double log_sum() const { return std::log(sum); }
  double lse() const { return max + log_sum(); }
};

enum class Want { kSum, kTotal, kEntropy };

// kDirect: z is the stored float32 itself; otherwise blocks go through a buffer.
template <typename T, bool kCapped, bool kDirect, Want kWant>
inline RowStats row_stats(const T* x, int64_t n, const LogitMap& map) {
  RowStats stats;
  float buffer[kDirect ? 1 : kBlock];
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t size = n - start < kBlock ? n - start : kBlock;
    const float* z;
    vfloat highest[Sum::kSlots];
    for (auto& h : highest) h = splat(-kInf);
    for_lanes<Sum::kSlots>(size, [&](int64_t i, auto part, int slot) HETERO_BODY {
      vfloat v = load(x + start + i, part);
      if constexpr (!kDirect) {
        v = map_logits<kCapped>(map, v).z;
        store(buffer + i, v, part);
      }
      highest[slot] = vmax(highest[slot], keep(v, part, -kInf));
    });
    if constexpr (kDirect) z = x + start;
    else z = buffer;
    const float top = max_lanes(vmax(vmax(highest[0], highest[1]), vmax(highest[2], highest[3])));
    if (top > stats.max) {
      if (stats.max != -kInf) {
        const double shift = double(stats.max) - top, factor = std::exp(shift);
        stats.weighted = factor * (stats.weighted + shift * stats.sum);
        stats.sum *= factor;
      }
      stats.max = top;
    }
    const float base = stats.max == -kInf ? 0.f : stats.max;
    Sum sum, weighted, total;
    for_lanes<Sum::kSlots>(size, [&](int64_t i, auto part, int slot) HETERO_BODY {
      const vfloat v = load(z + i, part);
      const vfloat d = keep(v - base, part, -kInf), e = vexp<true>(d);
      sum.part[slot] += e;
      // Where e is 0 the product must be too, also for z = -inf.
      if constexpr (kWant == Want::kEntropy) weighted.part[slot] += e * (d < -104.f ? splat(-104.f) : d);
      if constexpr (kWant == Want::kTotal) total.part[slot] += v;
    });
    stats.sum += sum.total();
    if constexpr (kWant == Want::kEntropy) stats.weighted += weighted.total();
    if constexpr (kWant == Want::kTotal) stats.total += total.total();
  }
  return stats;
}

// f(capped, direct) as compile-time constants.
template <typename T, typename F>
HETERO_INLINE void with_map(const LogitMap& map, F f) {
  if (map.softcap != 0.f) f(std::true_type{}, std::false_type{});
  else if (std::is_same_v<T, float> && map.identity()) f(std::false_type{}, std::bool_constant<std::is_same_v<T, float>>{});
  else f(std::false_type{}, std::false_type{});
}

template <typename T>
inline void zero_row(T* row, int64_t n) {
  __builtin_memset(row, 0, sizeof(T) * size_t(n));
}

// dlogits_v = (exp(z_v - base) factor - constant) dz/dx, and the label's entry with `label_part` taken off as well.
template <typename T, bool kCapped>
inline void cross_entropy_gradient(const T* x, T* dx, int64_t n, const LogitMap& map, float base, float factor,
                                   float constant, int64_t label, float label_part) {
  const float x_label = to_float(x[label]);
  for_lanes(n, [&](int64_t i, auto part, int) HETERO_BODY {
    const Mapped m = map_logits<kCapped>(map, load(x + i, part));
    vfloat d = vexp<true>(m.z - base) * factor - constant;
    if constexpr (kCapped) d *= m.slope;
    store(dx + i, d, part);
  });
  const float d_label = std::exp(mapped(map, x_label) - base) * factor - constant - label_part;
  dx[label] = from_float<T>(d_label * slope(map, x_label));
}

template <typename T, bool kCapped, bool kDirect>
inline void cross_entropy_rows(const hetero_cross_entropy_args& a, const LogitMap& map, int64_t begin, int64_t end) {
  const float smoothing = a.label_smoothing, vocab = float(a.vocab);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(a.logits) + row * a.stride;
    T* dx = a.dlogits ? static_cast<T*>(a.dlogits) + row * a.dlogits_stride : nullptr;
    const int64_t label = a.labels[row];
    if (label == a.ignore_index) {
      if (!a.lse_in) a.loss[row] = a.lse[row] = 0.f;
      if (dx) zero_row(dx, a.vocab);
      continue;
    }
    const float scale = a.scale ? a.scale[row] : 1.f;
    float base, inverse_sum = 1.f, lse;
    if (a.lse_in) {
      base = lse = a.lse_in[row];
    } else {
      const RowStats stats = smoothing != 0.f ? row_stats<T, kCapped, kDirect, Want::kTotal>(x, a.vocab, map)
                                              : row_stats<T, kCapped, kDirect, Want::kSum>(x, a.vocab, map);
      const double exact_lse = stats.lse();
      double loss = (1. - smoothing) * (stats.log_sum() - (double(mapped(map, to_float(x[label]))) - stats.max));
      if (smoothing != 0.f) loss += smoothing * (exact_lse - stats.total / a.vocab);
      if (a.z_loss != 0.f) loss += a.z_loss * exact_lse * exact_lse;
      a.loss[row] = float(loss);
      a.lse[row] = lse = float(exact_lse);
      base = stats.max;
      inverse_sum = float(1. / stats.sum);
    }
    if (dx)
      cross_entropy_gradient<T, kCapped>(x, dx, a.vocab, map, base, scale * (1.f + 2.f * a.z_loss * lse) * inverse_sum,
                                         scale * smoothing / vocab, label, scale * (1.f - smoothing));
  }
}

int cross_entropy(const hetero_cross_entropy_args* args, int threads) {
  const hetero_cross_entropy_args& a = *args;
  if (int bad = hetero_cpu_check_labels(a.labels, a.rows, a.vocab, a.ignore_index)) return bad;
  const LogitMap map(a.softcap, 1.f);
  parallel(a.rows, parts_for(a.rows, 4 * a.vocab, threads), [&](int64_t begin, int64_t end, int) {
    with_type(a.dtype, [&](auto t) {
      with_map<decltype(t)>(map, [&](auto capped, auto direct) {
        cross_entropy_rows<decltype(t), capped.value, direct.value>(a, map, begin, end);
      });
    });
  });
  return HETERO_OK;
}

template <typename T, bool kCapped>
inline void log_prob_gradient(const T* x, T* dx, int64_t n, const LogitMap& map, float lse, float entropy, float g_logp,
                              float g_entropy, int64_t label) {
  const float x_label = to_float(x[label]);
  for_lanes(n, [&](int64_t i, auto part, int) HETERO_BODY {
    const Mapped m = map_logits<kCapped>(map, load(x + i, part));
    const vfloat logp = m.z - lse, p = vexp<true>(logp);
    const vfloat finite = logp < -104.f ? splat(-104.f) : logp;
    store(dx + i, -p * (g_logp + g_entropy * (finite + entropy)) * m.slope, part);
  });
  const float logp = mapped(map, x_label) - lse, finite = logp < -104.f ? -104.f : logp;
  const float d = g_logp - std::exp(logp) * (g_logp + g_entropy * (finite + entropy));
  dx[label] = from_float<T>(d * slope(map, x_label));
}

template <typename T, bool kCapped, bool kDirect>
inline void log_prob_rows(const hetero_log_prob_args& a, const LogitMap& map, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(a.logits) + row * a.stride;
    T* dx = a.dlogits ? static_cast<T*>(a.dlogits) + row * a.dlogits_stride : nullptr;
    const int64_t label = a.labels[row];
    if (label == a.ignore_index) {
      if (dx) zero_row(dx, a.vocab);
      else a.logp[row] = a.entropy[row] = a.lse[row] = 0.f;
    } else if (dx) {
      log_prob_gradient<T, kCapped>(x, dx, a.vocab, map, a.lse[row], a.entropy[row], a.g_logp[row], a.g_entropy[row],
                                    label);
    } else {
      const RowStats stats = row_stats<T, kCapped, kDirect, Want::kEntropy>(x, a.vocab, map);
      a.logp[row] = float((double(mapped(map, to_float(x[label]))) - stats.max) - stats.log_sum());
      a.entropy[row] = float(stats.log_sum() - stats.weighted / stats.sum);
      a.lse[row] = float(stats.lse());
    }
  }
}

int log_prob(const hetero_log_prob_args* args, int threads) {
  const hetero_log_prob_args& a = *args;
  if (int bad = hetero_cpu_check_labels(a.labels, a.rows, a.vocab, a.ignore_index)) return bad;
  const LogitMap map(a.softcap, a.temperature);
  parallel(a.rows, parts_for(a.rows, 4 * a.vocab, threads), [&](int64_t begin, int64_t end, int) {
    with_type(a.dtype, [&](auto t) {
      with_map<decltype(t)>(map, [&](auto capped, auto direct) {
        log_prob_rows<decltype(t), capped.value, direct.value>(a, map, begin, end);
      });
    });
  });
  return HETERO_OK;
}

}  // namespace
