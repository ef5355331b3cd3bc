#include "order/edge_index.h"

namespace tfwave {

void EdgeIndex::Add(int64_t graph, const GraphOrder& order) {
  for (const auto& [pair, places] : order.places()) {
    auto& edges = graphs_[pair];
    for (const auto& [edge, place] : places) {
      Graphs& graphs = edges[edge];
      ++graphs.count;
      if (place.IsOrdered()) graphs.ordered.emplace(graph, &place);
    }
  }
}

void EdgeIndex::Remove(int64_t graph, const GraphOrder& order) {
  for (const auto& [pair, places] : order.places()) {
    auto& edges = graphs_[pair];
    for (const auto& [edge, place] : places) {
      const auto found = edges.find(edge);
      found->second.ordered.erase(graph);
      if (--found->second.count == 0) edges.erase(found);
    }
  }
}

const EdgeIndex::Graphs* EdgeIndex::Find(int pair, const std::string& edge) const {
  const auto edges = graphs_.find(pair);
  if (edges == graphs_.end()) return nullptr;
  const auto found = edges->second.find(edge);
  return found == edges->second.end() ? nullptr : &found->second;
}

}  // namespace tfwave
