#include "shallow_sockets.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>

#include "monotonic.h"

namespace tfwave {
namespace {

constexpr int64_t kPauseNanos = 1'000'000'000;

void Limit(int descriptor) {
  int protocol = 0;
  socklen_t size = sizeof protocol;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0 || protocol != IPPROTO_TCP) return;
  const int unsent = ShallowSockets::kUnsentBytes;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

}  // namespace

void ShallowSockets::Tend() {
  const int64_t now = MonotonicNanos();
  int64_t due = due_nanos_.load(std::memory_order_relaxed);
  if (now < due || !due_nanos_.compare_exchange_strong(due, now + kPauseNanos)) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir("/proc/self/fd"), &closedir);
  if (!open) return;
  while (const dirent* entry = readdir(open.get())) {
    char* end = nullptr;
    const long descriptor = std::strtol(entry->d_name, &end, 10);
    if (*end == '\0') Limit(static_cast<int>(descriptor));
  }
}

}  // namespace tfwave
