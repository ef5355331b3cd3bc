#ifndef TFWAVE_NATIVE_HOOKED_TASKS_H_
#define TFWAVE_NATIVE_HOOKED_TASKS_H_

#include <set>
#include <string>
#include <utility>

#include "base/sync.h"

namespace tfwave {

// The tasks ("/job:ps/replica:0/task:0") that are known to run this library: only their parts of a function may
// hold its op. Empty at first. Thread-safe.
class HookedTasks {
 public:
  void Set(std::set<std::string> tasks) {
    std::lock_guard<Mutex> lock(mu_);
    tasks_ = std::move(tasks);
  }

  bool Has(const std::string& task) const {
    std::lock_guard<Mutex> lock(mu_);
    return tasks_.count(task) != 0;
  }

 private:
  mutable Mutex mu_;
  std::set<std::string> tasks_;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_HOOKED_TASKS_H_
