#ifndef TFWAVE_NATIVE_COUNTERS_H_
#define TFWAVE_NATIVE_COUNTERS_H_

#include <cstdint>

namespace tfwave {

// Totals since the start, but for live_steps and held.
struct Counters {
  int64_t live_steps = 0;
  int64_t held = 0;
  int64_t ordered = 0;
  int64_t released = 0;
  int64_t late = 0;
  int64_t unplanned = 0;  // between devices that some plan speaks of
  int64_t deadlines = 0;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_COUNTERS_H_
