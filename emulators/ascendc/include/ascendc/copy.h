// Copies between global memory and the unified buffer.
#pragma once

#include <string>

#include "tensor.h"

namespace AscendC {

struct DataCopyExtParams {
  uint16_t blockCount = 1;
  uint32_t blockLen = 0;  // bytes
  uint32_t srcStride =
      0;  // from a block's end to the next one's start: bytes in global memory, 32-byte blocks in the UB
  uint32_t dstStride = 0;
  uint32_t rsv = 0;
};

template <typename T> struct DataCopyPadExtParams {
  bool isPad = false;
  uint8_t leftPadding = 0, rightPadding = 0;  // elements
  T paddingValue{};
};

}  // namespace AscendC

namespace ascendc {

inline void check_counts(Core& core, const AscendC::DataCopyExtParams& p, size_t element) {
  if (p.blockCount > 4095) core.fail("blockCount above 4095", std::to_string(p.blockCount));
  if (p.blockLen > 2097151) core.fail("blockLen above 2097151", std::to_string(p.blockLen));
  if (p.blockLen % element) core.fail("blockLen is no whole number of elements", std::to_string(p.blockLen));
}
inline void check_whole_blocks(Core& core, uint64_t bytes) {
  if (bytes % kBlock)
    core.fail("DataCopy of a size that is not a multiple of 32 bytes",
              std::to_string(bytes) + " bytes: the hardware would round down; use DataCopyPad");
}

}  // namespace ascendc

namespace AscendC {

template <typename T> inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t count) {
  auto& core = ascendc::Core::now();
  core.issue(PIPE_MTE2, "DataCopy to the unified buffer");
  ascendc::check_whole_blocks(core, uint64_t(count) * sizeof(T));
  if (!count) return;
  const uint32_t bytes = count * sizeof(T), at = dst.range(0, bytes, "destination");
  core.aligned(at, ascendc::kBlock, "destination");
  src.check(0, bytes);
  core.read_global(src.data(), bytes);
  core.write(at, bytes, "destination");
  std::memcpy(core.ub(at), src.data(), bytes);
}

template <typename T> inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count) {
  auto& core = ascendc::Core::now();
  core.issue(PIPE_MTE3, "DataCopy to global memory");
  ascendc::check_whole_blocks(core, uint64_t(count) * sizeof(T));
  if (!count) return;
  const uint32_t bytes = count * sizeof(T), at = src.range(0, bytes, "source");
  core.aligned(at, ascendc::kBlock, "source");
  core.read(at, bytes, "source");
  dst.check(0, bytes);
  core.write_global(dst.data(), bytes);
  std::memcpy(dst.data(), core.ub(at), bytes);
}

// Blocks of any length; each starts on a 32-byte boundary of the UB. What is left of its last 32 bytes is undefined,
// but for the padding that was asked for.
template <typename T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& params,
                        const DataCopyPadExtParams<T>& pad) {
  auto& core = ascendc::Core::now();
  core.issue(PIPE_MTE2, "DataCopyPad to the unified buffer");
  ascendc::check_counts(core, params, sizeof(T));
  if (dst.GetPosition() == TPosition::VECCALC)
    core.fail("DataCopyPad from global memory to VECCALC", "only VECIN and VECOUT on A2 and A3");
  const uint32_t left = pad.leftPadding * sizeof(T), right = pad.rightPadding * sizeof(T);
  if (left > ascendc::kBlock || right > ascendc::kBlock)
    core.fail("padding above 32 bytes", std::to_string(left > right ? left : right));
  if (!params.blockCount || !params.blockLen) return;
  const uint32_t used = left + params.blockLen + right;
  const uint32_t room = (used + ascendc::kBlock - 1) / ascendc::kBlock * ascendc::kBlock;
  uint64_t from = 0;
  uint32_t to = 0;
  for (int i = 0; i < params.blockCount; ++i) {
    const uint32_t at = dst.range(to, room, "destination");
    core.aligned(at, ascendc::kBlock, "destination");
    src.check(from, params.blockLen);
    const auto* source = reinterpret_cast<const uint8_t*>(src.data()) + from;
    core.read_global(source, params.blockLen);
    core.write(at, room, "destination");
    std::memcpy(core.ub(at + left), source, params.blockLen);
    core.forget(at, left);
    core.forget(at + left + params.blockLen, room - left - params.blockLen);
    if (pad.isPad && (left || right)) {
      core.write(at, used, "destination");
      for (uint32_t k = 0; k < left; k += sizeof(T)) std::memcpy(core.ub(at + k), &pad.paddingValue, sizeof(T));
      for (uint32_t k = left + params.blockLen; k < used; k += sizeof(T))
        std::memcpy(core.ub(at + k), &pad.paddingValue, sizeof(T));
    }
    from += uint64_t(params.blockLen) + params.srcStride;
    to += room + params.dstStride * ascendc::kBlock;
  }
}

template <typename T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& params) {
  auto& core = ascendc::Core::now();
  core.issue(PIPE_MTE3, "DataCopyPad to global memory");
  ascendc::check_counts(core, params, sizeof(T));
  if (src.GetPosition() == TPosition::VECCALC)
    core.fail("DataCopyPad from VECCALC to global memory", "only VECIN and VECOUT");
  if (!params.blockCount || !params.blockLen) return;
  const uint32_t room = (params.blockLen + ascendc::kBlock - 1) / ascendc::kBlock * ascendc::kBlock;
  uint32_t from = 0;
  uint64_t to = 0;
  for (int i = 0; i < params.blockCount; ++i) {
    const uint32_t at = src.range(from, params.blockLen, "source");
    core.aligned(at, ascendc::kBlock, "source");
    core.read(at, params.blockLen, "source");
    dst.check(to, params.blockLen);
    auto* target = reinterpret_cast<uint8_t*>(dst.data()) + to;
    core.write_global(target, params.blockLen);
    std::memcpy(target, core.ub(at), params.blockLen);
    from += room + params.srcStride * ascendc::kBlock;
    to += uint64_t(params.blockLen) + params.dstStride;
  }
}

}  // namespace AscendC
