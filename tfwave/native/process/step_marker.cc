// The op that tells the hook when a step begins, and which transfers it will make.
#include <string>
#include <utility>
#include <vector>

#include "process/process.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfwave {
namespace {

REGISTER_OP("TfwaveStep")
    .Attr("function: string")
    .Attr("sources: list(string)")
    .Attr("destinations: list(string)")
    .Attr("edges: list(string)")
    .Attr("orderable: list(bool)")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Tells the send hook what the graph that holds it sends, and that a step of it begins.");

class StepOp : public tensorflow::OpKernel {
 public:
  explicit StepOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    std::string function;
    std::vector<std::string> sources, destinations, edges;
    std::vector<bool> orderable;
    OP_REQUIRES_OK(context, context->GetAttr("function", &function));
    OP_REQUIRES_OK(context, context->GetAttr("sources", &sources));
    OP_REQUIRES_OK(context, context->GetAttr("destinations", &destinations));
    OP_REQUIRES_OK(context, context->GetAttr("edges", &edges));
    OP_REQUIRES_OK(context, context->GetAttr("orderable", &orderable));
    const size_t count = edges.size();
    OP_REQUIRES(context, sources.size() == count && destinations.size() == count && orderable.size() == count,
                absl::InvalidArgumentError("the lists of a TfwaveStep differ in length"));
    std::vector<GraphEdge> sends;
    for (size_t i = 0; i < count; ++i) sends.push_back({sources[i], destinations[i], edges[i], orderable[i]});
    graph_ = process().sequencer.AddGraph(std::move(function), std::move(sends));
  }
  ~StepOp() override { process().sequencer.DropGraph(graph_); }

  // The rendezvous of a Session's step and that of a function's component both go by this step id.
  void Compute(tensorflow::OpKernelContext* context) override {
    process().sequencer.StartStep(context->step_id(), graph_);
  }
  bool IsExpensive() override { return false; }

 private:
  int64_t graph_ = 0;  // no graph
};

REGISTER_KERNEL_BUILDER(Name("TfwaveStep").Device(tensorflow::DEVICE_DEFAULT), StepOp);

}  // namespace
}  // namespace tfwave
