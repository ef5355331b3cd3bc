// The ops that take a tensor out of TensorFlow's pool, and back into it.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pool/gpu_mover.h"
#include "process/process.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"
#include "xla/stream_executor/stream.h"

namespace tfwave {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;
using DoneCallback = tensorflow::AsyncOpKernel::DoneCallback;

REGISTER_OP("TfwaveStash")
    .Attr("T: type")
    .Attr("slot: string")
    .Input("value: T")
    .Output("ticket: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* context) {
      DataType type;
      TF_RETURN_IF_ERROR(context->GetAttr("T", &type));
      context->set_output(0, context->Scalar());
      context->set_output_handle_shapes_and_types(0, {{context->input(0), type}});
      return absl::OkStatus();
    })
    .Doc("Copies a tensor to the host's memory, and then gives a ticket for it: what else held it may be gone by now.");

REGISTER_OP("TfwaveFetch")
    .Attr("T: type")
    .Input("ticket: int64")
    .Output("value: T")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* context) {
      const auto* const stashed = context->input_handle_shapes_and_types(0);
      context->set_output(0, stashed == nullptr ? context->UnknownShape() : stashed->at(0).shape);
      return absl::OkStatus();
    })
    .Doc("Copies back what a ticket stands for, once.");

// The number of a ticket, as the memory of a tensor: when the last tensor with it goes, however its step ends, the
// ticket goes.
class TicketBuffer : public tensorflow::TensorBuffer {
 public:
  explicit TicketBuffer(int64_t ticket) : TensorBuffer(&ticket_), ticket_(ticket) {}
  ~TicketBuffer() override { process().stash.Drop(ticket_); }

  size_t size() const override { return sizeof(ticket_); }
  TensorBuffer* root_buffer() override { return this; }
  bool OwnsMemory() const override { return false; }  // so that no op writes its output here
  void FillAllocationDescription(tensorflow::AllocationDescription* description) const override {
    description->set_requested_bytes(sizeof(ticket_));
    description->set_allocator_name("tfwave");
  }

 private:
  alignas(EIGEN_MAX_ALIGN_BYTES) int64_t ticket_;
};

Tensor TicketTensor(int64_t ticket) {
  return Tensor(tensorflow::DT_INT64, TensorShape({}),
                tensorflow::core::RefCountPtr<tensorflow::TensorBuffer>(new TicketBuffer(ticket)));
}

// What comes after an op must not run on the thread that copies.
void End(OpKernelContext* context, Copied copied, const std::string& error, const DoneCallback& done) {
  if (copied == Copied::kCancelled) {
    context->SetStatus(absl::CancelledError("the step ended while a tensor waited for its copy"));
  } else if (copied == Copied::kFailed) {
    context->SetStatus(absl::InternalError("a tensor could not be copied: " + error));
  }
  tensorflow::Env::Default()->SchedClosure(done);
}

// Where an op's tensors lie: in the host's memory.
struct OnHost {
  static void Prepare(OpKernelConstruction*) {}
  static std::unique_ptr<Mover> MoverOf(OpKernelContext*, Direction, std::string*) {
    return std::make_unique<Mover>();
  }
};

// In a GPU's, which copies on streams of its own, beside what the op's computes.
struct OnGpu {
  static void Prepare(OpKernelConstruction* context) {
    const auto* const device = context->device()->tensorflow_accelerator_device_info();
    OP_REQUIRES(context, device != nullptr && device->stream != nullptr,
                absl::FailedPreconditionError("the stash knows no stream of " + context->device()->name()));
    std::string error;
    auto pinner = GpuPinner(device->stream->platform_specific_handle().stream, &error);
    if (error.empty()) process().stash.PinWith(std::move(pinner), &error);
    OP_REQUIRES(context, error.empty(), absl::ResourceExhaustedError(error));
  }
  static std::unique_ptr<Mover> MoverOf(OpKernelContext* context, Direction direction, std::string* error) {
    return GpuMover(context->op_device_context()->stream()->platform_specific_handle().stream, direction, error);
  }
};

Stash::Turn TurnOf(OpKernelContext* context, std::unique_ptr<Mover> mover,
                   std::function<void(Copied, const std::string&)> done) {
  auto cancelled = [manager = context->cancellation_manager()] {
    return manager != nullptr && manager->IsCancelled();
  };
  return {std::move(cancelled), std::move(mover), std::move(done)};
}

template <typename Place>
class StashOp : public tensorflow::AsyncOpKernel {
 public:
  explicit StashOp(OpKernelConstruction* context) : AsyncOpKernel(context) {
    process().stash.AddUser();
    OP_REQUIRES_OK(context, context->GetAttr("slot", &slot_));
    OP_REQUIRES_OK(context, context->GetAttr("T", &type_));
    OP_REQUIRES(context, tensorflow::DataTypeCanUseMemcpy(type_),
                absl::InvalidArgumentError("slot '" + slot_ + "': a tensor of type " + DataTypeString(type_) +
                                           " is no plain bytes that could leave for the host: keep it"));
    Place::Prepare(context);
  }
  ~StashOp() override { process().stash.DropUser(); }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const Tensor& value = context->input(0);  // held until `done`, and no longer
    const auto dims = value.shape().dim_sizes();
    std::string error;
    Stash& stash = process().stash;
    auto mover = Place::MoverOf(context, Direction::kToHost, &error);
    OP_REQUIRES_ASYNC(context, error.empty(), absl::InternalError("slot '" + slot_ + "': " + error), done);
    const int64_t number = stash.Open(
        {slot_, type_, {dims.begin(), dims.end()}, static_cast<int64_t>(value.TotalBytes())}, &error);
    OP_REQUIRES_ASYNC(context, error.empty(), absl::ResourceExhaustedError(error), done);
    auto end = [context, done, ticket = TicketTensor(number)](Copied copied, const std::string& why) mutable {
      if (copied == Copied::kYes) context->set_output(0, ticket);
      ticket = Tensor();
      End(context, copied, why, done);
    };
    stash.CopyOut(number, value.data(), TurnOf(context, std::move(mover), std::move(end)));
  }

 private:
  std::string slot_;
  DataType type_ = tensorflow::DT_INVALID;
};

template <typename Place>
class FetchOp : public tensorflow::AsyncOpKernel {
 public:
  explicit FetchOp(OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &type_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    OP_REQUIRES_ASYNC(context, context->input(0).NumElements() == 1,
                      absl::InvalidArgumentError("TfwaveFetch takes one ticket"), done);
    const int64_t ticket = context->input(0).flat<int64_t>()(0);
    std::string error;
    Stash& stash = process().stash;
    const Stashed stashed = stash.Find(ticket, &error);
    OP_REQUIRES_ASYNC(context, error.empty(), absl::FailedPreconditionError(error), done);
    OP_REQUIRES_ASYNC(context, stashed.type == type_,
                      absl::InvalidArgumentError("slot '" + stashed.slot + "': TfwaveFetch of type " +
                                                 DataTypeString(type_) + " for a tensor of type " +
                                                 DataTypeString(static_cast<DataType>(stashed.type))),
                      done);
    Tensor* value = nullptr;
    OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, TensorShape(stashed.shape), &value), done);
    auto mover = Place::MoverOf(context, Direction::kToGpu, &error);
    OP_REQUIRES_ASYNC(context, error.empty(), absl::InternalError("slot '" + stashed.slot + "': " + error), done);
    auto end = [context, done](Copied copied, const std::string& why) { End(context, copied, why, done); };
    stash.CopyIn(ticket, value->data(), TurnOf(context, std::move(mover), std::move(end)), &error);
    OP_REQUIRES_ASYNC(context, error.empty(), absl::FailedPreconditionError(error), done);
  }

 private:
  DataType type_ = tensorflow::DT_INVALID;
};

REGISTER_KERNEL_BUILDER(Name("TfwaveStash").Device(tensorflow::DEVICE_CPU), StashOp<OnHost>);
REGISTER_KERNEL_BUILDER(Name("TfwaveFetch").Device(tensorflow::DEVICE_CPU), FetchOp<OnHost>);
REGISTER_KERNEL_BUILDER(Name("TfwaveStash").Device(tensorflow::DEVICE_GPU).HostMemory("ticket"), StashOp<OnGpu>);
REGISTER_KERNEL_BUILDER(Name("TfwaveFetch").Device(tensorflow::DEVICE_GPU).HostMemory("ticket"), FetchOp<OnGpu>);

}  // namespace
}  // namespace tfwave
