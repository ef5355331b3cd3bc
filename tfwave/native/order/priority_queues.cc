#include "order/priority_queues.h"

#include <utility>

#include "base/monotonic.h"

namespace tfwave {

PriorityQueues::~PriorityQueues() {
  {
    Lock lock(mu_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (dispatcher_.joinable()) dispatcher_.join();
}

void PriorityQueues::Start() {
  Lock lock(mu_);
  if (!dispatcher_.joinable()) dispatcher_ = Thread(&PriorityQueues::Dispatch, this);
}

std::vector<Go> PriorityQueues::Install(const Plans* plans, int64_t generation) {
  Lock lock(mu_);
  std::vector<Go> gone = MoveOut(std::nullopt);
  generation_ = generation;
  lanes_.clear();
  for (int channel = 0; plans && channel < plans->channel_count(); ++channel) {
    if (plans->WindowOf(channel) > 0) lanes_[channel] = std::make_shared<Lane>(plans->WindowOf(channel));
  }
  return gone;
}

void PriorityQueues::SetDeadline(Clock::duration deadline) {
  Lock lock(mu_);
  deadline_ = deadline;
  if (next_look_) next_look_ = Clock::now();
  wake_.notify_all();
}

void PriorityQueues::Push(const Transfer& transfer, int64_t generation, Go go) {
  Lock lock(mu_);
  const auto found = lanes_.find(transfer.channel);
  if (generation != generation_ || found == lanes_.end()) return lock.unlock(), go(nullptr);
  const LanePtr lane = found->second;
  if (lane->waiting.empty()) lane->last = Clock::now();
  lane->waiting.try_emplace({transfer.plan_rank, ++arrivals_}, Waiting{transfer, MonotonicNanos(), std::move(go)});
  ++totals_.held;
  Drain(lock, lane);
}

// Some other thread may be at it: it sees what came meanwhile.
void PriorityQueues::Drain(Lock& lock, const LanePtr& lane) {
  if (lane->draining) return;
  lane->draining = true;
  while (lane->HasReady()) {
    auto node = lane->waiting.extract(lane->waiting.begin());
    Receipt receipt = Take(lane, node.mapped());
    lock.unlock();
    node.mapped().go(std::move(receipt));
    node = {};
    lock.lock();
  }
  lane->draining = false;
  Watch(*lane);
}

Receipt PriorityQueues::Take(const LanePtr& lane, const Waiting& next) {
  const int64_t bytes = next.transfer.bytes;
  lane->in_flight += bytes;
  lane->last = Clock::now();
  --totals_.held;
  ++totals_.ordered;
  Log(next, Reason::kOrdered);
  return Receipt(lane.get(), [this, lane, bytes](const void*) { Acknowledge(lane, bytes); });
}

// Whoever holds the last copy of a receipt may hold locks, and is no thread to hand off in.
void PriorityQueues::Acknowledge(const LanePtr& lane, int64_t bytes) {
  Lock lock(mu_);
  lane->in_flight -= bytes;
  lane->last = Clock::now();
  if (lane->draining || !lane->HasReady()) return;
  acknowledged_.push_back(lane);
  wake_.notify_all();
}

std::vector<Go> PriorityQueues::Release(int64_t step) {
  Lock lock(mu_);
  return MoveOut(step);
}

std::vector<Go> PriorityQueues::ReleaseAll() {
  Lock lock(mu_);
  return MoveOut(std::nullopt);
}

std::vector<Go> PriorityQueues::MoveOut(std::optional<int64_t> step) {
  std::vector<Go> out;
  if (totals_.held == 0) return out;
  for (auto& [channel, lane] : lanes_) MoveOut(lane.get(), step, &out);
  return out;
}

// Of one step, or of all.
void PriorityQueues::MoveOut(Lane* lane, std::optional<int64_t> step, std::vector<Go>* out) {
  for (auto it = lane->waiting.begin(); it != lane->waiting.end();) {
    Waiting& waiting = it->second;
    if (step && waiting.transfer.step != *step) {
      ++it;
      continue;
    }
    --totals_.held;
    ++totals_.released;
    Log(waiting, Reason::kReleased);
    out->push_back(std::move(waiting.go));
    it = lane->waiting.erase(it);
  }
}

Counters PriorityQueues::counters() const {
  Lock lock(mu_);
  return totals_;
}

// Under the lock: what the log calls ready had been in the queue at each later hand-off.
void PriorityQueues::Log(const Waiting& waiting, Reason reason) {
  const Transfer& t = waiting.transfer;
  log_->Append({MonotonicNanos(), waiting.ready_nanos, t.step, t.bytes, t.channel, t.plan_rank, reason}, generation_);
}

}  // namespace tfwave
