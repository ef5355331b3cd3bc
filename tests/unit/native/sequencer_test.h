// What the sequencer's tests share.
#ifndef TFWAVE_TESTS_SEQUENCER_TEST_H_
#define TFWAVE_TESTS_SEQUENCER_TEST_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "order/sequencer.h"

namespace tfwave {

constexpr int kSize = 20;

inline std::string Edge(int i) { return "edge_" + std::to_string(i) + "_v" + std::to_string(i); }
inline std::string Destination(int channel) { return "w" + std::to_string(channel); }

// Channels get numbers in order of first mention.
inline std::vector<PlanRow> Numbered(std::vector<PlanRow> rows) {
  std::map<std::vector<std::string>, int64_t> numbers;
  for (PlanRow& row : rows) {
    row.channel = numbers.try_emplace({row.source, row.destination, row.function}, numbers.size()).first->second;
  }
  return rows;
}

inline std::shared_ptr<const Plans> Make(const std::vector<std::string>& functions, const std::vector<PlanRow>& rows) {
  std::string error;
  auto plans = Plans::Make(functions, Numbered(rows), &error);
  CHECK(plans && error.empty());
  return plans;
}

inline std::shared_ptr<const Plans> MakePlan(int channels, int size = kSize) {
  std::vector<PlanRow> rows;
  for (int c = 0; c < channels; ++c) {
    for (int i = 0; i < size; ++i) rows.push_back({"ps", Destination(c), Edge(i)});
  }
  return Make({""}, rows);
}

inline std::vector<GraphEdge> EveryNth(int n, int channels) {
  std::vector<GraphEdge> edges;
  for (int c = 0; c < channels; ++c) {
    for (int i = 0; i < kSize; i += n) edges.push_back({"ps", Destination(c), Edge(i), true});
    edges.push_back({"ps", Destination(c), "edge_77_v1", false});
  }
  return edges;
}

inline Arrival At(int64_t step, int channel, int i, int64_t bytes = 8) {
  static const std::string source = "ps";
  static const std::vector<std::string> destinations = {"w0", "w1", "w2"};
  return {step, source, destinations[channel], Edge(i), bytes, false};
}

// One pair of devices and equal edges in three plans; "none" has one that is empty.
inline std::shared_ptr<const Plans> PlansOfFunctions() {
  std::vector<PlanRow> rows;
  for (int i = 0; i < kSize; ++i) rows.push_back({"ps", "w0", Edge(i)});
  for (int i = 0; i < kSize; ++i) rows.push_back({"ps", "w0", Edge(kSize - 1 - i), "reversed"});
  for (int i = 0; i < kSize; ++i) rows.push_back({"ps", "w0", Edge((i + 7) % kSize), "rotated"});
  return Make({"", "reversed", "rotated", "none"}, rows);
}

void TestApi();
void TestEdgeIndex();
void TestFunctions();
void TestPriority();
void TestShallowSockets();

}  // namespace tfwave

#endif  // TFWAVE_TESTS_SEQUENCER_TEST_H_
