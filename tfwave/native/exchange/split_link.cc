#include "exchange/split_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace tfwave {
namespace {

constexpr uint32_t kMagic = 0x54465741;
constexpr int64_t kAlignment = 64;
constexpr int64_t kMostBytes = int64_t{1} << 40;
constexpr int64_t kPieceBytes = 1 << 20;  // so much a receive waits for at most, to tell that it comes
constexpr int kLookMillis = 50;  // so often a send looks whether it is to hurry

struct Head {  // as it lies in memory: all ranks are of one kind of machine
  uint32_t magic = kMagic;
  uint32_t farewell = 0;
  uint32_t tag_bytes = 0;
  int32_t type = 0;
  int64_t step = 0;
  int64_t rows = 0;
  int64_t bytes = 0;
};

bool IsSound(const Head& head) {
  const bool says_why = head.farewell == 0 || head.tag_bytes > 0;  // a group that has ended has a reason
  return head.magic == kMagic && head.tag_bytes <= SplitLink::kLongestTag && says_why && head.rows >= 0 &&
         head.bytes >= 0 && head.bytes <= kMostBytes;
}

}  // namespace

Split HeldSplit(int type, int64_t rows, int64_t bytes, const char* data) {
  if (bytes == 0) return {type, rows, 0, nullptr, nullptr};
  const int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  char* const memory = static_cast<char*>(std::aligned_alloc(kAlignment, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  std::shared_ptr<const void> holder(memory, [](void* held) { std::free(held); });
  if (data != nullptr) std::memcpy(memory, data, bytes);
  return {type, rows, bytes, memory, std::move(holder)};
}

bool HasRowsOf(const Split& split, int64_t row_bytes) {
  if (row_bytes == 0) return split.bytes == 0;
  return split.bytes % row_bytes == 0 && split.bytes / row_bytes == split.rows;
}

SplitLink::~SplitLink() { close(socket_); }

bool SplitLink::Send(const Frame& frame) {
  Head head;
  head.farewell = frame.farewell;
  head.tag_bytes = static_cast<uint32_t>(frame.tag.size());
  head.type = frame.split.type;
  head.step = frame.step;
  head.rows = frame.split.rows;
  head.bytes = frame.split.bytes;
  std::string begin(reinterpret_cast<const char*>(&head), sizeof(head));
  begin += frame.tag;
  return SendAll(begin.data(), begin.size(), head.bytes > 0) && SendAll(frame.split.data, head.bytes, false);
}

std::optional<Frame> SplitLink::Receive() {
  Head head;
  if (!ReceiveAll(reinterpret_cast<char*>(&head), sizeof(head)) || !IsSound(head)) return std::nullopt;
  Frame frame{head.farewell != 0, head.step, std::string(head.tag_bytes, '\0'), {}};
  if (!ReceiveAll(&frame.tag[0], head.tag_bytes)) return std::nullopt;
  try {
    frame.split = HeldSplit(head.type, head.rows, head.bytes, nullptr);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
  if (!ReceiveAll(const_cast<char*>(frame.split.data), head.bytes)) return std::nullopt;
  return frame;
}

void SplitLink::EndSending() { shutdown(socket_, SHUT_WR); }

void SplitLink::Shut() { shutdown(socket_, SHUT_RDWR); }

bool SplitLink::SendAll(const char* data, int64_t bytes, bool more) {
  const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
  Clock::time_point moved = Clock::now();
  while (bytes > 0) {
    const ssize_t sent = send(socket_, data, bytes, flags);
    if (sent > 0) {
      data += sent;
      bytes -= sent;
      moved = Clock::now();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (Clock::now() - moved >= patience_.load()) return false;
      pollfd wanted{socket_, POLLOUT, 0};
      poll(&wanted, 1, kLookMillis);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool SplitLink::ReceiveAll(char* data, int64_t bytes) {
  while (bytes > 0) {
    const ssize_t came = recv(socket_, data, std::min(bytes, kPieceBytes), MSG_WAITALL);
    if (came > 0) {
      heard_ = Clock::now();
      data += came;
      bytes -= came;
    } else if (came == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace tfwave
