// HETERO_EMULATED_FAULTS: its grammar (written down in faults.h) and the counting.
#include "faults.h"

#include <cmath>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace hetero {
namespace {

struct Fault {
  std::string kind, name;
  unsigned long nth = 0;
  bool onwards = false;
  double seconds = 0;
  unsigned long seen = 0;

  bool hits(const char* called) {
    if (name != "*" && name != called) return false;
    ++seen;
    return seen == nth || (onwards && seen > nth);
  }
};

struct Faults {
  std::mutex lock;
  std::vector<Fault> all;
};

Faults& faults() {
  static auto* one = new Faults;
  return *one;
}

[[noreturn]] void bad(const std::string& item, const std::string& why) {
  throw std::invalid_argument("HETERO_EMULATED_FAULTS: \"" + item + "\": " + why);
}

unsigned long count(const std::string& item, std::string text, bool* onwards = nullptr) {
  if (onwards && !text.empty() && text.back() == '+') {
    *onwards = true;
    text.pop_back();
  }
  char* end = nullptr;
  const unsigned long value = text.empty() || text[0] < '0' || text[0] > '9' ? 0 : std::strtoul(text.c_str(), &end, 10);
  if (!value || *end) bad(item, "\"" + text + "\" is not a count from 1");
  return value;
}

double seconds(const std::string& item, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !std::isfinite(value) || value < 0) bad(item, "\"" + text + "\" is not a number of seconds");
  return value;
}

// One fault; false where it is meant for another rank.
bool read_fault(const std::string& item, Fault& fault) {
  std::string text = item;
  bool mine = true;
  if (const auto hash = text.find('#'); hash != std::string::npos) {
    const std::string rank = text.substr(hash + 1);
    if (rank.empty() || rank.find_first_not_of("0123456789") != std::string::npos) bad(item, "\"" + rank + "\" is not a rank");
    const char* own = std::getenv("RANK");
    mine = own && rank == own;
    text.resize(hash);
  }
  const auto at = text.find('@');
  if (at == std::string::npos) bad(item, "has no @");
  const std::string what = text.substr(0, at), when = text.substr(at + 1);
  const auto colon = what.find(':');
  fault.kind = what.substr(0, colon);
  const std::string of = colon == std::string::npos ? "" : what.substr(colon + 1);
  const bool named = fault.kind == "op" || fault.kind == "op-late" || fault.kind == "comm" || fault.kind == "late";
  const bool unnamed = fault.kind == "oom" || fault.kind == "device-lost";
  if (!named && !unnamed && fault.kind != "stall")
    bad(item, "\"" + fault.kind + "\" is not one of oom, op, op-late, stall, late, comm, device-lost");
  if (unnamed != of.empty()) bad(item, unnamed ? "takes no name" : "has no name after " + fault.kind + ":");
  fault.name = named ? of : "*";
  if (fault.kind == "stall") {
    fault.nth = count(item, of);
    fault.seconds = seconds(item, when);
  } else if (fault.kind == "late") {
    const auto split = when.find(':');
    if (split == std::string::npos) bad(item, "has no :SECONDS at its end");
    fault.nth = count(item, when.substr(0, split), &fault.onwards);
    fault.seconds = seconds(item, when.substr(split + 1));
  } else {
    fault.nth = count(item, when, &fault.onwards);
  }
  return mine;
}

}  // namespace

void read_faults(const std::string& text) {
  if (text.empty()) return;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    Fault fault;
    if (read_fault(text.substr(begin, end - begin), fault)) faults().all.push_back(fault);
    begin = end + 1;
  }
}

bool fault(const char* kind, const char* name) {
  Faults& f = faults();
  if (f.all.empty()) return false;
  std::lock_guard<std::mutex> hold(f.lock);
  bool hit = false;
  for (Fault& one : f.all) hit = (one.kind == kind && one.hits(name)) || hit;
  return hit;
}

double delay(const char* name) {
  Faults& f = faults();
  if (f.all.empty()) return 0;
  std::lock_guard<std::mutex> hold(f.lock);
  double seconds = 0;
  for (Fault& one : f.all)
    if ((one.kind == "stall" || one.kind == "late") && one.hits(name)) seconds += one.seconds;
  return seconds;
}

}  // namespace hetero
