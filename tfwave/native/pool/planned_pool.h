// Where the buffers of a step lie, as a plan says: by the op that allocates and by size. Knows no TensorFlow.
#ifndef TFWAVE_NATIVE_PLANNED_POOL_H_
#define TFWAVE_NATIVE_PLANNED_POOL_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/sync.h"

namespace tfwave {

// Bytes of the region that one op may use. Those of ops that run at different times may overlap.
struct PlannedPlace {
  std::string op;
  int64_t offset;
  int64_t bytes;
  bool is_scratch = false;
};

// What a buffer is asked for: an output, what an op may make an output of, or what it keeps to itself until it is done.
enum class Use { kOutput, kTemporary, kScratch };

// What was asked for since the plan was installed, in buffers and in bytes.
struct PlannedPoolFigures {
  int64_t served = 0, served_bytes = 0;
  int64_t unknown = 0, unknown_bytes = 0;      // the plan has no such place for the op
  int64_t conflicts = 0, conflict_bytes = 0;   // something else lies there
  int64_t live = 0, live_bytes = 0;            // served, and not given back
  int64_t reach = 0;                           // the end of the last byte that was ever given
};

// Two buffers that are live never share a byte, whatever the plan says and whoever asks, from any thread.
class PlannedPool {
 public:
  static constexpr int64_t kElsewhere = -1;
  static constexpr int64_t kAlignment = 256;

  // Replaces the plan, and counts anew. Returns why it cannot, or "": a place outside the region, one that is not
  // aligned, or a region that still holds buffers.
  std::string Install(const std::vector<PlannedPlace>& places, int64_t region_bytes);
  // From now on all lies elsewhere; what is live stays. Returns how many buffers that are.
  int64_t Remove();
  // The same if nothing is live; else the plan stays.
  int64_t Vacate();
  static std::string StillHeld(int64_t buffers);

  // Where so many bytes (1 or more) for an op lie, or kElsewhere. Of its places for such a use that have room the
  // smallest is taken, of equals the first; what is temporary lies where scratch does, or else where outputs do. What
  // is smaller than all places has none: it must not lie in the way of what is large.
  int64_t Take(std::string_view op, int64_t bytes, Use use = Use::kOutput);
  // Takes a buffer back. Returns whether the region is free, and no plan installed.
  bool Give(int64_t offset);

  int64_t BytesAt(int64_t offset) const;
  int64_t live_bytes() const { return live_bytes_; }  // waits for nobody
  PlannedPoolFigures figures() const;

 private:
  struct Room {
    int64_t offset;
    int64_t end;
  };

  struct Rooms {  // by size, then in the order of the plan
    std::vector<Room> outputs;
    std::vector<Room> scratch;
  };

  void Forget();
  int64_t RoomIn(const std::vector<Room>& places, int64_t bytes, bool* fits) const;
  int64_t RoomIn(const Room& place, int64_t bytes) const;

  mutable Mutex mutex_;
  bool installed_ = false;
  std::unordered_map<size_t, Rooms> places_;  // of each op, by what its name hashes to
  int64_t smallest_ = 0;                      // place
  std::map<int64_t, int64_t> live_;           // from the begin of a buffer to its end
  std::atomic<int64_t> live_bytes_{0};        // changed under the mutex
  PlannedPoolFigures figures_;                // but for those
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_PLANNED_POOL_H_
