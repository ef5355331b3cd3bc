#include "pool/gpu_mover.h"

#include <map>
#include <mutex>
#include <utility>

#include "base/sync.h"
#include "pool/cuda_driver.h"

namespace tfwave {
namespace {

// A GPU's context, for this thread, while it lives; what the thread had before comes back.
class Current {
 public:
  Current(const CudaDriver& driver, CuContext context)
      : driver_(driver), error_(driver.Error("cuCtxPushCurrent", driver.push_context(context))) {}
  ~Current() {
    CuContext context = nullptr;
    if (error_.empty()) driver_.pop_context(&context);
  }
  Current(const Current&) = delete;

  const std::string& error() const { return error_; }

 private:
  const CudaDriver& driver_;
  const std::string error_;
};

// A moment on a stream; who waits for it sleeps. Its context is current while it is used.
class Moment {
 public:
  explicit Moment(const CudaDriver& driver) : driver_(driver) {}
  Moment(const Moment&) = delete;

  // Behind all that the stream was given.
  std::string Record(CuStream stream) {
    std::string error;
    if (event_ == nullptr) {
      error = driver_.Error("cuEventCreate", driver_.event_create(&event_, kEventBlockingSync | kEventDisableTiming));
    }
    return error.empty() ? driver_.Error("cuEventRecord", driver_.event_record(event_, stream)) : error;
  }
  std::string Await() { return driver_.Error("cuEventSynchronize", driver_.event_synchronize(event_)); }
  void Forget() {
    if (event_ != nullptr) driver_.event_destroy(event_);
  }

 private:
  const CudaDriver& driver_;
  CuEvent event_ = nullptr;
};

// The streams for copies, by context and direction; made once, never destroyed.
class CopyStreams {
 public:
  CuStream Of(const CudaDriver& driver, CuContext context, Direction direction, std::string* error) {
    std::lock_guard<Mutex> lock(mu_);
    CuStream& stream = streams_[{context, direction}];
    if (stream == nullptr) *error = driver.Error("cuStreamCreate", driver.stream_create(&stream, kStreamNonBlocking));
    return stream;
  }

 private:
  Mutex mu_;
  std::map<std::pair<CuContext, Direction>, CuStream> streams_;
};

CopyStreams& copy_streams() {
  static CopyStreams* const streams = new CopyStreams;
  return *streams;
}

CuContext ContextOf(const CudaDriver& driver, CuStream stream, std::string* error) {
  CuContext context = nullptr;
  *error = driver.Error("cuStreamGetCtx", driver.stream_get_context(stream, &context));
  return context;
}

class OnStream : public Mover {
 public:
  OnStream(const CudaDriver& driver, CuContext context, Direction direction)
      : driver_(driver), context_(context), direction_(direction), given_(driver), copied_(driver) {}
  ~OnStream() override {
    const Current current(driver_, context_);
    given_.Forget();
    copied_.Forget();
  }

  // Behind all that a stream was given until now.
  std::string Begin(CuStream computing) {
    const Current current(driver_, context_);
    return current.error().empty() ? given_.Record(computing) : current.error();
  }

  void Await() override {
    const Current current(driver_, context_);
    error_ = current.error().empty() ? given_.Await() : current.error();
  }

  std::string Move(void* to, const void* from, size_t bytes) override {
    if (!error_.empty()) return error_;
    const Current current(driver_, context_);
    std::string error = current.error();
    if (!error.empty()) return error;
    const CuStream stream = copy_streams().Of(driver_, context_, direction_, &error);
    if (error.empty()) error = Copy(to, from, bytes, stream);
    if (error.empty()) error = copied_.Record(stream);
    return error.empty() ? copied_.Await() : error;
  }

 private:
  std::string Copy(void* to, const void* from, size_t bytes, CuStream stream) const {
    if (direction_ == Direction::kToHost) {
      return driver_.Error("cuMemcpyDtoHAsync",
                           driver_.copy_to_host(to, reinterpret_cast<CuDevicePointer>(from), bytes, stream));
    }
    return driver_.Error("cuMemcpyHtoDAsync",
                         driver_.copy_to_gpu(reinterpret_cast<CuDevicePointer>(to), from, bytes, stream));
  }

  const CudaDriver& driver_;
  const CuContext context_;
  const Direction direction_;
  Moment given_, copied_;
  std::string error_;
};

class Pinned : public Pinner {
 public:
  Pinned(const CudaDriver& driver, CuContext context) : driver_(driver), context_(context) {}

  std::string Pin(void* memory, size_t bytes) override {
    const Current current(driver_, context_);
    if (!current.error().empty()) return current.error();
    return driver_.Error("cuMemHostRegister", driver_.host_register(memory, bytes, kHostRegisterPortable));
  }
  void Unpin(void* memory) override {
    const Current current(driver_, context_);
    driver_.host_unregister(memory);
  }

 private:
  const CudaDriver& driver_;
  const CuContext context_;
};

}  // namespace

std::unique_ptr<Mover> GpuMover(void* computing, Direction direction, std::string* error) {
  const CudaDriver* const driver = CudaDriver::Get(error);
  if (driver == nullptr) return nullptr;
  const auto stream = static_cast<CuStream>(computing);
  const CuContext context = ContextOf(*driver, stream, error);
  if (!error->empty()) return nullptr;
  auto mover = std::make_unique<OnStream>(*driver, context, direction);
  *error = mover->Begin(stream);
  return error->empty() ? std::move(mover) : nullptr;
}

std::unique_ptr<Pinner> GpuPinner(void* computing, std::string* error) {
  const CudaDriver* const driver = CudaDriver::Get(error);
  if (driver == nullptr) return nullptr;
  const CuContext context = ContextOf(*driver, static_cast<CuStream>(computing), error);
  return error->empty() ? std::make_unique<Pinned>(*driver, context) : nullptr;
}

}  // namespace tfwave
