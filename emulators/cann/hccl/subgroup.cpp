// Communicators of some ranks of another: its first rank makes the memory and says where on the parent's board.
#include <cstring>
#include <set>

#include "emulator.h"
#include "join.h"

namespace cann::hccl {
namespace {

uint64_t digest(const std::vector<uint32_t>& members) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (uint32_t member : members) hash = (hash ^ (member + 1)) * 0x100000001b3u;
  return hash;
}

Board& write(Segment& parent, uint64_t id, uint64_t members, const std::string& root) {
  for (Board& board : parent.shared().boards) {
    uint32_t unused = 0;
    if (!board.state.compare_exchange_strong(unused, 1)) continue;
    board.id = id;
    board.members = members;
    std::memcpy(board.root, root.c_str(), root.size() + 1);
    board.state = 2;
    parent.notify();
    return board;
  }
  throw Failure{HCCL_E_UNAVAIL, "more than " + std::to_string(kBoards) + " subgroups are being made at one time"};
}

std::string read(Segment& parent, uint64_t id, uint64_t members, uint32_t first, double seconds) {
  std::string root;
  parent.wait(
      [&](std::vector<uint32_t>* missing) {
        for (Board& board : parent.shared().boards)
          if (board.state == 2 && board.id == id && board.members == members) root = board.root;
        if (missing) missing->push_back(first);
        return !root.empty();
      },
      "making a subgroup", seconds, "HCCL_CONNECT_TIMEOUT");
  return root;
}

}  // namespace
}  // namespace cann::hccl

using namespace cann::hccl;  // NOLINT: what follows is HCCL's own interface

extern "C" CANN_EXPORT HcclResult HcclCreateSubCommConfig(HcclComm* parent, uint32_t n, uint32_t* ids, uint64_t number,
                                                          uint32_t rank, HcclCommConfig* config, HcclComm* out) {
  return answer("HcclCreateSubCommConfig", [&] {
    if (!parent || !out) throw Failure{HCCL_E_PTR, "comm or subComm is null"};
    const CommPtr whole = find_comm(*parent);
    if (!n || !ids) {  // this rank is not of the subgroup
      *out = nullptr;
      return;
    }
    const std::vector<uint32_t> members(ids, ids + n);
    if (std::set<uint32_t>(members.begin(), members.end()).size() != n)
      throw Failure{HCCL_E_PARA, "rankIds names a rank twice"};
    for (uint32_t member : members)
      if (member >= whole->size)
        throw Failure{HCCL_E_PARA, "rankIds has " + std::to_string(member) + ", no rank of comm"};
    if (rank >= n || members[rank] != whole->rank)
      throw Failure{HCCL_E_PARA, "subCommRankId " + std::to_string(rank) + " is not where rankIds has this rank, " +
                                     std::to_string(whole->rank)};
    const Settings settings = read_settings(config);
    const uint64_t hash = digest(members);
    const std::shared_ptr<Segment> made = rank == 0 ? Segment::create() : nullptr;
    Board* board = made ? &write(*whole->memory, number, hash, made->root()) : nullptr;
    try {
      const std::string root =
          made ? made->root() : read(*whole->memory, number, hash, members[0], settings.connect);
      *out = put_comm(join(Segment::open(root), n, rank, current_device(), settings));
    } catch (...) {
      if (board) board->state = 0;
      throw;
    }
    if (board) board->state = 0;
  });
}
