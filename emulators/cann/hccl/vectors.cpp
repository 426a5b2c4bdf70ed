// The collectives with an amount of its own for every rank, and all-to-all.
#include "arithmetic.h"
#include "emulator.h"
#include "meeting.h"
#include "names.h"
#include "rules.h"

namespace cann::hccl {
namespace {

// Where each rank's elements lie in a buffer.
struct Layout {
  std::vector<uint64_t> counts, offsets;
  size_t end(size_t size) const {  // bytes up to the last element
    size_t most = 0;
    for (size_t i = 0; i < counts.size(); ++i)
      if (counts[i]) most = std::max<size_t>(most, (offsets[i] + counts[i]) * size);
    return most;
  }
};

Layout layout(const void* counts, const void* offsets, uint32_t ranks) {
  if (!counts || !offsets) throw Failure{HCCL_E_PTR, "counts or displacements are null"};
  const auto *c = static_cast<const uint64_t*>(counts), *o = static_cast<const uint64_t*>(offsets);
  return {{c, c + ranks}, {o, o + ranks}};
}

Layout packed(std::vector<uint64_t> counts) {
  Layout made{std::move(counts), {}};
  uint64_t at = 0;
  for (uint64_t n : made.counts) {
    made.offsets.push_back(at);
    at += n;
  }
  return made;
}

struct Order {
  const char* name;
  uint32_t operation, dtype, reduction = 0;
};

// The longest piece that any rank sends to any other, in bytes: it decides how many rounds there are.
size_t longest(Meeting& meeting, uint32_t ranks, size_t size) {
  uint64_t most = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    for (uint32_t to = 0; to < ranks; ++to) most = std::max(most, meeting.call(rank).send[to]);
  return most * size;
}

// Rounds in which a slot has a part for every rank; each rank takes its own from every slot. `take(at, part)` does:
// parts are `part` bytes apart in a slot, and hold what begins at byte `at` of a rank's piece.
void exchange(Comm& c, Meeting& meeting, const char* send, const Layout& out, size_t size,
              const std::function<void(size_t at, size_t part)>& take) {
  const size_t part = kSlot / c.size / 64 * 64;
  size_t rounds = 1;
  for (size_t round = 0; round < rounds; ++round) {
    const size_t begin = round * part;
    for (uint32_t to = 0; to < c.size; ++to) {
      const size_t bytes = out.counts[to] * size;
      if (begin < bytes)
        std::memcpy(meeting.mine() + to * part, send + out.offsets[to] * size + begin, std::min(part, bytes - begin));
    }
    meeting.meet();
    if (round == 0) rounds = std::max<size_t>(1, (longest(meeting, c.size, size) + part - 1) / part);
    take(begin, part);
  }
}

std::string same_dtype(const std::vector<Call>& calls) {
  for (const Call& call : calls)
    if (call.dtype != calls[0].dtype) return "ranks called it with different dtypes";
  return "";
}

std::string all_to_all_agrees(const std::vector<Call>& calls) {
  if (const std::string wrong = same_dtype(calls); !wrong.empty()) return wrong;
  for (size_t from = 0; from < calls.size(); ++from)
    for (size_t to = 0; to < calls.size(); ++to)
      if (calls[from].send[to] != calls[to].receive[from])
        return "rank " + std::to_string(from) + " sends " + std::to_string(calls[from].send[to]) +
               " elements to rank " + std::to_string(to) + ", which expects " + std::to_string(calls[to].receive[from]);
  return "";
}

Call call_of(const Order& o, const Layout& send, const Layout& receive) {
  Call call{};
  call.operation = o.operation;
  call.dtype = o.dtype;
  call.reduction = o.reduction;
  std::copy(send.counts.begin(), send.counts.end(), call.send);
  std::copy(receive.counts.begin(), receive.counts.end(), call.receive);
  return call;
}

struct Buffers {
  const void* send;
  size_t in;
  const void* receive;
  size_t out, size;
  void check() const {
    if (in) check_memory("sendBuf", send, in, size);
    if (out) check_memory("recvBuf", receive, out, size);
  }
  std::vector<Range> ranges() const {  // with gaps between ranks' parts, perhaps
    std::vector<Range> both;
    if (in) both.push_back({send, in, false, false});
    if (out) both.push_back({receive, out, true, false});
    return both;
  }
};

void put(const CommPtr& comm, const Order& o, const Call& call, const Buffers& buffers, aclrtStream stream,
         Agreement agreement, std::function<void(Comm&, Meeting&)> steps) {
  if (const std::string no = refusal(here(), o.operation, o.dtype, o.reduction); !no.empty())
    throw Failure{HCCL_E_NOT_SUPPORT, no};
  if (buffers.send && buffers.send == buffers.receive)
    throw Failure{HCCL_E_PARA, "sendBuf and recvBuf are the same memory"};
  buffers.check();
  std::lock_guard<std::mutex> hold(comm->order);
  const uint64_t turn = comm->collectives.given;
  submit(comm, stream, o.name, buffers.ranges(), [=] {
    Meeting meeting(*comm, call, turn, agreement);
    steps(*comm, meeting);
  });
  ++comm->collectives.given;
}

void all_to_all(const CommPtr& comm, const Order& o, const void* send, const Layout& out, const void* receive,
                const Layout& in, aclrtStream stream) {
  const size_t size = dtype_size(o.dtype);
  put(comm, o, call_of(o, out, in), {send, out.end(size), receive, in.end(size), size}, stream, all_to_all_agrees,
      [=](Comm& c, Meeting& meeting) {
        exchange(c, meeting, static_cast<const char*>(send), out, size, [&](size_t at, size_t part) {
          for (uint32_t from = 0; from < c.size; ++from) {
            const size_t bytes = in.counts[from] * size;
            if (at < bytes)
              std::memcpy(static_cast<char*>(const_cast<void*>(receive)) + in.offsets[from] * size + at,
                          meeting.of(from) + c.rank * part, std::min(part, bytes - at));
          }
        });
      });
}

void one_dtype(HcclDataType send, HcclDataType receive) {
  if (send != receive)
    throw Failure{HCCL_E_PARA, "sendType " + dtype_name(send) + " is not recvType " + dtype_name(receive)};
}

}  // namespace
}  // namespace cann::hccl

using namespace cann::hccl;  // NOLINT: what follows is HCCL's own interface

extern "C" {

CANN_EXPORT HcclResult HcclAlltoAllV(const void* send, const void* send_counts, const void* send_offsets,
                                     HcclDataType send_type, const void* receive, const void* receive_counts,
                                     const void* receive_offsets, HcclDataType receive_type, HcclComm handle,
                                     aclrtStream stream) {
  return answer("HcclAlltoAllV", [&] {
    const CommPtr comm = find_comm(handle);
    one_dtype(send_type, receive_type);
    all_to_all(comm, {"HcclAlltoAllV", HCCL_CMD_ALLTOALLV, send_type}, send,
               layout(send_counts, send_offsets, comm->size), receive,
               layout(receive_counts, receive_offsets, comm->size), stream);
  });
}

CANN_EXPORT HcclResult HcclAlltoAllVC(const void* send, const void* matrix, HcclDataType send_type, const void* receive,
                                      HcclDataType receive_type, HcclComm handle, aclrtStream stream) {
  return answer("HcclAlltoAllVC", [&] {
    const CommPtr comm = find_comm(handle);
    one_dtype(send_type, receive_type);
    if (!matrix) throw Failure{HCCL_E_PTR, "sendCountMatrix is null"};
    const auto* counts = static_cast<const uint64_t*>(matrix);
    std::vector<uint64_t> out, in;
    for (uint32_t peer = 0; peer < comm->size; ++peer) {
      out.push_back(counts[comm->rank * comm->size + peer]);
      in.push_back(counts[peer * comm->size + comm->rank]);
    }
    all_to_all(comm, {"HcclAlltoAllVC", HCCL_CMD_ALLTOALLVC, send_type}, send, packed(out), receive, packed(in),
               stream);
  });
}

CANN_EXPORT HcclResult HcclAlltoAll(const void* send, uint64_t send_count, HcclDataType send_type, const void* receive,
                                    uint64_t receive_count, HcclDataType receive_type, HcclComm handle,
                                    aclrtStream stream) {
  return answer("HcclAlltoAll", [&] {
    const CommPtr comm = find_comm(handle);
    one_dtype(send_type, receive_type);
    all_to_all(comm, {"HcclAlltoAll", HCCL_CMD_ALLTOALL, send_type}, send,
               packed(std::vector<uint64_t>(comm->size, send_count)), receive,
               packed(std::vector<uint64_t>(comm->size, receive_count)), stream);
  });
}

CANN_EXPORT HcclResult HcclAllGatherV(void* send, uint64_t count, void* receive, const void* counts,
                                      const void* offsets, HcclDataType dtype, HcclComm handle, aclrtStream stream) {
  return answer("HcclAllGatherV", [&] {
    const CommPtr comm = find_comm(handle);
    const Order o{"HcclAllGatherV", HCCL_CMD_ALLGATHER_V, dtype};
    const Layout in = layout(counts, offsets, comm->size);
    if (in.counts[comm->rank] != count)
      throw Failure{HCCL_E_PARA, "sendCount " + std::to_string(count) + " is not recvCounts[" +
                                     std::to_string(comm->rank) + "] = " + std::to_string(in.counts[comm->rank])};
    const size_t size = dtype_size(dtype);
    const auto agreement = [](const std::vector<Call>& calls) -> std::string {
      for (const Call& call : calls)
        if (!std::equal(call.receive, call.receive + kMaxRanks, calls[0].receive)) return "recvCounts differ";
      return same_dtype(calls);
    };
    put(comm, o, call_of(o, {}, in), {send, count * size, receive, in.end(size), size}, stream, agreement,
        [=](Comm& c, Meeting& meeting) {
          const size_t most = *std::max_element(in.counts.begin(), in.counts.end()) * size;
          size_t begin = 0;
          do {
            if (begin < count * size)
              std::memcpy(meeting.mine(), static_cast<const char*>(send) + begin,
                          std::min(kSlot, count * size - begin));
            meeting.meet();
            for (uint32_t from = 0; from < c.size; ++from)
              if (const size_t bytes = in.counts[from] * size; begin < bytes)
                std::memcpy(static_cast<char*>(receive) + in.offsets[from] * size + begin, meeting.of(from),
                            std::min(kSlot, bytes - begin));
            begin += kSlot;
          } while (begin < most);
        });
  });
}

CANN_EXPORT HcclResult HcclReduceScatterV(void* send, const void* counts, const void* offsets, void* receive,
                                          uint64_t count, HcclDataType dtype, HcclReduceOp op, HcclComm handle,
                                          aclrtStream stream) {
  return answer("HcclReduceScatterV", [&] {
    const CommPtr comm = find_comm(handle);
    const Order o{"HcclReduceScatterV", HCCL_CMD_REDUCE_SCATTER_V, dtype, op};
    const Layout out = layout(counts, offsets, comm->size);
    if (out.counts[comm->rank] != count)
      throw Failure{HCCL_E_PARA, "recvCount " + std::to_string(count) + " is not sendCounts[" +
                                     std::to_string(comm->rank) + "] = " + std::to_string(out.counts[comm->rank])};
    const size_t size = dtype_size(dtype);
    const auto agreement = [](const std::vector<Call>& calls) -> std::string {
      for (const Call& call : calls) {
        if (!std::equal(call.send, call.send + kMaxRanks, calls[0].send)) return "sendCounts differ";
        if (call.reduction != calls[0].reduction) return "reductions differ";
      }
      return same_dtype(calls);
    };
    put(comm, o, call_of(o, out, {}), {send, out.end(size), receive, count * size, size}, stream, agreement,
        [=](Comm& c, Meeting& meeting) {
          exchange(c, meeting, static_cast<const char*>(send), out, size, [&](size_t at, size_t part) {
            if (at >= count * size) return;
            std::vector<const char*> parts;
            for (uint32_t from = 0; from < c.size; ++from) parts.push_back(meeting.of(from) + c.rank * part);
            reduce(static_cast<char*>(receive) + at, parts, std::min(part, count * size - at) / size, dtype, op);
          });
        });
  });
}
}
