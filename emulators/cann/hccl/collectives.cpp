// The collectives in which every rank gives and gets the same amount, and barrier.
#include "arithmetic.h"
#include "emulator.h"
#include "meeting.h"
#include "names.h"
#include "rules.h"

namespace cann::hccl {
namespace {

constexpr size_t kSmall = 16 << 10;  // bytes up to which every rank reduces everything: a round less

struct Order {
  const char* name;
  uint32_t operation;
  uint64_t count;
  uint32_t dtype, reduction = 0, root = 0;
};

Call call_of(const Order& o) {
  Call call{};
  call.operation = o.operation;
  call.dtype = o.dtype;
  call.reduction = o.reduction;
  call.root = o.root;
  call.count = o.count;
  return call;
}

// Looks at the arguments, then puts `steps` on the stream. `in` and `out` are the bytes that it reads and writes.
HcclResult collective(const Order& o, const void* send, size_t in, const void* receive, size_t out, HcclComm handle,
                      aclrtStream stream, std::function<void(Comm&, Meeting&)> steps) {
  return answer(o.name, [&] {
    const CommPtr comm = find_comm(handle);
    if (const std::string no = refusal(here(), o.operation, o.dtype, o.reduction); !no.empty())
      throw Failure{HCCL_E_NOT_SUPPORT, no};
    if (o.root >= comm->size)
      throw Failure{HCCL_E_PARA, "root " + std::to_string(o.root) + " of " + std::to_string(comm->size) + " ranks"};
    const size_t size = dtype_size(o.dtype);
    if (in == SIZE_MAX) in = comm->size * o.count * size;
    if (out == SIZE_MAX) out = comm->size * o.count * size;
    if (send) check_memory("sendBuf", send, in, size);
    if (receive) check_memory("recvBuf", receive, out, size);
    if ((in && !send) || (out && !receive)) throw Failure{HCCL_E_PTR, "a buffer is null"};
    std::vector<Range> ranges;
    if (send && send != receive) ranges.push_back({send, in});
    if (receive) ranges.push_back({receive, out, true});
    std::lock_guard<std::mutex> hold(comm->order);
    const uint64_t turn = comm->collectives.given;
    submit(comm, stream, o.name, std::move(ranges), [comm, turn, steps, call = call_of(o)] {
      Meeting meeting(*comm, call, turn);
      steps(*comm, meeting);
    });
    ++comm->collectives.given;
  });
}

size_t bytes_of(uint64_t count, uint32_t dtype) { return count * dtype_size(dtype); }

// Calls `step(begin, bytes)` for pieces of at most `most` bytes (whole elements), at least once.
void pieces(size_t bytes, size_t most, const std::function<void(size_t, size_t)>& step) {
  size_t begin = 0;
  do {
    const size_t n = std::min(most, bytes - begin);
    step(begin, n);
    begin += n;
  } while (begin < bytes);
}

std::vector<const char*> slots(Meeting& meeting, uint32_t ranks, size_t offset) {
  std::vector<const char*> all;
  for (uint32_t rank = 0; rank < ranks; ++rank) all.push_back(meeting.of(rank) + offset);
  return all;
}

// The part of `n` bytes that `rank` of `ranks` reduces: whole cache lines, the rest with the last.
std::pair<size_t, size_t> share(size_t n, uint32_t ranks, uint32_t rank) {
  const size_t each = n / ranks / 64 * 64, begin = each * rank;
  return {begin, rank + 1 == ranks ? n - begin : each};
}

// What one rank's part of a slot holds, where a slot carries one for every rank.
size_t part_of_slot(uint32_t ranks) { return kSlot / ranks / 64 * 64; }

}  // namespace
}  // namespace cann::hccl

using namespace cann::hccl;  // NOLINT: what follows is HCCL's own interface

extern "C" {

CANN_EXPORT HcclResult HcclAllReduce(void* send, void* receive, uint64_t count, HcclDataType dtype, HcclReduceOp op,
                                     HcclComm comm, aclrtStream stream) {
  const size_t bytes = bytes_of(count, dtype), size = dtype_size(dtype);
  return collective(
      {"HcclAllReduce", HCCL_CMD_ALLREDUCE, count, dtype, op}, send, bytes, receive, bytes, comm, stream,
      [=](Comm& c, Meeting& meeting) {
        pieces(bytes, kSlot, [&](size_t begin, size_t n) {
          char* out = static_cast<char*>(receive) + begin;
          if (n) std::memcpy(meeting.mine(), static_cast<const char*>(send) + begin, n);
          meeting.meet();
          if (n <= kSmall) return reduce(out, slots(meeting, c.size, 0), n / size, dtype, op);
          const auto [from, length] = share(n, c.size, c.rank);
          reduce(meeting.mine() + from, slots(meeting, c.size, from), length / size, dtype, op);
          meeting.meet();
          for (uint32_t rank = 0; rank < c.size; ++rank) {
            const auto [at, part] = share(n, c.size, rank);
            std::memcpy(out + at, meeting.of(rank) + at, part);
          }
        });
      });
}

CANN_EXPORT HcclResult HcclReduce(void* send, void* receive, uint64_t count, HcclDataType dtype, HcclReduceOp op,
                                  uint32_t root, HcclComm comm, aclrtStream stream) {
  const size_t bytes = bytes_of(count, dtype), size = dtype_size(dtype);
  return collective({"HcclReduce", HCCL_CMD_REDUCE, count, dtype, op, root}, send, bytes, receive,
                    receive ? bytes : 0, comm, stream, [=](Comm& c, Meeting& meeting) {
                      if (c.rank == root && bytes) check_memory("recvBuf", receive, bytes, size);
                      pieces(bytes, kSlot, [&](size_t begin, size_t n) {
                        if (n) std::memcpy(meeting.mine(), static_cast<const char*>(send) + begin, n);
                        meeting.meet();
                        if (c.rank == root)
                          reduce(static_cast<char*>(receive) + begin, slots(meeting, c.size, 0), n / size, dtype, op);
                      });
                    });
}

CANN_EXPORT HcclResult HcclReduceScatter(void* send, void* receive, uint64_t count, HcclDataType dtype,
                                         HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  const size_t bytes = bytes_of(count, dtype), size = dtype_size(dtype);
  return collective({"HcclReduceScatter", HCCL_CMD_REDUCE_SCATTER, count, dtype, op}, send, SIZE_MAX, receive, bytes,
                    comm, stream, [=](Comm& c, Meeting& meeting) {
                      const size_t part = part_of_slot(c.size);
                      pieces(bytes, part, [&](size_t begin, size_t n) {
                        for (uint32_t rank = 0; n && rank < c.size; ++rank)
                          std::memcpy(meeting.mine() + rank * part,
                                      static_cast<const char*>(send) + rank * bytes + begin, n);
                        meeting.meet();
                        reduce(static_cast<char*>(receive) + begin, slots(meeting, c.size, c.rank * part), n / size,
                               dtype, op);
                      });
                    });
}

CANN_EXPORT HcclResult HcclAllGather(void* send, void* receive, uint64_t count, HcclDataType dtype, HcclComm comm,
                                     aclrtStream stream) {
  const size_t bytes = bytes_of(count, dtype);
  return collective({"HcclAllGather", HCCL_CMD_ALLGATHER, count, dtype}, send, bytes, receive, SIZE_MAX, comm, stream,
                    [=](Comm& c, Meeting& meeting) {
                      pieces(bytes, kSlot, [&](size_t begin, size_t n) {
                        if (n) std::memcpy(meeting.mine(), static_cast<const char*>(send) + begin, n);
                        meeting.meet();
                        for (uint32_t rank = 0; n && rank < c.size; ++rank)
                          std::memcpy(static_cast<char*>(receive) + rank * bytes + begin, meeting.of(rank), n);
                      });
                    });
}

CANN_EXPORT HcclResult HcclBroadcast(void* data, uint64_t count, HcclDataType dtype, uint32_t root, HcclComm comm,
                                     aclrtStream stream) {
  const size_t bytes = bytes_of(count, dtype);
  return collective({"HcclBroadcast", HCCL_CMD_BROADCAST, count, dtype, 0, root}, data, bytes, data, bytes, comm,
                    stream, [=](Comm& c, Meeting& meeting) {
                      pieces(bytes, kSlot, [&](size_t begin, size_t n) {
                        char* at = static_cast<char*>(data) + begin;
                        if (n && c.rank == root) std::memcpy(meeting.mine(), at, n);
                        meeting.meet();
                        if (n && c.rank != root) std::memcpy(at, meeting.of(root), n);
                      });
                    });
}

CANN_EXPORT HcclResult HcclScatter(void* send, void* receive, uint64_t count, HcclDataType dtype, uint32_t root,
                                   HcclComm comm, aclrtStream stream) {
  const size_t bytes = bytes_of(count, dtype);
  return collective({"HcclScatter", HCCL_CMD_SCATTER, count, dtype, 0, root}, send, send ? SIZE_MAX : 0, receive,
                    bytes, comm, stream, [=](Comm& c, Meeting& meeting) {
                      if (c.rank == root && bytes) check_memory("sendBuf", send, bytes * c.size, dtype_size(dtype));
                      const size_t part = part_of_slot(c.size);
                      pieces(bytes, part, [&](size_t begin, size_t n) {
                        for (uint32_t rank = 0; n && c.rank == root && rank < c.size; ++rank)
                          std::memcpy(meeting.mine() + rank * part,
                                      static_cast<const char*>(send) + rank * bytes + begin, n);
                        meeting.meet();
                        if (n)
                          std::memcpy(static_cast<char*>(receive) + begin, meeting.of(root) + c.rank * part, n);
                      });
                    });
}

CANN_EXPORT HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  return collective({"HcclBarrier", HCCL_CMD_BARRIER, 0, HCCL_DATA_TYPE_INT8}, nullptr, 0, nullptr, 0, comm, stream,
                    [](Comm&, Meeting& meeting) { meeting.meet(); });
}
}
