// The sequencer's hand-offs: one thread at a time for each queue, in rank order.
#include "order/sequencer.h"

#include <utility>

#include "base/monotonic.h"

namespace tfwave {

void Sequencer::Hold(Lock& lock, const std::shared_ptr<Run>& run, Queue* queue, int64_t rank, Held held) {
  ++totals_.held;
  queue->held.emplace(rank, std::move(held));
  Drain(lock, run, queue);
}

// `run` must be the caller's own reference: the last hand-off erases the others.
void Sequencer::Drain(Lock& lock, const std::shared_ptr<Run>& run, Queue* queue) {
  if (queue->draining) return;
  queue->draining = true;
  while (queue->HasReady()) {
    auto node = queue->held.extract(queue->held.begin());
    const Reason reason = Take(run.get(), queue, node.key());
    lock.unlock();
    Log(node.mapped().transfer, reason, run->step->generation);
    node.mapped().go(nullptr);
    node = {};
    lock.lock();
  }
  queue->draining = false;
}

Reason Sequencer::Take(Run* run, Queue* queue, int64_t rank) {
  --totals_.held;
  if (queue->released) {
    ++totals_.released;
    return Reason::kReleased;
  }
  run->step->last = Clock::now();
  if (rank < queue->next) {
    ++totals_.late;
    return Reason::kLate;
  }
  ++totals_.ordered;
  if (++queue->next == queue->size) Complete(run);
  return Reason::kOrdered;
}

void Sequencer::Complete(Run* run) {
  if (--run->incomplete > 0) return;
  run->step->runs.erase(run->graph);
  EraseIfIdle(run->step.get());
}

void Sequencer::Log(const Transfer& t, Reason reason, int64_t generation) {
  log_->Append({MonotonicNanos(), 0, t.step, t.bytes, t.channel, t.plan_rank, reason}, generation);
}

}  // namespace tfwave
