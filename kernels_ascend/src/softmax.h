// Rows of logits, a tile of the vocabulary at a time: what cross entropy and log-probabilities share.
#pragma once

#include "device.h"

namespace hetero {

struct RowsTiling {
  int64_t rows, vocab, stride, out_stride, ignore_index;
  uint32_t tile;
  int32_t dtype;
  float softcap /* 0: off */, label_smoothing, z_loss, temperature;
};

constexpr float kInfinity = __builtin_inff();

// x = tanh(x), to about 3 units in the last place. Lambert's continued fraction x / (1 + x^2 / (3 + x^2 / (5 + ...)))
// as one quotient of polynomials: all terms are positive, so that nothing cancels and small values keep their digits.
// It is taken of a quarter of x, and tanh(2 y) = 2 t / (1 + t^2) goes back twice. tanh(18) is 1 in float32.
__aicore__ inline void tanh(Floats x, Floats square, Floats work, uint32_t n) {
  at_most(x, x, 18.0f, n);
  at_least(x, x, -18.0f, n);
  mul(x, x, 0.25f, n);
  mul(square, x, x, n);
  // x (135135 + 17325 q + 378 q^2 + q^3) / (135135 + 62370 q + 3150 q^2 + 28 q^3), q = x^2
  add(work, square, 378.0f, n);
  mul(work, work, square, n);
  add(work, work, 17325.0f, n);
  mul(work, work, square, n);
  add(work, work, 135135.0f, n);
  mul(x, x, work, n);
  mul(work, square, 28.0f, n);
  add(work, work, 3150.0f, n);
  mul(work, work, square, n);
  add(work, work, 62370.0f, n);
  mul(work, work, square, n);
  add(work, work, 135135.0f, n);
  div(x, x, work, n);
  for (int twice = 0; twice < 2; ++twice) {
    mul(square, x, x, n);
    add(square, square, 1.0f, n);
    mul(x, x, 2.0f, n);
    div(x, x, square, n);
  }
}

// Sums over the tiles of a row so far, relative to the largest logit so far.
struct Running {
  float max, total /* of exp(z - max) */, weighted /* of exp(z - max) (z - max) */, plain /* of z */, target;
};

template <typename T> class Rows {
 public:
  __aicore__ inline Rows() {}
  __aicore__ inline void init(AscendC::TPipe& pipe, const RowsTiling& t, GM_ADDR logits, GM_ADDR labels) {
    t_ = t;
    share_ = my_share(t.rows);
    logits_ = global<T>(logits, (t.rows - 1) * t.stride + t.vocab);
    labels_ = global<int64_t>(labels, t.rows);
    pipe.InitBuffer(in_, 2, t.tile * sizeof(T));
    pipe.InitBuffer(z_, t.tile * sizeof(float));
    pipe.InitBuffer(work_, t.tile * sizeof(float));
    pipe.InitBuffer(more_, t.tile * sizeof(float));
    pipe.InitBuffer(small_, 32);
  }

  // z = cap(logits) / temperature of part of a row. Leaves tanh's square, subtracted from 1, in `more` when `slope`.
  __aicore__ inline void get(int64_t row, int64_t at, uint32_t n, bool slope) {
    Floats z = z_.Get<float>(), work = work_.Get<float>(), more = more_.Get<float>();
    load_wide<T>(z, in_, logits_[row * t_.stride + at], n);
    if (t_.softcap != 0.0f) {
      mul(z, z, 1.0f / t_.softcap, n);
      tanh(z, work, more, n);
      if (slope) {
        mul(more, z, z, n);
        mul(more, more, -1.0f, n);
        add(more, more, 1.0f, n);
      }
      mul(z, z, t_.softcap, n);
    }
    if (t_.temperature != 1.0f) mul(z, z, 1.0f / t_.temperature, n);
  }

  // All that the losses need to know of a row, in one pass over it.
  template <bool weighted> __aicore__ inline Running reduce(int64_t row, int64_t label, bool plain) {
    Running r{-kInfinity, 0.0f, 0.0f, 0.0f, 0.0f};
    Floats z = z_.Get<float>(), work = work_.Get<float>(), small = small_.Get<float>();
    for (int64_t at = 0; at < t_.vocab; at += t_.tile) {
      const auto n = static_cast<uint32_t>(smaller(t_.tile, t_.vocab - at));
      get(row, at, n, false);
      if (plain) {
        mul(work, z, 1.0f, n);
        r.plain += sum(small, work, n);
      }
      AscendC::ReduceMax(small, z, work, n), done();
      const float most = scalar(small);
      if (label >= at && label < at + n) r.target = z.GetValue(static_cast<uint32_t>(label - at));
      if (most == -kInfinity) continue;  // adds nothing, and -inf - -inf is no number
      if (most > r.max) {
        if (r.total != 0.0f) {
          const float drop = most - r.max, factor = exp_of(-drop, small);
          r.weighted = factor != 0.0f ? factor * (r.weighted - drop * r.total) : 0.0f;
          r.total *= factor;
        }
        r.max = most;
      }
      add(z, z, -r.max, n);
      exp(work, z, n);
      if constexpr (weighted) {
        at_least(z, z, -104.0f, n);  // where exp is 0, and 0 times -inf would be no number
        mul(z, z, work, n);
        r.weighted += sum(small, z, n);
      }
      r.total += sum(small, work, n);
    }
    return r;
  }
  __aicore__ inline float log_total(const Running& r) { return ln_of(r.total, small_.Get<float>()); }
  // log-sum-exp; +inf where a logit is.
  __aicore__ inline float log_sum_exp(const Running& r) {
    return r.max == kInfinity ? kInfinity : r.max + log_total(r);
  }

  // Row of gradients from what get() left: z becomes what `gradient(z, work, n)` makes of it, plus `bump` at the label,
  // times the slope of the cap and `scale`.
  __aicore__ inline void finish(int64_t label, int64_t at, uint32_t n, float bump, float scale) {
    Floats z = z_.Get<float>();
    if (label >= at && label < at + n) {
      const auto i = static_cast<uint32_t>(label - at);
      wait<HardEvent::V_S>();
      z.SetValue(i, z.GetValue(i) + bump);
      wait<HardEvent::S_V>();
    }
    if (t_.softcap != 0.0f) mul(z, z, more_.Get<float>(), n);
    mul(z, z, scale, n);
  }

  RowsTiling t_;
  Share share_;
  GlobalTensor<T> logits_;
  GlobalTensor<int64_t> labels_;
  TQue<TPosition::VECIN, 1> in_;
  TBuf<> z_, work_, more_, small_;
};

// Gradients of rows, written a tile at a time.
template <typename T> class GradientRows {
 public:
  __aicore__ inline GradientRows() {}
  __aicore__ inline void init(AscendC::TPipe& pipe, const RowsTiling& t, GM_ADDR to) {
    to_ = global<T>(to, (t.rows - 1) * t.out_stride + t.vocab);
    stride_ = t.out_stride;
    pipe.InitBuffer(out_, 2, t.tile * sizeof(T));
  }
  __aicore__ inline void put(int64_t row, int64_t at, Floats z, uint32_t n) {
    LocalTensor<T> tile = out_.template AllocTensor<T>();
    narrow(tile, z, n);
    store(to_[row * stride_ + at], out_, tile, n);
  }

 private:
  GlobalTensor<T> to_;
  int64_t stride_ = 0;
  TQue<TPosition::VECOUT, 1> out_;
};

}  // namespace hetero
