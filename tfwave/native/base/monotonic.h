#ifndef TFWAVE_NATIVE_MONOTONIC_H_
#define TFWAVE_NATIVE_MONOTONIC_H_

#include <chrono>
#include <cstdint>

#include "base/sync.h"

namespace tfwave {

// The monotonic clock, as Python's time.monotonic_ns.
inline int64_t MonotonicNanos() {
  const auto now = Clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_MONOTONIC_H_
