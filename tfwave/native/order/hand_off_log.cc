#include "order/hand_off_log.h"

#include <algorithm>

namespace tfwave {

void HandOffLog::Append(const HandOff& hand_off, int64_t plan_generation) {
  std::lock_guard<Mutex> lock(mu_);
  if (plan_generation != generation_) return;
  const int64_t oldest = ring_.oldest();
  ring_.Append(hand_off);
  const bool overwrote = ring_.oldest() > oldest;
  if (overwrote && oldest >= begin_ && oldest >= read_) ++dropped_;
}

void HandOffLog::BeginPlan(int64_t plan_generation) {
  std::lock_guard<Mutex> lock(mu_);
  generation_ = plan_generation;
  begin_ = ring_.end();
}

int64_t HandOffLog::Read(int64_t* cursor, HandOff* out, int64_t size, int64_t* lost) {
  std::lock_guard<Mutex> lock(mu_);
  const int64_t count = ring_.Read(begin_, cursor, out, size, lost);
  read_ = std::max(read_, *cursor);
  return count;
}

int64_t HandOffLog::dropped() const {
  std::lock_guard<Mutex> lock(mu_);
  return dropped_;
}

}  // namespace tfwave
