// The ops that take part in an all-to-all: a step's number, what goes out, and what comes.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "process/process.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"

namespace tfwave {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("TfwaveNextStep")
    .Attr("group: string")
    .Attr("tag: string")
    .Output("step: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* context) {
      context->set_output(0, context->Scalar());
      return absl::OkStatus();
    })
    .Doc("The number of a tag's next exchange in a group: 0, 1, ... on each rank.");

REGISTER_OP("TfwaveScatter")
    .Attr("T: type")
    .Attr("group: string")
    .Attr("tag: string")
    .Attr("to: list(int)")
    .Input("value: T")
    .Input("counts: int64")
    .Input("step: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext*) { return absl::OkStatus(); })
    .Doc("Sends rows of a tensor to the ranks of a group, to each as many as `counts` says, one after the other. "
         "Ends at once; the tensor is kept until it has gone.");

REGISTER_OP("TfwaveCollect")
    .Attr("T: type")
    .Attr("group: string")
    .Attr("tag: string")
    .Attr("ranks: int >= 1")
    .Attr("row: shape")
    .Attr("patience: float = 0")
    .Input("step: int64")
    .Output("splits: ranks * T")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* context) {
      PartialTensorShape row;
      TF_RETURN_IF_ERROR(context->GetAttr("row", &row));
      ShapeHandle of_row, shape;
      TF_RETURN_IF_ERROR(context->MakeShapeFromPartialTensorShape(row, &of_row));
      TF_RETURN_IF_ERROR(context->Concatenate(context->Vector(InferenceContext::kUnknownDim), of_row, &shape));
      for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, shape);
      return absl::OkStatus();
    })
    .Doc("The rows that each rank of a group has scattered to this one: ends when all have come. Waits for so many "
         "seconds, if they are more than the group's deadline.");

// Memory that came, as that of a tensor.
class SplitBuffer : public tensorflow::TensorBuffer {
 public:
  explicit SplitBuffer(Split split) : TensorBuffer(const_cast<char*>(split.data)), split_(std::move(split)) {}

  size_t size() const override { return split_.bytes; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* description) const override {
    description->set_requested_bytes(split_.bytes);
    description->set_allocator_name("tfwave");
  }

 private:
  const Split split_;
};

// What all three know: a group and a tag.
struct Address {
  explicit Address(OpKernelConstruction* context) {
    OP_REQUIRES_OK(context, context->GetAttr("group", &group));
    OP_REQUIRES_OK(context, context->GetAttr("tag", &tag));
  }

  absl::Status Find(std::shared_ptr<AllToAll>* found) const {
    *found = process().groups.Find(group);
    if (*found != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError("group '" + group + "' was not formed in this process");
  }

  absl::Status Error(const std::string& error) const {
    return absl::AbortedError("the group '" + group + "' has ended: " + error +
                              ". Restore a checkpoint on all ranks and form it again, or another one of "
                              "those that are left");
  }

  std::string group, tag;
};

absl::Status FindStep(OpKernelContext* context, int input, int64_t* step) {
  const Tensor& given = context->input(input);
  if (given.NumElements() != 1) return absl::InvalidArgumentError("an exchange takes the number of one step");
  *step = given.flat<int64_t>()(0);
  return absl::OkStatus();
}

class NextStepOp : public tensorflow::OpKernel {
 public:
  explicit NextStepOp(OpKernelConstruction* context) : OpKernel(context), address_(context) {}

  void Compute(OpKernelContext* context) override {
    std::shared_ptr<AllToAll> group;
    OP_REQUIRES_OK(context, address_.Find(&group));
    Tensor* step = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({}), &step));
    step->scalar<int64_t>()() = group->NextStep(address_.tag);
  }

 private:
  const Address address_;
};

class ScatterOp : public tensorflow::OpKernel {
 public:
  explicit ScatterOp(OpKernelConstruction* context) : OpKernel(context), address_(context) {
    OP_REQUIRES_OK(context, context->GetAttr("to", &to_));
    DataType type;
    OP_REQUIRES_OK(context, context->GetAttr("T", &type));
    OP_REQUIRES(context, tensorflow::DataTypeCanUseMemcpy(type),
                absl::InvalidArgumentError("a tensor of type " + DataTypeString(type) +
                                           " is no plain bytes that could be scattered"));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& value = context->input(0);
    const Tensor& counts = context->input(1);
    OP_REQUIRES(context, value.dims() >= 1 && counts.NumElements() == static_cast<int64_t>(to_.size()),
                absl::InvalidArgumentError("TfwaveScatter takes rows, and how many of them each rank gets"));
    int64_t rows = 0;
    for (size_t i = 0; i < to_.size(); ++i) {
      const int64_t count = counts.flat<int64_t>()(i);
      OP_REQUIRES(context, count >= 0 && count <= value.dim_size(0) - rows, Unequal(value));
      rows += count;
    }
    OP_REQUIRES(context, rows == value.dim_size(0), Unequal(value));
    int64_t step = 0;
    OP_REQUIRES_OK(context, FindStep(context, 2, &step));
    std::shared_ptr<AllToAll> group;
    OP_REQUIRES_OK(context, address_.Find(&group));
    const int64_t row_bytes = rows == 0 ? 0 : value.TotalBytes() / rows;
    const auto holder = std::make_shared<Tensor>(value);
    const char* data = value.tensor_data().data();
    for (size_t i = 0; i < to_.size(); ++i) {
      const int64_t count = counts.flat<int64_t>()(i);
      const std::string error =
          group->Scatter(address_.tag, step, to_[i], {value.dtype(), count, count * row_bytes, data, holder});
      OP_REQUIRES(context, error.empty(), address_.Error(error));
      data += count * row_bytes;
    }
  }

 private:
  static absl::Status Unequal(const Tensor& value) {
    return absl::InvalidArgumentError("TfwaveScatter: the counts do not add up to the " +
                                      std::to_string(value.dim_size(0)) + " rows that there are");
  }

  const Address address_;
  std::vector<int> to_;
};

class CollectOp : public tensorflow::AsyncOpKernel {
 public:
  explicit CollectOp(OpKernelConstruction* context) : AsyncOpKernel(context), address_(context) {
    PartialTensorShape row;
    OP_REQUIRES_OK(context, context->GetAttr("row", &row));
    OP_REQUIRES(context, row.AsTensorShape(&row_), absl::InvalidArgumentError("the shape of a row must be known"));
    OP_REQUIRES_OK(context, context->GetAttr("T", &type_));
    OP_REQUIRES_OK(context, context->GetAttr("ranks", &ranks_));
    float seconds = 0;
    OP_REQUIRES_OK(context, context->GetAttr("patience", &seconds));
    patience_ = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
  }

  // A step that ends before its exchange ends the group: the other ranks are in a step that this one is not in.
  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    int64_t step = 0;
    OP_REQUIRES_OK_ASYNC(context, FindStep(context, 0, &step), done);
    std::shared_ptr<AllToAll> group;
    OP_REQUIRES_OK_ASYNC(context, address_.Find(&group), done);
    OP_REQUIRES_ASYNC(context, group->ranks() == ranks_,
                      absl::InvalidArgumentError("group '" + address_.group + "' has " +
                                                 std::to_string(group->ranks()) + " ranks, not " +
                                                 std::to_string(ranks_)),
                      done);
    tensorflow::CancellationManager* const manager = context->cancellation_manager();
    const auto token = manager == nullptr ? 0 : manager->get_cancellation_token();
    if (manager != nullptr) {
      const bool alive = manager->RegisterCallback(token, [weak = std::weak_ptr<AllToAll>(group)] {
        const std::shared_ptr<AllToAll> cancelled = weak.lock();
        if (cancelled != nullptr) cancelled->Abort("its step was cancelled");
      });
      if (!alive) group->Abort("its step was cancelled");
    }
    const auto collected = [=](const std::string& error, std::vector<Split> splits) {
      // What comes after an op must not run on a thread that receives.
      tensorflow::Env::Default()->SchedClosure([=, splits = std::move(splits)]() mutable {
        if (manager != nullptr) manager->DeregisterCallback(token);
        context->SetStatus(error.empty() ? Give(context, std::move(splits)) : address_.Error(error));
        done();
      });
    };
    group->Collect(address_.tag, step, collected, patience_);
  }

 private:
  absl::Status Give(OpKernelContext* context, std::vector<Split> splits) const {
    const int64_t row_bytes = row_.num_elements() * tensorflow::DataTypeSize(type_);
    for (int rank = 0; rank < ranks_; ++rank) {
      Split& split = splits[rank];
      if (split.type != type_ || !HasRowsOf(split, row_bytes)) {
        return absl::InvalidArgumentError("rank " + std::to_string(rank) + " sent " + std::to_string(split.bytes) +
                                          " bytes for " + std::to_string(split.rows) + " rows of " +
                                          DataTypeString(static_cast<DataType>(split.type)) + ", and '" +
                                          address_.tag + "' has rows of " + DataTypeString(type_) + " and shape " +
                                          row_.DebugString() + ": run the same program on all");
      }
      TensorShape shape;
      TF_RETURN_IF_ERROR(shape.AddDimWithStatus(split.rows));
      TF_RETURN_IF_ERROR(shape.AppendShapeWithStatus(row_));
      context->set_output(rank, split.bytes == 0
                                    ? Tensor(type_, shape)
                                    : Tensor(type_, shape,
                                             tensorflow::core::RefCountPtr<tensorflow::TensorBuffer>(
                                                 new SplitBuffer(std::move(split)))));
    }
    return absl::OkStatus();
  }

  const Address address_;
  TensorShape row_;
  DataType type_ = tensorflow::DT_INVALID;
  int ranks_ = 0;
  std::chrono::milliseconds patience_{};
};

REGISTER_KERNEL_BUILDER(Name("TfwaveNextStep").Device(tensorflow::DEVICE_CPU), NextStepOp);
REGISTER_KERNEL_BUILDER(Name("TfwaveScatter").Device(tensorflow::DEVICE_CPU), ScatterOp);
REGISTER_KERNEL_BUILDER(Name("TfwaveCollect").Device(tensorflow::DEVICE_CPU), CollectOp);

}  // namespace
}  // namespace tfwave
