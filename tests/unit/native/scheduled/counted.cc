// Three steps of one graph, two of them at once, on two channels with counters: their transfers arrive in any order,
// from several threads, before or after the step is known to have started, while something goes wrong.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "../sequencer_test.h"
#include "order/hand_off_log.h"
#include "scenario.h"
#include "world.h"

namespace tfwave {
namespace {

constexpr int kSteps = 3, kChannels = 2, kMostRanks = 4;
constexpr double kDeadlineSeconds = 1e-3;
constexpr int64_t kLongNanos = 10'000'000;  // ten deadlines

enum Fault { kNone, kReleaseStep, kReleaseAll, kReinstall, kUninstall, kOffAndOn, kDropGraph, kLostTransfer, kFaults };

// The plans of all schedules: they never change.
const std::shared_ptr<const Plans>& Planned(int ranks) {
  static const std::vector<std::shared_ptr<const Plans>> plans = {
      MakePlan(kChannels, 1), MakePlan(kChannels, 2), MakePlan(kChannels, 3), MakePlan(kChannels, 4)};
  return plans[ranks - 1];
}

class Job {
 public:
  Job(int ranks, Fault fault) : ranks_(ranks), fault_(fault), log_(64), sequencer_(&log_) {
    sequencer_.SetDeadline(kDeadlineSeconds);
    sequencer_.Install(Planned(ranks));
    std::vector<GraphEdge> edges;
    for (int c = 0; c < kChannels; ++c) {
      for (int r = 0; r < ranks; ++r) edges.push_back({"ps", Destination(c), Edge(r), true});
    }
    graph_ = sequencer_.AddGraph("", std::move(edges));
  }

  // The second time the sequencer's clock sleeps.
  void Run() {
    RunSteps({1, 2});
    RunSteps({3});
  }

  // Whatever happened: each transfer left exactly once, and nothing is remembered of it.
  void CheckAllLeft() const {
    const Counters c = sequencer_.counters();
    CHECK(c.held == 0 && c.live_steps == 0);
    CHECK(left_.size() == arrived_);
    for (const auto& [sent, times] : left_) CHECK(times == 1);
  }

  // What is said to be in order is: on each channel of a step ranks 0, 1, 2...
  void CheckLog() {
    std::map<std::pair<int64_t, int>, int> next;
    int64_t ordered = 0;
    for (const HandOff& h : Entries()) {
      if (h.reason != Reason::kOrdered) continue;
      ++ordered;
      CHECK(h.rank == (next[{h.step, h.channel}]++));
    }
    if (fault_ != kNone) return;
    const Counters c = sequencer_.counters();
    CHECK(ordered == kSteps * kChannels * ranks_ && c.ordered == ordered);
    CHECK(c.late == 0 && c.released == 0 && c.unplanned == 0 && c.deadlines == 0);
    CHECK(order_.size() == arrived_);
    std::map<std::pair<int, int>, int> left;
    for (const auto& [step, channel, rank] : order_) CHECK(rank == (left[{step, channel}]++));
  }

 private:
  using Sent = std::tuple<int, int, int>;  // step, channel, rank

  void RunSteps(const std::vector<int>& steps) {
    std::vector<Thread> threads;
    for (const int step : steps) {
      threads.emplace_back([this, step] { sequencer_.StartStep(step, graph_); });
      for (std::vector<Sent>& share : Shares(step)) {
        threads.emplace_back([this, share] {
          for (const Sent& sent : share) Arrive(sent);
        });
      }
    }
    if (fault_ != kNone) threads.emplace_back([this, step = steps[0]] { Disturb(step); });
    for (Thread& thread : threads) thread.join();
    World::Instance().DoNotHurry();
    World::Instance().Sleep(kLongNanos);
  }

  // What two threads send of a step, in any order.
  std::vector<std::vector<Sent>> Shares(int step) {
    World& world = World::Instance();
    std::vector<std::vector<Sent>> shares(2);
    std::vector<Sent> all;
    for (int c = 0; c < kChannels; ++c) {
      for (int r = 0; r < ranks_; ++r) all.emplace_back(step, c, r);
    }
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[world.Below(i)]);
    if (fault_ == kLostTransfer && step != 2) all.pop_back();
    arrived_ += all.size();
    for (const Sent& sent : all) shares[world.Below(2)].push_back(sent);
    return shares;
  }

  void Arrive(const Sent& sent) {
    const auto& [step, channel, rank] = sent;
    sequencer_.Arrive(At(step, channel, rank), [this, sent](const Receipt&) {
      order_.push_back(sent);
      ++left_[sent];
      World::Instance().Point();
    });
  }

  void Disturb(int step) {
    World& world = World::Instance();
    for (int64_t i = world.Below(8); i > 0; --i) world.Point();
    if (fault_ == kReleaseStep) sequencer_.Release(step);
    if (fault_ == kReleaseAll) sequencer_.ReleaseAll();
    if (fault_ == kReinstall) sequencer_.Install(Planned(ranks_));
    if (fault_ == kUninstall) sequencer_.Install(nullptr);
    if (fault_ == kDropGraph) sequencer_.DropGraph(graph_);
    if (fault_ == kOffAndOn) {
      sequencer_.SetEnabled(false);
      sequencer_.SetEnabled(true);
    }
  }

  std::vector<HandOff> Entries() {
    std::vector<HandOff> entries(64);
    int64_t cursor = 0, lost = 0;
    entries.resize(log_.Read(&cursor, entries.data(), 64, &lost));
    CHECK(lost == 0);
    return entries;
  }

  const int ranks_;
  const Fault fault_;
  HandOffLog log_;
  Sequencer sequencer_;
  int64_t graph_ = 0;
  size_t arrived_ = 0;
  std::map<Sent, int> left_;
  std::vector<Sent> order_;
};

}  // namespace

void RunScenario(uint64_t seed) {
  World& world = World::Instance();
  const auto fault = static_cast<Fault>(seed % kFaults);
  world.Run(seed, fault == kLostTransfer, [&] {
    Job job(1 + static_cast<int>(world.Below(kMostRanks)), fault);
    job.Run();
    job.CheckAllLeft();
    job.CheckLog();
  });
}

}  // namespace tfwave
