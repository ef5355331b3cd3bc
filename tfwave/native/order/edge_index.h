// Which registered graphs have an edge: an early tensor is judged without a look at each graph.
#ifndef TFWAVE_NATIVE_EDGE_INDEX_H_
#define TFWAVE_NATIVE_EDGE_INDEX_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "order/table.h"

namespace tfwave {

// Not thread-safe.
class EdgeIndex {
 public:
  // The graphs that have one edge between one pair of devices.
  struct Graphs {
    int64_t count = 0;
    std::map<int64_t, const Place*> ordered;  // those whose plan orders it, by id
  };

  // A graph whose order lives until it is removed.
  void Add(int64_t graph, const GraphOrder& order);
  void Remove(int64_t graph, const GraphOrder& order);
  void Clear() { graphs_.clear(); }

  // Null if no graph has it.
  const Graphs* Find(int pair, const std::string& edge) const;

 private:
  std::unordered_map<int, std::unordered_map<std::string, Graphs>> graphs_;  // by pair and edge
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_EDGE_INDEX_H_
