// HcclSend, HcclRecv, HcclBatchSendRecv, and groups of them.
#include <utility>

#include "emulator.h"
#include "names.h"
#include "rules.h"
#include "transfer.h"

namespace cann::hccl {
namespace {

struct Batch {
  CommPtr comm;
  aclrtStream stream;
  std::vector<Message> messages;
};

// Of this thread, between HcclGroupStart and the HcclGroupEnd that matches it.
thread_local int depth = 0;
thread_local std::vector<Batch> held;

void put(const CommPtr& comm, aclrtStream stream, const char* name, std::vector<Message> messages) {
  std::lock_guard<std::mutex> hold(comm->order);
  uint64_t sends[kMaxRanks] = {}, receives[kMaxRanks] = {};
  for (Message& message : messages) {
    Turn& turn = message.sends ? comm->sends[message.peer] : comm->receives[message.peer];
    message.turn = turn.given + (message.sends ? sends : receives)[message.peer]++;
  }
  std::string doing = name;
  if (messages.size() == 1)
    doing += std::string(messages[0].sends ? " to" : " from") + " rank " + std::to_string(messages[0].peer);
  std::vector<Range> ranges;
  for (const Message& message : messages)
    ranges.push_back({message.data, message.count * dtype_size(message.dtype), !message.sends});
  submit(comm, stream, name, std::move(ranges), [comm, doing, messages] { transfer(*comm, doing, messages); });
  for (uint32_t peer = 0; peer < comm->size; ++peer) {
    comm->sends[peer].given += sends[peer];
    comm->receives[peer].given += receives[peer];
  }
}

void post(const CommPtr& comm, aclrtStream stream, const char* name, uint32_t operation,
          std::vector<Message> messages) {
  for (const Message& message : messages) {
    if (const std::string no = refusal(here(), operation, message.dtype, 0); !no.empty())
      throw Failure{HCCL_E_NOT_SUPPORT, no};
    check_message(*comm, message);
  }
  if (!depth) return put(comm, stream, name, std::move(messages));
  for (Batch& batch : held)
    if (batch.comm == comm && batch.stream == stream) {
      batch.messages.insert(batch.messages.end(), messages.begin(), messages.end());
      return;
    }
  held.push_back({comm, stream, std::move(messages)});
}

}  // namespace
}  // namespace cann::hccl

using namespace cann::hccl;  // NOLINT: what follows is HCCL's own interface

extern "C" {

CANN_EXPORT HcclResult HcclSend(void* data, uint64_t count, HcclDataType dtype, uint32_t peer, HcclComm handle,
                                aclrtStream stream) {
  return answer("HcclSend", [&] {
    post(find_comm(handle), stream, "HcclSend", HCCL_CMD_SEND, {{true, peer, static_cast<char*>(data), count, dtype}});
  });
}

CANN_EXPORT HcclResult HcclRecv(void* data, uint64_t count, HcclDataType dtype, uint32_t peer, HcclComm handle,
                                aclrtStream stream) {
  return answer("HcclRecv", [&] {
    post(find_comm(handle), stream, "HcclRecv", HCCL_CMD_RECEIVE,
         {{false, peer, static_cast<char*>(data), count, dtype}});
  });
}

CANN_EXPORT HcclResult HcclBatchSendRecv(HcclSendRecvItem* items, uint32_t n, HcclComm handle, aclrtStream stream) {
  return answer("HcclBatchSendRecv", [&] {
    const CommPtr comm = find_comm(handle);
    if (!items || !n) throw Failure{HCCL_E_PARA, "no items"};
    std::vector<Message> messages;
    for (uint32_t i = 0; i < n; ++i) {
      const HcclSendRecvItem& item = items[i];
      if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV)
        throw Failure{HCCL_E_PARA, "item " + std::to_string(i) + " neither sends nor receives"};
      messages.push_back({item.sendRecvType == HCCL_SEND, item.remoteRank, static_cast<char*>(item.buf), item.count,
                          item.dataType});
    }
    post(comm, stream, "HcclBatchSendRecv", HCCL_CMD_BATCH_SEND_RECV, std::move(messages));
  });
}

// torch_npu looks these two up in libhcomm.so.
CANN_EXPORT HcclResult HcclGroupStart() {
  ++depth;
  return HCCL_SUCCESS;
}

CANN_EXPORT HcclResult HcclGroupEnd() {
  return answer("HcclGroupEnd", [] {
    if (!depth) throw Failure{HCCL_E_PARA, "no HcclGroupStart on this thread"};
    if (--depth) return;
    for (Batch& batch : std::exchange(held, {})) put(batch.comm, batch.stream, "HcclGroup", std::move(batch.messages));
  });
}
}
