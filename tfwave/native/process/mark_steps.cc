// Adds a node to each graph that sends to another task: it notes the graph's sends, and says when a step begins.
#include <atomic>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "process/output_names.h"
#include "process/process.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/graph/control_flow.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace tfwave {
namespace {

using tensorflow::DeviceNameUtils;
using tensorflow::Graph;
using tensorflow::Node;

struct Send {
  Node* node;
  GraphEdge edge;
};

bool CrossesTasks(const std::string& source, const std::string& destination) {
  DeviceNameUtils::ParsedName from, to;
  return DeviceNameUtils::ParseFullName(source, &from) && DeviceNameUtils::ParseFullName(destination, &to) &&
         !DeviceNameUtils::IsSameAddressSpace(from, to);
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

bool ToGraphEdge(const Node& send, GraphEdge* edge) {
  bool client_terminated = false;
  const auto attrs = send.attrs();
  if (tensorflow::TryGetNodeAttr(attrs, "client_terminated", &client_terminated) && client_terminated) return false;
  if (!tensorflow::TryGetNodeAttr(attrs, "send_device", &edge->source) ||
      !tensorflow::TryGetNodeAttr(attrs, "recv_device", &edge->destination) ||
      !tensorflow::TryGetNodeAttr(attrs, "tensor_name", &edge->edge)) {
    return false;
  }
  edge->orderable = !SendsEmptyConst(send);
  return CrossesTasks(edge->source, edge->destination);
}

absl::Status FindSends(const Graph& graph, std::vector<Send>* sends) {
  for (Node* node : graph.op_nodes()) {
    GraphEdge edge;
    if (node->IsSend() && ToGraphEdge(*node, &edge)) sends->push_back({node, std::move(edge)});
  }
  if (sends->empty()) return absl::OkStatus();
  std::vector<tensorflow::ControlFlowInfo> frames;
  TF_RETURN_IF_ERROR(tensorflow::BuildControlFlowInfo(&graph, &frames));
  for (Send& send : *sends) send.edge.orderable &= frames[send.node->id()].frame_name.empty();
  return absl::OkStatus();
}

// A Session shares its kernels by node name: no two markers of a process may have the same.
std::string UniqueName() {
  static std::atomic<int64_t> last{0};
  return "TfwaveStep_G" + std::to_string(++last);
}

absl::Status MakeMarker(const std::string& function, const std::string& device, const std::vector<Send>& sends,
                        tensorflow::NodeDef* def) {
  std::vector<std::string> sources, destinations, edges;
  std::vector<bool> orderable;
  for (const Send& send : sends) {
    sources.push_back(send.edge.source);
    destinations.push_back(send.edge.destination);
    edges.push_back(send.edge.edge);
    orderable.push_back(send.edge.orderable);
  }
  return tensorflow::NodeDefBuilder(UniqueName(), "TfwaveStep")
      .Device(device)
      .Attr("function", function)
      .Attr("sources", sources)
      .Attr("destinations", destinations)
      .Attr("edges", edges)
      .Attr("orderable", orderable)
      .Finalize(def);
}

// What a function sends waits for its marker: the hook learns of the step first.
absl::Status AddMarker(const std::string& function, const std::string& device, Graph* graph) {
  std::vector<Send> sends;
  TF_RETURN_IF_ERROR(FindSends(*graph, &sends));
  if (sends.empty()) return absl::OkStatus();
  tensorflow::NodeDef def;
  TF_RETURN_IF_ERROR(MakeMarker(function, device, sends, &def));
  absl::Status status;
  Node* marker = graph->AddNode(std::move(def), &status);
  TF_RETURN_IF_ERROR(status);
  marker->set_assigned_device_name(device);
  graph->AddControlEdge(graph->source_node(), marker);
  graph->AddControlEdge(marker, graph->sink_node());
  for (const Send& send : sends) {
    if (!function.empty() && send.edge.orderable) graph->AddControlEdge(marker, send.node);
  }
  return absl::OkStatus();
}

bool IsHooked(const std::string& device) {
  DeviceNameUtils::ParsedName parsed;
  std::string task;
  return DeviceNameUtils::ParseFullName(device, &parsed) && DeviceNameUtils::GetTaskName(parsed, &task) &&
         process().hooked_tasks.Has(task);
}

// A failure is this library's, not the graph's: the graph goes on as it is, and what it sends passes unordered.
template <typename Edit>
void Try(const char* what, const std::string& graph, const Edit& edit) {
  std::string why;
  try {
    const absl::Status status = edit();
    if (status.ok()) return;
    why = status.ToString();
  } catch (const std::exception& e) {
    why = e.what();
  }
  LOG(WARNING) << "tfwave: cannot " << what << " of '" << graph << "', which runs unordered: " << why;
}

// Case 1: graphs that a Session's master sent to this server: this process runs them all. Only they have neither
//         session options nor a function behind them.
// Case 2: a function of several devices: this process cuts it, and the tasks that it names run the parts, itself
//         among them.
// Case 3: anything else, such as a local Session: nothing of it is sent by a server.
class MarkSteps : public tensorflow::GraphOptimizationPass {
 public:
  absl::Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.partition_graphs == nullptr) return absl::OkStatus();
    if (options.is_function_graph) {
      Try("mark the function", options.debug_filename_prefix, [&] { return MarkFunction(options); });
    } else if (options.session_options == nullptr) {
      for (auto& [device, graph] : *options.partition_graphs) Mark("", device, graph.get());
    }
    return absl::OkStatus();
  }

 private:
  // Its name is what TensorFlow would call a file with the graph; `trial.py` makes sure of that.
  static absl::Status MarkFunction(const tensorflow::GraphOptimizationPassOptions& options) {
    const std::string& name = options.debug_filename_prefix;
    if (name.empty()) return absl::FailedPreconditionError("TensorFlow does not say which function it is");
    process().last_function.Set(name);
    Try("name the outputs", name, [&] { return NameOutputs(options.partition_graphs); });
    for (auto& [device, graph] : *options.partition_graphs) {
      if (IsHooked(device)) Mark(name, device, graph.get());
    }
    return absl::OkStatus();
  }

  static void Mark(const std::string& function, const std::string& device, Graph* graph) {
    Try("mark a part", function + " on " + device, [&] { return AddMarker(function, device, graph); });
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_PARTITIONING, 1000, MarkSteps);

}  // namespace
}  // namespace tfwave
