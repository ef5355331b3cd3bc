// Passes around the library's own: the one before plants what it cannot handle, the one after takes that out again.
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/graph/node_builder.h"

namespace {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using Options = tensorflow::GraphOptimizationPassOptions;

int planted = 0;

NodeBuilder Planted(const std::string& op) { return NodeBuilder("planted_" + std::to_string(++planted), op); }

NodeBuilder Transfer(const std::string& op, const std::string& device) {
  return Planted(op)
      .Attr("tensor_name", "planted")
      .Attr("send_device", device)
      .Attr("send_device_incarnation", 1)
      .Attr("recv_device", "/job:elsewhere/replica:0/task:0/device:CPU:0");
}

// A sum of values of two frames, and a _Send to another task whose value has gone.
absl::Status Plant(const std::string& device, Graph* graph) {
  const tensorflow::Tensor one(1.0f);
  Node *value, *framed, *sum, *send, *recv;
  TF_RETURN_IF_ERROR(Planted("Const").Attr("dtype", one.dtype()).Attr("value", one).Finalize(graph, &value));
  TF_RETURN_IF_ERROR(Planted("Enter").Input(value).Attr("frame_name", "frame").Finalize(graph, &framed));
  TF_RETURN_IF_ERROR(Planted("AddV2").Input(value).Input(framed).Finalize(graph, &sum));
  TF_RETURN_IF_ERROR(Transfer("_Send", device).Input(value).Finalize(graph, &send));
  TF_RETURN_IF_ERROR(Transfer("_Recv", device).Attr("tensor_type", one.dtype()).Finalize(graph, &recv));
  const tensorflow::Edge* edge = nullptr;
  TF_RETURN_IF_ERROR(send->input_edge(0, &edge));
  graph->RemoveEdge(edge);
  for (Node* const node : {value, framed, sum, send, recv}) graph->AddControlEdge(graph->source_node(), node);
  return absl::OkStatus();
}

absl::Status TakeOut(Graph* graph) {
  std::vector<Node*> nodes;
  for (Node* node : graph->op_nodes()) {
    if (node->name().rfind("planted_", 0) == 0) nodes.push_back(node);
  }
  for (Node* node : nodes) graph->RemoveNode(node);
  return absl::OkStatus();
}

class Before : public tensorflow::GraphOptimizationPass {
 public:
  absl::Status Run(const Options& options) override {
    if (options.partition_graphs == nullptr || !options.is_function_graph) return absl::OkStatus();
    for (auto& [device, graph] : *options.partition_graphs) TF_RETURN_IF_ERROR(Plant(device, graph.get()));
    return absl::OkStatus();
  }
};

class After : public tensorflow::GraphOptimizationPass {
 public:
  absl::Status Run(const Options& options) override {
    if (options.partition_graphs == nullptr || !options.is_function_graph) return absl::OkStatus();
    for (auto& [device, graph] : *options.partition_graphs) TF_RETURN_IF_ERROR(TakeOut(graph.get()));
    return absl::OkStatus();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_PARTITIONING, 999, Before);
REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_PARTITIONING, 1001, After);

}  // namespace

extern "C" int planted_nodes() { return planted; }
