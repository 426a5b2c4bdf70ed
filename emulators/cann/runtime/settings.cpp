#include "settings.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "device.h"
#include "faults.h"
#include "soc.h"

extern char** environ;

namespace cann {
namespace {

using Bad = std::invalid_argument;

const char* given(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

long number(const char* name, long fallback, long least, long most) {
  const char* text = given(name);
  if (!text) return fallback;
  char* end;
  const long value = std::strtol(text, &end, 10);
  if (*end || value < least || value > most)
    throw Bad(std::string(name) + "=" + text + ": not a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

size_t bytes(const char* name, size_t fallback) {
  const char* text = given(name);
  if (!text) return fallback;
  char* end;
  const unsigned long long value = *text >= '0' && *text <= '9' ? std::strtoull(text, &end, 10) : 0;
  int shift = -1;
  if (value) {
    const std::string unit = end;
    const char* const units[] = {"", "K", "M", "G"};
    for (int i = 0; i < 4; ++i)
      if (unit == units[i] || (i && unit == std::string(units[i]) + "iB")) shift = 10 * i;
  }
  if (shift < 0 || value >= (1ull << 42 >> shift) || (value << shift) < (16u << 20))
    throw Bad(std::string(name) + "=" + text + ": not a size from 16MiB to 4096GiB, such as 4294967296, 512MiB or 4GiB");
  return value << shift;
}

std::vector<int> visible(int count) {
  std::vector<int> devices;
  const char* text = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
  if (!text) {
    for (int i = 0; i < count; ++i) devices.push_back(i);
    return devices;
  }
  // As on hardware: the list counts up to its first number that no device has.
  for (const char* at = text; *at;) {
    char* end;
    const long device = std::strtol(at, &end, 10);
    if (end == at || device < 0 || device >= count) break;
    devices.push_back(int(device));
    at = *end == ',' ? end + 1 : end;
    if (*end && *end != ',') break;
  }
  return devices;
}

void refuse_unknown_names() {
  const char* const known[] = {"DEVICES", "SOC", "MEMORY", "DELAY", "RACES", "FAULTS", "COVERAGE", "SECOND"};
  const size_t prefix = std::strlen("HETERO_CANN_");
  for (char** one = environ; one && *one; ++one) {
    if (std::strncmp(*one, "HETERO_CANN_", prefix)) continue;
    const std::string name(*one + prefix, std::strcspn(*one + prefix, "="));
    bool found = false;
    for (const char* other : known) found = found || name == other;
    if (!found) throw Bad("HETERO_CANN_" + name + ": there is no such setting");
  }
}

Settings read() {
  refuse_unknown_names();
  Settings s;
  const char* soc = given("HETERO_CANN_SOC");
  s.soc = find_soc(soc ? soc : "Ascend910B1");
  if (!s.soc) throw Bad(std::string("HETERO_CANN_SOC=") + soc + ": not one of " + soc_names());
  s.devices = visible(int(number("HETERO_CANN_DEVICES", 2, 1, kMaxDevices)));
  s.memory = bytes("HETERO_CANN_MEMORY", s.memory);
  s.delay_us = number("HETERO_CANN_DELAY", 0, 0, 60'000'000);
  const std::string races = given("HETERO_CANN_RACES") ? given("HETERO_CANN_RACES") : "0";
  if (races == "1") s.races = RaceMode::error;
  else if (races == "report") s.races = RaceMode::report;
  else if (races != "0") throw Bad("HETERO_CANN_RACES=" + races + ": not 0, 1 or report");
  if (const char* faults = given("HETERO_CANN_FAULTS")) read_faults(faults);
  return s;
}

// A process that goes on without the fault it was told to have would prove nothing, hence an end and not a warning.
__attribute__((constructor)) void read_at_load() { settings(); }

}  // namespace

const Settings& settings() {
  static const Settings* all = [] {
    try {
      return new Settings(read());
    } catch (const Bad& bad) {
      const std::string line = std::string("emulated CANN: ") + bad.what() + "\n";
      (void)!write(2, line.data(), line.size());
      _exit(2);
    }
  }();
  return *all;
}

const Soc& soc() { return *settings().soc; }

}  // namespace cann
