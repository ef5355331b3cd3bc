#ifndef TFWAVE_NATIVE_RECEIPT_H_
#define TFWAVE_NATIVE_RECEIPT_H_

#include <functional>
#include <memory>

namespace tfwave {

// Goes with a tensor that leaves: as long as a copy of it is there, the tensor's bytes are in flight. Its end may
// come in any thread, under any lock of others. Empty where nobody counts.
using Receipt = std::shared_ptr<const void>;

// Lets a tensor leave.
using Go = std::function<void(Receipt)>;

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_RECEIPT_H_
