#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sequencer_test.h"
#include "shallow_sockets.h"

namespace tfwave {
namespace {

int UnsentBytes(int descriptor) {
  int unsent = -1;
  socklen_t size = sizeof unsent;
  CHECK(getsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, &size) == 0);
  return unsent;
}

}  // namespace

void TestShallowSockets() {
  const int tcp = socket(AF_INET, SOCK_STREAM, 0);
  const int other = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(tcp >= 0 && other >= 0);
  CHECK(UnsentBytes(tcp) != ShallowSockets::kUnsentBytes);
  ShallowSockets sockets;
  sockets.Tend();
  CHECK(UnsentBytes(tcp) == ShallowSockets::kUnsentBytes);
  const int later = socket(AF_INET6, SOCK_STREAM, 0);
  if (later >= 0) {
    WaitUntil([&] { return sockets.Tend(), UnsentBytes(later) == ShallowSockets::kUnsentBytes; });
    close(later);
  }
  close(tcp);
  close(other);
}

}  // namespace tfwave
