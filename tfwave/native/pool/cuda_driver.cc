#include "pool/cuda_driver.h"

#include <dlfcn.h>

namespace tfwave {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

template <typename Function>
void Look(void* library, const char* name, Function** function, std::string* error) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  if (*function == nullptr && error->empty()) *error = std::string(kLibrary) + " has no " + name + ": update the driver";
}

struct Loaded {
  CudaDriver driver;
  std::string error;
};

Loaded Load() {
  Loaded loaded = {};
  void* const library = dlopen(kLibrary, RTLD_NOW);  // never closed: TensorFlow has it, too
  if (library == nullptr) {
    loaded.error = std::string("CUDA's driver does not load: ") + dlerror();
    return loaded;
  }
  CudaDriver& driver = loaded.driver;
  std::string* const error = &loaded.error;
  Look(library, "cuGetErrorString", &driver.get_error_string, error);
  Look(library, "cuStreamGetCtx", &driver.stream_get_context, error);
  Look(library, "cuCtxPushCurrent_v2", &driver.push_context, error);
  Look(library, "cuCtxPopCurrent_v2", &driver.pop_context, error);
  Look(library, "cuStreamCreate", &driver.stream_create, error);
  Look(library, "cuEventCreate", &driver.event_create, error);
  Look(library, "cuEventRecord", &driver.event_record, error);
  Look(library, "cuEventSynchronize", &driver.event_synchronize, error);
  Look(library, "cuEventDestroy_v2", &driver.event_destroy, error);
  Look(library, "cuMemcpyDtoHAsync_v2", &driver.copy_to_host, error);
  Look(library, "cuMemcpyHtoDAsync_v2", &driver.copy_to_gpu, error);
  Look(library, "cuMemHostRegister_v2", &driver.host_register, error);
  Look(library, "cuMemHostUnregister", &driver.host_unregister, error);
  return loaded;
}

}  // namespace

const CudaDriver* CudaDriver::Get(std::string* error) {
  static const Loaded* const loaded = new Loaded(Load());
  *error = loaded->error;
  return error->empty() ? &loaded->driver : nullptr;
}

}  // namespace tfwave
