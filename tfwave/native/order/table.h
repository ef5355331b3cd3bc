// The installed plans, one for each function, and what they mean for one registered graph.
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
  std::string function = {};
  int64_t window = 0;   // of its channel, in bytes; 0: the channel goes by a counter
  int64_t channel = 0;  // what the log calls its channel
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

// Immutable: the order of all channels that the plans speak of. A channel is a pair of devices in one function's plan.
class Plans {
 public:
  static constexpr int kNone = -1;

  // One plan for each function; the one of "" is for all graphs whose function has none.
  // Null and a message if a row's function is not among them, or a channel has two windows or numbers, another number
  // than the next one when it is first mentioned, or names an edge twice.
  static std::shared_ptr<const Plans> Make(const std::vector<std::string>& functions,
                                           const std::vector<PlanRow>& rows, std::string* error);

  // The index of a pair of devices between which some plan orders transfers, or kNone.
  int PairOf(std::string_view source, std::string_view destination) const;
  // The index of the plan that a graph of `function` follows: its own, else that of "", else kNone.
  int PlanFor(const std::string& function) const;
  // The number of a channel, or kNone; kNone for the plan kNone.
  int ChannelOf(int pair, int plan) const;

  // The rank of an edge: by exact name, else by a source node named once on the channel, else kNone.
  int RankOf(int channel, std::string_view edge) const;
  bool NamesExactly(int channel, std::string_view edge) const;
  int SizeOf(int channel) const { return channels_[channel].size; }
  // The most bytes in flight on a channel without a counter; 0: it has one.
  int64_t WindowOf(int channel) const { return channels_[channel].window; }
  int channel_count() const { return static_cast<int>(channels_.size()); }
  // Whether some channel has no counter.
  bool UsesPriority() const;

 private:
  using DevicePair = std::pair<std::string_view, std::string_view>;
  struct PairHash {
    template <typename A, typename B>
    size_t operator()(const std::pair<A, B>& pair) const {
      return std::hash<A>()(pair.first) * 31 + std::hash<B>()(pair.second);
    }
  };
  struct Channel {
    int size = 0;
    int64_t window = 0;
    std::unordered_map<std::string_view, int> by_edge;
    std::unordered_map<std::string_view, int> by_source;  // kNone: more than one
  };

  Plans() = default;
  Plans(const Plans&) = delete;
  bool Add(const PlanRow& row, std::string* error);
  int ChannelFor(const PlanRow& row, int plan);
  std::string_view Keep(const std::string& text) { return texts_.emplace_back(text); }

  std::deque<std::string> texts_;  // what the views point to
  std::unordered_map<std::string, int> plan_of_;  // by function
  std::unordered_map<DevicePair, int, PairHash> pairs_;
  std::unordered_map<std::pair<int, int>, int, PairHash> channel_of_;  // by pair and plan
  std::vector<Channel> channels_;
};

// Where the plans put a transfer of a graph.
struct Place {
  int channel = Plans::kNone;
  int plan_rank = Plans::kNone;  // in the plan
  int rank = Plans::kNone;       // among the transfers that the graph has

  bool IsOrdered() const { return rank != Plans::kNone; }
};

// Immutable: the plan that a graph follows, filtered to its transfers, with dense ranks on each channel.
class GraphOrder {
 public:
  GraphOrder(const Plans& plans, const std::string& function, const std::vector<GraphEdge>& edges);

  // Null if the graph has no such edge between the pair of devices.
  const Place* Find(int pair, const std::string& edge) const;
  // How many transfers a counter orders, by channel; channels without any are absent.
  const std::unordered_map<int, int>& sizes() const { return sizes_; }
  // All transfers of the graph between devices that some plan speaks of, by pair and edge.
  const std::unordered_map<int, std::unordered_map<std::string, Place>>& places() const { return places_; }

 private:
  struct Claim;
  int AddChannel(std::vector<Claim> claims, int channel);

  std::unordered_map<int, std::unordered_map<std::string, Place>> places_;
  std::unordered_map<int, int> sizes_;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_TABLE_H_
