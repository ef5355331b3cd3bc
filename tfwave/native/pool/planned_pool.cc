#include "pool/planned_pool.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <thread>

namespace tfwave {
namespace {

int64_t Rounded(int64_t bytes) {
  return (bytes + PlannedPool::kAlignment - 1) / PlannedPool::kAlignment * PlannedPool::kAlignment;
}

// It stands for the name, which lies far away in memory: ops whose names hash alike share their places.
size_t HashOf(std::string_view op) { return std::hash<std::string_view>()(op); }

// Others hold it for less time than it takes to sleep and to be woken.
std::unique_lock<Mutex> Hold(Mutex* mutex) {
  constexpr int kTries = 100;
  std::unique_lock<Mutex> lock(*mutex, std::defer_lock);
  for (int tries = 0; tries < kTries; ++tries) {
    if (lock.try_lock()) return lock;
    std::this_thread::yield();
  }
  lock.lock();
  return lock;
}

std::string Wrong(const PlannedPlace& place, int64_t region_bytes) {
  const std::string what = "the place of '" + place.op + "' at " + std::to_string(place.offset);
  if (place.offset < 0 || place.bytes < 1 || place.bytes > region_bytes || place.offset > region_bytes - place.bytes) {
    return what + " with " + std::to_string(place.bytes) + " bytes is not in a region of " +
           std::to_string(region_bytes) + ": make the plan again";
  }
  if (place.offset % PlannedPool::kAlignment != 0) {
    return what + " is no multiple of " + std::to_string(PlannedPool::kAlignment) + ": make the plan again";
  }
  return "";
}

}  // namespace

std::string PlannedPool::Install(const std::vector<PlannedPlace>& places, int64_t region_bytes) {
  std::unordered_map<size_t, Rooms> found;
  int64_t smallest = std::numeric_limits<int64_t>::max();
  for (const PlannedPlace& place : places) {
    if (const std::string wrong = Wrong(place, region_bytes); !wrong.empty()) return wrong;
    Rooms& rooms = found[HashOf(place.op)];
    (place.is_scratch ? rooms.scratch : rooms.outputs).push_back({place.offset, place.offset + place.bytes});
    smallest = std::min(smallest, place.bytes);
  }
  for (auto& of_op : found) {
    for (std::vector<Room>* rooms : {&of_op.second.outputs, &of_op.second.scratch}) {
      std::stable_sort(rooms->begin(), rooms->end(),
                       [](const Room& a, const Room& b) { return a.end - a.offset < b.end - b.offset; });
    }
  }
  const std::unique_lock<Mutex> lock = Hold(&mutex_);
  if (!live_.empty()) return StillHeld(live_.size());
  places_ = std::move(found);
  smallest_ = smallest;
  figures_ = {};
  installed_ = true;
  return "";
}

int64_t PlannedPool::Remove() {
  const std::unique_lock<Mutex> lock = Hold(&mutex_);
  Forget();
  return live_.size();
}

int64_t PlannedPool::Vacate() {
  const std::unique_lock<Mutex> lock = Hold(&mutex_);
  if (live_.empty()) Forget();
  return live_.size();
}

void PlannedPool::Forget() {
  installed_ = false;
  places_.clear();
}

std::string PlannedPool::StillHeld(int64_t buffers) {
  return std::to_string(buffers) + " buffers of the plan before are still held: end its steps, and free what they gave";
}

int64_t PlannedPool::Take(std::string_view op, int64_t bytes, Use use) {
  const int64_t size = Rounded(bytes);
  const size_t hash = HashOf(op);
  const std::unique_lock<Mutex> lock = Hold(&mutex_);
  if (!installed_) return kElsewhere;
  bool fits = false;
  const auto of_op = size < smallest_ ? places_.end() : places_.find(hash);
  if (of_op != places_.end()) {
    const Rooms& rooms = of_op->second;
    int64_t offset = RoomIn(use == Use::kOutput ? rooms.outputs : rooms.scratch, size, &fits);
    if (offset == kElsewhere && use == Use::kTemporary) offset = RoomIn(rooms.outputs, size, &fits);
    if (offset != kElsewhere) {
      live_.emplace(offset, offset + size);
      ++figures_.served, ++figures_.live;
      figures_.served_bytes += size, live_bytes_ += size;
      figures_.reach = std::max(figures_.reach, offset + size);
      return offset;
    }
  }
  ++(fits ? figures_.conflicts : figures_.unknown);
  (fits ? figures_.conflict_bytes : figures_.unknown_bytes) += size;
  return kElsewhere;
}

bool PlannedPool::Give(int64_t offset) {
  const std::unique_lock<Mutex> lock = Hold(&mutex_);
  const auto found = live_.find(offset);
  if (found == live_.end()) return false;
  --figures_.live;
  live_bytes_ -= found->second - found->first;
  live_.erase(found);
  return !installed_ && live_.empty();
}

int64_t PlannedPool::BytesAt(int64_t offset) const {
  const std::unique_lock<Mutex> lock = Hold(&mutex_);
  const auto found = live_.find(offset);
  return found == live_.end() ? 0 : found->second - found->first;
}

PlannedPoolFigures PlannedPool::figures() const {
  const std::unique_lock<Mutex> lock = Hold(&mutex_);
  PlannedPoolFigures figures = figures_;
  figures.live_bytes = live_bytes_;
  return figures;
}

// In the first of the places that has it; `fits` says then, and else, whether one is large enough.
int64_t PlannedPool::RoomIn(const std::vector<Room>& places, int64_t bytes, bool* fits) const {
  for (const Room& place : places) {
    if (place.end - place.offset < bytes) continue;
    *fits = true;
    const int64_t offset = RoomIn(place, bytes);
    if (offset != kElsewhere) return offset;
  }
  return kElsewhere;
}

// The first gap of a place between what is live there.
int64_t PlannedPool::RoomIn(const Room& place, int64_t bytes) const {
  int64_t at = place.offset;
  auto next = live_.upper_bound(at);
  if (next != live_.begin()) at = std::max(at, std::prev(next)->second);
  for (; at + bytes <= place.end; ++next) {
    if (next == live_.end() || at + bytes <= next->first) return at;
    at = next->second;
  }
  return kElsewhere;
}

}  // namespace tfwave
