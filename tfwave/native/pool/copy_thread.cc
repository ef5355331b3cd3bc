#include "pool/copy_thread.h"

#include <cstring>
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
  while (std::optional<Waiting> next = Next()) next->copy.done(Perform(*next));
}

std::optional<CopyThread::Waiting> CopyThread::Next() {
  std::unique_lock<Mutex> lock(mu_);
  wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  if (queue_.empty()) return std::nullopt;
  Waiting next = std::move(queue_.front());
  queue_.pop_front();
  return next;
}

bool CopyThread::Perform(const Waiting& waiting) {
  const Copy& copy = waiting.copy;
  const int64_t begin = MonotonicNanos();
  const bool wanted = !copy.cancelled();
  if (wanted && copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
  const int64_t end = MonotonicNanos();
  std::lock_guard<Mutex> lock(mu_);
  counters_.waited_nanos += begin - waiting.since_nanos;
  if (!wanted) {
    ++counters_.cancelled;
    return false;
  }
  ++counters_.copies;
  counters_.bytes += copy.bytes;
  counters_.copying_nanos += end - begin;
  return true;
}

}  // namespace tfwave
