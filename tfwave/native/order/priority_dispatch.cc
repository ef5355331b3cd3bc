// The priority queues' own thread: hands off where there is room again, and keeps the deadline.
#include <algorithm>

#include "order/priority_queues.h"

namespace tfwave {

void PriorityQueues::Dispatch() {
  Lock lock(mu_);
  while (!stopping_) {
    DrainAcknowledged(lock);
    ReleaseExpired(lock);
    if (stopping_ || !acknowledged_.empty()) continue;
    if (next_look_) {
      wake_.wait_until(lock, Clock::time_point(*next_look_));
    } else {
      wake_.wait(lock);
    }
  }
}

void PriorityQueues::DrainAcknowledged(Lock& lock) {
  while (!acknowledged_.empty()) {
    const LanePtr lane = std::move(acknowledged_.back());
    acknowledged_.pop_back();
    Drain(lock, lane);
  }
}

void PriorityQueues::Watch(const Lane& lane) {
  if (lane.waiting.empty() || next_look_) return;
  next_look_ = lane.last + deadline_;
  wake_.notify_all();
}

// A lane that stands still is replaced: what left it and is never acknowledged must not count for ever.
void PriorityQueues::ReleaseExpired(Lock& lock) {
  const Clock::time_point now = Clock::now();
  if (!next_look_ || now < *next_look_) return;
  next_look_.reset();
  std::vector<Go> expired;
  for (auto& [channel, lane] : lanes_) {
    if (lane->waiting.empty()) continue;
    const Clock::time_point due = lane->last + deadline_;
    if (now < due) {
      next_look_ = next_look_ ? std::min(*next_look_, due) : due;
      continue;
    }
    ++totals_.deadlines;
    MoveOut(lane.get(), std::nullopt, &expired);
    lane = std::make_shared<Lane>(lane->window);
  }
  lock.unlock();
  for (Go& go : expired) go(nullptr);
  expired.clear();
  lock.lock();
}

}  // namespace tfwave
