// The installed plan, and what it means for one registered graph.
#ifndef TFWAVE_NATIVE_TABLE_H_
#define TFWAVE_NATIVE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tfwave {

// A transfer of a plan; rows of one channel come in rank order.
struct PlanRow {
  std::string source;
  std::string destination;
  std::string edge;
};

// A `_Send` to another task, as found in a registered graph.
struct GraphEdge {
  std::string source;
  std::string destination;
  std::string edge;
  bool orderable = true;  // false: control only, or inside a while loop
};

// "edge_85_Read/ReadVariableOp" -> "Read/ReadVariableOp"; other names are returned whole.
std::string_view SourceOfEdge(std::string_view edge);

// Immutable: the order of all channels that the plan speaks of.
class Plan {
 public:
  static constexpr int kNone = -1;

  // Null and a message if a channel names an edge twice.
  static std::shared_ptr<const Plan> Make(const std::vector<PlanRow>& rows, std::string* error);

  // The index of a channel, in order of first mention, or kNone.
  int ChannelOf(std::string_view source, std::string_view destination) const;
  // The rank of an edge: by exact name, else by a source node named once on the channel, else kNone.
  int RankOf(int channel, std::string_view edge) const;
  bool NamesExactly(int channel, std::string_view edge) const;
  int SizeOf(int channel) const { return channels_[channel].size; }
  const std::vector<std::pair<std::string, std::string>>& channel_names() const { return names_; }

 private:
  using DevicePair = std::pair<std::string_view, std::string_view>;
  struct DevicePairHash {
    size_t operator()(const DevicePair& pair) const {
      const std::hash<std::string_view> hash;
      return hash(pair.first) * 31 + hash(pair.second);
    }
  };
  struct Channel {
    int size = 0;
    std::unordered_map<std::string_view, int> by_edge;
    std::unordered_map<std::string_view, int> by_source;  // kNone: more than one
  };

  Plan() = default;
  Plan(const Plan&) = delete;
  bool Add(const PlanRow& row);
  std::string_view Keep(const std::string& text) { return texts_.emplace_back(text); }

  std::deque<std::string> texts_;  // what the views point to
  std::unordered_map<DevicePair, int, DevicePairHash> index_;
  std::vector<Channel> channels_;
  std::vector<std::pair<std::string, std::string>> names_;
};

// Immutable: a plan filtered to the transfers that one graph has, with dense ranks on each channel.
class GraphOrder {
 public:
  GraphOrder(const Plan& plan, const std::vector<GraphEdge>& edges);

  // Whether the graph has the edge; *rank is its dense rank, or Plan::kNone if it is not ordered.
  bool Find(int channel, const std::string& edge, int* rank) const;
  // How many transfers are ordered, by channel; channels without any are absent.
  const std::unordered_map<int, int>& sizes() const { return sizes_; }

 private:
  struct Claim;
  void AddChannel(int channel, std::vector<Claim> claims);

  std::unordered_map<int, std::unordered_map<std::string, int>> ranks_;
  std::unordered_map<int, int> sizes_;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_TABLE_H_
