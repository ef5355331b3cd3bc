// The library's own locks and clock, and threads that can run out.
#ifndef TFWAVE_TESTS_FEW_THREADS_H_
#define TFWAVE_TESTS_FEW_THREADS_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace tfwave {

using Mutex = std::mutex;
using Condition = std::condition_variable;
using Clock = std::chrono::steady_clock;

class Thread : public std::thread {
 public:
  static constexpr int kAny = 1 << 30;
  inline static std::atomic<int> left{kAny};  // that may be started

  Thread() = default;
  template <typename Work, typename... Arguments>
  explicit Thread(Work work, Arguments... arguments) : std::thread(Started(work, arguments...)) {}

 private:
  template <typename Work, typename... Arguments>
  static std::thread Started(Work work, Arguments... arguments) {
    if (left-- > 0) return std::thread(work, arguments...);
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "no more threads");
  }
};

}  // namespace tfwave

#endif  // TFWAVE_TESTS_FEW_THREADS_H_
