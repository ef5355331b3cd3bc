// A channel with a window: of what waits the most urgent leaves, as long as it fits, while receipts end in other
// threads, or never, and something goes wrong.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../sequencer_test.h"
#include "order/hand_off_log.h"
#include "scenario.h"
#include "world.h"

namespace tfwave {
namespace {

constexpr int kRanks = 4, kMostSteps = 3;
constexpr int64_t kWindow = 20;
constexpr double kDeadlineSeconds = 1e-3;

enum Fault { kNone, kReleaseStep, kReleaseAll, kReinstall, kUninstall, kOffAndOn, kLostReceipt, kFaults };

const std::shared_ptr<const Plans>& Planned() {
  static const std::shared_ptr<const Plans> plans = [] {
    std::vector<PlanRow> rows;
    for (int rank = 0; rank < kRanks; ++rank) rows.push_back({"ps", Destination(0), Edge(rank), "", kWindow});
    return Make({""}, rows);
  }();
  return plans;
}

// What has left and has not arrived.
class Link {
 public:
  void Leaves(int64_t bytes, Receipt receipt) {
    in_flight_ += bytes;
    under_way_.emplace_back(bytes, std::move(receipt));
  }

  // Any of them arrives; false: there is none.
  bool Arrives() {
    if (under_way_.empty()) return false;
    const auto at = under_way_.begin() + World::Instance().Below(static_cast<int64_t>(under_way_.size()));
    const auto [bytes, receipt] = std::move(*at);
    under_way_.erase(at);
    in_flight_ -= bytes;
    return true;
  }

  void Loses() {
    if (!under_way_.empty()) lost_.push_back(std::move(under_way_.front()));
    if (!under_way_.empty()) under_way_.erase(under_way_.begin());
  }

  int64_t in_flight() const { return in_flight_; }

 private:
  int64_t in_flight_ = 0;
  std::vector<std::pair<int64_t, Receipt>> under_way_, lost_;
};

class Job {
 public:
  explicit Job(Fault fault) : fault_(fault), log_(64), sequencer_(&log_) {
    sequencer_.SetDeadline(kDeadlineSeconds);
    sequencer_.Install(Planned());
  }
  ~Job() {
    while (link_.Arrives()) continue;
  }

  void Run() {
    World& world = World::Instance();
    const int64_t steps = 1 + world.Below(kMostSteps);
    std::vector<Thread> threads;
    for (int64_t step = 1; step <= steps; ++step) threads.emplace_back([this, step] { Send(step); });
    threads.emplace_back([this, steps] { Receive(steps * kRanks); });
    if (fault_ != kNone) threads.emplace_back([this] { Disturb(); });
    for (Thread& thread : threads) thread.join();
    arrived_ = static_cast<size_t>(steps) * kRanks;
  }

  void CheckAllLeft() const {
    CHECK(sequencer_.counters().held == 0);
    CHECK(left_.size() == arrived_);
    for (const auto& [sent, times] : left_) CHECK(times == 1);
  }

  // Nothing left while something more urgent had been ready for longer.
  void CheckLog() {
    HandOff entries[64];
    int64_t cursor = 0, lost = 0;
    const int64_t count = log_.Read(&cursor, entries, 64, &lost);
    CHECK(lost == 0);
    for (int64_t i = 0; i < count; ++i) {
      if (entries[i].reason != Reason::kOrdered) continue;
      for (int64_t j = i + 1; j < count; ++j) {
        const bool waited = entries[j].reason != Reason::kOff && entries[j].ready_nanos < entries[i].time_nanos;
        CHECK(!waited || entries[j].rank >= entries[i].rank);
      }
    }
    if (fault_ != kNone) return;
    const Counters c = sequencer_.counters();
    CHECK(count == static_cast<int64_t>(arrived_) && c.ordered == count && c.released == 0 && c.deadlines == 0);
  }

 private:
  using Sent = std::pair<int64_t, int>;  // step, rank

  void Send(int64_t step) {
    World& world = World::Instance();
    std::vector<int> ranks = {0, 1, 2, 3};
    for (int64_t i = kRanks; i > 1; --i) std::swap(ranks[i - 1], ranks[world.Below(i)]);
    for (const int rank : ranks) {
      const int64_t bytes = 1 + world.Below(kWindow + 8);  // some are larger than the window
      sequencer_.Arrive(At(step, 0, rank, bytes),
                        [this, step, rank, bytes](Receipt receipt) { Leave({step, rank}, bytes, std::move(receipt)); });
    }
  }

  void Leave(const Sent& sent, int64_t bytes, Receipt receipt) {
    ++left_[sent];
    const bool counts = receipt != nullptr;
    if (counts && fault_ == kNone) CHECK(link_.in_flight() == 0 || link_.in_flight() + bytes <= kWindow);
    if (counts) link_.Leaves(bytes, std::move(receipt));
    World::Instance().Point();
  }

  // Receipts end in this thread, under a lock of its own.
  void Receive(size_t count) {
    World& world = World::Instance();
    for (bool loses = fault_ == kLostReceipt; left_.size() < count || sequencer_.counters().held > 0;) {
      if (loses && world.OneOf(2)) link_.Loses(), loses = false;
      if (!link_.Arrives()) world.Sleep(1000);
      world.Point();
    }
  }

  void Disturb() {
    World& world = World::Instance();
    for (int64_t i = world.Below(12); i > 0; --i) world.Point();
    if (fault_ == kReleaseStep) sequencer_.Release(1);
    if (fault_ == kReleaseAll) sequencer_.ReleaseAll();
    if (fault_ == kReinstall) sequencer_.Install(Planned());
    if (fault_ == kUninstall) sequencer_.Install(nullptr);
    if (fault_ == kOffAndOn) {
      sequencer_.SetEnabled(false);
      sequencer_.SetEnabled(true);
    }
  }

  const Fault fault_;
  HandOffLog log_;
  Sequencer sequencer_;
  Link link_;
  size_t arrived_ = 0;
  std::map<Sent, int> left_;
};

}  // namespace

void RunScenario(uint64_t seed) {
  const auto fault = static_cast<Fault>(seed % kFaults);
  World::Instance().Run(seed, fault == kLostReceipt, [&] {
    Job job(fault);
    job.Run();
    job.CheckAllLeft();
    job.CheckLog();
  });
}

}  // namespace tfwave
