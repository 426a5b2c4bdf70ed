#include "comm.h"

#include <cstdio>
#include <map>
#include <utility>

namespace cann::hccl {
namespace {

std::mutex lock;
std::map<HcclComm, CommPtr>& live() {
  static auto* all = new std::map<HcclComm, CommPtr>;  // never destroyed: streams may still run at exit
  return *all;
}

// What a failed collective leaves on its stream.
int stream_code(HcclResult code) {
  switch (code) {
    case HCCL_E_REMOTE: return ACL_ERROR_RT_SUSPECT_REMOTE_ERROR;
    case HCCL_E_TIMEOUT: return ACL_ERROR_RT_FFTS_PLUS_TIMEOUT;
    case HCCL_E_PARA: return ACL_ERROR_RT_PARAM_INVALID;
    default: return ACL_ERROR_RT_INTERNAL_ERROR;
  }
}

// torch_npu shows the code alone where a copy to the host meets it, so the reason is said here as well.
int end(const Failure& failure) {
  std::fprintf(stderr, "emulated HCCL: %s\n", failure.message.c_str());
  return cann::fail(stream_code(failure.code), failure.message);
}

int run(Comm& comm, const char* name, bool faulty, const std::function<void()>& work) {
  try {
    if (const HcclResult code = comm.memory->broken())
      throw Failure{code, std::string(name) + ": " + comm.memory->why()};
    if (faulty) throw Failure{HCCL_E_INTERNAL, "a fault was injected in " + std::string(name)};
    work();
    return 0;
  } catch (const Agreed& failure) {
    return end(failure);
  } catch (const Failure& failure) {
    comm.memory->fail(HCCL_E_REMOTE, "rank " + std::to_string(comm.rank) + ": " + failure.message);
    return end(failure);
  }
}

// An operation on a stream, until it has run or is dropped.
struct Posted {
  CommPtr comm;
  const char* name;
  bool ran = false;

  Posted(CommPtr on, const char* called) : comm(std::move(on)), name(called) { ++comm->pending; }
  ~Posted() {
    if (!ran)
      comm->memory->fail(HCCL_E_REMOTE, "rank " + std::to_string(comm->rank) + " did not run " + name +
                                            ": its stream had failed before, or memory was freed too early");
    --comm->pending;
    comm->memory->notify();
  }
};

}  // namespace

HcclComm put_comm(CommPtr comm) {
  std::lock_guard<std::mutex> hold(lock);
  HcclComm handle = comm.get();
  live()[handle] = std::move(comm);
  return handle;
}

CommPtr take_comm(HcclComm handle) {
  std::lock_guard<std::mutex> hold(lock);
  const auto found = live().find(handle);
  if (found == live().end()) return nullptr;
  CommPtr comm = found->second;
  live().erase(found);
  return comm;
}

CommPtr find_comm(HcclComm handle) {
  if (!handle) throw Failure{HCCL_E_PTR, "the communicator is null"};
  std::lock_guard<std::mutex> hold(lock);
  const auto found = live().find(handle);
  if (found == live().end()) throw Failure{HCCL_E_PARA, "not a live communicator"};
  return found->second;
}

HcclResult answer(const char* name, const std::function<void()>& body) {
  try {
    body();
    return HCCL_SUCCESS;
  } catch (const Failure& failure) {
    return static_cast<HcclResult>(cann::fail(failure.code, std::string(name) + ": " + failure.message));
  }
}

void check_memory(const char* what, const void* data, size_t bytes, size_t size) {
  if (bytes && !data) throw Failure{HCCL_E_PTR, std::string(what) + " is null"};
  if (bytes && !cann::on_device(data, bytes))
    throw Failure{HCCL_E_PARA, std::string(what) + " " + cann::off_device(data, bytes)};
  if (size && reinterpret_cast<uintptr_t>(data) % size)
    throw Failure{HCCL_E_PARA,
                  std::string(what) + " is not aligned to its elements of " + std::to_string(size) + " bytes"};
}

void submit(const CommPtr& comm, aclrtStream stream, const char* name, std::vector<Range> ranges,
            std::function<void()> work) {
  if (comm->suspended) throw Failure{HCCL_E_SUSPENDING, "the communicator is suspended"};
  if (const HcclResult code = comm->memory->broken()) throw Failure{code, comm->memory->why()};
  const bool faulty = cann::fault("hccl", name);
  auto posted = std::make_shared<Posted>(comm, name);
  const auto task = [posted, faulty, work = std::move(work)] {
    const int result = run(*posted->comm, posted->name, faulty, work);
    posted->ran = true;
    return result;
  };
  if (cann::enqueue(stream, name, task, std::move(ranges))) {
    posted->ran = true;  // it was refused to the caller: no rank waits for it
    throw Failure{HCCL_E_RUNTIME, aclGetRecentErrMsg()};
  }
}

}  // namespace cann::hccl
