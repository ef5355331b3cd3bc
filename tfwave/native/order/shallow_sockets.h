// Keeps what waits for the wire out of the kernel, where its order can no longer be changed.
#ifndef TFWAVE_NATIVE_SHALLOW_SOCKETS_H_
#define TFWAVE_NATIVE_SHALLOW_SOCKETS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <set>

#include "base/sync.h"

namespace tfwave {

// A socket takes several megabytes that it cannot send yet: on a link of 1 Gbit/s an urgent tensor would wait behind
// them for 30 ms. Limited, it takes so many unsent bytes; what is on the wire is not limited, and throughput stays.
// Limited are the connections that others have opened to the servers of this process, by which all tensors leave that
// others ask for; no other socket is touched. Thread-safe.
class ShallowSockets {
 public:
  static constexpr int kUnsentBytes = 128 << 10;

  // A server of this process listens there.
  void AddPort(int port);
  // Off at first. When it ends, each socket gets back what it had.
  void SetActive(bool active);
  // While it is on, limits what there is, and what has come since; looks once a second, at most.
  void Tend();

 private:
  struct Before {
    ino_t socket;  // what the descriptor stood for
    int unsent_bytes;
  };
  void Limit(int descriptor);
  void GiveBack();

  std::atomic<int64_t> due_nanos_{0};
  Mutex mu_;
  bool active_ = false;
  std::set<int> ports_;
  std::map<int, Before> limited_;  // by descriptor
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_SHALLOW_SOCKETS_H_
