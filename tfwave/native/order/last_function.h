#ifndef TFWAVE_NATIVE_LAST_FUNCTION_H_
#define TFWAVE_NATIVE_LAST_FUNCTION_H_

#include <string>

#include "base/sync.h"

namespace tfwave {

// What TensorFlow called the function whose graph it showed last. Thread-safe.
class LastFunction {
 public:
  void Set(const std::string& name) {
    std::lock_guard<Mutex> lock(mu_);
    name_ = name;
  }

  std::string Get() const {
    std::lock_guard<Mutex> lock(mu_);
    return name_;
  }

 private:
  mutable Mutex mu_;
  std::string name_;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_LAST_FUNCTION_H_
