// Where TensorFlow meets the hook: the completion of RecvLocalAsync is the moment at which a tensor goes to gRPC.
#include "process/rendezvous.h"

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "process/logged_rendezvous.h"
#include "process/process.h"
#include "order/receipt.h"
#include "process/rendezvous_key.h"
#include "base/sync.h"
#include "tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/distributed_runtime/server_lib.h"
#include "tensorflow/core/distributed_runtime/worker_env.h"
#include "process/watched_tensor.h"

namespace tfwave {
namespace {

using tensorflow::Rendezvous;
using tensorflow::RendezvousMgrInterface;
using tensorflow::Tensor;

// A finished RecvLocalAsync that has not been told yet to the one who asked.
class Completion {
 public:
  Completion(const Rendezvous::Args& send, const Rendezvous::Args& recv, const Tensor& tensor, bool dead,
             Rendezvous::DoneCallback done)
      : send_(send), recv_(recv), tensor_(tensor), dead_(dead), done_(std::move(done)) {
    if (send_.device_context) send_.device_context->Ref();
    if (recv_.device_context) recv_.device_context->Ref();
  }
  ~Completion() {
    if (send_.device_context) send_.device_context->Unref();
    if (recv_.device_context) recv_.device_context->Unref();
  }
  Completion(const Completion&) = delete;

  void Tell(const Receipt& receipt) const {
    done_(absl::OkStatus(), send_, recv_, receipt && CanBeWatched() ? Watched(tensor_, receipt) : tensor_, dead_);
  }

 private:
  // What is not sent from where it lies is copied by TensorFlow: that it lets go of it says nothing of the link.
  bool CanBeWatched() const {
    const bool on_host = send_.device_context == nullptr || send_.alloc_attrs.on_host();
    return on_host && !dead_ && tensor_.TotalBytes() > 0 && tensorflow::DataTypeCanUseMemcpy(tensor_.dtype());
  }

  const Rendezvous::Args send_;
  const Rendezvous::Args recv_;
  const Tensor tensor_;
  const bool dead_;
  const Rendezvous::DoneCallback done_;
};

std::string_view View(absl::string_view text) { return {text.data(), text.size()}; }

void HandOver(int64_t step, const Rendezvous::ParsedKey& key, int64_t bytes, bool dead,
              std::shared_ptr<const Completion> completion) {
  auto leave = [bytes, completion = std::move(completion)](const Receipt& receipt) {
    if (receipt) process().sockets.Tend();  // it goes by priority
    process().pacer.Submit(bytes, [completion, receipt] { completion->Tell(receipt); });
  };
  if (IsInWhileLoop(View(key.FullKey()))) return leave(nullptr);
  process().sequencer.Arrive(
      {step, View(key.src_device), View(key.dst_device), std::string(View(key.edge_name)), bytes, dead},
      std::move(leave));
}

class OrderedRendezvousMgr : public RendezvousMgrInterface {
 public:
  explicit OrderedRendezvousMgr(RendezvousMgrInterface* base) : base_(base) {}
  ~OrderedRendezvousMgr() override;

  tsl::core::RefCountPtr<tensorflow::RemoteRendezvous> Find(int64_t step) override {
    auto found = base_->Find(step);
    return process().arrivals.active() ? LogArrivals(step, std::move(found)) : std::move(found);
  }

  void RecvLocalAsync(int64_t step, const Rendezvous::ParsedKey& key, Rendezvous::DoneCallback done) override {
    if (!process().sequencer.Orders(View(key.src_device), View(key.dst_device)) && !process().pacer.active()) {
      return base_->RecvLocalAsync(step, key, std::move(done));
    }
    base_->RecvLocalAsync(
        step, key,
        [step, key, done = std::move(done)](const absl::Status& status, const Rendezvous::Args& send,
                                            const Rendezvous::Args& recv, const Tensor& tensor, bool dead) {
          if (!status.ok()) return done(status, send, recv, tensor, dead);
          const int64_t bytes = dead ? 0 : tensor.TotalBytes();
          HandOver(step, key, bytes, dead, std::make_shared<const Completion>(send, recv, tensor, dead, done));
        });
  }

  absl::Status RecvLocal(int64_t step, const Rendezvous::ParsedKey& key, Tensor* value, bool* dead) override {
    return base_->RecvLocal(step, key, value, dead);
  }

  void Cleanup(int64_t step) override {
    process().sequencer.Release(step);
    base_->Cleanup(step);
  }

  void CleanupAll() override {
    process().sequencer.ReleaseAll();
    base_->CleanupAll();
  }

 private:
  const std::unique_ptr<RendezvousMgrInterface> base_;
};

Mutex wrapped_mu;

std::set<const RendezvousMgrInterface*>& Wrapped() {
  static auto* const wrapped = new std::set<const RendezvousMgrInterface*>;
  return *wrapped;
}

OrderedRendezvousMgr::~OrderedRendezvousMgr() {
  std::lock_guard<Mutex> lock(wrapped_mu);
  Wrapped().erase(this);
}

// The target ends with the port: "grpc://localhost:2222".
void AddPortOf(const tensorflow::ServerInterface& server) {
  const std::string target = server.target();
  process().sockets.AddPort(std::atoi(target.c_str() + target.rfind(':') + 1));
}

}  // namespace

// TensorFlow's threads read the pointer while it changes, without a lock and as a plain pointer: strictly a data race,
// which cannot be mended from here. In practice there is none: an aligned pointer is read whole on all machines that
// TensorFlow runs on, and what it points to is complete before the pointer is stored. A call under way goes on with
// the stock manager, which the new one keeps as long as the server lives.
void WrapServer(tensorflow::ServerInterface* server) {
  std::lock_guard<Mutex> lock(wrapped_mu);
  tensorflow::WorkerEnv* env = server->worker_env();
  if (Wrapped().count(env->rendezvous_mgr) != 0) return;
  AddPortOf(*server);
  auto* const ordered = new OrderedRendezvousMgr(env->rendezvous_mgr);
  Wrapped().insert(ordered);
  __atomic_store_n(&env->rendezvous_mgr, static_cast<RendezvousMgrInterface*>(ordered), __ATOMIC_RELEASE);
}

}  // namespace tfwave
