// An asynchronous all-to-all among ranks: each scatters splits of any size as it has them, and collects a step's splits
// when all have come. No rank waits for another to take what it sends.
#ifndef TFWAVE_NATIVE_ALL_TO_ALL_H_
#define TFWAVE_NATIVE_ALL_TO_ALL_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exchange/split_link.h"
#include "base/sync.h"

namespace tfwave {

// Thread-safe. When one rank fails, is silent past the deadline or leaves, the group ends for all: each names the rank
// at fault. Then all that waits ends with an error, as does all that comes later.
class AllToAll {
 public:
  using Done = std::function<void(const std::string& error, std::vector<Split> splits)>;  // by rank

  // A connected, blocking socket to each other rank, which the group owns from now on; of the own one nothing is read.
  AllToAll(int rank, const std::vector<int>& sockets, std::chrono::nanoseconds deadline);
  ~AllToAll();  // leaves; not from one of its own threads
  AllToAll(const AllToAll&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(links_.size()); }

  // 0, 1, ... for each tag.
  int64_t NextStep(const std::string& tag);
  // Sends one rank's split, once for a tag and step; returns at once, with an error if the group has ended.
  std::string Scatter(const std::string& tag, int64_t step, int to, Split split);
  // Calls `done` once, from any thread, when all ranks' splits of a step are here, or with an error. What takes ranks
  // longer than a step, in which none hears of others, has a patience above the deadline.
  void Collect(const std::string& tag, int64_t step, Done done, std::chrono::nanoseconds patience = {});
  // Ends the group for all, as this rank cannot go on.
  void Abort(const std::string& why);
  // Ends it and all its threads, after what is on its way has gone, or within seconds.
  void Leave();
  // Why it has ended; empty while it has not.
  std::string failure() const;

 private:
  using Key = std::pair<std::string, int64_t>;  // tag, step
  struct Meeting {
    std::vector<std::optional<Split>> came;
    int missing = 0;
    Done done;  // null: nobody collects it yet
    std::chrono::nanoseconds patience{};
    Clock::time_point due = Clock::time_point::max();
  };
  struct Outbox {
    std::deque<Frame> frames;
    Condition changed;
  };
  using Ended = std::vector<std::pair<Done, std::vector<Split>>>;

  void Start();
  Meeting& MeetingOf(const Key& key);
  void TakeIfWhole(std::map<Key, Meeting>::iterator found, Ended* ended);
  void Arrived(int from, Frame frame);
  void Fail(const std::string& why);
  void SendTo(int rank);
  void ReceiveFrom(int rank);
  void Watch();
  Clock::time_point SilentSince(const Meeting& meeting) const;
  std::string Overdue(const Key& key, const Meeting& meeting) const;

  const int rank_;
  const std::chrono::nanoseconds deadline_;
  mutable Mutex mu_;
  std::string failure_;
  std::map<std::string, int64_t> steps_;
  std::map<Key, Meeting> meetings_;
  std::vector<std::unique_ptr<SplitLink>> links_;  // null: the own
  std::vector<std::unique_ptr<Outbox>> outboxes_;
  Condition watched_;  // a deadline is new, or the group has ended
  Condition heard_;    // of one more connection's end
  int hearing_ = 0;    // receivers at work
  bool joined_ = false;
  std::vector<Thread> senders_, receivers_;
  Thread watch_;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_ALL_TO_ALL_H_
