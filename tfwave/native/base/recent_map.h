#ifndef TFWAVE_NATIVE_RECENT_MAP_H_
#define TFWAVE_NATIVE_RECENT_MAP_H_

#include <cstddef>
#include <deque>
#include <unordered_map>

namespace tfwave {

// A map that forgets what was added first once it is full.
template <typename Key, typename Value>
class RecentMap {
 public:
  explicit RecentMap(size_t capacity) : capacity_(capacity) {}

  // Null if it is not there; valid until the next At.
  const Value* Find(const Key& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }

  // Adds an empty value if it is not there; valid until the next At.
  Value& At(const Key& key) {
    const auto [entry, is_new] = values_.try_emplace(key);
    if (!is_new) return entry->second;
    order_.push_back(key);
    if (order_.size() > capacity_) {
      values_.erase(order_.front());
      order_.pop_front();
    }
    return entry->second;
  }

 private:
  const size_t capacity_;
  std::unordered_map<Key, Value> values_;
  std::deque<Key> order_;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_RECENT_MAP_H_
