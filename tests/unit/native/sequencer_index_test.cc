// Early tensors where many graphs are registered: which graph decides, and how long it takes to tell.
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "order/edge_index.h"
#include "order/hand_off_log.h"
#include "order/sequencer.h"
#include "sequencer_test.h"

namespace tfwave {
namespace {

std::vector<GraphEdge> SomeEdges(std::mt19937* random) {
  std::vector<GraphEdge> edges;
  for (int i = 0; i < kSize; ++i) {
    if ((*random)() % 4 == 0) edges.push_back({"ps", Destination((*random)() % 2), Edge(i), (*random)() % 2 == 0});
  }
  return edges;
}

// What a look at each graph finds.
void AssertAsScanned(const EdgeIndex& index, const std::map<int64_t, GraphOrder>& orders) {
  for (int pair = 0; pair < 2; ++pair) {
    for (int i = 0; i < kSize; ++i) {
      int64_t count = 0;
      std::map<int64_t, const Place*> ordered;
      for (const auto& [id, order] : orders) {
        const Place* const place = order.Find(pair, Edge(i));
        count += place != nullptr;
        if (place != nullptr && place->IsOrdered()) ordered[id] = place;
      }
      const EdgeIndex::Graphs* const found = index.Find(pair, Edge(i));
      CHECK((found == nullptr) == (count == 0));
      CHECK(found == nullptr || (found->count == count && found->ordered == ordered));
    }
  }
}

void TheIndexFindsWhatAScanFinds() {
  std::mt19937 random(3);
  const auto plans = MakePlan(2);
  std::map<int64_t, GraphOrder> orders;
  EdgeIndex index;
  for (int64_t id = 1; id < 200; ++id) {
    index.Add(id, orders.try_emplace(id, *plans, "", SomeEdges(&random)).first->second);
    const auto some = orders.lower_bound(random() % id);
    if (id % 3 == 0 && some != orders.end()) {
      index.Remove(some->first, some->second);
      orders.erase(some);
    }
    if (id % 20 == 0) AssertAsScanned(index, orders);
  }
  index.Clear();
  AssertAsScanned(index, {});
}

// While a graph that orders the edge is there, it waits; when only others have it, it passes.
void ADroppedGraphJudgesNoMore() {
  HandOffLog log(64);
  Sequencer sequencer(&log);
  sequencer.Install(MakePlan(1));
  int gone = 0;
  const auto arrive = [&](int64_t step) { sequencer.Arrive(At(step, 0, 5), [&](const Receipt&) { ++gone; }); };
  sequencer.AddGraph("", {{"ps", "w0", Edge(5), false}});
  const int64_t ordering = sequencer.AddGraph("", {{"ps", "w0", Edge(5)}});
  arrive(1);
  CHECK(gone == 0 && sequencer.counters().held == 1);
  sequencer.DropGraph(ordering);
  arrive(2);
  CHECK(gone == 1 && sequencer.counters().unplanned == 1);
  sequencer.Install(MakePlan(1));
  arrive(3);
  CHECK(gone == 3 && sequencer.counters().unplanned == 2);
}

void ManyGraphsDelayNoTensor() {
  constexpr int kGraphs = 20000, kTensors = 4000;
  HandOffLog log(64);
  Sequencer sequencer(&log);
  sequencer.SetDeadline(1000);
  std::vector<PlanRow> rows;
  for (int i = 0; i < kGraphs; ++i) rows.push_back({"ps", "w0", Edge(i)});
  sequencer.Install(Make({""}, rows));
  for (int i = 0; i < kGraphs; ++i) sequencer.AddGraph("", {{"ps", "w0", Edge(i)}});
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTensors; ++i) {
    sequencer.Arrive(At(i, 0, kGraphs - 1), [](const Receipt&) {});
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(sequencer.counters().held == kTensors && took.count() < 1.5);
}

}  // namespace

void TestEdgeIndex() {
  TheIndexFindsWhatAScanFinds();
  ADroppedGraphJudgesNoMore();
  ManyGraphsDelayNoTensor();
}

}  // namespace tfwave
