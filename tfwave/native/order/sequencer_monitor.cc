// The sequencer's clock: no step waits for longer than the deadline.
#include "order/sequencer.h"

#include <algorithm>

namespace tfwave {

// Looks at the clocks once per deadline while there are steps, and sleeps after a deadline without any.
void Sequencer::Monitor() {
  Lock lock(mu_);
  bool was_idle = false;
  monitor_sleeps_ = false;
  while (!stopping_) {
    const bool idle = steps_.empty();
    if (idle && was_idle) {
      monitor_sleeps_ = true;
      wake_.wait(lock, [this] { return stopping_ || !steps_.empty(); });
      monitor_sleeps_ = false;
    } else {
      ReleaseExpired(lock);
      wake_.wait_until(lock, NextDue());
    }
    was_idle = idle;
  }
}

void Sequencer::ReleaseExpired(Lock& lock) {
  const Clock::time_point begun_before = Clock::now() - deadline_;
  std::vector<std::shared_ptr<Step>> expired;
  for (const auto& [id, step] : steps_) {
    if (step->last > begun_before) continue;
    expired.push_back(step);
    if (step->HoldsAnything()) ++totals_.deadlines;
  }
  ReleaseSteps(lock, expired);
}

Clock::time_point Sequencer::NextDue() const {
  Clock::time_point oldest = Clock::now();
  for (const auto& [id, step] : steps_) oldest = std::min(oldest, step->last);
  return oldest + deadline_;
}

}  // namespace tfwave
