// The op between two node groups of a job: what it waits for is done, and what waits for it starts when the ledger
// lets it.
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "process/process.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/env.h"

namespace tfwave {
namespace {

REGISTER_OP("TfwaveCounterBarrier")
    .Attr("job: string")
    .Attr("group: int >= 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Ends the node groups of a job before this one, and starts it when the process's ledger has room for it.");

using tensorflow::CancellationToken;
using tensorflow::OpKernelContext;
using DoneCallback = tensorflow::AsyncOpKernel::DoneCallback;

// A barrier that waits. It ends once it is both answered and wired to its step's cancellation: until then its
// context must live.
class Wait : public std::enable_shared_from_this<Wait> {
 public:
  Wait(OpKernelContext* context, DoneCallback done) : context_(context), done_(std::move(done)) {}

  void Answer(Verdict verdict) {
    verdict_ = verdict;
    Arrive();
  }

  void CancelWithStep(int64_t request) {
    const auto cancel = [request] { process().ledger.Cancel(request); };
    if (tensorflow::CancellationManager* manager = context_->cancellation_manager()) {
      token_ = manager->get_cancellation_token();
      if (!manager->RegisterCallback(token_, cancel)) cancel();
    }
    Arrive();
  }

 private:
  // Whoever lets it go must neither run what comes after it nor wait for that: it goes in a thread of its own.
  void Arrive() {
    if (--missing_ > 0) return;
    tensorflow::Env::Default()->SchedClosure([self = shared_from_this()] { self->End(); });
  }

  void End() {
    if (tensorflow::CancellationManager* manager = context_->cancellation_manager()) {
      manager->TryDeregisterCallback(token_);  // if it runs already, it finds nothing to cancel
    }
    if (verdict_ == Verdict::kCancelled) {
      context_->SetStatus(absl::CancelledError("the step ended while its next node group waited for memory"));
    }
    done_();
  }

  OpKernelContext* const context_;
  const DoneCallback done_;
  CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
  Verdict verdict_ = Verdict::kGo;
  std::atomic<int> missing_{2};
};

class CounterBarrierOp : public tensorflow::AsyncOpKernel {
 public:
  explicit CounterBarrierOp(tensorflow::OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("job", &job_));
    OP_REQUIRES_OK(context, context->GetAttr("group", &group_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const auto wait = std::make_shared<Wait>(context, done);
    std::string error;
    const auto answered = [wait](Verdict verdict) { wait->Answer(verdict); };
    const int64_t request = process().ledger.Ask(job_, group_, answered, &error);
    if (request != 0) return wait->CancelWithStep(request);
    if (!error.empty()) context->SetStatus(absl::FailedPreconditionError(error));
    done();
  }
  bool IsExpensive() override { return false; }

 private:
  std::string job_;
  int group_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TfwaveCounterBarrier").Device(tensorflow::DEVICE_DEFAULT), CounterBarrierOp);

}  // namespace
}  // namespace tfwave
