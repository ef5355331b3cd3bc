// Who holds what of one memory pool: jobs' steps ask, group by group, whether they may go on. Like a banker, it lets a
// group start only if there is room for it, and if all begun steps can still be finished. Knows nothing of TensorFlow.
#ifndef TFWAVE_NATIVE_LEDGER_H_
#define TFWAVE_NATIVE_LEDGER_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pool/footprint.h"
#include "base/sync.h"

namespace tfwave {

struct LedgerRooms {
  int64_t alone;   // bytes that may be held while at most one group runs
  int64_t shared;  // while several do
};

enum class Verdict { kGo, kCancelled };
using Answered = std::function<void(Verdict)>;

struct LedgerCounters {
  int64_t admitted = 0;       // groups, by the rules
  int64_t waited = 0;         // requests that had to
  int64_t waited_nanos = 0;   // of those that are answered
  int64_t longest_nanos = 0;  // the longest of them
  int64_t released = 0;       // let through at the deadline
};

struct LedgerEntry {
  bool known;
  int64_t group;  // that runs; -1: none
  int64_t held;
  int64_t waited_nanos;  // since the ledger was opened; a job that is removed keeps them
};

// Thread-safe. No callback runs under a lock; callbacks may call back, and each is called once. Functions with an
// `error` set it, and change nothing, if they refuse.
class Ledger {
 public:
  static constexpr int kJoin = -1;  // a job's first request: for what is resident
  static constexpr size_t kMessages = 100;

  Ledger() = default;
  ~Ledger();  // closes
  Ledger(const Ledger&) = delete;

  // Throws where the system has no more threads.
  void Open(const LedgerRooms& rooms, double wait_seconds, std::string* error);
  // Forgets all jobs; what waits goes.
  void Close();

  // The job counts from its answer on. 0 if that is now; else the request's number, and `answered` is called later.
  int64_t Add(const std::string& name, Footprint footprint, int64_t priority, Answered answered, std::string* error);
  // What waits of the job goes, and whatever it asks for later.
  void Remove(const std::string& name);
  // Two jobs, there or not, take turns: no group of one starts beside one of the other, but for that of the higher
  // priority.
  void TakeTurns(const std::string& one, const std::string& other);

  // The number of the step.
  int64_t BeginStep(const std::string& name, std::string* error);
  // The job is between steps; what waits of it is cancelled. Nothing if that is no longer the job's step.
  void EndStep(const std::string& name, int64_t step);

  // The groups before this one are done: may it start? 0 if it may now, or if the job is not known; else the
  // request's number, and `answered` is called later.
  int64_t Ask(const std::string& name, int group, Answered answered, std::string* error);
  void Cancel(int64_t request);

  LedgerCounters counters() const;
  std::vector<LedgerEntry> Entries(const std::vector<std::string>& names) const;
  std::vector<std::string> messages() const;  // of the last kMessages releases

 private:
  using Lock = std::unique_lock<Mutex>;

  struct Job {
    Footprint footprint;
    int64_t priority = 0;
    int64_t step = 0;   // 0: between steps
    int group = kJoin;  // that runs or is next
    bool running = false;

    bool IsMidStep() const { return group > 0 || running; }
    int64_t Held() const;
    int NextGroup() const { return group + running; }
  };
  struct Request {
    std::string name;
    Job* job;
    int group;
    Clock::time_point since;
    Answered answered;

    bool IsMidStep() const { return group > 0; }
  };
  struct Answer {
    Answered answered;
    Verdict verdict;
  };
  using Requests = std::map<int64_t, Request>;  // by number: in order of arrival

  std::string Refusal(const std::string& name, const Job& job, int group) const;
  std::string JoinRefusal(const std::string& name, const Footprint& footprint) const;
  int64_t Enqueue(Lock& lock, const std::string& name, Job* job, int group, Answered answered);
  void Settle(std::vector<Answer>* answers);
  Requests::iterator NextToStart();
  bool IsBehind(const Request& request, int64_t number) const;
  bool IsKeptApart(const Request& request) const;
  bool TryStart(Job* job, int group);
  bool IsSafe() const;
  void Take(Requests::iterator request, Verdict verdict, std::vector<Answer>* answers);
  void TakeAllOf(const Job& job, Verdict verdict, std::vector<Answer>* answers);
  static void Deliver(Lock& lock, std::vector<Answer>* answers);

  void WatchDeadlines();
  void ReleaseExpired(std::vector<Answer>* answers);
  void Note(const Request& request);

  mutable Mutex mu_;
  Condition wake_;
  bool open_ = false;
  LedgerRooms rooms_ = {0, 0};
  Clock::duration wait_ = Clock::duration::zero();
  std::map<std::string, Job> jobs_;
  std::set<std::pair<std::string, std::string>> turns_;  // each pair both ways
  Requests waiting_;
  int64_t last_number_ = 0;  // of requests and steps
  LedgerCounters counters_;
  std::map<std::string, int64_t> waited_nanos_;  // by job
  std::deque<std::string> messages_;
  bool watch_sleeps_ = false;
  bool stopping_ = false;
  Thread watch_;  // started when it is first opened: TensorFlow, which asks, takes no exception
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_LEDGER_H_
