#include "meeting.h"

#include "names.h"

namespace cann::hccl {
namespace {

bool reduces(uint32_t operation) {
  return operation == HCCL_CMD_ALLREDUCE || operation == HCCL_CMD_REDUCE || operation == HCCL_CMD_REDUCE_SCATTER ||
         operation == HCCL_CMD_REDUCE_SCATTER_V;
}
bool rooted(uint32_t operation) {
  return operation == HCCL_CMD_BROADCAST || operation == HCCL_CMD_REDUCE || operation == HCCL_CMD_SCATTER;
}
bool counts_by_rank(uint32_t operation) {
  return operation == HCCL_CMD_ALLTOALLV || operation == HCCL_CMD_ALLTOALLVC || operation == HCCL_CMD_ALLGATHER_V ||
         operation == HCCL_CMD_REDUCE_SCATTER_V;
}

std::string list(const uint64_t* counts, uint32_t n) {
  std::string text = "[";
  for (uint32_t i = 0; i < n; ++i) text += (i ? ", " : "") + std::to_string(counts[i]);
  return text + "]";
}

// That all ranks call the same: what every collective without counts of its own needs.
std::string all_equal(const std::vector<Call>& calls) {
  for (const Call& call : calls)
    if (call.operation != calls[0].operation || call.dtype != calls[0].dtype || call.count != calls[0].count ||
        call.reduction != calls[0].reduction || call.root != calls[0].root)
      return "ranks called different collectives";
  return "";
}

}  // namespace

std::string describe(const Call& call, uint32_t ranks) {
  std::string text = operation_name(call.operation);
  if (call.operation == HCCL_CMD_BARRIER) return text;
  text += "(" + (reduces(call.operation) ? reduction_name(call.reduction) + " of " : "") + dtype_name(call.dtype);
  if (!counts_by_rank(call.operation)) text += "[" + std::to_string(call.count) + "]";
  if (call.operation != HCCL_CMD_ALLGATHER_V && counts_by_rank(call.operation))
    text += ", sends " + list(call.send, ranks);
  if (call.operation != HCCL_CMD_REDUCE_SCATTER_V && counts_by_rank(call.operation))
    text += ", receives " + list(call.receive, ranks);
  if (rooted(call.operation)) text += ", root " + std::to_string(call.root);
  return text + ")";
}

Meeting::Meeting(Comm& comm, const Call& call, uint64_t turn, Agreement agreement)
    : comm_(comm),
      memory_(*comm.memory),
      doing_(describe(call, comm.size)),
      agreement_(std::move(agreement)),
      turn_(turn) {
  comm.wait([&](auto*) { return comm.collectives.serving == turn; }, doing_);
  Member& me = memory_.member(comm.rank);
  first_ = round_ = me.step;
  me.call[first_ & 1] = call;
  me.doing = call.operation;
  ++me.calls;
}

Meeting::~Meeting() {
  comm_.collectives.serving = turn_ + 1;
  memory_.notify();
}

void Meeting::meet() {
  const uint64_t next = round_ + 1;
  memory_.member(comm_.rank).step = next;
  memory_.notify();
  comm_.wait(
      [&](std::vector<uint32_t>* missing) {
        bool all = true;
        for (uint32_t rank = 0; rank < comm_.size; ++rank)
          if (memory_.member(rank).step < next) {
            all = false;
            if (!missing) break;
            missing->push_back(rank);
          }
        return all;
      },
      doing_);
  const bool opening = round_ == first_;
  round_ = next;
  if (!opening) return;
  bool one = true;
  for (uint32_t rank = 0; rank < comm_.size; ++rank) {
    calls_.push_back(memory_.member(rank).call[first_ & 1]);
    one &= calls_[rank].operation == calls_[0].operation;
  }
  const std::string wrong = one && agreement_ ? agreement_(calls_) : all_equal(calls_);
  if (wrong.empty()) return;
  std::string text = wrong + " (hardware would hang):";
  for (uint32_t rank = 0; rank < comm_.size; ++rank)
    text += " rank " + std::to_string(rank) + " " + describe(call(rank), comm_.size) +
            (rank + 1 < comm_.size ? ";" : "");
  throw Agreed{{HCCL_E_PARA, text}};
}

}  // namespace cann::hccl
