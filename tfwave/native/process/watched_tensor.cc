#include "process/watched_tensor.h"

#include <utility>

#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/types.h"

namespace tfwave {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorBuffer;

class WatchedBuffer : public TensorBuffer {
 public:
  WatchedBuffer(const Tensor& tensor, Receipt receipt)
      : TensorBuffer(tensor.data()), receipt_(std::move(receipt)), tensor_(tensor) {}

  size_t size() const override { return base()->size(); }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* proto) const override {
    base()->FillAllocationDescription(proto);
  }
  bool GetAllocatedBytes(size_t* bytes) const override { return base()->GetAllocatedBytes(bytes); }
  bool OwnsMemory() const override { return base()->OwnsMemory(); }
  tensorflow::AllocatorMemoryType GetMemoryType() const override { return base()->GetMemoryType(); }

 private:
  const TensorBuffer* base() const { return tensorflow::DMAHelper::buffer(&tensor_); }

  const Receipt receipt_;  // ends after the tensor
  const Tensor tensor_;
};

}  // namespace

Tensor Watched(const Tensor& tensor, Receipt receipt) {
  auto* const buffer = new WatchedBuffer(tensor, std::move(receipt));
  Tensor watched(tensor.dtype(), tensor.shape(), buffer);
  buffer->Unref();
  return watched;
}

}  // namespace tfwave
