// peers SEED ROUNDS [FRAMES...]: what other processes say to the native library, damaged as the seed draws, and files
// of frames that broke it once. All of it is taken, or refused; nothing is read that did not come, nothing is held.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../unit/native/check.h"
#include "exchange/all_to_all.h"
#include "order/hand_off_log.h"
#include "order/pacer.h"
#include "process/rendezvous_key.h"
#include "order/sequencer.h"
#include "exchange/split_link.h"
#include "order/table.h"

// A frame may speak of a terabyte: then there is no memory, as there would be none without a sanitizer.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1:max_allocation_size_mb=64"; }

namespace tfwave {
namespace {

constexpr size_t kAtOnce = 4096;  // a socket takes them at once
constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min(), kLargest = std::numeric_limits<int64_t>::max();
const std::vector<int64_t> kNumbers = {0,       1,       -1,        2,       3,     4,        8,     64,
                                       1 << 20, 1 << 30, 1LL << 32, 1LL << 40, 1LL << 62, kLargest - 1, kLargest, kSmallest};
const std::vector<std::string> kParts = {
    "", ";", "0:0", "7:3", "edge_", "edge_1_", "edge_1_a", "edge_2_b", "edge_99999999999999999999_a", "edge_x_a",
    "a", "ps", "w0", "/job:ps/replica:0/task:0/device:CPU:0", std::string(300, 'x'), std::string("a\0b", 3), "\xff"};

class Chance {
 public:
  explicit Chance(uint32_t seed) : random_(seed) {}
  size_t Below(size_t end) { return random_() % end; }
  bool Once(size_t in) { return Below(in) == 0; }
  template <typename T>
  const T& Of(const std::vector<T>& from) { return from[Below(from.size())]; }

 private:
  std::mt19937 random_;
};

std::pair<int, int> Connected() {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  return {ends[0], ends[1]};
}

void Write(int socket, const std::string& bytes) {
  CHECK(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

std::string ReadAll(int socket) {
  std::string found;
  char some[kAtOnce];
  for (ssize_t came; (came = recv(socket, some, sizeof some, 0)) > 0;) found.append(some, came);
  return found;
}

// Some frames as they go over the wire.
std::string Frames(Chance& chance) {
  const auto [from, to] = Connected();
  {
    SplitLink link(from, std::chrono::hours(1));
    for (size_t frames = 1 + chance.Below(3); frames > 0; --frames) {
      const int64_t bytes = 8 * static_cast<int64_t>(chance.Below(16));
      Frame frame{chance.Once(8), chance.Of(kNumbers), chance.Of(kParts), HeldSplit(1, bytes / 4, bytes, nullptr)};
      if (bytes > 0) std::memset(const_cast<char*>(frame.split.data), 'd', bytes);
      if (chance.Once(4)) frame.split.rows = chance.Of(kNumbers);
      CHECK(link.Send(frame));
    }
    link.EndSending();
    std::string found = ReadAll(to);
    close(to);
    return found;
  }
}

// Cut, flipped, repeated, or with any number in the place of another.
std::string Damaged(Chance& chance, std::string bytes) {
  for (size_t times = chance.Below(4); times > 0 && !bytes.empty(); --times) {
    const size_t at = chance.Below(bytes.size());
    const int64_t number = chance.Of(kNumbers);
    switch (chance.Below(5)) {
      case 0: bytes.resize(at); break;
      case 1: bytes[at] ^= 1 << chance.Below(8); break;
      case 2: bytes.erase(at, 1 + chance.Below(20)); break;
      case 3: bytes.insert(at, bytes.substr(at, 1 + chance.Below(20))); break;
      default:
        if (at / 8 * 8 + 8 <= bytes.size()) std::memcpy(&bytes[at / 8 * 8], &number, 8);
    }
  }
  bytes.resize(std::min(bytes.size(), kAtOnce));
  return bytes;
}

// Each frame that is taken has the bytes that it speaks of, and no more rows than that.
void CheckFrames(const std::string& bytes) {
  const auto [from, to] = Connected();
  Write(from, bytes);
  close(from);
  SplitLink link(to, std::chrono::hours(1));
  int64_t sum = 0;
  while (const std::optional<Frame> frame = link.Receive()) {
    CHECK(frame->tag.size() <= SplitLink::kLongestTag && frame->split.bytes >= 0 && frame->split.rows >= 0);
    const std::string copy(frame->split.data, frame->split.data + frame->split.bytes);
    sum += static_cast<int64_t>(copy.size() + frame->tag.size());
    for (const int64_t row_bytes : kNumbers) {
      if (row_bytes < 0 || !HasRowsOf(frame->split, row_bytes)) continue;
      CHECK(static_cast<__int128>(frame->split.rows) * row_bytes == frame->split.bytes);
    }
  }
  CHECK(sum <= static_cast<int64_t>(bytes.size()));
}

// A group whose other rank says anything, and leaves: what waits ends, with a reason.
void CheckGroup(const std::string& bytes) {
  const auto [ours, theirs] = Connected();
  AllToAll group(0, {-1, ours}, std::chrono::hours(1));
  Write(theirs, bytes);
  shutdown(theirs, SHUT_WR);
  std::promise<void> told;
  const std::string error = group.Scatter("edge_1_a", 1, 0, HeldSplit(1, 1, 4, "data"));
  group.Collect("edge_1_a", 1, [&](const std::string& why, std::vector<Split> splits) {
    CHECK(splits.size() == (why.empty() ? 2 : 0));
    told.set_value();
  });
  told.get_future().wait();
  group.Leave();
  CHECK(!group.failure().empty());
  CHECK(error.size() <= SplitLink::kLongestTag && group.failure().size() <= SplitLink::kLongestTag);
  close(theirs);
}

std::string Key(Chance& chance) {
  std::string key;
  for (size_t parts = chance.Below(6); parts > 0; --parts) key += chance.Of(kParts) + (parts > 1 ? ";" : "");
  return key;
}

void CheckKey(Chance& chance) {
  const std::string key = Key(chance), edge = chance.Of(kParts) + chance.Of(kParts);
  const size_t last = key.find_last_of(';');
  CHECK(IsInWhileLoop(key) == ((last == std::string::npos ? key : key.substr(last + 1)) != "0:0"));
  const std::string_view source = SourceOfEdge(edge);
  CHECK(source.size() <= edge.size() && edge.substr(edge.size() - source.size()) == source);
  CHECK(edge.empty() || !source.empty());
}

// Plans, graphs and tensors of any names: each tensor leaves once.
void CheckSequencer(Chance& chance) {
  HandOffLog log(64);
  std::vector<std::string> names;  // which tensors' ends point to
  for (int i = 0; i < 4; ++i) names.push_back(chance.Of(kParts));
  std::atomic<int> left{0};
  int arrived = 0;
  {
    Sequencer sequencer(&log);
    for (int change = 0; change < 4; ++change) {
      std::vector<PlanRow> rows;
      for (size_t i = chance.Below(6); i > 0; --i) {
        const int64_t number = chance.Once(4) ? chance.Of(kNumbers) : 0, window = chance.Once(4) ? chance.Of(kNumbers) : 0;
        rows.push_back({names[0], chance.Of(names), chance.Of(kParts), chance.Once(4) ? "f" : "", window, number});
      }
      std::string error;
      auto plans = Plans::Make({"", "f"}, rows, &error);
      CHECK((plans == nullptr) == !error.empty());
      if (plans) sequencer.Install(std::move(plans));
      std::vector<GraphEdge> edges;
      for (size_t i = chance.Below(6); i > 0; --i) edges.push_back({names[0], chance.Of(names), chance.Of(kParts), !chance.Once(4)});
      const int64_t graph = sequencer.AddGraph(chance.Once(2) ? "" : "f", std::move(edges));
      for (size_t i = chance.Below(20); i > 0; --i, ++arrived) {
        const int64_t step = chance.Of(kNumbers), bytes = std::max<int64_t>(0, chance.Of(kNumbers));
        if (chance.Once(3)) sequencer.StartStep(step, chance.Once(4) ? chance.Of(kNumbers) : graph);
        sequencer.Arrive({step, names[0], chance.Of(names), chance.Of(kParts), bytes, chance.Once(8)},
                         [&left](const Receipt&) { ++left; });
        if (chance.Once(8)) sequencer.Release(chance.Of(kNumbers));
      }
      HandOff read[8];
      int64_t cursor = chance.Of(kNumbers), lost = 0;
      const int64_t count = log.Read(&cursor, read, 8, &lost);
      CHECK(count >= 0 && count <= 8 && cursor >= 0 && lost >= 0);
    }
  }
  CHECK(left == arrived);
}

void CheckRates() {
  for (const int64_t bytes : kNumbers) {
    for (const double rate : {1.0, 1.5, 1e6, 1e18, std::numeric_limits<double>::max()}) {
      if (bytes < 0) continue;
      const auto time = TransmitTime(bytes, rate);
      CHECK(std::chrono::duration_cast<Clock::duration>(time).count() >= 0);
      CHECK((Clock::now() + std::chrono::duration_cast<Clock::duration>(time)) >= Clock::now() || bytes / rate < 1);
    }
  }
}

std::string ContentOf(const char* path) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace
}  // namespace tfwave

int main(int count, char** arguments) {
  CHECK(count >= 3);
  const uint32_t seed = std::strtoul(arguments[1], nullptr, 10);
  const int64_t rounds = std::atoll(arguments[2]);
  for (int i = 3; i < count; ++i) {
    tfwave::CheckFrames(tfwave::ContentOf(arguments[i]));
    tfwave::CheckGroup(tfwave::ContentOf(arguments[i]));
  }
  tfwave::CheckRates();
  for (int64_t round = 0; round < rounds; ++round) {
    tfwave::Chance chance(seed + static_cast<uint32_t>(round));
    const std::string frames = tfwave::Damaged(chance, tfwave::Frames(chance));
    tfwave::CheckFrames(frames);
    if (chance.Once(8)) tfwave::CheckGroup(frames);
    for (int i = 0; i < 8; ++i) tfwave::CheckKey(chance);
    tfwave::CheckSequencer(chance);
  }
  std::puts("all hold");
}
