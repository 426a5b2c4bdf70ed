// HETERO_CANN_* as read once, when the library is loaded.
#pragma once

#include <cstddef>
#include <vector>

#include "emulator.h"

namespace cann {

enum class RaceMode { off, report, error };

struct Settings {
  const Soc* soc = nullptr;
  std::vector<int> devices;  // the machine's numbers of the visible ones
  size_t memory = size_t(4) << 30;
  long delay_us = 0;
  RaceMode races = RaceMode::off;
};

const Settings& settings();

}  // namespace cann
