// Which requests of the ledger may go, and in which order they are asked.
#include <algorithm>
#include <utility>

#include "pool/ledger.h"

namespace tfwave {

int64_t Ledger::Job::Held() const {
  if (group == kJoin) return 0;
  return running ? footprint.During(group) : footprint.Before(group);
}

int64_t Ledger::Enqueue(Lock& lock, const std::string& name, Job* job, int group, Answered answered) {
  const int64_t number = ++last_number_;
  const auto request = waiting_.insert({number, {name, job, group, Clock::now(), nullptr}}).first;
  std::vector<Answer> answers;
  Settle(&answers);
  const bool waits = waiting_.count(number) != 0;
  if (waits) {
    request->second.answered = std::move(answered);
    ++counters_.waited;
    if (watch_sleeps_) wake_.notify_all();
  }
  Deliver(lock, &answers);
  return waits ? number : 0;
}

// Each start may make room for another: a group that frees more than it takes, or an older request out of the way.
void Ledger::Settle(std::vector<Answer>* answers) {
  for (auto next = NextToStart(); next != waiting_.end(); next = NextToStart()) {
    if (next->second.group != kJoin) ++counters_.admitted;
    Take(next, Verdict::kGo, answers);
  }
}

// Starts the first that may: by priority, then in order of arrival.
Ledger::Requests::iterator Ledger::NextToStart() {
  std::vector<Requests::iterator> asked;
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) asked.push_back(it);
  std::stable_sort(asked.begin(), asked.end(), [](const auto& a, const auto& b) {
    return a->second.job->priority > b->second.job->priority;
  });
  const auto may = [this](const auto& it) {
    const Request& request = it->second;
    return !IsBehind(request, it->first) && !IsKeptApart(request) && TryStart(request.job, request.group);
  };
  const auto found = std::find_if(asked.begin(), asked.end(), may);
  return found == asked.end() ? waiting_.end() : *found;
}

// Case 1: within a step nothing is behind another: what it holds comes free only when it goes on.
// Case 2: a new step, or job, is behind each older request of no lower priority; a job that starts step after step
//         would else keep them waiting.
// Case 3: of a lower priority: only once that has waited for half of the deadline.
bool Ledger::IsBehind(const Request& request, int64_t number) const {
  if (request.IsMidStep()) return false;
  const auto late = Clock::now() - wait_ / 2;
  return std::any_of(waiting_.begin(), waiting_.lower_bound(number), [&](const auto& older) {
    const Request& other = older.second;
    return other.job->priority >= request.job->priority || other.since < late;
  });
}

// Does a job run with which this one takes turns? One of a lower priority is in nobody's way.
bool Ledger::IsKeptApart(const Request& request) const {
  if (request.group == kJoin) return false;
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    const Job& other = entry.second;
    return other.running && other.priority >= request.job->priority && turns_.count({request.name, entry.first}) != 0;
  });
}

bool Ledger::TryStart(Job* job, int group) {
  const int group_before = job->group;
  job->group = std::max(0, group);
  job->running = group != kJoin;
  if (IsSafe()) return true;
  job->group = group_before;
  job->running = false;
  return false;
}

// Is there room for what runs, and can all begun steps be finished once the running groups have ended?
bool Ledger::IsSafe() const {
  int64_t now = 0, others = 0, running = 0;
  std::vector<BegunStep> begun;
  for (const auto& [name, job] : jobs_) {
    now += job.Held();
    running += job.running;
    if (job.IsMidStep()) {
      const int next = job.NextGroup();
      begun.push_back({job.footprint.Before(next), job.footprint.NeedFrom(next), job.footprint.After()});
    } else {
      others += job.Held();
    }
  }
  return now <= (running > 1 ? rooms_.shared : rooms_.alone) && CanFinish(std::move(begun), others, rooms_.alone);
}

void Ledger::Take(Requests::iterator request, Verdict verdict, std::vector<Answer>* answers) {
  if (request->second.answered) {
    const auto waited = Clock::now() - request->second.since;
    const int64_t nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(waited).count();
    counters_.waited_nanos += nanos;
    counters_.longest_nanos = std::max(counters_.longest_nanos, nanos);
    waited_nanos_[request->second.name] += nanos;
    answers->push_back({std::move(request->second.answered), verdict});
  }
  waiting_.erase(request);
}

void Ledger::TakeAllOf(const Job& job, Verdict verdict, std::vector<Answer>* answers) {
  const auto of_job = [&](const auto& entry) { return entry.second.job == &job; };
  for (auto it = waiting_.begin(); (it = std::find_if(it, waiting_.end(), of_job)) != waiting_.end();) {
    Take(it++, verdict, answers);
  }
}

void Ledger::Deliver(Lock& lock, std::vector<Answer>* answers) {
  lock.unlock();
  for (Answer& answer : *answers) answer.answered(answer.verdict);
}

}  // namespace tfwave
