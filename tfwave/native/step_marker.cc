// Tells the hook which transfers a step will make: notes the sends of each graph that a server registers, and adds
// a node to it that says when a step begins.
#include <string>
#include <utility>
#include <vector>

#include "process.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/graph/control_flow.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace tfwave {
namespace {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;

REGISTER_OP("TfwaveStep")
    .Attr("graph: int")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Tells the send hook that a step of a registered graph begins.");

class StepOp : public tensorflow::OpKernel {
 public:
  explicit StepOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("graph", &graph_));
  }
  ~StepOp() override { process().sequencer.DropGraph(graph_); }

  void Compute(tensorflow::OpKernelContext* context) override {
    process().sequencer.StartStep(context->step_container()->StepId(), graph_);
  }
  bool IsExpensive() override { return false; }

 private:
  int64_t graph_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TfwaveStep").Device(tensorflow::DEVICE_DEFAULT), StepOp);

bool CrossesTasks(const std::string& source, const std::string& destination) {
  tensorflow::DeviceNameUtils::ParsedName from, to;
  return tensorflow::DeviceNameUtils::ParseFullName(source, &from) &&
         tensorflow::DeviceNameUtils::ParseFullName(destination, &to) &&
         !tensorflow::DeviceNameUtils::IsSameAddressSpace(from, to);
}

// A control edge between tasks is cut as the transfer of an empty constant.
bool SendsEmptyConst(const Node& send) {
  const Node* value = nullptr;
  if (!send.input_node(0, &value).ok() || !value->IsConstant()) return false;
  const tensorflow::TensorProto* proto = nullptr;
  if (!tensorflow::GetNodeAttr(value->attrs(), "value", &proto).ok()) return false;
  return tensorflow::TensorShape::IsValid(proto->tensor_shape()) &&
         tensorflow::TensorShape(proto->tensor_shape()).num_elements() == 0;
}

bool ToGraphEdge(const Node& send, bool in_loop, GraphEdge* edge) {
  bool client_terminated = false;
  const auto attrs = send.attrs();
  if (tensorflow::TryGetNodeAttr(attrs, "client_terminated", &client_terminated) && client_terminated) return false;
  if (!tensorflow::TryGetNodeAttr(attrs, "send_device", &edge->source) ||
      !tensorflow::TryGetNodeAttr(attrs, "recv_device", &edge->destination) ||
      !tensorflow::TryGetNodeAttr(attrs, "tensor_name", &edge->edge)) {
    return false;
  }
  edge->orderable = !in_loop && !SendsEmptyConst(send);
  return CrossesTasks(edge->source, edge->destination);
}

absl::Status FindSends(const Graph& graph, std::vector<GraphEdge>* sends) {
  std::vector<tensorflow::ControlFlowInfo> frames;
  TF_RETURN_IF_ERROR(tensorflow::BuildControlFlowInfo(&graph, &frames));
  for (const Node* node : graph.op_nodes()) {
    GraphEdge edge;
    if (node->IsSend() && ToGraphEdge(*node, !frames[node->id()].frame_name.empty(), &edge)) {
      sends->push_back(std::move(edge));
    }
  }
  return absl::OkStatus();
}

absl::Status AddMarker(int64_t id, const std::string& device, Graph* graph) {
  tensorflow::NodeDef def;
  TF_RETURN_IF_ERROR(tensorflow::NodeDefBuilder("TfwaveStep_G" + std::to_string(id), "TfwaveStep")
                         .Device(device)
                         .Attr("graph", id)
                         .Finalize(&def));
  absl::Status status;
  Node* marker = graph->AddNode(std::move(def), &status);
  TF_RETURN_IF_ERROR(status);
  marker->set_assigned_device_name(device);
  graph->AddControlEdge(graph->source_node(), marker);
  graph->AddControlEdge(marker, graph->sink_node());
  return absl::OkStatus();
}

// Local sessions and functions run this pass as well; only graphs that a master sent to a server have neither
// session options nor a function behind them.
bool IsServerGraph(const tensorflow::GraphOptimizationPassOptions& options) {
  return options.partition_graphs != nullptr && options.session_options == nullptr && !options.is_function_graph;
}

class MarkSteps : public tensorflow::GraphOptimizationPass {
 public:
  absl::Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (!IsServerGraph(options)) return absl::OkStatus();
    for (auto& [device, graph] : *options.partition_graphs) {
      std::vector<GraphEdge> sends;
      TF_RETURN_IF_ERROR(FindSends(*graph, &sends));
      if (sends.empty()) continue;
      TF_RETURN_IF_ERROR(AddMarker(process().sequencer.AddGraph(std::move(sends)), device, graph.get()));
    }
    return absl::OkStatus();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_PARTITIONING, 1000, MarkSteps);

}  // namespace
}  // namespace tfwave
