// One rank's connection to another: whole frames go out and come in.
#ifndef TFWAVE_NATIVE_SPLIT_LINK_H_
#define TFWAVE_NATIVE_SPLIT_LINK_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/sync.h"

namespace tfwave {

// Rows on their way: bytes that `holder` keeps alive.
struct Split {
  int type = 0;
  int64_t rows = 0;
  int64_t bytes = 0;
  const char* data = nullptr;
  std::shared_ptr<const void> holder;
};

// A copy of bytes, at an address that Eigen takes; of null it is room for them.
Split HeldSplit(int type, int64_t rows, int64_t bytes, const char* data);

// Whether the bytes are as many rows of so many bytes as it says: another rank's word.
bool HasRowsOf(const Split& split, int64_t row_bytes);

struct Frame {
  bool farewell = false;  // the last: `tag` says why, in a byte or more
  int64_t step = 0;
  std::string tag;
  Split split;
};

// Owns a connected socket. One thread sends, one receives, any one shuts it.
class SplitLink {
 public:
  static constexpr size_t kLongestTag = 4096;

  SplitLink(int socket, std::chrono::nanoseconds patience) : socket_(socket), patience_(patience) {}
  ~SplitLink();
  SplitLink(const SplitLink&) = delete;

  // Whether it went out whole; no, if the other took nothing for the patience, or is gone.
  bool Send(const Frame& frame);
  // Nothing: the connection ended, or what came is no frame.
  std::optional<Frame> Receive();
  // From now on a send ends if nothing is taken for so long.
  void Hurry(std::chrono::nanoseconds patience) { patience_ = patience; }
  void EndSending();
  void Shut();
  // When bytes came last; the epoch if none ever did.
  Clock::time_point heard() const { return heard_; }

 private:
  bool SendAll(const char* data, int64_t bytes, bool more);
  bool ReceiveAll(char* data, int64_t bytes);

  const int socket_;
  std::atomic<std::chrono::nanoseconds> patience_;
  std::atomic<Clock::time_point> heard_{Clock::time_point{}};
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_SPLIT_LINK_H_
