#ifndef TFWAVE_NATIVE_WATCHED_TENSOR_H_
#define TFWAVE_NATIVE_WATCHED_TENSOR_H_

#include "order/receipt.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfwave {

// The same tensor in the same memory, in a buffer that keeps the receipt as long as somebody refers to it: gRPC does
// until the bytes are in the socket, unless they are so few that they are copied at once.
tensorflow::Tensor Watched(const tensorflow::Tensor& tensor, Receipt receipt);

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_WATCHED_TENSOR_H_
