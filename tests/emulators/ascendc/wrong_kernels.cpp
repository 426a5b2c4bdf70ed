// Kernels that break one rule each, and a few that break none; run_kernel(name) says what the emulated core found.
#include <cstring>
#include <map>
#include <string>

#include "kernel_operator.h"

using namespace AscendC;

namespace {

alignas(64) float input[1 << 16], output[1 << 16], elsewhere[64];
alignas(64) bfloat16_t narrow[1024];

GlobalTensor<float> in(int64_t size = 1024) {
  GlobalTensor<float> t;
  t.SetGlobalBuffer(input, size);
  return t;
}
GlobalTensor<float> out(int64_t size = 1024) {
  GlobalTensor<float> t;
  t.SetGlobalBuffer(output, size);
  return t;
}

template <HardEvent event> void sync() {
  SetFlag<event>(EVENT_ID0);
  WaitFlag<event>(EVENT_ID0);
}

// A pipe with a queue in, a queue out and a buffer of 256 floats each.
struct Bench {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> from;
  TQue<TPosition::VECOUT, 1> to;
  TBuf<> calc;
  TBuf<TPosition::VECOUT> plain;
  explicit Bench(int buffers = 1, uint32_t bytes = 1024) {
    pipe.InitBuffer(from, buffers, bytes);
    pipe.InitBuffer(to, buffers, bytes);
    pipe.InitBuffer(calc, bytes);
    pipe.InitBuffer(plain, bytes);
  }
  LocalTensor<float> loaded(uint32_t n) {
    auto t = from.AllocTensor<float>();
    DataCopyPad(t, in(), {1, static_cast<uint32_t>(n * sizeof(float)), 0, 0, 0}, {false, 0, 0, 0});
    from.EnQue(t);
    return from.DeQue<float>();
  }
  void filled(uint32_t n) { Duplicate(calc.Get<float>(), 1.0f, n), PipeBarrier<PIPE_V>(); }
};

void twice() {  // what a kernel should look like
  Bench b(2);
  const int64_t index = GetBlockIdx(), blocks = GetBlockNum();
  for (int64_t tile = index; tile < 4; tile += blocks) {
    auto x = b.from.AllocTensor<float>();
    DataCopy(x, in()[tile * 256], 256);
    b.from.EnQue(x);
    x = b.from.DeQue<float>();
    auto y = b.to.AllocTensor<float>();
    Add(y, x, x, 256);
    b.from.FreeTensor(x);
    b.to.EnQue(y);
    y = b.to.DeQue<float>();
    DataCopy(out()[tile * 256], y, 256);
    b.to.FreeTensor(y);
  }
}

const std::map<std::string, std::function<void()>>& kernels() {
  static const std::map<std::string, std::function<void()>> all{
      {"right", twice},
      {"scalar round trip",
       [] {
         Bench b;
         b.filled(8);
         sync<HardEvent::V_S>();
         auto t = b.calc.Get<float>();
         t.SetValue(0, t.GetValue(0) + 1.0f);
         sync<HardEvent::S_V>();
         Muls(t, t, 2.0f, 8);
       }},
      // queues
      {"deque of nothing", [] { Bench().from.DeQue<float>(); }},
      {"freed twice",
       [] {
         Bench b;
         auto t = b.loaded(8);
         b.from.FreeTensor(t);
         b.from.FreeTensor(t);
       }},
      {"freed while queued",
       [] {
         Bench b;
         auto t = b.from.AllocTensor<float>();
         b.from.EnQue(t);
         b.from.FreeTensor(t);
       }},
      {"more tensors than buffers",
       [] {
         Bench b(2);
         for (int i = 0; i < 3; ++i) b.from.AllocTensor<float>();
       }},
      {"enqueued beyond depth",
       [] {
         Bench b(2);
         auto t = b.from.AllocTensor<float>(), u = b.from.AllocTensor<float>();
         b.from.EnQue(t);
         b.from.EnQue(u);
       }},
      {"tensor of another queue",
       [] {
         Bench b;
         b.to.EnQue(b.from.AllocTensor<float>());
       }},
      {"used after free",
       [] {
         Bench b;
         auto t = b.loaded(8);
         b.from.FreeTensor(t);
         Adds(b.calc.Get<float>(), t, 1.0f, 8);
       }},
      {"used while queued",
       [] {
         Bench b;
         auto t = b.from.AllocTensor<float>();
         DataCopy(t, in(), 8);
         b.from.EnQue(t);
         Adds(b.calc.Get<float>(), t, 1.0f, 8);
       }},
      {"never freed", [] { Bench().loaded(8); }},
      {"queue without memory",
       [] {
         TPipe pipe;
         TQue<TPosition::VECIN, 1> queue;
         queue.AllocTensor<float>();
       }},
      // unified buffer
      {"unified buffer full", [] { Bench b(1, 48 * 1024); }},
      {"too many buffers",
       [] {
         TPipe pipe;
         TBuf<> buffers[65];
         for (auto& buffer : buffers) pipe.InitBuffer(buffer, 32);
       }},
      {"unaligned operand",
       [] {
         Bench b;
         b.filled(64);
         Adds(b.calc.Get<float>()[1], b.calc.Get<float>()[1], 1.0f, 8);
       }},
      {"past a tensor",
       [] {
         Bench b;
         Duplicate(b.calc.Get<float>(), 1.0f, 257);
       }},
      {"overlap in part",
       [] {
         Bench b;
         b.filled(64);
         Adds(b.calc.Get<float>(), b.calc.Get<float>()[8], 1.0f, 16);
       }},
      // what was never written
      {"lanes never written",
       [] {
         Bench b;
         auto t = b.loaded(7);
         Adds(b.calc.Get<float>(), t, 1.0f, 8);
       }},
      {"reduction over padding",
       [] {
         Bench b;
         auto t = b.loaded(9);
         ReduceSum(b.calc.Get<float>(), t, t, 16);
       }},
      {"stale buffer",
       [] {
         Bench b;
         auto t = b.loaded(8);
         b.from.FreeTensor(t);
         t = b.from.AllocTensor<float>();
         b.from.EnQue(t);
         t = b.from.DeQue<float>();
         Adds(b.calc.Get<float>(), t, 1.0f, 8);
       }},
      {"padding that was asked for",
       [] {
         Bench b;
         auto t = b.from.AllocTensor<float>();
         DataCopyPad(t, in(), {1, 28, 0, 0, 0}, {true, 0, 1, 0});
         b.from.EnQue(t);
         t = b.from.DeQue<float>();
         Adds(b.calc.Get<float>(), t, 1.0f, 8);
         b.from.FreeTensor(t);
       }},
      // copies
      {"copy of 7 elements",
       [] {
         Bench b;
         DataCopy(b.from.AllocTensor<float>(), in(), 7);
       }},
      {"copy out of 7 elements",
       [] {
         Bench b;
         DataCopy(out(), b.plain.Get<float>(), 7);
       }},
      {"4096 blocks",
       [] {
         Bench b;
         DataCopyPad(b.from.AllocTensor<float>(), in(), {4096, 4, 0, 0, 0}, {false, 0, 0, 0});
       }},
      {"block of 2 MiB",
       [] {
         Bench b;
         DataCopyPad(b.from.AllocTensor<float>(), in(), {1, 2097152, 0, 0, 0}, {false, 0, 0, 0});
       }},
      {"half an element",
       [] {
         Bench b;
         DataCopyPad(b.from.AllocTensor<float>(), in(), {1, 6, 0, 0, 0}, {false, 0, 0, 0});
       }},
      {"padding of 36 bytes",
       [] {
         Bench b;
         DataCopyPad(b.from.AllocTensor<float>(), in(), {1, 4, 0, 0, 0}, {true, 0, 9, 0});
       }},
      {"padded copy to VECCALC",
       [] {
         Bench b;
         DataCopyPad(b.calc.Get<float>(), in(), {1, 32, 0, 0, 0}, {false, 0, 0, 0});
       }},
      {"copy out from VECCALC",
       [] {
         Bench b;
         b.filled(8);
         sync<HardEvent::V_MTE3>();
         DataCopyPad(out(), b.calc.Get<float>(), {1, 32, 0, 0, 0});
       }},
      {"past global memory",
       [] {
         Bench b;
         DataCopyPad(b.from.AllocTensor<float>(), in(1 << 20)[1022], {1, 12, 0, 0, 0}, {false, 0, 0, 0});
       }},
      {"past a global tensor",
       [] {
         Bench b;
         DataCopyPad(b.from.AllocTensor<float>(), in(10)[8], {1, 12, 0, 0, 0}, {false, 0, 0, 0});
       }},
      {"unnamed global memory",
       [] {
         GlobalTensor<float> t;
         t.SetGlobalBuffer(elsewhere, 64);
         t.GetValue(0);
       }},
      {"write to what is read only",
       [] {
         Bench b;
         Duplicate(b.plain.Get<float>(), 1.0f, 8);
         sync<HardEvent::V_MTE3>();
         DataCopyPad(in(), b.plain.Get<float>(), {1, 32, 0, 0, 0});
       }},
      // vector instructions
      {"bfloat16 arithmetic",
       [] {
         TPipe pipe;
         TBuf<> buffer;
         pipe.InitBuffer(buffer, 64);
         auto t = buffer.Get<bfloat16_t>();
         Duplicate(t, bfloat16_t(1.0f), 16);
         PipeBarrier<PIPE_V>();
         Add(t, t, t, 16);
       }},
      {"bfloat16 with CAST_NONE",
       [] {
         Bench b;
         b.filled(16);
         Cast(b.plain.Get<bfloat16_t>(), b.calc.Get<float>(), RoundMode::CAST_NONE, 16);
       }},
      {"256 repeats",
       [] {
         Bench b;
         b.filled(64);
         auto t = b.calc.Get<float>();
         Mul(t, t, t, 64, 256, {1, 1, 1, 0, 0, 0});
       }},
      {"mask of 65 lanes",
       [] {
         Bench b;
         b.filled(256);
         auto t = b.calc.Get<float>();
         Mul(t, t, t, 65, 1, {1, 1, 1, 8, 8, 8});
       }},
      {"gather past the tensor",
       [] {
         Bench b;
         b.filled(8);
         auto at = b.plain.Get<int32_t>();
         Duplicate(at, 1024, 8);
         PipeBarrier<PIPE_V>();
         auto y = b.to.AllocTensor<float>();
         Gather(y, b.calc.Get<float>(), b.plain.Get<uint32_t>(), 0, 8);
       }},
      // order
      {"vector before the copy in",
       [] {
         Bench b;
         auto t = b.from.AllocTensor<float>();
         DataCopy(t, in(), 8);
         Adds(b.calc.Get<float>(), t, 1.0f, 8);
       }},
      {"copy out before the vector",
       [] {
         Bench b;
         Duplicate(b.plain.Get<float>(), 1.0f, 8);
         DataCopyPad(out(), b.plain.Get<float>(), {1, 32, 0, 0, 0});
       }},
      {"vector into a copy out",
       [] {
         Bench b;
         Duplicate(b.plain.Get<float>(), 1.0f, 8);
         sync<HardEvent::V_MTE3>();
         DataCopyPad(out(), b.plain.Get<float>(), {1, 32, 0, 0, 0});
         PipeBarrier<PIPE_V>();
         Duplicate(b.plain.Get<float>(), 2.0f, 8);
       }},
      {"scalar before the vector",
       [] {
         Bench b;
         Duplicate(b.calc.Get<float>(), 1.0f, 8);
         b.calc.Get<float>().GetValue(0);
       }},
      {"vector before the scalar",
       [] {
         Bench b;
         b.calc.Get<float>().SetValue(0, 1.0f);
         Adds(b.calc.Get<float>(), b.calc.Get<float>(), 1.0f, 1);
       }},
      {"no barrier between vectors",
       [] {
         Bench b;
         Duplicate(b.calc.Get<float>(), 1.0f, 8);
         Adds(b.calc.Get<float>(), b.calc.Get<float>(), 1.0f, 8);
       }},
      {"wait for nothing", [] { WaitFlag<HardEvent::V_S>(EVENT_ID0); }},
      {"flag set twice",
       [] {
         SetFlag<HardEvent::V_S>(EVENT_ID0);
         SetFlag<HardEvent::V_S>(EVENT_ID0);
       }},
      {"flag left set", [] { SetFlag<HardEvent::V_S>(EVENT_ID0); }},
      {"event 8", [] { SetFlag<HardEvent::V_S>(8); }},
      // blocks
      {"blocks write the same",
       [] {
         Bench b;
         Duplicate(b.plain.Get<float>(), 1.0f, 8);
         sync<HardEvent::V_MTE3>();
         DataCopyPad(out(), b.plain.Get<float>(), {1, 32, 0, 0, 0});
       }},
      {"a block reads what another writes",
       [] {
         Bench b;
         if (GetBlockIdx() == 0) {
           out().GetValue(8);
         } else {
           Duplicate(b.plain.Get<float>(), 1.0f, 8);
           sync<HardEvent::V_MTE3>();
           DataCopyPad(out()[8], b.plain.Get<float>(), {1, 32, 0, 0, 0});
         }
       }},
  };
  return all;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* run_kernel(const char* name, int blocks) {
  static std::string said;
  for (int i = 0; i < 1024; ++i) input[i] = static_cast<float>(i);
  std::memset(output, 0, sizeof(output));
  const std::vector<ascendc::Buffer> buffers{{"input", input, 1024 * sizeof(float), false},
                                             {"output", output, 1024 * sizeof(float), true},
                                             {"narrow", narrow, sizeof(narrow), true}};
  const int code = ascendc::launch(name, blocks, nullptr, buffers, kernels().at(name));
  said = code ? ascendc::last_error() : "";
  return said.c_str();
}

extern "C" __attribute__((visibility("default"))) float output_at(int i) { return output[i]; }

extern "C" __attribute__((visibility("default"))) const char* kernel_name(int index) {
  for (const auto& [name, _] : kernels())
    if (!index--) return name.c_str();
  return nullptr;
}
