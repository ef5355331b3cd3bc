#include "order/shallow_sockets.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "base/monotonic.h"

namespace tfwave {
namespace {

constexpr int64_t kPauseNanos = 1'000'000'000;

std::optional<int> Option(int descriptor, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  if (getsockopt(descriptor, level, name, &value, &size) != 0) return std::nullopt;
  return value;
}

void SetUnsent(int descriptor, int bytes) {
  setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

// The local port of a TCP connection, or 0.
int PortOf(int descriptor) {
  if (Option(descriptor, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP) return 0;
  if (Option(descriptor, SOL_SOCKET, SO_ACCEPTCONN) != 0) return 0;  // whoever connects would inherit it
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

ino_t SocketOf(int descriptor) {
  struct stat found {};
  return fstat(descriptor, &found) == 0 ? found.st_ino : 0;
}

}  // namespace

void ShallowSockets::AddPort(int port) {
  std::lock_guard<Mutex> lock(mu_);
  ports_.insert(port);
}

void ShallowSockets::SetActive(bool active) {
  std::lock_guard<Mutex> lock(mu_);
  active_ = active;
  due_nanos_ = 0;
  if (!active) GiveBack();
}

void ShallowSockets::Tend() {
  const int64_t now = MonotonicNanos();
  int64_t due = due_nanos_.load(std::memory_order_relaxed);
  if (now < due || !due_nanos_.compare_exchange_strong(due, now + kPauseNanos)) return;
  std::lock_guard<Mutex> lock(mu_);
  if (!active_) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir("/proc/self/fd"), &closedir);
  if (!open) return;
  while (const dirent* entry = readdir(open.get())) {
    char* end = nullptr;
    const long descriptor = std::strtol(entry->d_name, &end, 10);
    if (*end == '\0') Limit(static_cast<int>(descriptor));
  }
}

void ShallowSockets::Limit(int descriptor) {
  if (ports_.count(PortOf(descriptor)) == 0) return;
  const std::optional<int> before = Option(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT);
  if (!before || before == kUnsentBytes) return;
  limited_[descriptor] = {SocketOf(descriptor), *before};
  SetUnsent(descriptor, kUnsentBytes);
}

// A descriptor may stand for another socket by now.
void ShallowSockets::GiveBack() {
  for (const auto& [descriptor, before] : limited_) {
    const bool is_ours = SocketOf(descriptor) == before.socket;
    if (is_ours && Option(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT) == kUnsentBytes) {
      SetUnsent(descriptor, before.unsent_bytes);
    }
  }
  limited_.clear();
}

}  // namespace tfwave
