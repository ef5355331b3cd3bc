// Plans for several functions whose transfers have the same names.
#include <algorithm>
#include <atomic>
#include <map>
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

void AGraphFollowsThePlanOfItsFunction() {
  const auto plans = PlansOfFunctions();
  const auto place = [&](const char* function) {
    return *GraphOrder(*plans, function, {{"ps", "w0", Edge(0)}, {"ps", "w0", Edge(3)}}).Find(0, Edge(3));
  };
  CHECK(place("").channel == 0 && place("").plan_rank == 3 && place("").rank == 1);
  CHECK(place("unheard of").channel == 0 && place("unheard of").rank == 1);
  CHECK(place("reversed").channel == 1 && place("reversed").plan_rank == kSize - 4 && place("reversed").rank == 0);
  CHECK(place("rotated").channel == 2 && place("rotated").plan_rank == kSize - 4 && place("rotated").rank == 1);
  CHECK(!place("none").IsOrdered());
  const auto only = Make({"f"}, {{"ps", "w0", Edge(0), "f"}});
  CHECK(!GraphOrder(*only, "g", {{"ps", "w0", Edge(0)}}).Find(0, Edge(0))->IsOrdered());
  CHECK(GraphOrder(*only, "f", {{"ps", "w0", Edge(0)}}).Find(0, Edge(0))->IsOrdered());
}

// Steps of four functions with equal edges at the same time, each arrival in some thread after its step's start.
void FunctionsWithEqualEdgesDoNotDisturbEachOther() {
  constexpr int kSteps = 200, kThreads = 8;
  const std::vector<std::string> functions = {"reversed", "rotated", "unheard of", "none"};
  HandOffLog log(65536);
  Sequencer sequencer(&log);
  sequencer.SetDeadline(100);
  sequencer.Install(PlansOfFunctions());
  std::vector<int64_t> graphs;
  for (const auto& function : functions) graphs.push_back(sequencer.AddGraph(function, EveryNth(1, 1)));
  std::mutex mu;
  std::map<int64_t, std::vector<int>> order;
  std::vector<std::function<void()>> starts, work;
  for (int64_t step = 0; step < kSteps; ++step) {
    starts.push_back([&, step] { sequencer.StartStep(step, graphs[step % 4]); });
    for (int i = 0; i < kSize; ++i) {
      work.push_back([&, step, i] {
        sequencer.Arrive(At(step, 0, i), [&, step, i](const Receipt&) {
          std::lock_guard<std::mutex> lock(mu);
          order[step].push_back(i);
        });
      });
    }
  }
  std::shuffle(work.begin(), work.end(), std::mt19937(2));
  const auto run = [&](const std::vector<std::function<void()>>& jobs) {
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (size_t i = next++; i < jobs.size(); i = next++) jobs[i]();
      });
    }
    for (auto& thread : threads) thread.join();
  };
  run(starts);
  run(work);
  CHECK(order.size() == size_t{kSteps});
  for (auto& [step, edges] : order) {
    CHECK(edges.size() == size_t{kSize});
    for (int i = 0; i < kSize && step % 4 != 3; ++i) {
      const int expected[] = {kSize - 1 - i, (i + 7) % kSize, i};
      CHECK(edges[i] == expected[step % 4]);
    }
  }
  const Counters c = sequencer.counters();
  CHECK(c.ordered == kSteps * kSize * 3 / 4 && c.unplanned == kSteps * kSize / 4);
  CHECK(c.live_steps == 0 && c.held == 0 && c.late == 0 && c.released == 0 && c.deadlines == 0);
  std::vector<HandOff> entries(kSteps * kSize);
  int64_t cursor = 0, lost = 0;
  CHECK(log.Read(&cursor, entries.data(), entries.size(), &lost) == c.ordered && lost == 0);
  const int channels[] = {1, 2, 0};
  std::map<int64_t, int> next_rank;
  for (int64_t i = 0; i < c.ordered; ++i) {
    CHECK(entries[i].channel == channels[entries[i].step % 4] && entries[i].rank == next_rank[entries[i].step]++);
  }
}

void WithoutAStartOnlyThePlanOfAllCounts() {
  HandOffLog log(64);
  Sequencer sequencer(&log);
  sequencer.Install(PlansOfFunctions());
  sequencer.AddGraph("reversed", EveryNth(1, 1));
  int gone = 0;
  sequencer.Arrive(At(1, 0, 1), [&](const Receipt&) { ++gone; });
  CHECK(gone == 0 && sequencer.counters().held == 1);
  sequencer.Arrive(At(1, 0, 0), [&](const Receipt&) { ++gone; });
  CHECK(gone == 2);
  sequencer.Install(Make({"f"}, {{"ps", "w0", Edge(1), "f"}, {"ps", "w0", Edge(0), "f"}}));
  sequencer.Arrive(At(2, 0, 0), [&](const Receipt&) { ++gone; });
  CHECK(gone == 3 && sequencer.counters().unplanned == 1 && sequencer.counters().live_steps == 0);
}

// What a Session's step sends before its start waits for it, and then for its turn.
void EarlyArrivalsWaitForTheStart() {
  HandOffLog log(64);
  Sequencer sequencer(&log);
  sequencer.Install(PlansOfFunctions());
  const int64_t every = sequencer.AddGraph("", EveryNth(1, 1)), third = sequencer.AddGraph("", EveryNth(3, 1));
  sequencer.AddGraph("reversed", EveryNth(1, 1));
  std::vector<int> order;
  const auto arrive = [&](int64_t step, int i) {
    sequencer.Arrive(At(step, 0, i), [&, i](const Receipt&) { order.push_back(i); });
  };
  arrive(1, 3);
  arrive(1, 0);
  CHECK(order.empty() && sequencer.counters().held == 2);
  sequencer.StartStep(1, third);
  CHECK(order == std::vector<int>({0, 3}));
  order.clear();
  arrive(2, 3);
  arrive(2, 0);
  for (int i = 0; i < 2; ++i) sequencer.StartStep(2, every);
  CHECK(order == std::vector<int>({0}) && sequencer.counters().held == 1);
  for (int i = 1; i < 3; ++i) arrive(2, i);
  CHECK(order == std::vector<int>({0, 1, 2, 3}));
}

// What is held under old plans leaves; the rest of those steps is late, and logged where the new plans put it.
void NewPlansLetGoOfAllFunctions() {
  HandOffLog log(64);
  Sequencer sequencer(&log);
  sequencer.Install(PlansOfFunctions());
  const int64_t reversed = sequencer.AddGraph("reversed", EveryNth(1, 1));
  int gone = 0;
  sequencer.StartStep(1, reversed);
  sequencer.Arrive(At(1, 0, 4), [&](const Receipt&) { ++gone; });
  CHECK(gone == 0);
  sequencer.Install(Make({"reversed"}, {{"ps", "w0", Edge(9), "reversed"}, {"ps", "w0", Edge(2), "reversed"}}));
  CHECK(gone == 1 && sequencer.counters().released == 1 && sequencer.counters().live_steps == 0);
  sequencer.Arrive(At(1, 0, 2), [&](const Receipt&) { ++gone; });
  CHECK(gone == 2 && sequencer.counters().late == 1);
  sequencer.StartStep(2, reversed);
  sequencer.Arrive(At(2, 0, 2), [&](const Receipt&) { ++gone; });
  CHECK(gone == 2);
  sequencer.Arrive(At(2, 0, 9), [&](const Receipt&) { ++gone; });
  CHECK(gone == 4 && sequencer.counters().live_steps == 0);
  sequencer.SetEnabled(false);
  sequencer.StartStep(3, reversed);
  sequencer.Arrive(At(3, 0, 2), [&](const Receipt&) { ++gone; });
  HandOff entries[8];
  int64_t cursor = 0, lost = 0;
  CHECK(log.Read(&cursor, entries, 8, &lost) == 4 && gone == 5);
  CHECK(entries[0].reason == Reason::kLate && entries[0].rank == 1 && entries[0].channel == 0);
  CHECK(entries[3].reason == Reason::kOff && entries[3].rank == 1);
}

}  // namespace

void TestFunctions() {
  AGraphFollowsThePlanOfItsFunction();
  FunctionsWithEqualEdgesDoNotDisturbEachOther();
  WithoutAStartOnlyThePlanOfAllCounts();
  EarlyArrivalsWaitForTheStart();
  NewPlansLetGoOfAllFunctions();
}

}  // namespace tfwave
