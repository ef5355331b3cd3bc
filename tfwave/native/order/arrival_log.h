// The last tensors that reached this process from others, in a ring of fixed capacity.
#ifndef TFWAVE_NATIVE_ARRIVAL_LOG_H_
#define TFWAVE_NATIVE_ARRIVAL_LOG_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>

#include "base/ring.h"
#include "base/sync.h"

namespace tfwave {

struct LoggedArrival {
  int64_t requested_nanos;  // monotonic clock
  int64_t arrived_nanos;
  int64_t step;
  int64_t bytes;
  int32_t transfer;  // see ArrivalLog::Name
};

// What one transfer is called: source device, destination device, edge.
using TransferName = std::tuple<std::string, std::string, std::string>;

// Thread-safe. Read by cursor: an arrival's position since the process started.
class ArrivalLog {
 public:
  explicit ArrivalLog(size_t capacity) : ring_(capacity) {}

  // Whether arrivals are to be logged; off at first.
  bool active() const { return active_.load(std::memory_order_relaxed); }
  void SetActive(bool active) { active_.store(active, std::memory_order_relaxed); }

  // The number of a transfer, from 0 on; names are never forgotten.
  int32_t Number(const TransferName& name);
  // Of a number that it gave out, else throws std::out_of_range; valid as long as the log.
  const TransferName& Name(int32_t transfer) const;

  // An arrival that takes place now.
  void Append(int64_t requested_nanos, int64_t step, int64_t bytes, int32_t transfer);
  // As HandOffLog::Read.
  int64_t Read(int64_t* cursor, LoggedArrival* out, int64_t size, int64_t* lost) const;

 private:
  std::atomic<bool> active_{false};
  mutable Mutex mu_;
  Ring<LoggedArrival> ring_;
  std::map<TransferName, int32_t> numbers_;
  std::deque<const TransferName*> names_;  // the keys of numbers_
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_ARRIVAL_LOG_H_
