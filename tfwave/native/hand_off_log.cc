#include "hand_off_log.h"

#include <algorithm>

namespace tfwave {

void HandOffLog::Append(const HandOff& hand_off, int64_t plan_generation) {
  std::lock_guard<std::mutex> lock(mu_);
  if (plan_generation != generation_) return;
  if (ring_.empty()) ring_.resize(capacity_);
  const int64_t overwritten = end_ - static_cast<int64_t>(capacity_);
  if (overwritten >= begin_ && overwritten >= read_) ++dropped_;
  ring_[end_++ % capacity_] = hand_off;
}

void HandOffLog::BeginPlan(int64_t plan_generation) {
  std::lock_guard<std::mutex> lock(mu_);
  generation_ = plan_generation;
  begin_ = end_;
}

int64_t HandOffLog::Read(int64_t* cursor, HandOff* out, int64_t size, int64_t* lost) {
  std::lock_guard<std::mutex> lock(mu_);
  int64_t from = std::clamp(*cursor, begin_, end_);
  const int64_t oldest = end_ - static_cast<int64_t>(capacity_);
  if (oldest > from) {
    *lost += oldest - from;
    from = oldest;
  }
  const int64_t count = std::min(size, end_ - from);
  for (int64_t i = 0; i < count; ++i) out[i] = ring_[(from + i) % capacity_];
  *cursor = from + count;
  read_ = std::max(read_, *cursor);
  return count;
}

int64_t HandOffLog::dropped() const {
  std::lock_guard<std::mutex> lock(mu_);
  return dropped_;
}

}  // namespace tfwave
