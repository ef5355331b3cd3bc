// Channels without a counter: what is ready leaves by urgency, within a window.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "order/hand_off_log.h"
#include "order/sequencer.h"
#include "sequencer_test.h"

namespace tfwave {
namespace {

// What a link would hold: tensors in the order in which they left, and the receipts that say so.
class Link {
 public:
  Go Send(int i) {
    return [this, i](Receipt receipt) {
      std::lock_guard<std::mutex> lock(mu_);
      sent_.push_back(i);
      if (receipt) receipts_.push_back(std::move(receipt));
    };
  }
  std::vector<int> sent() {
    std::lock_guard<std::mutex> lock(mu_);
    return sent_;
  }
  // The tensor that has been under way for longest arrives.
  void Arrived() {
    std::unique_lock<std::mutex> lock(mu_);
    CHECK(!receipts_.empty());
    const Receipt first = std::move(receipts_.front());
    receipts_.erase(receipts_.begin());
    lock.unlock();
  }

 private:
  std::mutex mu_;
  std::vector<int> sent_;
  std::vector<Receipt> receipts_;
};

std::shared_ptr<const Plans> MakeWindowed(int64_t window, int channels = 1) {
  std::vector<PlanRow> rows;
  for (int c = 0; c < channels; ++c) {
    for (int i = 0; i < kSize; ++i) rows.push_back({"ps", Destination(c), Edge(i), "", window});
  }
  return Make({""}, rows);
}

void TheMostUrgentLeavesWhenThereIsRoom() {
  HandOffLog log(64);
  Link link;
  Sequencer sequencer(&log);
  sequencer.Install(MakeWindowed(16));
  for (const int i : {9, 8, 7, 3, 5}) sequencer.Arrive(At(i, 0, i), link.Send(i));  // five steps, 8 bytes each
  CHECK(link.sent() == std::vector<int>({9, 8}) && sequencer.counters().held == 3);
  link.Arrived();
  WaitUntil([&] { return link.sent() == std::vector<int>({9, 8, 3}); });
  sequencer.Arrive(At(1, 0, 0), link.Send(0));
  link.Arrived();
  WaitUntil([&] { return link.sent() == std::vector<int>({9, 8, 3, 0}); });
  link.Arrived();
  link.Arrived();
  WaitUntil([&] { return link.sent() == std::vector<int>({9, 8, 3, 0, 5, 7}); });
  const Counters c = sequencer.counters();
  CHECK(c.held == 0 && c.ordered == 6 && c.released == 0 && c.live_steps == 0 && c.deadlines == 0);
  HandOff entries[8];
  int64_t cursor = 0, lost = 0;
  CHECK(log.Read(&cursor, entries, 8, &lost) == 6);
  CHECK(entries[3].rank == 0 && entries[3].step == 1 && entries[3].reason == Reason::kOrdered);
  for (int i = 0; i < 6; ++i) CHECK(0 < entries[i].ready_nanos && entries[i].ready_nanos <= entries[i].time_nanos);
  CHECK(entries[5].ready_nanos < entries[2].time_nanos && entries[2].time_nanos < entries[3].ready_nanos);
}

// A counter would hold all of them: rank 0 never comes.
void NothingWaitsForWhatIsNotReady() {
  HandOffLog log(64);
  Link link;
  Sequencer sequencer(&log);
  sequencer.Install(MakeWindowed(1000));
  for (int i = kSize - 1; i > 0; --i) sequencer.Arrive(At(1, 0, i), link.Send(i));
  CHECK(link.sent().size() == size_t{kSize - 1} && sequencer.counters().live_steps == 0);
  for (int i = 1; i < kSize; ++i) link.Arrived();
}

void WhatIsLargerThanTheWindowGoesAlone() {
  HandOffLog log(64);
  Link link;
  Sequencer sequencer(&log);
  sequencer.Install(MakeWindowed(16));
  for (const int i : {4, 2, 3}) sequencer.Arrive(At(1, 0, i, i == 2 ? 100 : 8), link.Send(i));
  CHECK(link.sent() == std::vector<int>({4}));  // 3 would fit, but 2 is more urgent
  link.Arrived();
  WaitUntil([&] { return link.sent() == std::vector<int>({4, 2}); });
  CHECK(sequencer.counters().held == 1);
  link.Arrived();
  WaitUntil([&] { return link.sent() == std::vector<int>({4, 2, 3}); });
  link.Arrived();
}

void ChannelsHaveWindowsOfTheirOwnAndEmptyOnesPass() {
  HandOffLog log(64);
  Link link;
  Sequencer sequencer(&log);
  sequencer.Install(MakeWindowed(8, 2));
  sequencer.Arrive(At(1, 0, 1), link.Send(1));
  sequencer.Arrive(At(1, 0, 2), link.Send(2));
  sequencer.Arrive(At(1, 1, 3), link.Send(3));
  Arrival dead = At(1, 0, 4, 0);
  dead.dead = true;
  sequencer.Arrive(dead, link.Send(4));
  sequencer.Arrive(At(1, 0, 5, 0), link.Send(5));
  sequencer.Arrive({1, "ps", "w0", "edge_5_other", 8, false}, link.Send(6));
  CHECK(link.sent() == std::vector<int>({1, 3, 4, 5, 6}));
  CHECK(sequencer.counters().unplanned == 1 && sequencer.counters().held == 1);
  link.Arrived();
  WaitUntil([&] { return link.sent().size() == 6; });
  link.Arrived();
  link.Arrived();
}

// Bytes that are never acknowledged: what waits is released, and the channel works again, whatever comes of them.
void TheDeadlineFreesAChannel() {
  HandOffLog log(64);
  Link dead, link;
  Sequencer sequencer(&log);
  sequencer.SetDeadline(0.1);
  sequencer.Install(MakeWindowed(16));
  for (const int i : {9, 8, 7, 6}) sequencer.Arrive(At(1, 0, i), dead.Send(i));
  CHECK(sequencer.counters().held == 2);
  WaitUntil([&] { return sequencer.counters().deadlines == 1; });
  WaitUntil([&] { return dead.sent() == std::vector<int>({9, 8, 6, 7}); });
  Counters c = sequencer.counters();
  CHECK(c.held == 0 && c.released == 2 && c.ordered == 2);
  sequencer.SetDeadline(100);
  sequencer.Arrive(At(2, 0, 5), link.Send(5));
  sequencer.Arrive(At(2, 0, 4), link.Send(4));
  dead.Arrived();
  dead.Arrived();
  sequencer.Arrive(At(2, 0, 3), link.Send(3));
  CHECK(link.sent() == std::vector<int>({5, 4}) && sequencer.counters().held == 1);
  link.Arrived();
  WaitUntil([&] { return link.sent().size() == 3; });
  link.Arrived();
  link.Arrived();
  CHECK(sequencer.counters().deadlines == 1 && sequencer.counters().released == 2);
}

void TheDeadlineCountsFromWhenSomethingWaits() {
  HandOffLog log(64);
  Link link;
  Sequencer sequencer(&log);
  sequencer.SetDeadline(1);
  sequencer.Install(MakeWindowed(8));
  sequencer.Arrive(At(1, 0, 2), link.Send(2));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // nothing waits
  sequencer.Arrive(At(1, 0, 1), link.Send(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(sequencer.counters().held == 1 && sequencer.counters().deadlines == 0);
  link.Arrived();
  WaitUntil([&] { return link.sent().size() == 2; });
  link.Arrived();
}

void AStepsEndTheSwitchAndNewPlansLetGo() {
  HandOffLog log(64);
  Link link;
  Sequencer sequencer(&log);
  sequencer.Install(MakeWindowed(8));
  for (int i = 9; i > 4; --i) sequencer.Arrive(At(i % 2, 0, i), link.Send(i));
  CHECK(link.sent() == std::vector<int>({9}));
  sequencer.Release(1);
  CHECK(link.sent() == std::vector<int>({9, 5, 7}) && sequencer.counters().held == 2);
  sequencer.SetEnabled(false);
  CHECK(link.sent() == std::vector<int>({9, 5, 7, 6, 8}));
  sequencer.Arrive(At(3, 0, 4), link.Send(4));
  sequencer.SetEnabled(true);
  sequencer.Arrive(At(3, 0, 3), link.Send(3));  // the first is still under way
  CHECK(link.sent().size() == 6 && sequencer.counters().held == 1);
  sequencer.Install(MakeWindowed(8));
  CHECK(link.sent().size() == 7);
  sequencer.Arrive(At(3, 0, 2), link.Send(2));
  sequencer.Arrive(At(3, 0, 1), link.Send(1));
  CHECK(link.sent().size() == 8 && sequencer.counters().held == 1);
  sequencer.Install(nullptr);
  CHECK(link.sent() == std::vector<int>({9, 5, 7, 6, 8, 4, 3, 2, 1}));
  CHECK(sequencer.counters().released == 6 && sequencer.counters().ordered == 2);
  for (int i = 0; i < 2; ++i) link.Arrived();
}

// A function's plan may count where that of all others goes by priority, on the same devices.
void DisciplinesDoNotDisturbEachOther() {
  HandOffLog log(64);
  Link link;
  Sequencer sequencer(&log);
  std::vector<PlanRow> rows;
  for (int i = 0; i < kSize; ++i) rows.push_back({"ps", "w0", Edge(i), "", 8});
  for (int i = 0; i < kSize; ++i) rows.push_back({"ps", "w0", Edge(i), "counted"});
  sequencer.Install(Make({"", "counted"}, rows));
  const int64_t counted = sequencer.AddGraph("counted", EveryNth(1, 1));
  const int64_t other = sequencer.AddGraph("", EveryNth(1, 1));
  sequencer.StartStep(1, counted);
  sequencer.StartStep(2, other);
  CHECK(sequencer.counters().live_steps == 1);
  sequencer.Arrive(At(1, 0, 1), link.Send(11));
  sequencer.Arrive(At(2, 0, 1), link.Send(21));
  sequencer.Arrive(At(3, 0, 2), link.Send(32));  // before its start
  CHECK(link.sent() == std::vector<int>({21}) && sequencer.counters().held == 2);
  sequencer.Arrive(At(1, 0, 0), link.Send(10));
  CHECK(link.sent() == std::vector<int>({21, 10, 11}));
  link.Arrived();
  WaitUntil([&] { return link.sent().size() == 4; });
  link.Arrived();
}

void WindowsThatDifferAreRefused() {
  std::string error;
  CHECK(!Plans::Make({""}, {{"a", "b", "edge_1_x", "", 8}, {"a", "b", "edge_2_y"}}, &error));
  CHECK(error == "the plan gives two windows, or a negative one, from a to b");
  CHECK(!Plans::Make({""}, {{"a", "b", "edge_1_x", "", -1}}, &error));
}

// Threads that bring transfers, and a link that takes them one by one: the log must bear out the rule at every
// hand-off, and the bytes in flight must never exceed the window.
void NoneIsOvertakenUnderManyThreads() {
  constexpr int kThreads = 6, kEach = 500, kWindow = 64;
  HandOffLog log(65536);
  std::mutex mu;
  std::vector<Receipt> under_way;
  std::atomic<int> gone{0}, in_flight{0}, most{0};
  Sequencer sequencer(&log);
  sequencer.SetDeadline(100);
  sequencer.Install(MakeWindowed(kWindow));
  std::atomic<bool> stop{false};
  std::thread link([&] {
    while (!stop) {
      std::vector<Receipt> arrived;
      {
        std::lock_guard<std::mutex> lock(mu);
        arrived.swap(under_way);
      }
      in_flight -= 8 * static_cast<int>(arrived.size());
      arrived.clear();
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < kEach; ++i) {
        sequencer.Arrive(At(i, 0, random() % kSize), [&](Receipt receipt) {
          most = std::max<int>(most, in_flight += 8);
          std::lock_guard<std::mutex> lock(mu);
          under_way.push_back(std::move(receipt));
          ++gone;
        });
      }
    });
  }
  for (auto& thread : threads) thread.join();
  WaitUntil([&] { return gone == kThreads * kEach; });
  stop = true;
  link.join();
  under_way.clear();
  CHECK(most <= kWindow && sequencer.counters().held == 0 && sequencer.counters().ordered == kThreads * kEach);
  std::vector<HandOff> entries(kThreads * kEach);
  int64_t cursor = 0, lost = 0;
  CHECK(log.Read(&cursor, entries.data(), entries.size(), &lost) == kThreads * kEach && lost == 0);
  for (size_t i = 0; i < entries.size(); ++i) {
    for (size_t j = i + 1; j < std::min(entries.size(), i + 500); ++j) {
      CHECK(entries[i].time_nanos <= entries[j].time_nanos);
      const bool waited = entries[j].ready_nanos < entries[i].time_nanos;
      CHECK(!(waited && entries[j].rank < entries[i].rank));
    }
  }
}

// Everything at once, with the plan, the switch and the clean-up changing under way: all must leave, none twice.
void NothingIsLostWhileAllChanges() {
  HandOffLog log(1024);
  std::atomic<int> gone{0}, sent{0};
  std::mutex mu;
  std::vector<Receipt> under_way;
  {
    Sequencer sequencer(&log);
    sequencer.SetDeadline(0.005);
    std::atomic<bool> stop{false};
    std::thread changer([&] {
      for (int i = 0; !stop; ++i) {
        sequencer.Install(i % 4 == 0 ? nullptr : i % 4 == 1 ? MakePlan(2) : MakeWindowed(i % 3 * 16 + 8, 2));
        sequencer.SetEnabled(i % 5 != 0);
        std::this_thread::sleep_for(std::chrono::microseconds(500));
      }
    });
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        for (int i = 0; i < 5000; ++i) {
          ++sent;
          sequencer.Arrive(At(i / 50, random() % 2, random() % kSize), [&](Receipt receipt) {
            std::lock_guard<std::mutex> lock(mu);
            if (gone++ % 7 != 0) under_way.push_back(std::move(receipt));
          });
          if (i % 97 == 0) sequencer.Release(i / 50);
          std::vector<Receipt> arrived;
          std::lock_guard<std::mutex> lock(mu);
          if (i % 5 == 0) arrived.swap(under_way);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    stop = true;
    changer.join();
    sequencer.Install(nullptr);
    WaitUntil([&] { return gone == sent; });
    CHECK(sequencer.counters().held == 0);
    under_way.clear();
  }
}

}  // namespace

void TestPriority() {
  TheMostUrgentLeavesWhenThereIsRoom();
  NothingWaitsForWhatIsNotReady();
  WhatIsLargerThanTheWindowGoesAlone();
  ChannelsHaveWindowsOfTheirOwnAndEmptyOnesPass();
  TheDeadlineFreesAChannel();
  TheDeadlineCountsFromWhenSomethingWaits();
  AStepsEndTheSwitchAndNewPlansLetGo();
  DisciplinesDoNotDisturbEachOther();
  WindowsThatDifferAreRefused();
  NoneIsOvertakenUnderManyThreads();
  NothingIsLostWhileAllChanges();
}

}  // namespace tfwave
