#include "table.h"

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

std::shared_ptr<const Plan> Plan::Make(const std::vector<PlanRow>& rows, std::string* error) {
  std::shared_ptr<Plan> plan(new Plan);
  for (const PlanRow& row : rows) {
    if (plan->Add(row)) continue;
    *error = "the plan names '" + row.edge + "' twice from " + row.source + " to " + row.destination;
    return nullptr;
  }
  return plan;
}

bool Plan::Add(const PlanRow& row) {
  int at = ChannelOf(row.source, row.destination);
  if (at == kNone) {
    at = static_cast<int>(channels_.size());
    index_.emplace(DevicePair(Keep(row.source), Keep(row.destination)), at);
    channels_.emplace_back();
    names_.emplace_back(row.source, row.destination);
  }
  Channel& channel = channels_[at];
  const std::string_view edge = Keep(row.edge);
  if (!channel.by_edge.emplace(edge, channel.size).second) return false;
  const auto [source, is_first] = channel.by_source.emplace(SourceOfEdge(edge), channel.size);
  if (!is_first) source->second = kNone;
  ++channel.size;
  return true;
}

int Plan::ChannelOf(std::string_view source, std::string_view destination) const {
  const auto found = index_.find(DevicePair(source, destination));
  return found == index_.end() ? kNone : found->second;
}

int Plan::RankOf(int channel, std::string_view edge) const {
  const Channel& c = channels_[channel];
  const auto exact = c.by_edge.find(edge);
  if (exact != c.by_edge.end()) return exact->second;
  const auto source = c.by_source.find(SourceOfEdge(edge));
  return source == c.by_source.end() ? kNone : source->second;
}

bool Plan::NamesExactly(int channel, std::string_view edge) const {
  return channels_[channel].by_edge.count(edge) != 0;
}

// An edge of the graph and the plan's rank that it lays claim to.
struct GraphOrder::Claim {
  int plan_rank;
  bool exact;
  std::string edge;
};

GraphOrder::GraphOrder(const Plan& plan, const std::vector<GraphEdge>& edges) {
  std::map<int, std::vector<Claim>> claims;
  for (const GraphEdge& e : edges) {
    const int channel = plan.ChannelOf(e.source, e.destination);
    if (channel == Plan::kNone) continue;
    ranks_[channel].emplace(e.edge, Plan::kNone);
    const int rank = e.orderable ? plan.RankOf(channel, e.edge) : Plan::kNone;
    if (rank != Plan::kNone) claims[channel].push_back({rank, plan.NamesExactly(channel, e.edge), e.edge});
  }
  for (auto& [channel, list] : claims) AddChannel(channel, std::move(list));
}

// Of several claims to one rank the exact one wins; without it none does, for the plan cannot tell them apart.
void GraphOrder::AddChannel(int channel, std::vector<Claim> claims) {
  std::map<int, std::vector<const Claim*>> by_rank;
  for (const Claim& claim : claims) by_rank[claim.plan_rank].push_back(&claim);
  int next = 0;
  for (const auto& [rank, rivals] : by_rank) {
    const auto exact = std::find_if(rivals.begin(), rivals.end(), [](const Claim* c) { return c->exact; });
    if (exact == rivals.end() && rivals.size() > 1) continue;
    const Claim* winner = exact == rivals.end() ? rivals.front() : *exact;
    ranks_[channel][winner->edge] = next++;
  }
  if (next > 0) sizes_[channel] = next;
}

bool GraphOrder::Find(int channel, const std::string& edge, int* rank) const {
  const auto edges = ranks_.find(channel);
  if (edges == ranks_.end()) return false;
  const auto found = edges->second.find(edge);
  if (found == edges->second.end()) return false;
  *rank = found->second;
  return true;
}

}  // namespace tfwave
