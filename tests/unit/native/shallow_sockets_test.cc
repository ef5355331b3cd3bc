#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sequencer_test.h"
#include "order/shallow_sockets.h"

namespace tfwave {
namespace {

constexpr int kLimited = ShallowSockets::kUnsentBytes;

int UnsentBytes(int descriptor) {
  int unsent = -1;
  socklen_t size = sizeof unsent;
  CHECK(getsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, &size) == 0);
  return unsent;
}

// A port on loopback, and both ends of the connections to it.
class Listener {
 public:
  Listener() : listening_(socket(AF_INET, SOCK_STREAM, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    CHECK(bind(listening_, Address(), size) == 0 && listen(listening_, 8) == 0);
    CHECK(getsockname(listening_, Address(), &size) == 0);
  }
  ~Listener() {
    for (const int descriptor : connected_) close(descriptor);
    close(listening_);
  }

  int port() const { return ntohs(address_.sin_port); }
  int listening() const { return listening_; }
  int Connect() {
    connected_.push_back(socket(AF_INET, SOCK_STREAM, 0));
    CHECK(connect(connected_.back(), Address(), sizeof address_) == 0);
    return connected_.back();
  }
  int Accept() {
    connected_.push_back(accept(listening_, nullptr, nullptr));
    CHECK(connected_.back() >= 0);
    return connected_.back();
  }

 private:
  sockaddr* Address() { return reinterpret_cast<sockaddr*>(&address_); }

  const int listening_;
  sockaddr_in address_ = {};
  std::vector<int> connected_;
};

void OnlyConnectionsToAServerAreLimited() {
  Listener server, other;
  const int untouched[] = {server.Connect(), other.Connect(), other.Accept(), server.listening(), other.listening()};
  const int sends = server.Accept();
  ShallowSockets sockets;
  sockets.AddPort(server.port());
  sockets.Tend();
  CHECK(UnsentBytes(sends) != kLimited);
  sockets.SetActive(true);
  sockets.Tend();
  CHECK(UnsentBytes(sends) == kLimited);
  server.Connect();
  const int later = server.Accept();
  CHECK(UnsentBytes(later) != kLimited);
  WaitUntil([&] { return sockets.Tend(), UnsentBytes(later) == kLimited; });
  for (const int descriptor : untouched) CHECK(UnsentBytes(descriptor) != kLimited);
}

void EachGetsBackWhatItHad() {
  Listener server;
  const int had[] = {0, 1 << 20, kLimited, 0};
  int sends[4];
  for (int i = 0; i < 4; ++i) {
    server.Connect();
    sends[i] = server.Accept();
    CHECK(setsockopt(sends[i], IPPROTO_TCP, TCP_NOTSENT_LOWAT, &had[i], sizeof had[i]) == 0);
  }
  ShallowSockets sockets;
  sockets.AddPort(server.port());
  for (int round = 0; round < 2; ++round) {
    sockets.SetActive(true);
    sockets.Tend();
    for (const int descriptor : sends) CHECK(UnsentBytes(descriptor) == kLimited);
    const int client = server.Connect(), another = server.Accept();
    CHECK(setsockopt(client, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kLimited, sizeof kLimited) == 0);
    CHECK(dup2(client, sends[3]) == sends[3]);  // its number stands for another socket now
    sockets.SetActive(false);
    for (int i = 0; i < 3; ++i) CHECK(UnsentBytes(sends[i]) == had[i]);
    CHECK(UnsentBytes(sends[3]) == kLimited);
    CHECK(dup2(another, sends[3]) == sends[3]);
    sockets.Tend();
    CHECK(UnsentBytes(sends[0]) == had[0]);
  }
}

}  // namespace

void TestShallowSockets() {
  OnlyConnectionsToAServerAreLimited();
  EachGetsBackWhatItHad();
}

}  // namespace tfwave
