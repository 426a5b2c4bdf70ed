// GlobalTensor: a typed address in global memory. LocalTensor: a typed part of the unified buffer.
#pragma once

#include <cstdint>
#include <string>

#include "machine.h"

namespace ascendc {

// A buffer of a queue, and where in its life it is.
struct Slot {
  enum State : uint8_t { kFree, kAllocated, kQueued, kTaken } state = kFree;
  uint32_t offset = 0, bytes = 0, life = 0;
  Clock released{};  // until here the previous use goes on
  Clock filled{};
  const void* owner = nullptr;
};

}  // namespace ascendc

namespace AscendC {

template <typename T> class GlobalTensor {
 public:
  void SetGlobalBuffer(__gm__ T* buffer, uint64_t size) {
    data_ = buffer;
    size_ = size;
  }
  void SetGlobalBuffer(__gm__ T* buffer) { SetGlobalBuffer(buffer, UINT64_MAX / sizeof(T)); }
  GlobalTensor operator[](uint64_t offset) const {
    GlobalTensor rest = *this;
    rest.data_ += offset;
    rest.size_ = offset > size_ ? 0 : size_ - offset;
    return rest;
  }
  // By the scalar unit, through its data cache.
  T GetValue(uint64_t offset) const {
    auto& core = ascendc::Core::now();
    core.issue(PIPE_S, "GlobalTensor::GetValue");
    check(offset * sizeof(T), sizeof(T));
    core.read_global(data_ + offset, sizeof(T));
    T value;
    std::memcpy(&value, data_ + offset, sizeof(T));
    return value;
  }
  uint64_t GetSize() const { return size_; }
  const __gm__ T* GetPhyAddr() const { return data_; }

  // [start, start + bytes) lies in what SetGlobalBuffer said.
  void check(uint64_t start, uint64_t bytes) const {
    if ((start + bytes + sizeof(T) - 1) / sizeof(T) > size_)
      ascendc::Core::now().fail("out of bounds of a GlobalTensor",
                                "bytes " + std::to_string(start) + " to " + std::to_string(start + bytes) +
                                    " of a tensor of " + std::to_string(size_ * sizeof(T)));
  }
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
  uint64_t size_ = 0;
};

template <typename T> class LocalTensor {
 public:
  LocalTensor() = default;
  LocalTensor(uint32_t offset, uint32_t bytes, TPosition position, ascendc::Slot* slot)
      : offset_(offset), bytes_(bytes), position_(position), slot_(slot), life_(slot ? slot->life : 0), bound_(true) {}

  LocalTensor operator[](uint32_t elements) const {
    LocalTensor rest = *this;
    const uint32_t skipped = elements * sizeof(T);
    if (skipped > bytes_)
      ascendc::Core::now().fail("out of bounds of a LocalTensor",
                                "element " + std::to_string(elements) + " of " + std::to_string(GetSize()));
    rest.offset_ += skipped;
    rest.bytes_ -= skipped;
    return rest;
  }
  template <typename U> LocalTensor<U> ReinterpretCast() const {
    LocalTensor<U> other(offset_, bytes_, position_, slot_);
    other.set_life(life_);
    return other;
  }
  uint32_t GetSize() const { return bytes_ / sizeof(T); }
  TPosition GetPosition() const { return position_; }

  // Single elements, by the scalar unit: it must wait for the vector unit (V_S), and that for it (S_V).
  T GetValue(uint32_t index) const {
    auto& core = ascendc::Core::now();
    core.issue(PIPE_S, "LocalTensor::GetValue");
    const uint32_t at = range(index * sizeof(T), sizeof(T), "source");
    core.read(at, sizeof(T), "source");
    T value;
    std::memcpy(&value, core.ub(at), sizeof(T));
    return value;
  }
  void SetValue(uint32_t index, T value) const {
    auto& core = ascendc::Core::now();
    core.issue(PIPE_S, "LocalTensor::SetValue");
    const uint32_t at = range(index * sizeof(T), sizeof(T), "destination");
    core.write(at, sizeof(T), "destination");
    std::memcpy(core.ub(at), &value, sizeof(T));
  }

  // Offset in the unified buffer of `bytes` bytes from `start`, checked against this tensor and its buffer's life.
  uint32_t range(uint32_t start, uint32_t bytes, const char* operand) const {
    auto& core = ascendc::Core::now();
    if (!bound_) core.fail("a LocalTensor that no queue or buffer gave", operand);
    if (slot_ && (slot_->life != life_ || slot_->state == ascendc::Slot::kFree))
      core.fail("use of a LocalTensor after FreeTensor", operand);
    if (slot_ && slot_->state == ascendc::Slot::kQueued)
      core.fail("use of a LocalTensor between EnQue and DeQue", operand);
    if (uint64_t(start) + bytes > bytes_)
      core.fail("out of bounds of a LocalTensor", std::string(operand) + ": bytes " + std::to_string(start) + " to " +
                                                      std::to_string(uint64_t(start) + bytes) + " of " +
                                                      std::to_string(bytes_));
    return offset_ + start;
  }
  ascendc::Slot* slot() const { return slot_; }
  void set_life(uint32_t life) { life_ = life; }
  uint32_t life() const { return life_; }

 private:
  uint32_t offset_ = 0, bytes_ = 0;
  TPosition position_ = TPosition::VECCALC;
  ascendc::Slot* slot_ = nullptr;
  uint32_t life_ = 0;
  bool bound_ = false;
};

}  // namespace AscendC
