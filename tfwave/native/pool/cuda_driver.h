// What is used of CUDA's driver. Its functions are looked up when they are first wanted.
#ifndef TFWAVE_NATIVE_CUDA_DRIVER_H_
#define TFWAVE_NATIVE_CUDA_DRIVER_H_

#include <cstddef>
#include <string>

namespace tfwave {

// As in cuda.h.
using CuResult = int;  // 0: success
using CuContext = struct CuContextRecord*;
using CuStream = struct CuStreamRecord*;
using CuEvent = struct CuEventRecord*;
using CuDevicePointer = unsigned long long;

constexpr unsigned kStreamNonBlocking = 1;        // waits for no default stream
constexpr unsigned kEventBlockingSync = 1;        // who waits for it sleeps
constexpr unsigned kEventDisableTiming = 2;
constexpr unsigned kHostRegisterPortable = 1;     // for all contexts

struct CudaDriver {
  // Null with an error where there is no driver, or one without these functions.
  static const CudaDriver* Get(std::string* error);

  // What was wrong with a call, or "".
  std::string Error(const char* call, CuResult result) const {
    const char* why = nullptr;
    if (result == 0) return "";
    get_error_string(result, &why);
    return std::string(call) + " failed: " + (why == nullptr ? "error " + std::to_string(result) : why);
  }

  CuResult (*get_error_string)(CuResult, const char**);
  CuResult (*stream_get_context)(CuStream, CuContext*);
  CuResult (*push_context)(CuContext);
  CuResult (*pop_context)(CuContext*);
  CuResult (*stream_create)(CuStream*, unsigned flags);
  CuResult (*event_create)(CuEvent*, unsigned flags);
  CuResult (*event_record)(CuEvent, CuStream);
  CuResult (*event_synchronize)(CuEvent);
  CuResult (*event_destroy)(CuEvent);
  CuResult (*copy_to_host)(void* to, CuDevicePointer from, size_t bytes, CuStream);
  CuResult (*copy_to_gpu)(CuDevicePointer to, const void* from, size_t bytes, CuStream);
  CuResult (*host_register)(void* memory, size_t bytes, unsigned flags);
  CuResult (*host_unregister)(void* memory);
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_CUDA_DRIVER_H_
