// Root infos, communicators from them, and their end.
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "emulator.h"
#include "join.h"

namespace cann::hccl {
namespace {

// Root infos of this process that it has not joined yet: they hold the memory's file open for the others.
std::mutex lock;
std::map<std::string, std::shared_ptr<Segment>>& waiting() {
  static auto* all = new std::map<std::string, std::shared_ptr<Segment>>;
  return *all;
}

std::shared_ptr<Segment> memory_of(const HcclRootInfo* info) {
  if (!info) throw Failure{HCCL_E_PTR, "the root info is null"};
  const std::string root(info->internal, strnlen(info->internal, HCCL_ROOT_INFO_BYTES));
  return Segment::open(root);
}

void forget(const std::string& root) {
  std::lock_guard<std::mutex> hold(lock);
  waiting().erase(root);
}

HcclResult init(const char* name, uint32_t ranks, const HcclRootInfo* info, uint32_t rank, const HcclCommConfig* config,
                HcclComm* out) {
  return answer(name, [&] {
    if (!out) throw Failure{HCCL_E_PTR, "comm is null"};
    const Settings settings = read_settings(config);
    const std::shared_ptr<Segment> memory = memory_of(info);
    const struct Forgetting {
      const std::string& root;
      ~Forgetting() { forget(root); }
    } when_done{memory->root()};
    *out = put_comm(join(memory, ranks, rank, current_device(), settings));
  });
}

}  // namespace
}  // namespace cann::hccl

using namespace cann::hccl;  // NOLINT: what follows is HCCL's own interface

extern "C" {

CANN_EXPORT HcclResult HcclGetRootInfo(HcclRootInfo* info) {
  return answer("HcclGetRootInfo", [&] {
    if (!info) throw Failure{HCCL_E_PTR, "the root info is null"};
    const std::shared_ptr<Segment> memory = Segment::create();
    std::memset(info->internal, 0, HCCL_ROOT_INFO_BYTES);
    std::memcpy(info->internal, memory->root().data(), memory->root().size());
    std::lock_guard<std::mutex> hold(lock);
    waiting()[memory->root()] = memory;
  });
}
CANN_EXPORT HcclResult HcclGetRootInfoScalable(HcclRootInfo* info) { return HcclGetRootInfo(info); }

CANN_EXPORT HcclResult HcclCommInitRootInfo(uint32_t ranks, const HcclRootInfo* info, uint32_t rank, HcclComm* out) {
  return init("HcclCommInitRootInfo", ranks, info, rank, nullptr, out);
}

CANN_EXPORT HcclResult HcclCommInitRootInfoConfig(uint32_t ranks, const HcclRootInfo* info, uint32_t rank,
                                                  const HcclCommConfig* config, HcclComm* out) {
  return init("HcclCommInitRootInfoConfig", ranks, info, rank, config, out);
}

// Several roots share the work of bringing thousands of ranks together; here the first does for all.
CANN_EXPORT HcclResult HcclCommInitRootInfoScalable(uint32_t ranks, uint32_t roots, const HcclRootInfo* infos,
                                                    uint32_t rank, uint32_t reserved, const HcclCommConfig* config,
                                                    HcclComm* out) {
  if (!roots || reserved)
    return static_cast<HcclResult>(
        cann::fail(HCCL_E_PARA, "HcclCommInitRootInfoScalable: needs a root info and nExtRoot 0"));
  return init("HcclCommInitRootInfoScalable", ranks, infos, rank, config, out);
}

// All ranks in this process, one for each device.
CANN_EXPORT HcclResult HcclCommInitAll(uint32_t n, int32_t* devices, HcclComm* out) {
  return answer("HcclCommInitAll", [&] {
    if (!devices || !out) throw Failure{HCCL_E_PTR, "devices or comms is null"};
    const Settings settings = read_settings(nullptr);
    const std::shared_ptr<Segment> root = Segment::create();
    std::vector<CommPtr> made(n);
    std::vector<Failure> failures(n, Failure{HCCL_SUCCESS, ""});
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < n; ++rank)
      threads.emplace_back([&, rank] {
        try {
          made[rank] = join(Segment::open(root->root()), n, rank, static_cast<uint32_t>(devices[rank]), settings);
        } catch (const Failure& failure) {
          failures[rank] = failure;
        }
      });
    for (auto& thread : threads) thread.join();
    for (const Failure& failure : failures)
      if (failure.code) throw failure;
    for (uint32_t rank = 0; rank < n; ++rank) out[rank] = put_comm(made[rank]);
  });
}

// Waits a little for what is on streams; what cannot end then (a peer has not come) fails there.
CANN_EXPORT HcclResult HcclCommDestroy(HcclComm handle) {
  return answer("HcclCommDestroy", [&] {
    if (!handle) throw Failure{HCCL_E_PTR, "the communicator is null"};
    const CommPtr comm = take_comm(handle);
    if (!comm) throw Failure{HCCL_E_PARA, "not a live communicator"};
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (comm->pending && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    comm->memory->give_up();
    comm->memory->notify();
    comm->memory->leave(comm->rank);
  });
}
}
