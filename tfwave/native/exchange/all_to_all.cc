#include "exchange/all_to_all.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <sstream>

namespace tfwave {
namespace {

constexpr std::chrono::seconds kGrace{1};  // so long a rank that ends waits for others that take nothing, or do not end

std::string Seconds(std::chrono::nanoseconds time) {
  std::ostringstream text;
  text << std::chrono::duration<double>(time).count() << " s";
  return text.str();
}

std::string Rank(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

AllToAll::AllToAll(int rank, const std::vector<int>& sockets, std::chrono::nanoseconds deadline)
    : rank_(rank), deadline_(deadline) {
  const int ranks = static_cast<int>(sockets.size());
  for (int other = 0; other < ranks; ++other) {
    links_.push_back(other == rank ? nullptr : std::make_unique<SplitLink>(sockets[other], deadline));
    outboxes_.push_back(std::make_unique<Outbox>());
  }
  hearing_ = ranks - 1;
  try {
    Start();
  } catch (...) {
    Leave();  // the threads that there are
    throw;
  }
}

AllToAll::~AllToAll() { Leave(); }

// Throws if the system has no more threads.
void AllToAll::Start() {
  for (int distance = 1; distance < ranks(); ++distance) {
    const int other = (rank_ + distance) % ranks();
    senders_.emplace_back([this, other] { SendTo(other); });
    receivers_.emplace_back([this, other] { ReceiveFrom(other); });
  }
  watch_ = Thread([this] { Watch(); });
}

int64_t AllToAll::NextStep(const std::string& tag) {
  std::lock_guard<Mutex> lock(mu_);
  return steps_[tag]++;
}

std::string AllToAll::Scatter(const std::string& tag, int64_t step, int to, Split split) {
  if (to < 0 || to >= ranks()) return Rank(to) + " is none of " + std::to_string(ranks());
  if (tag.size() > SplitLink::kLongestTag) return "a tag of " + std::to_string(tag.size()) + " bytes is too long";
  if (to == rank_) {
    try {
      Arrived(rank_, {false, step, tag, HeldSplit(split.type, split.rows, split.bytes, split.data)});
    } catch (const std::bad_alloc&) {
      Abort("no memory for its own split of " + std::to_string(split.bytes) + " bytes");
    }
    return failure();
  }
  std::lock_guard<Mutex> lock(mu_);
  if (!failure_.empty()) return failure_;
  outboxes_[to]->frames.push_back({false, step, tag, std::move(split)});
  outboxes_[to]->changed.notify_one();
  return "";
}

void AllToAll::Collect(const std::string& tag, int64_t step, Done done, std::chrono::nanoseconds patience) {
  Ended ended;
  std::string refusal;
  {
    std::lock_guard<Mutex> lock(mu_);
    refusal = failure_;
    if (refusal.empty()) {
      Meeting& meeting = MeetingOf({tag, step});
      if (meeting.done != nullptr) {
        refusal = "step " + std::to_string(step) + " of '" + tag + "' is collected twice";
      } else {
        meeting.done = done;
        meeting.patience = std::max(deadline_, patience);
        meeting.due = Clock::now() + meeting.patience;
        TakeIfWhole(meetings_.find({tag, step}), &ended);
        watched_.notify_all();
      }
    }
  }
  if (!refusal.empty()) done(refusal, {});
  for (auto& [whose, splits] : ended) whose("", std::move(splits));
}

void AllToAll::Abort(const std::string& why) { Fail(Rank(rank_) + ": " + why); }

void AllToAll::Leave() {
  Fail(Rank(rank_) + " has left");
  {
    std::lock_guard<Mutex> lock(mu_);
    if (joined_) return;
    joined_ = true;
  }
  for (Thread& sender : senders_) sender.join();
  {
    std::unique_lock<Mutex> lock(mu_);
    const Clock::time_point end = Clock::now() + kGrace;
    while (hearing_ > 0 && Clock::now() < end) heard_.wait_until(lock, end);
  }
  for (const auto& link : links_) {
    if (link != nullptr) link->Shut();
  }
  for (Thread& receiver : receivers_) receiver.join();
  if (watch_.joinable()) watch_.join();
}

std::string AllToAll::failure() const {
  std::lock_guard<Mutex> lock(mu_);
  return failure_;
}

AllToAll::Meeting& AllToAll::MeetingOf(const Key& key) {
  Meeting& meeting = meetings_[key];
  if (meeting.came.empty()) {
    meeting.came.resize(ranks());
    meeting.missing = ranks();
  }
  return meeting;
}

void AllToAll::TakeIfWhole(std::map<Key, Meeting>::iterator found, Ended* ended) {
  Meeting& meeting = found->second;
  if (meeting.missing > 0 || meeting.done == nullptr) return;
  std::vector<Split> splits;
  for (std::optional<Split>& split : meeting.came) splits.push_back(std::move(*split));
  ended->emplace_back(std::move(meeting.done), std::move(splits));
  meetings_.erase(found);
}

void AllToAll::Arrived(int from, Frame frame) {
  Ended ended;
  bool twice = false;
  const Key key{frame.tag, frame.step};
  {
    std::lock_guard<Mutex> lock(mu_);
    if (!failure_.empty()) return;
    Meeting& meeting = MeetingOf(key);
    std::optional<Split>& place = meeting.came[from];
    twice = place.has_value();
    if (!twice) {
      place = std::move(frame.split);
      --meeting.missing;
      TakeIfWhole(meetings_.find(key), &ended);
    }
  }
  if (twice) Fail(Rank(from) + " sent two splits of step " + std::to_string(key.second) + " of '" + key.first + "'");
  for (auto& [whose, splits] : ended) whose("", std::move(splits));
}

void AllToAll::Fail(const std::string& why) {
  std::map<Key, Meeting> open;
  {
    std::lock_guard<Mutex> lock(mu_);
    if (!failure_.empty()) return;
    failure_ = why;
    open.swap(meetings_);
    for (size_t other = 0; other < links_.size(); ++other) {
      if (links_[other] != nullptr) links_[other]->Hurry(std::min<std::chrono::nanoseconds>(kGrace, deadline_));
      outboxes_[other]->changed.notify_all();
    }
    watched_.notify_all();
  }
  for (auto& [key, meeting] : open) {
    if (meeting.done != nullptr) meeting.done(why, {});
  }
}

// What was scattered before the group ended goes out, then why it has ended.
void AllToAll::SendTo(int rank) {
  Outbox& outbox = *outboxes_[rank];
  SplitLink& link = *links_[rank];
  bool taken = true;
  while (taken) {
    Frame next;
    {
      std::unique_lock<Mutex> lock(mu_);
      outbox.changed.wait(lock, [&] { return !failure_.empty() || !outbox.frames.empty(); });
      if (outbox.frames.empty()) {
        next.farewell = true;
        next.tag = failure_.substr(0, SplitLink::kLongestTag);
      } else {
        next = std::move(outbox.frames.front());
        outbox.frames.pop_front();
      }
    }
    taken = link.Send(next);
    if (taken && next.farewell) break;
  }
  if (!taken) Fail(Rank(rank) + " is gone, or took nothing for " + Seconds(deadline_));
  link.EndSending();
  std::deque<Frame> left;  // what cannot go holds no memory
  std::lock_guard<Mutex> lock(mu_);
  left.swap(outbox.frames);
}

void AllToAll::ReceiveFrom(int rank) {
  SplitLink& link = *links_[rank];
  std::optional<Frame> frame;
  while ((frame = link.Receive()) && !frame->farewell) Arrived(rank, std::move(*frame));
  Fail(frame ? frame->tag : Rank(rank) + " is gone: its connection has ended");
  std::lock_guard<Mutex> lock(mu_);
  --hearing_;
  heard_.notify_all();
}

void AllToAll::Watch() {
  std::unique_lock<Mutex> lock(mu_);
  while (failure_.empty()) {
    const auto first = std::min_element(meetings_.begin(), meetings_.end(), [](const auto& one, const auto& other) {
      return one.second.due < other.second.due;
    });
    if (first == meetings_.end() || first->second.done == nullptr) {
      watched_.wait(lock);
    } else if (Clock::now() < first->second.due) {
      const Clock::time_point due = first->second.due;
      watched_.wait_until(lock, due);
    } else if (const Clock::time_point due = SilentSince(first->second) + deadline_; Clock::now() < due) {
      first->second.due = due;
    } else {
      const std::string why = Overdue(first->first, first->second);
      lock.unlock();
      Fail(why);
      lock.lock();
    }
  }
}

// A rank that still sends is waited for, however long what it sends is.
Clock::time_point AllToAll::SilentSince(const Meeting& meeting) const {
  Clock::time_point since = Clock::time_point::max() - deadline_;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (meeting.came[rank]) continue;
    since = std::min(since, links_[rank] == nullptr ? Clock::time_point{} : links_[rank]->heard());
  }
  return since;
}

std::string AllToAll::Overdue(const Key& key, const Meeting& meeting) const {
  std::string who;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (!meeting.came[rank]) who += (who.empty() ? "" : ", ") + Rank(rank);
  }
  return who + " sent nothing of step " + std::to_string(key.second) + " of '" + key.first + "' for " +
         Seconds(meeting.patience);
}

}  // namespace tfwave
