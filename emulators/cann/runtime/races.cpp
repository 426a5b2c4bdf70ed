#include "races.h"

#include <algorithm>
#include <cstdio>

#include "settings.h"

namespace cann {
namespace {

void join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

uint64_t at(const Clock& clock, int stream) { return size_t(stream) < clock.size() ? clock[size_t(stream)] : 0; }

std::string who(int stream) { return stream ? "stream " + std::to_string(stream) : "the host"; }

}  // namespace

Races& races() {
  static auto* one = new Races;
  return *one;
}

bool Races::on() const { return settings().races != RaceMode::off; }

Clock& Races::of(int stream) {
  if (clocks_.size() <= size_t(stream)) clocks_.resize(size_t(stream) + 1);
  Clock& clock = clocks_[size_t(stream)];
  if (clock.size() <= size_t(stream)) clock.resize(size_t(stream) + 1);
  return clock;
}

bool Races::before(const Access& earlier, int stream) { return earlier.stream < 0 || at(of(stream), earlier.stream) >= earlier.time; }

std::string Races::tell(const std::string& race) {
  if (race.empty() || settings().races == RaceMode::error) return race;
  std::fprintf(stderr, "emulated CANN: race: %s\n", race.c_str());
  return "";
}

void Races::split(uintptr_t at) {
  auto next = cells_.lower_bound(at);
  if (next == cells_.begin()) return;
  auto cell = std::prev(next);
  if (cell->second.end <= at) return;
  cells_[at] = cell->second;
  cell->second.end = at;
}

std::string Races::access(int stream, const std::string& name, const Range& range) {
  const uintptr_t begin = uintptr_t(range.data), end = begin + range.bytes;
  const Access self{stream, at(of(stream), stream), name};
  std::string race;
  const auto check = [&](const Access& earlier, const char* did) {
    if (!race.empty() || before(earlier, stream)) return;
    race = name + " on " + who(stream) + (range.writes ? " writes" : " reads") + " device memory that " + earlier.name + " on " +
           who(earlier.stream) + did + ", and nothing orders the two (an event or a synchronisation is missing)";
  };
  split(begin);
  split(end);
  uintptr_t covered = begin;
  for (auto cell = cells_.lower_bound(begin); covered < end;) {
    if (cell == cells_.end() || cell->first > covered) {  // bytes nobody used so far
      const uintptr_t until = cell == cells_.end() ? end : std::min(end, cell->first);
      cell = cells_.insert({covered, Cell{until, {-1, 0, ""}, {}}}).first;
    }
    Cell& c = cell->second;
    check(c.write, " writes");
    if (range.writes) {
      for (const Access& read : c.reads) check(read, " reads");
    } else {
      auto mine = std::find_if(c.reads.begin(), c.reads.end(), [&](const Access& read) { return read.stream == stream; });
      if (mine == c.reads.end()) c.reads.push_back(self);
      else *mine = self;
    }
    covered = c.end;
    ++cell;
  }
  if (range.writes && range.bytes) {
    cells_.erase(cells_.lower_bound(begin), cells_.lower_bound(end));
    cells_[begin] = Cell{end, self, {}};
  }
  return race;
}

std::string Races::task(int stream, const std::string& name, const std::vector<Range>& ranges) {
  if (!on()) return "";
  std::lock_guard<std::mutex> hold(lock_);
  Clock& own = of(stream);
  join(own, clocks_[0]);
  ++own[size_t(stream)];
  std::string race;
  for (const Range& range : ranges)
    if (range.exact && range.bytes)
      if (const std::string found = access(stream, name, range); race.empty()) race = found;
  return tell(race);
}

std::string Races::host(const std::string& name, const std::vector<Range>& ranges) {
  if (!on()) return "";
  std::lock_guard<std::mutex> hold(lock_);
  ++of(0)[0];
  std::string race;
  for (const Range& range : ranges)
    if (range.bytes)
      if (const std::string found = access(0, name, range); race.empty()) race = found;
  return tell(race);
}

std::string Races::freed(const void* data, size_t bytes) {
  if (!on()) return "";
  std::lock_guard<std::mutex> hold(lock_);
  ++of(0)[0];
  const std::string race = access(0, "freeing", {data, bytes, true});
  const uintptr_t begin = uintptr_t(data);
  cells_.erase(cells_.lower_bound(begin), cells_.lower_bound(begin + bytes));
  return tell(race);
}

Clock Races::clock(int stream) {
  if (!on()) return {};
  std::lock_guard<std::mutex> hold(lock_);
  return of(stream);
}

void Races::wait(int stream, const Clock& clock) {
  if (!on()) return;
  std::lock_guard<std::mutex> hold(lock_);
  join(of(stream), clock);
}

void Races::synchronised(const Clock& clock) { wait(0, clock); }

}  // namespace cann
