// The caching allocator: blocks of segments, by the sizes and with the statistics that torch documents.
#include "memory.h"

#include <cstdio>
#include <set>

#include "arena.h"
#include "faults.h"
#include "wrapper.h"

namespace hetero {
namespace {

constexpr size_t kRound = 512, kSmall = 1 << 20, kSmallSegment = 2 << 20, kLargeSegment = 20 << 20, kLarge = 10 << 20;

struct Key {
  bool large;
  c10::StreamId stream;
  size_t size;
  uintptr_t address;
  bool operator<(const Key& o) const {
    return std::tie(large, stream, size, address) < std::tie(o.large, o.stream, o.size, o.address);
  }
};

struct Pool {
  std::map<uintptr_t, Block> blocks;
  std::map<uintptr_t, Segment> segments;
  std::set<Key> free;
  Statistics statistics;
  size_t reserved = 0;
  double fraction = 1;
};

std::vector<Pool>& pools() {
  static auto* all = [] {
    auto* made = new std::vector<Pool>(machine().devices);
    for (Pool& p : *made) {
      for (const char* name : {"allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
                               "active_bytes", "inactive_split_bytes", "requested_bytes"})
        p.statistics.counts[name];
      for (const char* name : {"num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc",
                               "num_device_free", "max_split_size"})
        p.statistics.numbers[name] = 0;
      p.statistics.numbers["max_split_size"] = -1;
    }
    return made;
  }();
  return *all;
}

Key key(const Block& b) { return {b.large, b.stream, b.size, b.address}; }

void count(Pool& pool, const char* name, bool large, int64_t n) {
  auto& counts = pool.statistics.counts.at(name);
  counts[0].add(n);
  counts[large ? 2 : 1].add(n);
}

void count_live(Pool& pool, const Block& b, int sign) {
  count(pool, "allocation", b.large, sign);
  count(pool, "active", b.large, sign);
  count(pool, "allocated_bytes", b.large, sign * int64_t(b.size));
  count(pool, "active_bytes", b.large, sign * int64_t(b.size));
  count(pool, "requested_bytes", b.large, sign * int64_t(b.requested));
}

// A free block that is not a whole segment cannot be given back.
void count_split(Pool& pool, const Block& b, int sign) {
  if (b.size == pool.segments.at(b.segment).size) return;
  count(pool, "inactive_split", b.large, sign);
  count(pool, "inactive_split_bytes", b.large, sign * int64_t(b.size));
}

void set_free(Pool& pool, const Block& b) {
  pool.free.insert(key(b));
  count_split(pool, b, 1);
}
void take(Pool& pool, const Block& b) {
  pool.free.erase(key(b));
  count_split(pool, b, -1);
}

void release_cached(c10::DeviceIndex index) {
  Pool& pool = pools()[index];
  for (auto it = pool.segments.begin(); it != pool.segments.end();) {
    const Segment segment = it->second;
    const Block block = pool.blocks.at(segment.address);
    ++it;
    if (block.live || block.size != segment.size) continue;
    take(pool, block);
    pool.blocks.erase(block.address);
    pool.segments.erase(segment.address);
    pool.reserved -= segment.size;
    unmap_segment(index, segment.address, segment.size);
    count(pool, "segment", segment.large, -1);
    count(pool, "reserved_bytes", segment.large, -int64_t(segment.size));
    ++pool.statistics.numbers["num_device_free"];
  }
}

bool grow(c10::DeviceIndex index, size_t bytes, bool large, c10::StreamId stream) {
  Pool& pool = pools()[index];
  if (pool.reserved + bytes > size_t(pool.fraction * double(machine().memory))) return false;
  const uintptr_t address = map_segment(index, bytes);
  if (!address) return false;
  pool.reserved += bytes;
  pool.segments[address] = {index, address, bytes, large, stream};
  Block block;
  block.address = block.segment = address;
  block.size = bytes;
  block.large = large;
  block.stream = stream;
  pool.blocks[address] = block;
  set_free(pool, block);
  count(pool, "segment", large, 1);
  count(pool, "reserved_bytes", large, int64_t(bytes));
  ++pool.statistics.numbers["num_device_alloc"];
  return true;
}

std::string human(double bytes) {
  const char* unit = "bytes";
  for (const char* next : {"KiB", "MiB", "GiB"}) {
    if (bytes < 1024) break;
    bytes /= 1024;
    unit = next;
  }
  char text[48];
  std::snprintf(text, sizeof text, unit[0] == 'b' ? "%.0f %s" : "%.2f %s", bytes, unit);
  return text;
}

[[noreturn]] void out_of_memory(c10::DeviceIndex index, size_t size, bool injected) {
  Pool& pool = pools()[index];
  ++pool.statistics.numbers["num_ooms"];
  const auto allocated = pool.statistics.counts.at("allocated_bytes")[0].current;
  const auto [free, total] = memory_info(index);
  TORCH_CHECK_WITH(OutOfMemoryError, false, machine().title, " out of memory. Tried to allocate ", human(size), ". GPU ",
                   int(index), " has a total capacity of ", human(total), " of which ", human(free), " is free. ",
                   "Of the allocated memory ", human(allocated), " is allocated by PyTorch, and ",
                   human(double(pool.reserved) - double(allocated)), " is reserved by PyTorch but unallocated.",
                   injected ? " (injected: HETERO_EMULATED_FAULTS)" : "");
  std::abort();  // not reached
}

uintptr_t allocate(c10::DeviceIndex index, size_t bytes, c10::StreamId stream) {
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  Pool& pool = pools()[index];
  const size_t size = (bytes + kRound - 1) / kRound * kRound;
  const bool large = size > kSmall;
  const size_t segment = !large ? kSmallSegment : size < kLarge ? kLargeSegment : (size + kGranule - 1) / kGranule * kGranule;
  if (size < bytes || fault("oom", "*")) out_of_memory(index, bytes, size >= bytes);
  const auto fitting = [&] {
    auto found = pool.free.lower_bound({large, stream, size, 0});
    return found != pool.free.end() && found->large == large && found->stream == stream ? found->address : 0;
  };
  uintptr_t address = fitting();
  if (!address && !grow(index, segment, large, stream)) {
    ++pool.statistics.numbers["num_alloc_retries"];
    release_cached(index);
    if (!grow(index, segment, large, stream)) out_of_memory(index, bytes, false);
  }
  if (!address) address = fitting();
  Block& block = pool.blocks.at(address);
  take(pool, block);
  const size_t rest = block.size - size;
  if (large ? rest > kSmall : rest >= kRound) {
    Block other = block;
    other.address += size;
    other.size = rest;
    block.size = size;
    pool.blocks[other.address] = other;
    set_free(pool, other);
  }
  block.live = true;
  block.requested = bytes;
  count_live(pool, block, 1);
  return address;
}

// Of each stream the last access is enough.
void note(std::vector<Stamp>& accesses, const Stamp& stamp) {
  if (!stamp.tick) return;
  for (Stamp& known : accesses)
    if (known.slot == stamp.slot) {
      if (known.tick < stamp.tick) known = stamp;
      return;
    }
  accesses.push_back(stamp);
}

void join(Pool& pool, Block& block, const Block& next) {
  block.size += next.size;
  for (const Stamp& read : next.accesses.reads) note(block.accesses.reads, read);
  note(block.accesses.reads, next.accesses.write);
  pool.blocks.erase(next.address);
}

void free_block(void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  Pool& pool = pools()[arena_of(address)];
  auto it = pool.blocks.find(address);
  Block& block = it->second;
  count_live(pool, block, -1);
  block.live = false;
  if (auto next = std::next(it); next != pool.blocks.end() && !next->second.live && next->second.segment == block.segment) {
    const Block other = next->second;
    take(pool, other);
    join(pool, block, other);
  }
  if (it != pool.blocks.begin()) {
    auto before = std::prev(it);
    if (!before->second.live && before->second.segment == block.segment) {
      take(pool, before->second);
      const Block other = block;
      join(pool, before->second, other);
      set_free(pool, before->second);
      return;
    }
  }
  set_free(pool, block);
}

struct CachingAllocator final : WrappedAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    use();
    const auto index = current_device();
    if (!bytes) return {nullptr, nullptr, &free_nothing, device(index)};
    auto* p = reinterpret_cast<void*>(hetero::allocate(index, bytes, current_stream(index).id()));
    return {p, p, &free_block, device(index)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(host(to, bytes), host(from, bytes), bytes);
  }
  static void free_nothing(void*) {}
};

Block& find(const void* pointer, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const auto index = arena_of(address);
  TORCH_CHECK(index >= 0, machine().title, " error: an illegal memory access was encountered: ", pointer,
              " is no address of a device");
  auto& blocks = pools()[index].blocks;
  auto it = blocks.upper_bound(address);
  Block* block = it == blocks.begin() ? nullptr : &std::prev(it)->second;
  TORCH_CHECK(block && block->live && address + bytes <= block->address + block->size, machine().title,
              " error: an illegal memory access was encountered: ", bytes, " bytes at ", pointer,
              block && !block->live ? " were freed" : " are not within one allocation");
  return *block;
}

void collide(const Stamp& before, const char* what, const c10::Stream& stream, bool writes) {
  const std::string said = std::string("race: ") + what + " on " + c10::str(stream) + (writes ? " writes" : " reads") +
                           " what " + before.what + " uses on another stream, and nothing orders the two: record an event "
                           "there and wait for it here (or record_stream, where memory was freed)";
  TORCH_CHECK(machine().races != 1, said);
  std::fprintf(stderr, "hetero: %s\n", said.c_str());
}

}  // namespace

void reserve_memory() { reserve_arenas(); }

void* host(const void* pointer, size_t bytes) {
  if (!pointer) return nullptr;
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  find(pointer, bytes);
  return behind(reinterpret_cast<uintptr_t>(pointer));
}

void* host(const void* pointer, size_t bytes, const c10::Stream& stream, bool write, const char* what) {
  if (!pointer) return nullptr;
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  Block& block = find(pointer, bytes);
  if (machine().races) {
    Accesses& a = block.accesses;
    const Stamp stamp = now(stream, what);
    if (!ordered(a.write, stream)) collide(a.write, what, stream, write);
    if (write) {
      for (const Stamp& read : a.reads)
        if (!ordered(read, stream)) collide(read, what, stream, write);
      a.reads.clear();
      a.write = stamp;
    } else {
      note(a.reads, stamp);
    }
  }
  return behind(reinterpret_cast<uintptr_t>(pointer));
}

c10::DeviceIndex device_of(const void* address) { return arena_of(reinterpret_cast<uintptr_t>(address)); }

c10::Allocator* device_allocator() {
  static auto* one = new CachingAllocator;
  return one;
}

void empty_cache() {
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  for (int i = 0; i < machine().devices; ++i) release_cached(i);
}

std::pair<size_t, size_t> memory_info(c10::DeviceIndex index) {
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  const Pool& pool = pools()[checked(index)];
  return {machine().memory - pool.reserved, machine().memory};
}

void set_fraction(c10::DeviceIndex index, double fraction) {
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  pools()[checked(index)].fraction = fraction;
}

double fraction(c10::DeviceIndex index) { return pools()[checked(index)].fraction; }

void record_stream(const void* address, const c10::Stream& stream) {
  if (!address) return;
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  Block& block = find(address, 1);
  const int slot = now(stream, "").slot;
  auto& reads = block.accesses.reads;
  reads.erase(std::remove_if(reads.begin(), reads.end(), [&](const Stamp& s) { return s.slot == slot; }), reads.end());
  if (block.accesses.write.slot == slot) block.accesses.write = {};
}

Statistics statistics(c10::DeviceIndex index) {
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  return pools()[checked(index)].statistics;
}

void reset_peaks(c10::DeviceIndex index) {
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  for (auto& [_, counts] : pools()[checked(index)].statistics.counts)
    for (Count& c : counts) c.peak = c.current;
}

void reset_accumulated(c10::DeviceIndex index) {
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  Statistics& s = pools()[checked(index)].statistics;
  for (auto& [_, counts] : s.counts)
    for (Count& c : counts) c.allocated = c.freed = 0;
  for (auto& [name, n] : s.numbers)
    if (name != "max_split_size") n = 0;
}

std::vector<std::pair<Segment, std::vector<Block>>> snapshot() {
  std::lock_guard<std::recursive_mutex> hold(runtime_lock());
  std::vector<std::pair<Segment, std::vector<Block>>> all;
  for (const Pool& pool : pools())
    for (const auto& [address, segment] : pool.segments) {
      all.push_back({segment, {}});
      for (auto it = pool.blocks.find(address); it != pool.blocks.end() && it->second.segment == address; ++it)
        all.back().second.push_back(it->second);
    }
  return all;
}

}  // namespace hetero
