#ifndef TFWAVE_NATIVE_LOGGED_RENDEZVOUS_H_
#define TFWAVE_NATIVE_LOGGED_RENDEZVOUS_H_

#include <cstdint>

#include "tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h"

namespace tfwave {

// A rendezvous that logs what arrives from other tasks, and leaves all else to `base`.
tsl::core::RefCountPtr<tensorflow::RemoteRendezvous> LogArrivals(
    int64_t step, tsl::core::RefCountPtr<tensorflow::RemoteRendezvous> base);

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_LOGGED_RENDEZVOUS_H_
