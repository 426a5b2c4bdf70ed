#include "join.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace cann::hccl {

uint32_t current_device() {
  int32_t device = -1;
  if (aclrtGetDevice(&device) != ACL_SUCCESS || device < 0)
    throw Failure{HCCL_E_RUNTIME, "no device is set on this thread (aclrtSetDevice)"};
  const char* visible = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
  std::stringstream list(visible ? visible : "");
  std::string one;
  for (int32_t i = 0; std::getline(list, one, ','); ++i)
    if (i == device) return static_cast<uint32_t>(std::atoi(one.c_str()));
  return static_cast<uint32_t>(device);
}

CommPtr join(std::shared_ptr<Segment> memory, uint32_t ranks, uint32_t rank, uint32_t device,
             const Settings& settings) {
  memory->join(ranks, rank, device);
  memory->wait(
      [&](std::vector<uint32_t>* missing) {
        bool all = true;
        for (uint32_t other = 0; other < ranks; ++other) {
          const uint32_t state = memory->member(other).state;
          if (state == kHere || state == kLeft) continue;
          all = false;
          if (missing) missing->push_back(other);
        }
        // One that is here may die before the rest have come: it counts as missing for as long as somebody is.
        if (!all && missing)
          for (uint32_t other = 0; other < ranks; ++other)
            if (memory->member(other).state == kHere) missing->push_back(other);
        return all;
      },
      "joining a communicator", settings.connect, "HCCL_CONNECT_TIMEOUT");
  memory->seal();
  for (uint32_t a = 0; a < ranks; ++a)
    for (uint32_t b = a + 1; b < ranks; ++b)
      if (memory->member(a).device == memory->member(b).device)
        throw Failure{HCCL_E_PARA, "ranks " + std::to_string(a) + " and " + std::to_string(b) + " are both on device " +
                                       std::to_string(memory->member(a).device) +
                                       ": a communicator takes a device once (set_device before the first collective; "
                                       "HETERO_CANN_DEVICES sets how many are emulated)"};
  auto comm = std::make_shared<Comm>();
  comm->rank = rank;
  comm->size = ranks;
  comm->exec_timeout = settings.exec;
  comm->name = settings.name;
  if (comm->name.empty()) {
    char text[64];
    std::snprintf(text, sizeof text, "hccl_emulated_%016llx", static_cast<unsigned long long>(memory->token()));
    comm->name = text;
  }
  comm->memory = std::move(memory);
  return comm;
}

}  // namespace cann::hccl
