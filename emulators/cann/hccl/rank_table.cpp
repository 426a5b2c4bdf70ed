// Communicators from a rank table, a JSON file that lists servers, devices and ranks. Ranks of one table meet at a
// socket that is named after its content and lies in no file system: rank 0 tells the others of its memory there.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <thread>

#include "emulator.h"
#include "join.h"

namespace cann::hccl {
namespace {

using Clock = std::chrono::steady_clock;

struct Table {
  uint32_t ranks = 0;
  std::string socket;
};

Table read_table(const char* path) {
  if (!path) throw Failure{HCCL_E_PTR, "clusterInfo is null"};
  std::ifstream file(path);
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  if (!file || text.empty()) throw Failure{HCCL_E_OPEN_FILE_FAILURE, std::string("cannot read the rank table ") + path};
  std::smatch servers;
  if (std::regex_search(text, servers, std::regex("\"server_count\"\\s*:\\s*\"?(\\d+)")) && servers[1] != "1")
    throw Failure{HCCL_E_NOT_SUPPORT, std::string(path) + " has " + servers[1].str() +
                                          " servers: emulated HCCL joins processes of one machine"};
  const std::regex rank("\"rank_id\"\\s*:\\s*\"?(\\d+)");
  Table table;
  const std::sregex_iterator first(text.begin(), text.end(), rank);
  table.ranks = static_cast<uint32_t>(std::distance(first, std::sregex_iterator()));
  if (!table.ranks) throw Failure{HCCL_E_PARA, std::string(path) + " is no rank table: it has no rank_id"};
  char name[80];
  std::snprintf(name, sizeof name, "hetero-hccl-%d-%zx", static_cast<int>(getuid()), std::hash<std::string>()(text));
  table.socket = name;
  return table;
}

struct File {
  int number;
  ~File() { close(number); }
};

sockaddr_un address(const std::string& name, socklen_t* length) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path + 1, name.data(), name.size());  // a leading zero byte: in no file system
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return at;
}

// Tells `root` to whoever connects, until it is destroyed.
class Teller {
 public:
  Teller(const std::string& name, std::string root)
      : root_(std::move(root)), file_{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    socklen_t length;
    const sockaddr_un at = address(name, &length);
    if (bind(file_.number, reinterpret_cast<const sockaddr*>(&at), length) || listen(file_.number, 64))
      throw Failure{HCCL_E_UNAVAIL,
                    std::string("rank 0 of this rank table cannot be reached (is a job with it starting?): ") +
                        std::strerror(errno)};
    thread_ = std::thread([this] { tell(); });
  }
  ~Teller() {
    done_ = true;
    thread_.join();
  }

 private:
  void tell() {
    while (!done_) {
      pollfd ready{file_.number, POLLIN, 0};
      if (poll(&ready, 1, 50) <= 0) continue;
      const File peer{accept4(file_.number, nullptr, nullptr, SOCK_CLOEXEC)};
      if (peer.number >= 0 && send(peer.number, root_.data(), root_.size(), MSG_NOSIGNAL) < 0) continue;
    }
  }

  const std::string root_;
  const File file_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

std::string ask(const std::string& name, double seconds) {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds * second());
  while (Clock::now() < until) {
    const File file{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    socklen_t length;
    const sockaddr_un at = address(name, &length);
    if (!connect(file.number, reinterpret_cast<const sockaddr*>(&at), length)) {
      ucred who{};
      socklen_t size = sizeof who;
      char text[256];
      const ssize_t n = recv(file.number, text, sizeof text, MSG_WAITALL);
      if (!getsockopt(file.number, SOL_SOCKET, SO_PEERCRED, &who, &size) && who.uid == getuid() && n > 0)
        return std::string(text, static_cast<size_t>(n));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  throw Failure{HCCL_E_TIMEOUT, "rank 0 of the rank table did not come within HCCL_CONNECT_TIMEOUT"};
}

HcclResult init(const char* name, const char* path, uint32_t rank, const HcclCommConfig* config, HcclComm* out) {
  return answer(name, [&] {
    if (!out) throw Failure{HCCL_E_PTR, "comm is null"};
    const Settings settings = read_settings(config);
    const Table table = read_table(path);
    const uint32_t device = current_device();
    if (rank) {
      *out = put_comm(join(Segment::open(ask(table.socket, settings.connect)), table.ranks, rank, device, settings));
      return;
    }
    const std::shared_ptr<Segment> made = Segment::create();
    const Teller teller(table.socket, made->root());
    *out = put_comm(join(Segment::open(made->root()), table.ranks, rank, device, settings));
  });
}

}  // namespace
}  // namespace cann::hccl

extern "C" {

CANN_EXPORT HcclResult HcclCommInitClusterInfo(const char* path, uint32_t rank, HcclComm* out) {
  return cann::hccl::init("HcclCommInitClusterInfo", path, rank, nullptr, out);
}
CANN_EXPORT HcclResult HcclCommInitClusterInfoConfig(const char* path, uint32_t rank, HcclCommConfig* config,
                                                     HcclComm* out) {
  return cann::hccl::init("HcclCommInitClusterInfoConfig", path, rank, config, out);
}
}
