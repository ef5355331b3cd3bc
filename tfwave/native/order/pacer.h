// A token bucket for all that leaves the process: slows a fast link to a given rate, first in, first out.
#ifndef TFWAVE_NATIVE_PACER_H_
#define TFWAVE_NATIVE_PACER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>

#include "base/sync.h"

namespace tfwave {

// How long the imagined link takes for so many bytes; a day is the longest, which every clock can tell.
std::chrono::duration<double> TransmitTime(int64_t bytes, double bytes_per_second);

class Pacer {
 public:
  Pacer() = default;
  ~Pacer();  // whatever waits leaves at once
  Pacer(const Pacer&) = delete;

  // Runs `go` when `bytes` would have been transmitted after all that came before: in the calling thread
  // if there is no pacing, else in the pacer's.
  void Submit(int64_t bytes, std::function<void()> go);

  // Bytes per second; 0: no pacing, and what waits leaves at once. Throws where the system has no more threads.
  void SetRate(double bytes_per_second);
  double rate() const { return rate_.load(std::memory_order_relaxed); }

  // Whether Submit may do more than run `go`.
  bool active() const { return active_.load(std::memory_order_acquire); }

 private:
  struct Waiting {
    int64_t bytes;
    Clock::time_point since;
    std::function<void()> go;
  };

  void Dispatch();
  bool WaitForHead(std::unique_lock<Mutex>& lock);

  std::atomic<double> rate_{0};
  std::atomic<bool> active_{false};
  Mutex mu_;
  Condition changed_;
  std::deque<Waiting> waiting_;
  Clock::time_point free_at_{};  // when the imagined link has sent all that left
  bool busy_ = false;            // the dispatcher runs a `go`
  bool stopping_ = false;
  Thread dispatcher_;  // started with the first rate
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_PACER_H_
