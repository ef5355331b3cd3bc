#ifndef TFWAVE_NATIVE_RENDEZVOUS_H_
#define TFWAVE_NATIVE_RENDEZVOUS_H_

namespace tensorflow {
class ServerInterface;
}

namespace tfwave {

// Puts the hook between the server's rendezvous and gRPC; does nothing if it is there already.
void WrapServer(tensorflow::ServerInterface* server);

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_RENDEZVOUS_H_
