// The server protocol "grpc+tfwave": the stock "grpc" server, wrapped.
#include <memory>

#include "process/rendezvous.h"
#include "tensorflow/core/distributed_runtime/server_lib.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tfwave {
namespace {

constexpr char kProtocol[] = "grpc+tfwave";

class OrderedServerFactory : public tensorflow::ServerFactory {
 public:
  bool AcceptsOptions(const tensorflow::ServerDef& server_def) override {
    return server_def.protocol() == kProtocol;
  }

  absl::Status NewServer(const tensorflow::ServerDef& server_def, const Options& options,
                         std::unique_ptr<tensorflow::ServerInterface>* server) override {
    tensorflow::ServerDef stock_def = server_def;
    stock_def.set_protocol("grpc");
    tensorflow::ServerFactory* stock = nullptr;
    TF_RETURN_IF_ERROR(tensorflow::ServerFactory::GetFactory(stock_def, &stock));
    TF_RETURN_IF_ERROR(stock->NewServer(stock_def, options, server));
    WrapServer(server->get());
    return absl::OkStatus();
  }
};

const bool registered = [] {
  tensorflow::ServerFactory::Register("TFWAVE_GRPC_SERVER", new OrderedServerFactory);
  return true;
}();

}  // namespace
}  // namespace tfwave
