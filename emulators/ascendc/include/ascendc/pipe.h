// TPipe hands out the unified buffer; TQue passes buffers between units with the waiting that this needs; TBuf is a
// plain one.
#pragma once

#include <array>
#include <string>

#include "flags.h"
#include "tensor.h"

namespace AscendC {

template <TPosition source, TPosition target, int depth> class TQueBind {
 public:
  static constexpr int kMost = 8;  // one of 8 hardware events each

  template <typename T> LocalTensor<T> AllocTensor() {
    auto& core = begin("AllocTensor");
    for (int i = 0; i < count_; ++i) {
      ascendc::Slot& slot = slots_[(next_ + i) % count_];
      if (slot.state != ascendc::Slot::kFree) continue;
      next_ = (next_ + i + 1) % count_;
      slot.state = ascendc::Slot::kAllocated;
      ++slot.life;
      core.learn(producer(), slot.released);
      core.forget(slot.offset, slot.bytes);
      return LocalTensor<T>(slot.offset, slot.bytes, source, &slot);
    }
    core.fail("AllocTensor from a queue whose buffers are all in use", "of " + std::to_string(count_));
  }
  template <typename T> bool EnQue(const LocalTensor<T>& tensor) {
    auto& core = begin("EnQue");
    ascendc::Slot& slot = mine(tensor);
    if (slot.state != ascendc::Slot::kAllocated && slot.state != ascendc::Slot::kTaken)
      core.fail("EnQue of a tensor that is queued or free", "EnQue");
    if (waiting_ == depth) core.fail("EnQue beyond the queue's depth", "depth " + std::to_string(depth));
    slot.state = ascendc::Slot::kQueued;
    slot.filled = core.point(producer());
    order_[(first_ + waiting_++) % kMost] = &slot;
    return true;
  }
  template <typename T> LocalTensor<T> DeQue() {
    auto& core = begin("DeQue");
    if (!waiting_) core.fail("DeQue from an empty queue", "a tensor must be put in by EnQue first");
    ascendc::Slot& slot = *order_[first_];
    first_ = (first_ + 1) % kMost;
    --waiting_;
    slot.state = ascendc::Slot::kTaken;
    core.learn(consumer(), slot.filled);
    return LocalTensor<T>(slot.offset, slot.bytes, target == TPosition::VECCALC ? source : target, &slot);
  }
  template <typename T> void FreeTensor(const LocalTensor<T>& tensor) {
    auto& core = begin("FreeTensor");
    ascendc::Slot& slot = mine(tensor);
    if (slot.state == ascendc::Slot::kFree) core.fail("FreeTensor of a tensor that is free", "freed twice");
    if (slot.state == ascendc::Slot::kQueued)
      core.fail("FreeTensor of a tensor that is still queued", "DeQue it first");
    slot.state = ascendc::Slot::kFree;
    slot.released = core.point(consumer());
  }
  bool HasTensorInQue() const { return waiting_ > 0; }
  bool HasIdleBuffer() const {
    for (int i = 0; i < count_; ++i)
      if (slots_[i].state == ascendc::Slot::kFree) return true;
    return false;
  }

  ~TQueBind() {
    if (!count_ || !ascendc::Core::running()) return;
    for (int i = 0; i < count_; ++i)
      if (slots_[i].state != ascendc::Slot::kFree)
        ascendc::Core::now().unfinished.push_back("a tensor of a queue was not freed");
  }

  void init(int count, uint32_t bytes) {
    auto& core = ascendc::Core::now();
    core.instruction = "InitBuffer";
    if (count_) core.fail("InitBuffer twice for one queue", "queue");
    if (count < 1 || count > kMost) core.fail("more than 8 buffers for one queue", std::to_string(count));
    bytes = (bytes + ascendc::kBlock - 1) / ascendc::kBlock * ascendc::kBlock;
    const uint32_t offset = core.reserve(bytes, count, "queue");
    for (int i = 0; i < count; ++i) {
      slots_[i].offset = offset + i * bytes;
      slots_[i].bytes = bytes;
      slots_[i].owner = this;
    }
    count_ = count;
  }

 private:
  // Who fills a buffer, and who uses it: the copy in, then vectors; vectors, then the copy out; or copy in, copy out.
  static constexpr pipe_t producer() { return source == TPosition::VECIN ? PIPE_MTE2 : PIPE_V; }
  static constexpr pipe_t consumer() { return target == TPosition::VECOUT ? PIPE_MTE3 : PIPE_V; }

  ascendc::Core& begin(const char* name) {
    auto& core = ascendc::Core::now();
    core.instruction = name;
    if (!count_) core.fail("a queue without InitBuffer", name);
    return core;
  }
  template <typename T> ascendc::Slot& mine(const LocalTensor<T>& tensor) {
    auto& core = ascendc::Core::now();
    if (!tensor.slot() || tensor.slot()->owner != this) core.fail("a tensor of another queue", core.instruction);
    if (tensor.slot()->life != tensor.life())
      core.fail("FreeTensor of a tensor that is free", "its buffer is in use again");
    return *tensor.slot();
  }

  std::array<ascendc::Slot, kMost> slots_{};
  std::array<ascendc::Slot*, kMost> order_{};
  int count_ = 0, next_ = 0, first_ = 0, waiting_ = 0;
};

// VECIN: copied in, used by vectors. VECOUT: made by vectors, copied out. VECCALC: vectors only.
template <TPosition position, int depth>
class TQue : public TQueBind<position, position == TPosition::VECOUT ? TPosition::VECOUT : TPosition::VECCALC, depth> {
};

template <TPosition position = TPosition::VECCALC> class TBuf {
 public:
  template <typename T> LocalTensor<T> Get() const {
    if (!bytes_) ascendc::Core::now().fail("a buffer without InitBuffer", "TBuf::Get");
    return LocalTensor<T>(offset_, bytes_, position, nullptr);
  }
  void init(uint32_t bytes) {
    auto& core = ascendc::Core::now();
    core.instruction = "InitBuffer";
    bytes_ = (bytes + ascendc::kBlock - 1) / ascendc::kBlock * ascendc::kBlock;
    offset_ = core.reserve(bytes_, 1, "buffer");
  }

 private:
  uint32_t offset_ = 0, bytes_ = 0;
};

class TPipe {
 public:
  TPipe() {
    auto& core = ascendc::Core::now();
    if (core.pipe) core.fail("two TPipe objects in one kernel", "TPipe");
    core.pipe = this;
  }
  template <typename Queue> bool InitBuffer(Queue& queue, uint8_t count, uint32_t bytes) {
    queue.init(count, bytes);
    return true;
  }
  template <TPosition position> bool InitBuffer(TBuf<position>& buffer, uint32_t bytes) {
    buffer.init(bytes);
    return true;
  }
  // An event of this way that is not kept: set and wait for it at once.
  TEventID FetchEventID(HardEvent) { return 0; }
};

inline TPipe* GetTPipePtr() {
  auto& core = ascendc::Core::now();
  if (!core.pipe) core.fail("GetTPipePtr without a TPipe", "GetTPipePtr");
  return static_cast<TPipe*>(core.pipe);
}

}  // namespace AscendC
