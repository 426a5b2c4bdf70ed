// Vectors of HETERO_LANES floats, written with the vector extensions of GCC and Clang so that one source
// serves every instruction set and every width. Include only from kernels.cpp: everything here has internal
// linkage, because the same source is compiled several times with different -m flags.
#pragma once

#include <cstdint>
#include <type_traits>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "hetero_cpu.h"

namespace {

constexpr int kLanes = HETERO_LANES;

template <typename T, int N>
struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * N)));
  typedef T unaligned __attribute__((vector_size(sizeof(T) * N), aligned(1), may_alias));
};

using vfloat = VectorOf<float, kLanes>::type;
using vint = VectorOf<int32_t, kLanes>::type;
using vuint = VectorOf<uint32_t, kLanes>::type;
using vhalf = VectorOf<uint16_t, kLanes>::type;

#define HETERO_INLINE inline __attribute__((always_inline))
#define HETERO_BODY __attribute__((always_inline))  // on the lambda of a loop

// Storage of a bfloat16: the upper half of a float32.
struct bfloat {
  uint16_t bits;
};

HETERO_INLINE vfloat splat(float x) { return vfloat{} + x; }
HETERO_INLINE vuint bits_of(vfloat x) { return (vuint)x; }
HETERO_INLINE vfloat float_of(vuint x) { return (vfloat)x; }
HETERO_INLINE vfloat select(vint mask, vfloat yes, vfloat no) { return mask ? yes : no; }
HETERO_INLINE vfloat absolute(vfloat x) { return float_of(bits_of(x) & 0x7fffffffu); }
// Like maxps: the second argument when either is NaN.
HETERO_INLINE vfloat vmax(vfloat a, vfloat b) { return a > b ? a : b; }
HETERO_INLINE vfloat vmin(vfloat a, vfloat b) { return a < b ? a : b; }

template <int N, typename V, typename Join>
HETERO_INLINE float fold(V x, Join join) {
  float part[kLanes];
  __builtin_memcpy(part, &x, sizeof(part));
  for (int width = kLanes / 2; width; width /= 2)
    for (int i = 0; i < width; ++i) part[i] = join(part[i], part[i + width]);
  return part[0];
}
HETERO_INLINE float sum_lanes(vfloat x) {
  return fold<kLanes>(x, [](float a, float b) { return a + b; });
}
HETERO_INLINE float max_lanes(vfloat x) {
  return fold<kLanes>(x, [](float a, float b) { return a > b ? a : b; });
}

// x as float32 rounds it: keeps the compiler from fusing the multiplication that made x into a later addition.
HETERO_INLINE vfloat rounded(vfloat x) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
  return __builtin_assoc_barrier(x);
#elif __has_builtin(__arithmetic_fence)
  return __arithmetic_fence(x);
#endif
#endif
  return x;
}

// bfloat16 bits of x, rounded to nearest even, in the low half of each lane; NaN stays a (quiet) NaN.
HETERO_INLINE vuint round_bits(vfloat x) {
  const vuint u = bits_of(x);
  const vuint rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (vuint)(x != x) ? vuint{} + 0x7fc0u : rounded;
}

// Between 16-bit and 32-bit lanes. The generic form is right everywhere; compilers do not find the one instruction.
HETERO_INLINE vuint widen(vhalf x) {
#if defined(__AVX512F__) && HETERO_LANES == 16
  return (vuint)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)x);
#elif defined(__AVX2__) && HETERO_LANES == 8
  return (vuint)_mm256_cvtepu16_epi32((__m128i)x);
#else
  return __builtin_convertvector(x, vuint);
#endif
}
HETERO_INLINE vhalf narrow(vuint x) {
#if defined(__AVX512F__) && HETERO_LANES == 16
  return (vhalf)_mm512_maskz_cvtepi32_epi16(0xffff, (__m512i)x);
#elif defined(__AVX2__) && HETERO_LANES == 8
  const __m256i v = (__m256i)x;
  return (vhalf)_mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
#else
  return __builtin_convertvector(x, vhalf);
#endif
}

HETERO_INLINE float to_float(float x) { return x; }
HETERO_INLINE float to_float(bfloat x) {
  const uint32_t u = uint32_t(x.bits) << 16;
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
template <typename T>
HETERO_INLINE T from_float(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    uint32_t u;
    __builtin_memcpy(&u, &x, 4);
    if (x != x) return bfloat{0x7fc0};
    return bfloat{uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
  }
}

// x rounded to what storage type T can hold.
template <typename T>
HETERO_INLINE vfloat round_to(vfloat x) {
  if constexpr (std::is_same_v<T, float>) return x;
  else return float_of(round_bits(x) << 16);
}

// How many lanes of a vector are inside the array: all, or the first `n`.
struct All {};
struct First {
  int n;
};

HETERO_INLINE vfloat load(const float* p, All) { return *(const VectorOf<float, kLanes>::unaligned*)p; }
HETERO_INLINE vfloat load(const bfloat* p, All) {
  const vhalf h = *(const VectorOf<uint16_t, kLanes>::unaligned*)p;
  return float_of(widen(h) << 16);
}
// Ends of rows: kept out of line, since each is compiled into every loop.
template <typename T>
__attribute__((noinline)) vfloat load(const T* p, First part) {
  float lanes[kLanes] = {};
  for (int i = 0; i < part.n; ++i) lanes[i] = to_float(p[i]);
  return load(lanes, All{});
}

HETERO_INLINE void store(float* p, vfloat x, All) { *(VectorOf<float, kLanes>::unaligned*)p = x; }
HETERO_INLINE void store(bfloat* p, vfloat x, All) {
  *(VectorOf<uint16_t, kLanes>::unaligned*)p = narrow(round_bits(x));
}
template <typename T>
__attribute__((noinline)) void store(T* p, vfloat x, First part) {
  float lanes[kLanes];
  store(lanes, x, All{});
  for (int i = 0; i < part.n; ++i) p[i] = from_float<T>(lanes[i]);
}

// x in the lanes that are inside the array, `fill` in the others.
HETERO_INLINE vfloat keep(vfloat x, All, float) { return x; }
[[maybe_unused]] __attribute__((noinline)) vfloat keep(vfloat x, First part, float fill) {
  float lanes[kLanes];
  store(lanes, x, All{});
  for (int i = part.n; i < kLanes; ++i) lanes[i] = fill;
  return load(lanes, All{});
}

// body(index, part, slot) over 0..n in steps of kLanes; `slot` runs 0..Unroll-1, so that a reduction can keep
// Unroll independent sums.
template <int Unroll = 1, typename Body>
HETERO_INLINE void for_lanes(int64_t n, Body body) {
  int64_t i = 0;
  if constexpr (Unroll > 1)
    for (; i + Unroll * kLanes <= n; i += Unroll * kLanes)
      for (int slot = 0; slot < Unroll; ++slot) body(i + slot * kLanes, All{}, slot);
  for (; i + kLanes <= n; i += kLanes) body(i, All{}, 0);
  if (i < n) body(i, First{int(n - i)}, 0);
}

// Independent running sums that hide the latency of an addition.
struct Sum {
  static constexpr int kSlots = 4;
  vfloat part[kSlots] = {};
  HETERO_INLINE vfloat joined() const { return (part[0] + part[1]) + (part[2] + part[3]); }
  HETERO_INLINE float total() const { return sum_lanes(joined()); }
};

// Sums over 0..n of the K terms that body(index, part) returns. Short sums are added up to longer ones, which keeps
// the rounding error near that of pairwise summation.
template <int K>
struct Terms {
  vfloat of[K];
};
template <int K>
struct Totals {
  float of[K];
};
template <int K, typename Body>
HETERO_INLINE Totals<K> sum_over(int64_t n, Body body) {
  constexpr int64_t kShort = 16 * Sum::kSlots * kLanes;
  vfloat longer[K] = {};
  for (int64_t start = 0; start < n; start += kShort) {
    Sum recent[K];
    for_lanes<Sum::kSlots>(n - start < kShort ? n - start : kShort, [&](int64_t i, auto part, int slot) HETERO_BODY {
      const Terms<K> terms = body(start + i, part);
      for (int k = 0; k < K; ++k) recent[k].part[slot] += terms.of[k];
    });
    for (int k = 0; k < K; ++k) longer[k] += recent[k].joined();
  }
  Totals<K> totals;
  for (int k = 0; k < K; ++k) totals.of[k] = sum_lanes(longer[k]);
  return totals;
}

// f(T*) for the storage type of a dtype code; the caller has checked the code.
template <typename F>
HETERO_INLINE void with_type(int dtype, F f) {
  if (dtype == HETERO_BF16) f(bfloat{});
  else f(float{});
}

}  // namespace
