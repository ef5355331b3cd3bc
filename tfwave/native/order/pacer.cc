#include "order/pacer.h"

#include <algorithm>
#include <utility>

namespace tfwave {

std::chrono::duration<double> TransmitTime(int64_t bytes, double bytes_per_second) {
  constexpr double kLongest = 24 * 3600;
  return std::chrono::duration<double>(std::min(bytes / bytes_per_second, kLongest));
}

Pacer::~Pacer() {
  SetRate(0);
  {
    std::lock_guard<Mutex> lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (dispatcher_.joinable()) dispatcher_.join();
}

void Pacer::Submit(int64_t bytes, std::function<void()> go) {
  if (!active()) return go();
  std::unique_lock<Mutex> lock(mu_);
  if (rate() == 0 && waiting_.empty() && !busy_) {
    lock.unlock();
    return go();
  }
  waiting_.push_back({bytes, Clock::now(), std::move(go)});
  if (waiting_.size() == 1) changed_.notify_all();
}

void Pacer::SetRate(double bytes_per_second) {
  {
    std::lock_guard<Mutex> lock(mu_);
    if (bytes_per_second > 0 && !dispatcher_.joinable()) dispatcher_ = Thread(&Pacer::Dispatch, this);
    rate_ = bytes_per_second;
    active_ = bytes_per_second > 0 || !waiting_.empty() || busy_;
  }
  changed_.notify_all();
}

void Pacer::Dispatch() {
  std::unique_lock<Mutex> lock(mu_);
  while (WaitForHead(lock)) {
    Waiting head = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    head.go();
    head.go = nullptr;
    lock.lock();
    busy_ = false;
    active_ = rate() > 0 || !waiting_.empty();
  }
}

// Waits until the first in line has been transmitted; false: the pacer ends.
bool Pacer::WaitForHead(std::unique_lock<Mutex>& lock) {
  changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
  if (waiting_.empty()) return false;
  const Clock::time_point begin = std::max(free_at_, waiting_.front().since);
  while (rate() > 0) {
    const auto needed = std::chrono::duration_cast<Clock::duration>(TransmitTime(waiting_.front().bytes, rate()));
    const Clock::time_point end = begin + needed;
    free_at_ = end;
    if (Clock::now() >= end) return true;
    changed_.wait_until(lock, end);
  }
  free_at_ = begin;
  return true;
}

}  // namespace tfwave
