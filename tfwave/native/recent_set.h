#ifndef TFWAVE_NATIVE_RECENT_SET_H_
#define TFWAVE_NATIVE_RECENT_SET_H_

#include <cstddef>
#include <deque>
#include <set>

namespace tfwave {

// A set that forgets what was added first once it is full.
template <typename T>
class RecentSet {
 public:
  explicit RecentSet(size_t capacity) : capacity_(capacity) {}

  bool Has(const T& value) const { return values_.count(value) != 0; }

  void Add(const T& value) {
    if (!values_.insert(value).second) return;
    order_.push_back(value);
    if (order_.size() <= capacity_) return;
    values_.erase(order_.front());
    order_.pop_front();
  }

 private:
  const size_t capacity_;
  std::set<T> values_;
  std::deque<T> order_;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_RECENT_SET_H_
