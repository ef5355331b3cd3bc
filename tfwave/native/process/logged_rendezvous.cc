#include "process/logged_rendezvous.h"

#include <string>
#include <utility>

#include "base/monotonic.h"
#include "process/process.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace tfwave {
namespace {

using tensorflow::RemoteRendezvous;
using tensorflow::Tensor;
using BasePtr = tsl::core::RefCountPtr<RemoteRendezvous>;

// Holds a reference to its base, which holds one to itself for each transfer under way; callbacks need no third.
class LoggedRendezvous : public RemoteRendezvous {
 public:
  LoggedRendezvous(int64_t step, BasePtr base) : step_(step), base_(std::move(base)) {}

  absl::Status Initialize(tensorflow::WorkerSession* session) override { return base_->Initialize(session); }
  void SetRemoteEagerContextDefault() override { base_->SetRemoteEagerContextDefault(); }
  bool IsRemoteEagerContextDefault() override { return base_->IsRemoteEagerContextDefault(); }
  void StartAbort(const absl::Status& status) override { base_->StartAbort(status); }
  absl::Status Send(const ParsedKey& key, const Args& args, const Tensor& value, const bool dead) override {
    return base_->Send(key, args, value, dead);
  }

  void RecvAsync(const ParsedKey& key, const Args& args, DoneCallback done) override {
    const bool remote = key.src.has_job && !tensorflow::DeviceNameUtils::IsSameAddressSpace(key.src, key.dst);
    base_->RecvAsync(key, args, remote && process().arrivals.active() ? Logged(key, std::move(done)) : std::move(done));
  }

 private:
  DoneCallback Logged(const ParsedKey& key, DoneCallback done) const {
    const int32_t transfer = process().arrivals.Number(
        {std::string(key.src_device), std::string(key.dst_device), std::string(key.edge_name)});
    return [step = step_, transfer, requested = MonotonicNanos(), done = std::move(done)](
               const absl::Status& status, const Args& send, const Args& recv, const Tensor& tensor, bool dead) {
      const int64_t bytes = dead ? 0 : tensor.TotalBytes();
      if (status.ok()) process().arrivals.Append(requested, step, bytes, transfer);
      done(status, send, recv, tensor, dead);
    };
  }

  const int64_t step_;
  const BasePtr base_;
};

}  // namespace

BasePtr LogArrivals(int64_t step, BasePtr base) { return BasePtr(new LoggedRendezvous(step, std::move(base))); }

}  // namespace tfwave
