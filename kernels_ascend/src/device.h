// What the kernels share on the device: waiting, vector instructions that may depend on each other, conversions, sums,
// copies.
#pragma once

#include "kernel_operator.h"

namespace hetero {

using AscendC::GlobalTensor;
using AscendC::HardEvent;
using AscendC::LocalTensor;
using AscendC::TBuf;
using AscendC::TPosition;
using AscendC::TQue;
using Floats = LocalTensor<float>;

constexpr int64_t kF32 = (2 << 8) | 32, kF16 = (2 << 8) | 16, kBF16 = (4 << 8) | 16;  // as in hetero_ascend.h

// Part of [0, n) that is this core's.
struct Share {
  int64_t first, end;
};
__aicore__ inline Share my_share(int64_t n) {
  const int64_t index = AscendC::GetBlockIdx(), blocks = AscendC::GetBlockNum();
  const int64_t each = n / blocks, more = n % blocks;
  const int64_t first = index * each + (index < more ? index : more);
  return {first, first + each + (index < more ? 1 : 0)};
}

__aicore__ inline uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }
__aicore__ inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// One unit goes on only after the other one's work so far.
template <HardEvent event> __aicore__ inline void wait() {
  using namespace AscendC;  // CANN has GetTPipePtr in one namespace or the other
  const auto id = GetTPipePtr()->FetchEventID(event);
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
}

// Vector instructions, each of which may use the result of the one before.
__aicore__ inline void done() { AscendC::PipeBarrier<PIPE_V>(); }
__aicore__ inline void add(Floats y, Floats a, Floats b, uint32_t n) { AscendC::Add(y, a, b, n), done(); }
__aicore__ inline void mul(Floats y, Floats a, Floats b, uint32_t n) { AscendC::Mul(y, a, b, n), done(); }
__aicore__ inline void div(Floats y, Floats a, Floats b, uint32_t n) { AscendC::Div(y, a, b, n), done(); }
__aicore__ inline void add(Floats y, Floats a, float b, uint32_t n) { AscendC::Adds(y, a, b, n), done(); }
__aicore__ inline void mul(Floats y, Floats a, float b, uint32_t n) { AscendC::Muls(y, a, b, n), done(); }
__aicore__ inline void at_least(Floats y, Floats a, float b, uint32_t n) { AscendC::Maxs(y, a, b, n), done(); }
__aicore__ inline void at_most(Floats y, Floats a, float b, uint32_t n) { AscendC::Mins(y, a, b, n), done(); }
__aicore__ inline void exp(Floats y, Floats a, uint32_t n) { AscendC::Exp(y, a, n), done(); }
__aicore__ inline void ln(Floats y, Floats a, uint32_t n) { AscendC::Ln(y, a, n), done(); }
__aicore__ inline void sqrt(Floats y, Floats a, uint32_t n) { AscendC::Sqrt(y, a, n), done(); }
__aicore__ inline void fill(Floats y, float value, uint32_t n) { AscendC::Duplicate(y, value, n), done(); }

template <typename T> __aicore__ inline void widen(Floats y, LocalTensor<T> x, uint32_t n) {
  if constexpr (AscendC::IsSameType<T, float>::value) {
    AscendC::Muls(y, x, 1.0f, n);
  } else {
    AscendC::Cast(y, x, AscendC::RoundMode::CAST_NONE, n);
  }
  done();
}
template <typename T> __aicore__ inline void narrow(LocalTensor<T> y, Floats x, uint32_t n) {
  if constexpr (AscendC::IsSameType<T, float>::value) {
    AscendC::Muls(y, x, 1.0f, n);
  } else {
    AscendC::Cast(y, x, AscendC::RoundMode::CAST_RINT, n);
  }
  done();
}

// x[0] for the scalar unit.
__aicore__ inline float scalar(Floats x) {
  wait<HardEvent::V_S>();
  return x.GetValue(0);
}
// f(value) for a vector instruction f, through the 8 lanes of `small`.
__aicore__ inline float exp_of(float value, Floats small) {
  fill(small, value, 8);
  exp(small, small, 8);
  return scalar(small);
}
__aicore__ inline float ln_of(float value, Floats small) {
  fill(small, value, 8);
  ln(small, small, 8);
  return scalar(small);
}

// Sum of x[0..n) into small[0]; x is overwritten. Halves are folded, since ReduceSum adds one repeat after the other
// and a long sum would lose accuracy.
__aicore__ inline void fold_sum(Floats small, Floats x, uint32_t n) {
  while (n > 64) {
    const uint32_t half = round_up((n + 1) / 2, 64);
    add(x, x, x[half], n - half);
    n = half;
  }
  AscendC::ReduceSum(small, x, x, n), done();
}
__aicore__ inline float sum(Floats small, Floats x, uint32_t n) {
  fold_sum(small, x, n);
  return scalar(small);
}

// Copies of rows of `width` elements, each at a multiple of 32 bytes in the unified buffer. Pad lanes are zeros where
// `padded`: for vector instructions over several rows at once.
template <typename T>
__aicore__ inline void copy_in(LocalTensor<T> to, GlobalTensor<T> from, uint32_t rows, uint32_t width, int64_t stride,
                               bool padded) {
  AscendC::DataCopyExtParams shape;
  shape.blockCount = static_cast<uint16_t>(rows);
  shape.blockLen = width * sizeof(T);
  shape.srcStride = static_cast<uint32_t>((stride - width) * sizeof(T));
  shape.dstStride = 0;
  AscendC::DataCopyPadExtParams<T> pad;
  pad.isPad = padded;
  pad.leftPadding = 0;
  pad.rightPadding = padded ? round_up(width, 32 / sizeof(T)) - width : 0;
  pad.paddingValue = static_cast<T>(0);
  AscendC::DataCopyPad(to, from, shape, pad);
}
template <typename T> __aicore__ inline void copy_in(LocalTensor<T> to, GlobalTensor<T> from, uint32_t n) {
  copy_in(to, from, 1, n, n, false);
}
template <typename T>
__aicore__ inline void copy_out(GlobalTensor<T> to, LocalTensor<T> from, uint32_t rows, uint32_t width,
                                int64_t stride) {
  AscendC::DataCopyExtParams shape;
  shape.blockCount = static_cast<uint16_t>(rows);
  shape.blockLen = width * sizeof(T);
  shape.srcStride = 0;
  shape.dstStride = static_cast<uint32_t>((stride - width) * sizeof(T));
  AscendC::DataCopyPad(to, from, shape);
}
template <typename T> __aicore__ inline void copy_out(GlobalTensor<T> to, LocalTensor<T> from, uint32_t n) {
  copy_out(to, from, 1, n, n);
}

// A queue's next buffer, filled from global memory; the caller frees it.
template <typename T, typename Queue>
__aicore__ inline LocalTensor<T> load(Queue& queue, GlobalTensor<T> from, uint32_t n) {
  LocalTensor<T> tile = queue.template AllocTensor<T>();
  copy_in(tile, from, n);
  queue.EnQue(tile);
  return queue.template DeQue<T>();
}
// As float32 in `to`.
template <typename T, typename Queue>
__aicore__ inline void load_wide(Floats to, Queue& queue, GlobalTensor<T> from, uint32_t n) {
  LocalTensor<T> tile = load<T>(queue, from, n);
  widen(to, tile, n);
  queue.FreeTensor(tile);
}
// A tensor that vectors have filled, to global memory.
template <typename T, typename Queue>
__aicore__ inline void store(GlobalTensor<T> to, Queue& queue, LocalTensor<T> tile, uint32_t n) {
  queue.EnQue(tile);
  LocalTensor<T> ready = queue.template DeQue<T>();
  copy_out(to, ready, n);
  queue.FreeTensor(ready);
}

template <typename T> __aicore__ inline GlobalTensor<T> global(GM_ADDR address, int64_t size) {
  GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(address), size);
  return tensor;
}

// One float for each row, collected so that global memory is written 64 at a time.
class RowValues {
 public:
  __aicore__ inline RowValues() {}
  static constexpr uint32_t kRows = 64;
  __aicore__ inline void init(AscendC::TPipe& pipe, GM_ADDR to, int64_t rows, int64_t first) {
    pipe.InitBuffer(buffer_, kRows * sizeof(float));
    out_ = global<float>(to, rows);
    next_ = first;
  }
  __aicore__ inline void push(float value) {
    buffer_.template Get<float>().SetValue(held_++, value);
    if (held_ == kRows) flush();
  }
  __aicore__ inline void flush() {
    if (!held_) return;
    wait<HardEvent::S_MTE3>();
    copy_out(out_[next_], buffer_.template Get<float>(), held_);
    wait<HardEvent::MTE3_S>();
    next_ += held_;
    held_ = 0;
  }

 private:
  TBuf<TPosition::VECOUT> buffer_;
  GlobalTensor<float> out_;
  int64_t next_ = 0;
  uint32_t held_ = 0;
};

}  // namespace hetero
