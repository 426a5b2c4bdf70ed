// What a communicator says of itself, HCCL's settings, and what has no counterpart on one machine.
#include <atomic>
#include <cstring>

#include "comm.h"
#include "emulator.h"

using namespace cann::hccl;  // NOLINT: what follows is HCCL's own interface

namespace {

std::atomic<int32_t> deterministic{0};

HcclResult refuse(const char* name, const char* why) {
  return static_cast<HcclResult>(cann::fail(HCCL_E_NOT_SUPPORT, std::string(name) + ": emulated HCCL " + why));
}

}  // namespace

extern "C" {

CANN_EXPORT HcclResult HcclGetRankSize(HcclComm comm, uint32_t* out) {
  return answer("HcclGetRankSize", [&] { *out = find_comm(comm)->size; });
}
CANN_EXPORT HcclResult HcclGetRankId(HcclComm comm, uint32_t* out) {
  return answer("HcclGetRankId", [&] { *out = find_comm(comm)->rank; });
}
CANN_EXPORT HcclResult HcclGetCommName(HcclComm comm, char* out) {
  return answer("HcclGetCommName", [&] {
    const CommPtr found = find_comm(comm);
    if (!out) throw Failure{HCCL_E_PTR, "commName is null"};
    std::memcpy(out, found->name.c_str(), found->name.size() + 1);
  });
}

// The result that ended the communicator, with its reason as the recent error message.
CANN_EXPORT HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* out) {
  return answer("HcclGetCommAsyncError", [&] {
    const CommPtr found = find_comm(comm);
    if (!out) throw Failure{HCCL_E_PTR, "asyncError is null"};
    *out = found->memory->broken();
    if (*out) cann::fail(*out, found->memory->why());
  });
}

CANN_EXPORT const char* HcclGetErrorString(HcclResult code) {
  static const char* const names[] = {
      "no error",           "parameter error",       "empty pointer",         "memory error",
      "internal error",     "feature not supported", "resource not found",    "resource unavailable",
      "system call failed", "timeout",               "open file failed",      "tcp connect failed",
      "roce connect failed", "tcp transfer failed",  "roce transfer failed",  "runtime api failed",
      "driver api failed",  "profiling api failed",  "cce api failed",        "network api failed",
      "try again",          "remote error",          "communicator suspending", "retry failed",
      "out of memory"};
  return code >= 0 && code < HCCL_E_RESERVED ? names[code] : "unknown error";
}

CANN_EXPORT uint32_t HcclGetCommConfigCapability() { return HCCL_COMM_CONFIG_RESERVED; }

CANN_EXPORT HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue value) {
  if (config != HCCL_DETERMINISTIC || value.value < 0 || value.value > 2)
    return static_cast<HcclResult>(cann::fail(HCCL_E_PARA, "HcclSetConfig: only HCCL_DETERMINISTIC, as 0, 1 or 2"));
  deterministic = value.value;  // emulated reductions always are
  return HCCL_SUCCESS;
}
CANN_EXPORT HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue* value) {
  if (config != HCCL_DETERMINISTIC || !value)
    return static_cast<HcclResult>(cann::fail(HCCL_E_PARA, "HcclGetConfig: only HCCL_DETERMINISTIC"));
  value->value = deterministic;
  return HCCL_SUCCESS;
}

CANN_EXPORT HcclResult HcclCommSuspend(HcclComm comm) {
  return answer("HcclCommSuspend", [&] { find_comm(comm)->suspended = true; });
}
CANN_EXPORT HcclResult HcclCommResume(HcclComm comm) {
  return answer("HcclCommResume", [&] {
    const CommPtr found = find_comm(comm);
    if (const HcclResult code = found->memory->broken())
      throw Failure{code, "the communicator cannot be recovered: " + found->memory->why()};
    found->suspended = false;
  });
}

CANN_EXPORT HcclResult HcclCommWorkingDevNicSet(HcclComm, uint32_t*, bool*, uint32_t) {
  return refuse("HcclCommWorkingDevNicSet", "has no network cards");
}
CANN_EXPORT HcclResult HcclCommRegister(HcclComm, void*, uint64_t, void**, uint32_t) {
  return refuse("HcclCommRegister", "has no one-sided windows");
}
CANN_EXPORT HcclResult HcclCommDeregister(HcclComm, void*) {
  return refuse("HcclCommDeregister", "has no one-sided windows");
}
CANN_EXPORT HcclResult HcclCommExchangeMem(HcclComm, void*, uint32_t*, uint32_t) {
  return refuse("HcclCommExchangeMem", "has no one-sided windows");
}
CANN_EXPORT HcclResult HcclCommSetMemoryRange(HcclComm, void*, size_t, size_t, uint64_t) {
  return refuse("HcclCommSetMemoryRange", "has no zero copy (leave TORCH_HCCL_ZERO_COPY unset)");
}
CANN_EXPORT HcclResult HcclCommUnsetMemoryRange(HcclComm, void*) {
  return refuse("HcclCommUnsetMemoryRange", "has no zero copy (leave TORCH_HCCL_ZERO_COPY unset)");
}
CANN_EXPORT HcclResult HcclCommActivateCommMemory(HcclComm, void*, size_t, size_t, aclrtDrvMemHandle, uint64_t) {
  return refuse("HcclCommActivateCommMemory", "has no zero copy (leave TORCH_HCCL_ZERO_COPY unset)");
}
CANN_EXPORT HcclResult HcclCommDeactivateCommMemory(HcclComm, void*) {
  return refuse("HcclCommDeactivateCommMemory", "has no zero copy (leave TORCH_HCCL_ZERO_COPY unset)");
}
}
