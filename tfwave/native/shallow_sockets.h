// Keeps what waits for the wire out of the kernel, where its order can no longer be changed.
#ifndef TFWAVE_NATIVE_SHALLOW_SOCKETS_H_
#define TFWAVE_NATIVE_SHALLOW_SOCKETS_H_

#include <atomic>
#include <cstdint>

namespace tfwave {

// A socket takes several megabytes that it cannot send yet: on a link of 1 Gbit/s an urgent tensor would wait behind
// them for 30 ms. Limited, it takes so many unsent bytes; what is on the wire is not limited, and throughput stays.
class ShallowSockets {
 public:
  static constexpr int kUnsentBytes = 128 << 10;

  // Limits all TCP sockets of this process, those that came since as well; looks once a second, at most. Thread-safe.
  void Tend();

 private:
  std::atomic<int64_t> due_nanos_{0};
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_SHALLOW_SOCKETS_H_
