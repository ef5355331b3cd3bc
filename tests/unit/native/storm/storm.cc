// storm THREADS HAND_OFFS SEED: so many tensors are handed off from so many threads, mixed as the seed draws, while
// steps are aborted, plans come and go and the switch is turned. Each leaves once, what is said to be in order is, and
// nothing is held behind them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "../sequencer_test.h"
#include "order/hand_off_log.h"
#include "order/sequencer.h"

namespace tfwave {
namespace {

constexpr int kChannels = 3, kPriorityChannel = 2;
constexpr int64_t kWindow = 64;  // bytes: of eight tensors
constexpr int kInAStep = kChannels * kSize;
constexpr int kStepsMixed = 64;
constexpr int kAbortedOf = 4, kLosingOf = 8;  // one step of so many
constexpr size_t kMostInFlight = 16;
constexpr double kDeadlineSeconds = 0.05;
constexpr std::chrono::milliseconds kBetweenChanges(20);

std::shared_ptr<const Plans> Planned() {
  std::vector<PlanRow> rows;
  for (int c = 0; c < kChannels; ++c) {
    const int64_t window = c == kPriorityChannel ? kWindow : 0;
    for (int i = 0; i < kSize; ++i) rows.push_back({"ps", Destination(c), Edge(i), "", window});
  }
  return Make({""}, rows);
}

// Tensors that are on their way: the one that left first arrives when there are too many.
class Flight {
 public:
  void Add(Receipt receipt) {
    Receipt arrived;  // its end may let others leave: not under the lock
    const std::lock_guard<std::mutex> lock(mu_);
    receipts_.push_back(std::move(receipt));
    if (receipts_.size() <= kMostInFlight) return;
    arrived = std::move(receipts_.front());
    receipts_.pop_front();
  }
  void Land() {
    std::deque<Receipt> arrived;
    const std::lock_guard<std::mutex> lock(mu_);
    arrived.swap(receipts_);
  }

 private:
  std::mutex mu_;
  std::deque<Receipt> receipts_;
};

class Storm {
 public:
  Storm(int64_t hand_offs, uint32_t seed)
      : seed_(seed), blocks_((hand_offs + kInABlock - 1) / kInABlock), left_(blocks_ * kInABlock), mixed_(kInABlock) {
    std::iota(mixed_.begin(), mixed_.end(), 0);
    std::shuffle(mixed_.begin(), mixed_.end(), std::mt19937(seed));
  }

  void Run(int threads) {
    sequencer_.SetDeadline(kDeadlineSeconds);
    sequencer_.Install(Planned());
    const int64_t graph = sequencer_.AddGraph("", EveryNth(1, kChannels));
    std::atomic<bool> stop{false};
    std::thread changer([&] { Change(stop); });
    std::vector<std::thread> senders;
    for (int t = 0; t < threads; ++t) senders.emplace_back([&, t] { Send(graph, t); });
    for (auto& sender : senders) sender.join();
    stop = true;
    changer.join();
    flight_.Land();
    WaitUntil([&] { return sequencer_.counters().held == 0 && sequencer_.counters().live_steps == 0; });
    flight_.Land();
    WaitUntil([&] { return AllHaveLeft(); });  // the last one taken may be on its way yet
    for (int64_t i = 0; i < size(); ++i) CHECK(left_[i] == (IsLost(i) ? 0 : 1));
    CHECK(ordered_ > 0 && aborted_ > 0);
  }

  void Say() const {
    std::fprintf(stderr, "%lld hand-offs, %lld seen in order by counters, %lld ends of steps\n",
                 static_cast<long long>(size()), static_cast<long long>(ordered_), static_cast<long long>(aborted_));
  }

 private:
  static constexpr int64_t kInABlock = int64_t{kStepsMixed} * kInAStep;

  int64_t size() const { return static_cast<int64_t>(left_.size()); }
  static int64_t StepOf(int64_t which) { return 1 + which / kInAStep; }
  // Never handed off: what waits for it leaves by the deadline.
  static bool IsLost(int64_t which) { return StepOf(which) % kLosingOf == 1 && which % kInAStep == kSize / 2; }

  bool AllHaveLeft() const {
    for (int64_t i = 0; i < size(); ++i) {
      if (left_[i] == 0 && !IsLost(i)) return false;
    }
    return true;
  }

  void Send(int64_t graph, int thread) {
    std::mt19937 random(seed_ + 1 + thread);
    for (int64_t i = next_++; i < size(); i = next_++) {
      const int64_t which = i / kInABlock * kInABlock + mixed_[i % kInABlock];
      const int64_t step = StepOf(which);
      if (which % kInAStep == 0) sequencer_.StartStep(step, graph);
      if (IsLost(which)) continue;
      const bool flies = random() % 2;
      sequencer_.Arrive(At(step, which % kInAStep / kSize, which % kSize), [this, which, flies](Receipt receipt) {
        ++left_[which];
        if (flies && receipt) flight_.Add(std::move(receipt));
      });
      if (step % kAbortedOf == 0 && random() % kInAStep == 0) {
        ++aborted_;
        sequencer_.Release(step);
      }
    }
  }

  void Change(const std::atomic<bool>& stop) {
    std::mt19937 random(seed_);
    while (!stop) {
      std::this_thread::sleep_for(kBetweenChanges);
      switch (random() % 8) {
        case 0: sequencer_.ReleaseAll(); break;
        case 1: sequencer_.SetEnabled(false); sequencer_.SetEnabled(true); break;
        case 2: sequencer_.Install(nullptr); sequencer_.Install(Planned()); break;
        case 3: sequencer_.Install(Planned()); break;
        default: flight_.Land();
      }
      CheckOrder();
    }
    CheckOrder();
  }

  // Of what is said to be in order, and not lost by the log, ranks ascend on a channel that has a counter.
  void CheckOrder() {
    while (const int64_t n = log_.Read(&cursor_, read_.data(), read_.size(), &lost_)) {
      for (int64_t i = 0; i < n; ++i) {
        const HandOff& h = read_[i];
        if (h.reason != Reason::kOrdered || h.channel == kPriorityChannel) continue;
        ++ordered_;
        int& next = next_rank_[{h.step, h.channel}];
        CHECK(h.rank >= next);
        next = h.rank + 1;
      }
    }
  }

  const uint32_t seed_;
  const int64_t blocks_;
  std::vector<std::atomic<int>> left_;  // how often
  std::vector<int64_t> mixed_;          // the places of a block
  std::atomic<int64_t> next_{0}, aborted_{0};
  Flight flight_;
  HandOffLog log_{1 << 16};
  std::vector<HandOff> read_ = std::vector<HandOff>(4096);
  std::map<std::pair<int64_t, int32_t>, int> next_rank_;
  int64_t cursor_ = 0, lost_ = 0, ordered_ = 0;
  Sequencer sequencer_{&log_};  // ends first: it may still hand off
};

}  // namespace
}  // namespace tfwave

int main(int, char** arguments) {
  tfwave::Storm storm(std::atoll(arguments[2]), static_cast<uint32_t>(std::atoll(arguments[3])));
  storm.Run(std::atoi(arguments[1]));
  storm.Say();
  std::puts("all hold");
}
