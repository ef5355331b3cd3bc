#include "pool/footprint.h"

#include <algorithm>
#include <utility>

namespace tfwave {

Footprint::Footprint(int64_t resident, std::vector<int64_t> held, const std::vector<int64_t>& transients)
    : held_(std::move(held)) {
  for (size_t group = 0; group < transients.size(); ++group) {
    const int64_t inside = held_[group] + std::max<int64_t>(0, transients[group]);
    peaks_.push_back(resident + std::max({held_.front(), inside, held_[group + 1]}));
  }
  for (int64_t& bytes : held_) bytes = resident + bytes;
  for (int64_t& bytes : held_) bytes = std::max(held_.front(), bytes);
  needs_ = held_;
  for (int group = groups() - 1; group >= 0; --group) needs_[group] = std::max(peaks_[group], needs_[group + 1]);
}

// The order that peaks least: first those that end with no more than they hold, the least hungry first; then those
// that end with more, the one that falls furthest from its peak first.
bool CanFinish(std::vector<BegunStep> steps, int64_t held_by_others, int64_t room) {
  const auto grows = [](const BegunStep& step) { return step.after > step.held; };
  const auto sooner = [&](const BegunStep& a, const BegunStep& b) {
    if (grows(a) != grows(b)) return grows(b);
    return grows(a) ? a.need - a.after > b.need - b.after : a.need - a.held < b.need - b.held;
  };
  std::sort(steps.begin(), steps.end(), sooner);
  int64_t held = held_by_others;
  for (const BegunStep& step : steps) held += step.held;
  for (const BegunStep& step : steps) {
    if (held - step.held + step.need > room) return false;
    held += step.after - step.held;
  }
  return held <= room;
}

}  // namespace tfwave
