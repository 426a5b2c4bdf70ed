// Rotary position embedding on [batch, tokens, heads, dim]. A token's cos and sin row is read once for all heads.
#pragma once

#include "parallel.hpp"
#include "simd.hpp"

namespace {

// Each pair of neighbouring lanes exchanged.
HETERO_INLINE vfloat swap_pairs(vfloat x) {
  float lanes[kLanes], swapped[kLanes];
  store(lanes, x, All{});
  for (int i = 0; i < kLanes; ++i) swapped[i] = lanes[i ^ 1];
  return load(swapped, All{});
}

template <typename T, bool kInterleaved>
inline void rope_head(const T* x, T* y, int64_t dim, int64_t half, const float* cos, const float* sin) {
  if constexpr (kInterleaved) {
    // cos and sin are spread over pairs here, sin with its sign: y = x cos + swapped(x) sin.
    for_lanes(2 * half, [&](int64_t i, auto part, int) HETERO_BODY {
      const vfloat v = load(x + i, part);
      store(y + i, v * load(cos + i, part) + swap_pairs(v) * load(sin + i, part), part);
    });
  } else {
    for_lanes(half, [&](int64_t i, auto part, int) HETERO_BODY {
      const vfloat a = load(x + i, part), b = load(x + half + i, part);
      const vfloat c = load(cos + i, part), s = load(sin + i, part);
      store(y + i, a * c - b * s, part);
      store(y + half + i, b * c + a * s, part);
    });
  }
  for (int64_t i = 2 * half; i < dim; ++i) y[i] = x[i];
}

// Tokens begin..end; `table` has room for a token's cos and sin as rope_head wants them.
template <typename T, bool kInterleaved>
inline void rope_tokens(const hetero_rope_args& a, int64_t begin, int64_t end, float* table) {
  float *cos = table, *sin = table + 2 * a.half;
  const float sign = a.inverse ? -1.f : 1.f;
  for (int64_t token = begin; token < end; ++token) {
    const int64_t b = token / a.tokens, t = token % a.tokens;
    const int64_t row = a.positions ? a.positions[token] * a.table_stride : b * a.table_batch_stride + t * a.table_stride;
    for (int64_t i = 0; i < a.half; ++i) {
      const float c = a.cos[row + i], s = sign * a.sin[row + i];
      if constexpr (kInterleaved) {
        cos[2 * i] = cos[2 * i + 1] = c;
        sin[2 * i] = -s;
        sin[2 * i + 1] = s;
      } else {
        cos[i] = c;
        sin[i] = s;
      }
    }
    const T* x = static_cast<const T*>(a.x) + b * a.x_batch_stride + t * a.x_token_stride;
    T* y = static_cast<T*>(a.y) + token * a.heads * a.dim;
    for (int64_t head = 0; head < a.heads; ++head)
      rope_head<T, kInterleaved>(x + head * a.x_head_stride, y + head * a.dim, a.dim, a.half, cos, sin);
  }
}

int rope(const hetero_rope_args* args, int threads) {
  const hetero_rope_args& a = *args;
  const int64_t tokens = a.batch * a.tokens;
  if (a.positions)
    for (int64_t i = 0; i < tokens; ++i)
      if (a.positions[i] < 0 || a.positions[i] >= a.table_rows)
        return hetero::fail(HETERO_OUT_OF_RANGE, "token %lld: position %lld is outside the cos/sin table of %lld rows",
                            (long long)i, (long long)a.positions[i], (long long)a.table_rows);
  const int parts = parts_for(tokens, a.heads * a.dim, threads);
  Scratch<> tables(parts * 4 * a.half);
  if (!tables.get()) return no_memory();
  parallel(tokens, parts, [&](int64_t begin, int64_t end, int part) {
    float* table = tables.get() + part * 4 * a.half;
    with_type(a.dtype, [&](auto t) {
      if (a.interleaved) rope_tokens<decltype(t), true>(a, begin, end, table);
      else rope_tokens<decltype(t), false>(a, begin, end, table);
    });
  });
  return HETERO_OK;
}

}  // namespace
