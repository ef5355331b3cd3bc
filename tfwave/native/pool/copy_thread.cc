#include "pool/copy_thread.h"

#include <utility>

#include "base/monotonic.h"

namespace tfwave {

CopyThread::~CopyThread() {
  {
    std::lock_guard<Mutex> lock(mu_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void CopyThread::Add(Copy copy) {
  {
    std::lock_guard<Mutex> lock(mu_);
    if (!thread_.joinable()) thread_ = Thread([this] { Run(); });
    queue_.push_back({std::move(copy), MonotonicNanos()});
  }
  wake_.notify_one();
}

CopyCounters CopyThread::counters() const {
  std::lock_guard<Mutex> lock(mu_);
  return counters_;
}

void CopyThread::Run() {
  while (std::optional<Waiting> next = Next()) Perform(*next);
}

std::optional<CopyThread::Waiting> CopyThread::Next() {
  std::unique_lock<Mutex> lock(mu_);
  wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  if (queue_.empty()) return std::nullopt;
  Waiting next = std::move(queue_.front());
  queue_.pop_front();
  return next;
}

void CopyThread::Perform(const Waiting& waiting) {
  const Copy& copy = waiting.copy;
  const bool wanted = !copy.cancelled();
  if (wanted) copy.mover->Await();
  const int64_t begin = MonotonicNanos();
  std::string error;
  if (wanted && copy.bytes > 0) error = copy.mover->Move(copy.to, copy.from, copy.bytes);
  const int64_t end = MonotonicNanos();
  const Copied copied = !wanted ? Copied::kCancelled : error.empty() ? Copied::kYes : Copied::kFailed;
  Count(copied, copy.bytes, begin - waiting.since_nanos, end - begin);
  copy.done(copied, error);
}

void CopyThread::Count(Copied copied, int64_t bytes, int64_t waited_nanos, int64_t copying_nanos) {
  std::lock_guard<Mutex> lock(mu_);
  counters_.waited_nanos += waited_nanos;
  if (copied == Copied::kCancelled) ++counters_.cancelled;
  if (copied != Copied::kYes) return;
  ++counters_.copies;
  counters_.bytes += bytes;
  counters_.copying_nanos += copying_nanos;
}

}  // namespace tfwave
