#include "order/table.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace tfwave {

std::string_view SourceOfEdge(std::string_view edge) {
  constexpr std::string_view kPrefix = "edge_";
  if (edge.substr(0, kPrefix.size()) != kPrefix) return edge;
  size_t i = kPrefix.size();
  while (i < edge.size() && std::isdigit(static_cast<unsigned char>(edge[i]))) ++i;
  const bool has_id = i > kPrefix.size() && i + 1 < edge.size() && edge[i] == '_';
  return has_id ? edge.substr(i + 1) : edge;
}

std::shared_ptr<const Plans> Plans::Make(const std::vector<std::string>& functions, const std::vector<PlanRow>& rows,
                                         std::string* error) {
  std::shared_ptr<Plans> plans(new Plans);
  for (const std::string& function : functions) plans->plan_of_.emplace(function, plans->plan_of_.size());
  for (const PlanRow& row : rows) {
    if (!plans->Add(row, error)) return nullptr;
  }
  return plans;
}

bool Plans::Add(const PlanRow& row, std::string* error) {
  const auto plan = plan_of_.find(row.function);
  if (plan == plan_of_.end()) {
    *error = "'" + row.edge + "' is ordered for the function '" + row.function + "', which has no plan";
    return false;
  }
  const int number = ChannelFor(row, plan->second);
  if (row.channel != number) {
    *error = "the channel from " + row.source + " to " + row.destination + " has the number " +
             std::to_string(row.channel) + ", not " + std::to_string(number);
    return false;
  }
  Channel& channel = channels_[number];
  if (row.window < 0 || row.window != channel.window) {
    *error = "the plan gives two windows, or a negative one, from " + row.source + " to " + row.destination;
    return false;
  }
  const std::string_view edge = Keep(row.edge);
  if (!channel.by_edge.emplace(edge, channel.size).second) {
    const std::string whose = row.function.empty() ? "" : " of '" + row.function + "'";
    *error = "the plan" + whose + " names '" + row.edge + "' twice from " + row.source + " to " + row.destination;
    return false;
  }
  const auto [source, is_first] = channel.by_source.emplace(SourceOfEdge(edge), channel.size);
  if (!is_first) source->second = kNone;
  ++channel.size;
  return true;
}

int Plans::ChannelFor(const PlanRow& row, int plan) {
  int pair = PairOf(row.source, row.destination);
  if (pair == kNone) {
    pair = static_cast<int>(pairs_.size());
    pairs_.emplace(DevicePair(Keep(row.source), Keep(row.destination)), pair);
  }
  const auto [channel, is_new] = channel_of_.emplace(std::make_pair(pair, plan), static_cast<int>(channels_.size()));
  if (is_new) channels_.emplace_back().window = row.window;
  return channel->second;
}

int Plans::PairOf(std::string_view source, std::string_view destination) const {
  const auto found = pairs_.find(DevicePair(source, destination));
  return found == pairs_.end() ? kNone : found->second;
}

int Plans::PlanFor(const std::string& function) const {
  auto found = plan_of_.find(function);
  if (found == plan_of_.end()) found = plan_of_.find("");
  return found == plan_of_.end() ? kNone : found->second;
}

int Plans::ChannelOf(int pair, int plan) const {
  const auto found = channel_of_.find({pair, plan});
  return found == channel_of_.end() ? kNone : found->second;
}

bool Plans::UsesPriority() const {
  return std::any_of(channels_.begin(), channels_.end(), [](const Channel& c) { return c.window > 0; });
}

int Plans::RankOf(int channel, std::string_view edge) const {
  const Channel& c = channels_[channel];
  const auto exact = c.by_edge.find(edge);
  if (exact != c.by_edge.end()) return exact->second;
  const auto source = c.by_source.find(SourceOfEdge(edge));
  return source == c.by_source.end() ? kNone : source->second;
}

bool Plans::NamesExactly(int channel, std::string_view edge) const {
  return channels_[channel].by_edge.count(edge) != 0;
}

// An edge of the graph and the plan's rank that it lays claim to.
struct GraphOrder::Claim {
  int plan_rank;
  bool exact;
  Place* place;
};

GraphOrder::GraphOrder(const Plans& plans, const std::string& function, const std::vector<GraphEdge>& edges) {
  const int plan = plans.PlanFor(function);
  std::map<int, std::vector<Claim>> claims;
  for (const GraphEdge& e : edges) {
    const int pair = plans.PairOf(e.source, e.destination);
    if (pair == Plans::kNone) continue;
    Place* const place = &places_[pair][e.edge];
    const int channel = plans.ChannelOf(pair, plan);
    if (channel == Plans::kNone || !e.orderable) continue;
    const int rank = plans.RankOf(channel, e.edge);
    if (rank != Plans::kNone) claims[channel].push_back({rank, plans.NamesExactly(channel, e.edge), place});
  }
  for (auto& [channel, list] : claims) {
    const int size = AddChannel(std::move(list), channel);
    if (size > 0 && plans.WindowOf(channel) == 0) sizes_[channel] = size;
  }
}

// Of several claims to one rank the exact one wins; without it none does, for the plan cannot tell them apart.
// Returns how many have won.
int GraphOrder::AddChannel(std::vector<Claim> claims, int channel) {
  std::map<int, std::vector<const Claim*>> by_rank;
  for (const Claim& claim : claims) by_rank[claim.plan_rank].push_back(&claim);
  int next = 0;
  for (const auto& [rank, rivals] : by_rank) {
    const auto exact = std::find_if(rivals.begin(), rivals.end(), [](const Claim* c) { return c->exact; });
    if (exact == rivals.end() && rivals.size() > 1) continue;
    const Claim* winner = exact == rivals.end() ? rivals.front() : *exact;
    *winner->place = {channel, rank, next++};
  }
  return next;
}

const Place* GraphOrder::Find(int pair, const std::string& edge) const {
  const auto edges = places_.find(pair);
  if (edges == places_.end()) return nullptr;
  const auto found = edges->second.find(edge);
  return found == edges->second.end() ? nullptr : &found->second;
}

}  // namespace tfwave
