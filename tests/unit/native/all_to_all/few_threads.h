// The library's own locks and clock, and threads that can run out.
#ifndef TFWAVE_TESTS_FEW_THREADS_H_
#define TFWAVE_TESTS_FEW_THREADS_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace tfwave {

using Mutex = std::mutex;
using Condition = std::condition_variable;
using Clock = std::chrono::steady_clock;

class Thread : public std::thread {
 public:
  inline static std::atomic<int> left{1 << 30};  // that may be started

  Thread() = default;
  template <typename Work>
  explicit Thread(Work work) : std::thread(Started(std::move(work))) {}

 private:
  template <typename Work>
  static std::thread Started(Work work) {
    if (left-- > 0) return std::thread(std::move(work));
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "no more threads");
  }
};

}  // namespace tfwave

#endif  // TFWAVE_TESTS_FEW_THREADS_H_
