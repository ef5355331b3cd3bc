// Drives the sequencer, the log and the pacer with many threads; exits with 0 if all holds.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "order/arrival_log.h"
#include "order/hand_off_log.h"
#include "base/monotonic.h"
#include "order/pacer.h"
#include "order/sequencer.h"
#include "sequencer_test.h"

using namespace tfwave;

namespace {

// Many steps of two graphs, each arrival and each start in some thread at some time.
void OrdersUnderManyThreads() {
  constexpr int kSteps = 200, kChannels = 3, kThreads = 8;
  HandOffLog log(65536);
  Sequencer sequencer(&log);
  sequencer.Install(MakePlan(kChannels));
  const int64_t graphs[] = {sequencer.AddGraph("", EveryNth(1, kChannels)), sequencer.AddGraph("", EveryNth(3, kChannels))};
  std::mutex mu;
  std::map<std::pair<int64_t, int>, std::vector<int>> order;
  std::vector<std::function<void()>> work;
  for (int64_t step = 1; step <= kSteps; ++step) {
    const int every = step % 2 ? 1 : 3;
    work.push_back([&, step] { sequencer.StartStep(step, graphs[step % 2 ? 0 : 1]); });
    for (int c = 0; c < kChannels; ++c) {
      for (int i = 0; i < kSize; i += every) {
        work.push_back([&, step, c, i] {
          sequencer.Arrive(At(step, c, i), [&, step, c, i](const Receipt&) {
            std::lock_guard<std::mutex> lock(mu);
            order[{step, c}].push_back(i);
          });
        });
      }
    }
  }
  std::shuffle(work.begin(), work.end(), std::mt19937(1));
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < work.size(); i = next++) work[i]();
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(order.size() == size_t{kSteps * kChannels});
  for (const auto& [key, ranks] : order) {
    CHECK(std::is_sorted(ranks.begin(), ranks.end()));
    CHECK(ranks.size() == (key.first % 2 ? 20u : 7u));
  }
  const Counters c = sequencer.counters();
  CHECK(c.live_steps == 0 && c.held == 0 && c.late == 0 && c.released == 0 && c.deadlines == 0);
  CHECK(c.ordered == kSteps / 2 * kChannels * 27);
  HandOff entries[64];
  int64_t cursor = 0, lost = 0, last = 0;
  while (const int64_t n = log.Read(&cursor, entries, 64, &lost)) {
    for (int64_t i = 0; i < n; ++i) CHECK(entries[i].reason == Reason::kOrdered);
    last += n;
  }
  CHECK(last == c.ordered && lost == 0);
}

void DeadlineReleasesInRankOrderAndTheRestIsLate() {
  HandOffLog log(64);
  Sequencer sequencer(&log);
  sequencer.SetDeadline(0.1);
  sequencer.Install(MakePlan(1));
  std::mutex mu;
  std::vector<int> order;
  const auto arrive = [&](int64_t step, int i) {
    sequencer.Arrive(At(step, 0, i), [&, i](const Receipt&) {
      std::lock_guard<std::mutex> lock(mu);
      order.push_back(i);
    });
  };
  for (int i = kSize - 1; i > 0; --i) arrive(1, i);
  CHECK(sequencer.counters().held == kSize - 1);
  WaitUntil([&] {
    std::lock_guard<std::mutex> lock(mu);
    return order.size() == size_t{kSize - 1};
  });
  arrive(1, 0);
  std::lock_guard<std::mutex> lock(mu);
  CHECK(order.size() == size_t{kSize} && order.back() == 0 && std::is_sorted(order.begin(), order.end() - 1));
  const Counters c = sequencer.counters();
  CHECK(c.deadlines == 1 && c.late == 1 && c.live_steps == 0 && c.held == 0);
}

void AStepWithNothingHeldEndsUncounted() {
  HandOffLog log(64);
  Sequencer sequencer(&log);
  sequencer.SetDeadline(0.05);
  sequencer.Install(MakePlan(1));
  sequencer.StartStep(1, sequencer.AddGraph("", EveryNth(1, 1)));
  CHECK(sequencer.counters().live_steps == 1);
  WaitUntil([&] { return sequencer.counters().live_steps == 0; });
  CHECK(sequencer.counters().deadlines == 0);
}

void ANewDeadlineHoldsForWhatWaits() {
  HandOffLog log(64);
  Sequencer sequencer(&log);
  sequencer.SetDeadline(1000);
  sequencer.Install(MakePlan(1));
  std::atomic<int> gone{0};
  sequencer.Arrive(At(1, 0, 1), [&](const Receipt&) { ++gone; });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the monitor waits for the old one
  sequencer.SetDeadline(0.05);
  WaitUntil([&] { return gone == 1; });
}

void TheDeadlineCountsFromTheLastHandOff() {
  HandOffLog log(64);
  Sequencer sequencer(&log);
  sequencer.SetDeadline(0.8);
  sequencer.Install(MakePlan(1));
  std::atomic<int> gone{0};
  sequencer.Arrive(At(1, 0, kSize - 1), [&](const Receipt&) { ++gone; });
  for (int i = 0; i < 6; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    sequencer.Arrive(At(1, 0, i), [&](const Receipt&) { ++gone; });
  }
  CHECK(gone == 6 && sequencer.counters().ordered == 6 && sequencer.counters().held == 1);
}

void AStepThatBeginsWithoutPlansOrOffIsNotCounted() {
  HandOffLog log(64);
  Sequencer sequencer(&log);
  const int64_t graph = sequencer.AddGraph("", EveryNth(1, 1));
  int gone = 0;
  sequencer.StartStep(1, graph);
  sequencer.Install(MakePlan(1));
  sequencer.Arrive(At(1, 0, 5), [&](const Receipt&) { ++gone; });
  CHECK(gone == 1 && sequencer.counters().late == 1);
  sequencer.SetEnabled(false);
  sequencer.StartStep(2, graph);
  sequencer.SetEnabled(true);
  sequencer.Arrive(At(2, 0, 5), [&](const Receipt&) { ++gone; });
  CHECK(gone == 2 && sequencer.counters().late == 2 && sequencer.counters().live_steps == 0);
}

// A callback that brings the next transfer, and one that ends the step under its own feet.
void CallbacksMayCallBack() {
  HandOffLog log(64);
  Sequencer sequencer(&log);
  sequencer.Install(MakePlan(1));
  int done = 0;
  std::function<void(int)> chain = [&](int i) {
    CHECK(done++ == i);
    if (i + 1 < kSize) sequencer.Arrive(At(1, 0, i + 1), [&, i](const Receipt&) { chain(i + 1); });
  };
  sequencer.Arrive(At(1, 0, 0), [&](const Receipt&) { chain(0); });
  CHECK(done == kSize && sequencer.counters().live_steps == 0);
  int released = 0;
  for (int i = 2; i < 5; ++i) sequencer.Arrive(At(2, 0, i), [&](const Receipt&) { ++released; });
  sequencer.Arrive(At(2, 0, 0), [&](const Receipt&) { sequencer.Release(2); });
  CHECK(released == 3 && sequencer.counters().live_steps == 0);
}

void OffRemoveAndReplaceLetGo() {
  HandOffLog log(64);
  Sequencer sequencer(&log);
  std::atomic<int> gone{0};
  int64_t step = 0;
  const auto hold = [&] {
    ++step;
    for (int i = 1; i < 4; ++i) sequencer.Arrive(At(step, 0, i), [&](const Receipt&) { ++gone; });
  };
  sequencer.Install(MakePlan(1));
  hold();
  sequencer.Install(MakePlan(1));
  CHECK(gone == 3);
  hold();
  sequencer.SetEnabled(false);
  CHECK(gone == 6);
  hold();
  sequencer.SetEnabled(true);
  CHECK(gone == 9);
  sequencer.Arrive(At(step, 0, 0), [&](const Receipt&) { ++gone; });  // its step began while the hook was off
  CHECK(gone == 10 && sequencer.counters().late == 1);
  hold();
  sequencer.Install(nullptr);
  CHECK(gone == 13);
  hold();
  CHECK(gone == 16 && sequencer.counters().live_steps == 0);
}

void EmptyAndUnknownTransfersPass() {
  HandOffLog log(64);
  Sequencer sequencer(&log);
  sequencer.Install(MakePlan(1));
  int gone = 0;
  sequencer.Arrive(At(1, 0, 5, 0), [&](const Receipt&) { ++gone; });
  sequencer.Arrive({1, "ps", "w0", "edge_5_other", 8, false}, [&](const Receipt&) { ++gone; });
  sequencer.Arrive({1, "ps", "elsewhere", Edge(5), 8, false}, [&](const Receipt&) { ++gone; });
  CHECK(gone == 3 && sequencer.counters().unplanned == 1 && sequencer.counters().live_steps == 0);
}

void OtherEdgeIdsAreFoundBySource() {
  const auto plan = Make({""}, {{"a", "b", "edge_1_x"}, {"a", "b", "edge_2_x"}, {"a", "b", "edge_3_y"}});
  CHECK(plan->RankOf(0, "edge_2_x") == 1 && plan->RankOf(0, "edge_9_x") == -1 && plan->RankOf(0, "edge_9_y") == 2);
  const GraphOrder order(*plan, "", {{"a", "b", "edge_9_y"}, {"a", "b", "edge_2_x"}, {"a", "b", "edge_8_y", false}});
  CHECK(order.Find(0, "edge_9_y")->rank == 1 && order.Find(0, "edge_9_y")->plan_rank == 2);
  CHECK(order.Find(0, "edge_2_x")->rank == 0);
  CHECK(!order.Find(0, "edge_8_y")->IsOrdered());
  const GraphOrder rivals(*plan, "", {{"a", "b", "edge_9_y"}, {"a", "b", "edge_8_y"}, {"a", "b", "edge_1_x"}});
  CHECK(!rivals.Find(0, "edge_9_y")->IsOrdered() && !rivals.Find(0, "edge_8_y")->IsOrdered());
  CHECK(rivals.Find(0, "edge_1_x")->rank == 0);
  CHECK(order.Find(0, "edge_7_y") == nullptr && order.Find(1, "edge_2_x") == nullptr);
}

void BadPlansAreRefused() {
  std::string error;
  CHECK(!Plans::Make({""}, {{"a", "b", "edge_1_x"}, {"a", "b", "edge_1_x"}}, &error));
  CHECK(error == "the plan names 'edge_1_x' twice from a to b");
  CHECK(!Plans::Make({"f"}, {{"a", "b", "edge_1_x", "f"}, {"a", "b", "edge_1_x", "f"}}, &error));
  CHECK(error == "the plan of 'f' names 'edge_1_x' twice from a to b");
  CHECK(!Plans::Make({"f"}, {{"a", "b", "edge_1_x", "g"}}, &error) && !error.empty());
  for (const int64_t number : {-1, 0, 2, 1 << 20}) {
    const std::vector<PlanRow> rows = {{"a", "b", "edge_1_x"}, {"a", "c", "edge_1_x", "", 0, number}};
    CHECK(!Plans::Make({""}, rows, &error));
    CHECK(error == "the channel from a to c has the number " + std::to_string(number) + ", not 1");
  }
  CHECK(!Plans::Make({""}, {{"a", "b", "edge_1_x"}, {"a", "b", "edge_2_y", "", 0, 1}}, &error));
  CHECK(error == "the channel from a to b has the number 1, not 0");
}

void ArrivalsAreNumberedAndKept() {
  ArrivalLog log(4);
  CHECK(!log.active());
  const int32_t x = log.Number({"a", "b", "x"}), y = log.Number({"a", "b", "y"});
  CHECK(x != y && log.Number({"a", "b", "x"}) == x && std::get<2>(log.Name(y)) == "y");
  const int64_t begin = MonotonicNanos();
  for (int i = 0; i < 6; ++i) log.Append(i, 7, 8, i % 2 ? x : y);
  LoggedArrival out[8];
  int64_t cursor = 0, lost = 0;
  CHECK(log.Read(&cursor, out, 8, &lost) == 4 && lost == 2 && cursor == 6 && out[0].requested_nanos == 2);
  CHECK(begin <= out[0].arrived_nanos && out[0].arrived_nanos <= out[3].arrived_nanos);
}

void TheRingCountsWhatItLoses() {
  HandOffLog log(8);
  log.BeginPlan(1);
  for (int i = 0; i < 20; ++i) log.Append({0, 0, i, 0, 0, 0, Reason::kOrdered}, 1);
  HandOff out[16];
  int64_t cursor = 2, lost = 0;
  CHECK(log.Read(&cursor, out, 16, &lost) == 8 && cursor == 20 && lost == 10 && log.dropped() == 12);
  CHECK(out[0].step == 12 && out[7].step == 19);
  log.BeginPlan(2);
  log.Append({0, 0, 99, 0, 0, 0, Reason::kOrdered}, 1);
  cursor = 0;
  CHECK(log.Read(&cursor, out, 16, &lost) == 0 && cursor == 20);
}

void PacingKeepsOrderAndRate() {
  Pacer pacer;
  pacer.SetRate(100000);
  std::mutex mu;
  std::vector<int> order;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    pacer.Submit(1000, [&, i] {
      std::lock_guard<std::mutex> lock(mu);
      order.push_back(i);
    });
  }
  const auto sent = [&] {
    std::lock_guard<std::mutex> lock(mu);
    return order.size();
  };
  WaitUntil([&] { return sent() == 20; });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(std::is_sorted(order.begin(), order.end()) && took.count() > 0.19);
  pacer.SetRate(1);
  for (int i = 20; i < 25; ++i) pacer.Submit(1000, [&, i] {
    std::lock_guard<std::mutex> lock(mu);
    order.push_back(i);
  });
  pacer.SetRate(0);
  WaitUntil([&] { return sent() == 25; });
}

// Everything at once, with the plan, the switch and the clean-up changing under way: all must leave, none twice.
void NothingIsLostInAStorm() {
  HandOffLog log(1024);
  std::atomic<int> gone{0}, sent{0};
  {
    Sequencer sequencer(&log);
    sequencer.SetDeadline(0.02);
    std::atomic<bool> stop{false};
    std::thread changer([&] {
      for (int i = 0; !stop; ++i) {
        sequencer.Install(i % 4 == 0 ? nullptr : i % 4 == 1 ? PlansOfFunctions() : MakePlan(2));
        sequencer.SetEnabled(i % 5 != 0);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
    });
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        for (int i = 0; i < 5000; ++i) {
          const int64_t step = i / 50;
          if (i % 50 == 0) sequencer.StartStep(step, sequencer.AddGraph(t % 2 ? "" : "reversed", EveryNth(2, 2)));
          ++sent;
          sequencer.Arrive(At(step, random() % 2, random() % kSize), [&](const Receipt&) { ++gone; });
          if (i % 97 == 0) sequencer.Release(step);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    stop = true;
    changer.join();
  }
  CHECK(gone == sent);
}

}  // namespace

int main() {
  OrdersUnderManyThreads();
  DeadlineReleasesInRankOrderAndTheRestIsLate();
  AStepWithNothingHeldEndsUncounted();
  ANewDeadlineHoldsForWhatWaits();
  TheDeadlineCountsFromTheLastHandOff();
  AStepThatBeginsWithoutPlansOrOffIsNotCounted();
  CallbacksMayCallBack();
  OffRemoveAndReplaceLetGo();
  EmptyAndUnknownTransfersPass();
  OtherEdgeIdsAreFoundBySource();
  BadPlansAreRefused();
  ArrivalsAreNumberedAndKept();
  TheRingCountsWhatItLoses();
  PacingKeepsOrderAndRate();
  TestApi();
  TestEdgeIndex();
  TestFunctions();
  TestPriority();
  TestShallowSockets();
  NothingIsLostInAStorm();
  std::puts("all hold");
}
