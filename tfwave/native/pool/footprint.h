// What the steps of a job hold of a memory pool, group by group, and whether begun steps can all be finished.
#ifndef TFWAVE_NATIVE_FOOTPRINT_H_
#define TFWAVE_NATIVE_FOOTPRINT_H_

#include <cstdint>
#include <vector>

namespace tfwave {

// In bytes, what is resident included.
class Footprint {
 public:
  Footprint() = default;
  // `held` above `resident`: before each group and after the last; `transients` above that: the most inside each.
  // A step may end early, and is then back at its start: what it holds under way never counts for less.
  Footprint(int64_t resident, std::vector<int64_t> held, const std::vector<int64_t>& transients);

  int groups() const { return static_cast<int>(peaks_.size()); }
  int64_t Before(int group) const { return held_[group]; }
  int64_t During(int group) const { return peaks_[group]; }
  int64_t After() const { return held_.back(); }
  // The most from this group on; groups() is after the last.
  int64_t NeedFrom(int group) const { return needs_[group]; }

 private:
  std::vector<int64_t> held_ = {0};
  std::vector<int64_t> peaks_;
  std::vector<int64_t> needs_ = {0};
};

// A step that has begun: what its job holds now, the most until the step's end, and at its end.
struct BegunStep {
  int64_t held;
  int64_t need;
  int64_t after;
};

// Can they be finished one after the other in some order, while others hold so much, without more than `room`?
bool CanFinish(std::vector<BegunStep> steps, int64_t held_by_others, int64_t room);

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_FOOTPRINT_H_
