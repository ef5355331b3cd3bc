#include "process/output_names.h"

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "tensorflow/core/graph/graph.h"

namespace tfwave {
namespace {

using tensorflow::Graph;
using tensorflow::Node;

using Wire = std::tuple<std::string, std::string, std::string>;  // source, destination, then what tells them apart

struct Ends {
  Node* send = nullptr;
  Node* recv = nullptr;
};

bool WireOf(const Node& node, Wire* wire) {
  const auto attrs = node.attrs();
  return tensorflow::TryGetNodeAttr(attrs, "send_device", &std::get<0>(*wire)) &&
         tensorflow::TryGetNodeAttr(attrs, "recv_device", &std::get<1>(*wire)) &&
         tensorflow::TryGetNodeAttr(attrs, "tensor_name", &std::get<2>(*wire));
}

std::map<Wire, Ends> FindEnds(const std::unordered_map<std::string, std::unique_ptr<Graph>>& partitions) {
  std::map<Wire, Ends> found;
  for (const auto& [device, graph] : partitions) {
    for (Node* node : graph->op_nodes()) {
      Wire wire;
      if ((!node->IsSend() && !node->IsRecv()) || !WireOf(*node, &wire)) continue;
      Ends& ends = found[wire];
      (node->IsSend() ? ends.send : ends.recv) = node;
    }
  }
  return found;
}

void Rename(Node* node, const std::string& name) {
  node->ClearAttr("tensor_name");
  node->AddAttr("tensor_name", name);
}

}  // namespace

absl::Status NameOutputs(std::unordered_map<std::string, std::unique_ptr<Graph>>* partitions) {
  struct Sent {
    int output;
    std::string name;
    Ends ends;
  };
  std::map<Wire, std::vector<Sent>> of_node;
  for (const auto& [wire, ends] : FindEnds(*partitions)) {
    if (!ends.send || !ends.recv) continue;
    const auto& [source, destination, name] = wire;
    const tensorflow::Edge* value = nullptr;
    TF_RETURN_IF_ERROR(ends.send->input_edge(0, &value));
    of_node[{source, destination, value->src()->name()}].push_back({value->src_output(), name, ends});
  }
  for (const auto& [node, outputs] : of_node) {
    if (outputs.size() == 1) continue;
    for (const Sent& sent : outputs) {
      const std::string name = sent.name + ":" + std::to_string(sent.output);
      Rename(sent.ends.send, name);
      Rename(sent.ends.recv, name);
    }
  }
  return absl::OkStatus();
}

}  // namespace tfwave
