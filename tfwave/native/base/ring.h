#ifndef TFWAVE_NATIVE_RING_H_
#define TFWAVE_NATIVE_RING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tfwave {

// The last entries that were appended. Read by cursor: an entry's position since the start.
template <typename T>
class Ring {
 public:
  explicit Ring(size_t capacity) : capacity_(static_cast<int64_t>(capacity)) {}

  void Append(const T& entry) {
    if (entries_.empty()) entries_.resize(capacity_);
    entries_[end_++ % capacity_] = entry;
  }

  // Copies up to `size` entries from *cursor on, but none before `begin`, and moves it past them; returns how
  // many. *lost grows by those that were overwritten since *cursor.
  int64_t Read(int64_t begin, int64_t* cursor, T* out, int64_t size, int64_t* lost) const {
    int64_t from = std::clamp(*cursor, begin, end_);
    if (oldest() > from) {
      *lost += oldest() - from;
      from = oldest();
    }
    const int64_t count = std::min(size, end_ - from);
    for (int64_t i = 0; i < count; ++i) out[i] = entries_[(from + i) % capacity_];
    *cursor = from + count;
    return count;
  }

  // The position of the next entry, and of the oldest that is still there.
  int64_t end() const { return end_; }
  int64_t oldest() const { return std::max<int64_t>(0, end_ - capacity_); }

 private:
  const int64_t capacity_;
  std::vector<T> entries_;  // allocated by the first append
  int64_t end_ = 0;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_RING_H_
