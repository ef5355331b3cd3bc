// The channels without a counter: of what is ready the most urgent leaves, as long as the bytes in flight fit a
// window. Knows nothing of TensorFlow.
#ifndef TFWAVE_NATIVE_PRIORITY_QUEUES_H_
#define TFWAVE_NATIVE_PRIORITY_QUEUES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "order/counters.h"
#include "order/hand_off_log.h"
#include "order/receipt.h"
#include "order/step.h"
#include "base/sync.h"
#include "order/table.h"

namespace tfwave {

// One queue for each channel with a window, across its steps and graphs. Thread-safe. No callback runs under a lock;
// callbacks may call back. Must outlive the receipts that it gives out.
class PriorityQueues {
 public:
  explicit PriorityQueues(HandOffLog* log) : log_(log) {}
  ~PriorityQueues();
  PriorityQueues(const PriorityQueues&) = delete;

  // Starts the thread without which nothing may be installed; throws where the system has none.
  void Start();
  // Begins anew with the channels of some plans; null: with none. Returns what waited: the caller lets it go.
  [[nodiscard]] std::vector<Go> Install(const Plans* plans, int64_t generation);
  // The longest time in which nothing leaves a channel and arrives in the socket, before what waits is released.
  void SetDeadline(Clock::duration deadline);

  // Calls `go` once: now, or when it is the most urgent and there is room, or when it is released.
  // It leaves at once if its plans, of `generation`, are no longer in force.
  void Push(const Transfer& transfer, int64_t generation, Go go);

  // What waits, in a step or in all; the caller lets it go.
  [[nodiscard]] std::vector<Go> Release(int64_t step);
  [[nodiscard]] std::vector<Go> ReleaseAll();

  Counters counters() const;

 private:
  using Lock = std::unique_lock<Mutex>;
  using Urgency = std::pair<int, int64_t>;  // rank, and number of arrival
  struct Waiting {
    Transfer transfer;
    int64_t ready_nanos;
    Go go;
  };
  struct Lane;
  using LanePtr = std::shared_ptr<Lane>;

  void Drain(Lock& lock, const LanePtr& lane);
  Receipt Take(const LanePtr& lane, const Waiting& next);
  void Acknowledge(const LanePtr& lane, int64_t bytes);
  std::vector<Go> MoveOut(std::optional<int64_t> step);
  void MoveOut(Lane* lane, std::optional<int64_t> step, std::vector<Go>* out);
  void Log(const Waiting& waiting, Reason reason);

  void Watch(const Lane& lane);
  void Dispatch();
  void DrainAcknowledged(Lock& lock);
  void ReleaseExpired(Lock& lock);

  HandOffLog* const log_;
  mutable Mutex mu_;
  Condition wake_;
  int64_t generation_ = 0;  // of the plans
  std::map<int, LanePtr> lanes_;  // by channel
  std::vector<LanePtr> acknowledged_;  // that have room again
  std::optional<Clock::time_point> next_look_;  // at the lanes' clocks; none: nothing waits
  Clock::duration deadline_ = std::chrono::seconds(5);
  int64_t arrivals_ = 0;
  Counters totals_;
  bool stopping_ = false;
  Thread dispatcher_;
};

// What waits on one channel, and what is under way. Plain data, guarded by the queues' lock.
struct PriorityQueues::Lane {
  explicit Lane(int64_t window) : window(window) {}

  const int64_t window;
  int64_t in_flight = 0;        // bytes that left and are not acknowledged
  Clock::time_point last = {};  // hand-off, acknowledgement, or begin of waiting
  bool draining = false;        // one thread at a time hands off
  std::map<Urgency, Waiting> waiting;

  // What is larger than the window leaves alone.
  bool HasReady() const {
    if (waiting.empty()) return false;
    return in_flight == 0 || in_flight + waiting.begin()->second.transfer.bytes <= window;
  }
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_PRIORITY_QUEUES_H_
