// The library's locks, conditions, threads and clock, bound to one schedule: threads are fibers of one system thread,
// a seed decides who runs next at each lock and each wait, and time is a number that moves when all wait for it, or
// now and then before. The same seed, the same schedule.
#ifndef TFWAVE_TESTS_SCHEDULED_SYNC_H_
#define TFWAVE_TESTS_SCHEDULED_SYNC_H_

#include <chrono>
#include <condition_variable>  // std::cv_status
#include <cstdint>
#include <functional>
#include <mutex>  // std::unique_lock, std::lock_guard
#include <utility>

namespace tfwave {

struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;
  static time_point now();  // each call is a nanosecond after the one before
};

class Mutex {
 public:
  void lock();
  void unlock();
  void Leave();  // without a change of the fiber

 private:
  bool taken_ = false;
};

// Wakes also without a reason, as real ones may.
class Condition {
 public:
  void wait(std::unique_lock<Mutex>& lock);
  template <typename Predicate>
  void wait(std::unique_lock<Mutex>& lock, Predicate holds) {
    while (!holds()) wait(lock);
  }
  std::cv_status wait_until(std::unique_lock<Mutex>& lock, Clock::time_point until);
  void notify_one() { notify_all(); }
  void notify_all();
};

class Thread {
 public:
  Thread() = default;
  template <typename Work, typename... Arguments>
  explicit Thread(Work work, Arguments... arguments) {
    Start([=] { std::invoke(work, arguments...); });
  }
  bool joinable() const { return number_ != 0; }
  void join();

 private:
  void Start(std::function<void()> work);
  int number_ = 0;  // of the fiber
};

}  // namespace tfwave

#endif  // TFWAVE_TESTS_SCHEDULED_SYNC_H_
