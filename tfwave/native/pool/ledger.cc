#include "pool/ledger.h"

#include <algorithm>
#include <utility>

namespace tfwave {

Ledger::~Ledger() {
  Close();
  {
    std::lock_guard<Mutex> lock(mu_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (watch_.joinable()) watch_.join();
}

void Ledger::Open(const LedgerRooms& rooms, double wait_seconds, std::string* error) {
  std::lock_guard<Mutex> lock(mu_);
  if (open_) {
    *error = "this process has a ledger already: add the jobs to it, or close it first";
    return;
  }
  if (!watch_.joinable()) watch_ = Thread(&Ledger::WatchDeadlines, this);
  open_ = true;
  rooms_ = rooms;
  wait_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait_seconds));
  counters_ = {};
  waited_nanos_.clear();
  messages_.clear();
}

void Ledger::Close() {
  Lock lock(mu_);
  std::vector<Answer> answers;
  while (!waiting_.empty()) Take(waiting_.begin(), Verdict::kGo, &answers);
  jobs_.clear();
  turns_.clear();
  open_ = false;
  wake_.notify_all();  // the next deadline may be sooner
  Deliver(lock, &answers);
}

int64_t Ledger::Add(const std::string& name, Footprint footprint, int64_t priority, Answered answered,
                    std::string* error) {
  Lock lock(mu_);
  *error = JoinRefusal(name, footprint);
  if (!error->empty()) return 0;
  Job& job = jobs_[name];
  job.footprint = std::move(footprint);
  job.priority = priority;
  return Enqueue(lock, name, &job, kJoin, std::move(answered));
}

std::string Ledger::JoinRefusal(const std::string& name, const Footprint& footprint) const {
  if (!open_) return "the ledger is closed: open one first";
  if (jobs_.count(name)) return "the ledger has a job '" + name + "' already: name the jobs apart";
  int64_t between_steps = footprint.Before(0);
  int64_t most_in_step = footprint.NeedFrom(0) - footprint.Before(0);
  for (const auto& [other, job] : jobs_) {
    between_steps += job.footprint.Before(0);
    most_in_step = std::max(most_in_step, job.footprint.NeedFrom(0) - job.footprint.Before(0));
  }
  if (between_steps + most_in_step <= rooms_.alone) return "";
  return "the job '" + name + "' does not fit: with it, all jobs between steps hold " + std::to_string(between_steps) +
         " bytes, and one of them alone takes " + std::to_string(most_in_step) + " more in its step, of " +
         std::to_string(rooms_.alone) + ": make the pool larger or a job smaller, or remove one first";
}

void Ledger::Remove(const std::string& name) {
  Lock lock(mu_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return;
  std::vector<Answer> answers;
  TakeAllOf(found->second, Verdict::kGo, &answers);
  jobs_.erase(found);
  Settle(&answers);
  Deliver(lock, &answers);
}

void Ledger::TakeTurns(const std::string& one, const std::string& other) {
  std::lock_guard<Mutex> lock(mu_);
  turns_.insert({one, other});
  turns_.insert({other, one});
}

int64_t Ledger::BeginStep(const std::string& name, std::string* error) {
  std::lock_guard<Mutex> lock(mu_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || found->second.group == kJoin) {
    *error = "the ledger has no job '" + name + "': add it first";
    return 0;
  }
  if (found->second.step != 0) {
    *error = "a step of the job '" + name + "' runs already: run one after the other, or add the other as a job";
    return 0;
  }
  return found->second.step = ++last_number_;
}

void Ledger::EndStep(const std::string& name, int64_t step) {
  Lock lock(mu_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || found->second.step != step) return;
  Job& job = found->second;
  std::vector<Answer> answers;
  TakeAllOf(job, Verdict::kCancelled, &answers);
  job.step = 0;
  job.group = 0;
  job.running = false;
  Settle(&answers);
  Deliver(lock, &answers);
}

int64_t Ledger::Ask(const std::string& name, int group, Answered answered, std::string* error) {
  Lock lock(mu_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return 0;
  Job& job = found->second;
  *error = Refusal(name, job, group);
  if (!error->empty()) return 0;
  job.group = group;
  job.running = false;
  return Enqueue(lock, name, &job, group, std::move(answered));
}

std::string Ledger::Refusal(const std::string& name, const Job& job, int group) const {
  const std::string what = "group " + std::to_string(group) + " of the job '" + name + "'";
  if (group < 0 || group >= job.footprint.groups()) {
    return what + ": the ledger knows " + std::to_string(job.footprint.groups()) + " groups of it: add it as it is cut";
  }
  if (job.step == 0) return what + " starts outside of the job's steps: run its graph inside Ledger.step";
  for (const auto& [number, request] : waiting_) {
    if (request.job == &job) return what + " starts beside another of it: groups of a job run one after the other";
  }
  return "";
}

void Ledger::Cancel(int64_t request) {
  Lock lock(mu_);
  const auto found = waiting_.find(request);
  if (found == waiting_.end()) return;
  std::vector<Answer> answers;
  Take(found, Verdict::kCancelled, &answers);
  Settle(&answers);
  Deliver(lock, &answers);
}

LedgerCounters Ledger::counters() const {
  std::lock_guard<Mutex> lock(mu_);
  return counters_;
}

std::vector<LedgerEntry> Ledger::Entries(const std::vector<std::string>& names) const {
  std::lock_guard<Mutex> lock(mu_);
  std::vector<LedgerEntry> entries;
  for (const std::string& name : names) {
    const auto found = jobs_.find(name);
    const auto waited = waited_nanos_.find(name);
    const int64_t nanos = waited == waited_nanos_.end() ? 0 : waited->second;
    if (found == jobs_.end()) {
      entries.push_back({false, -1, 0, nanos});
    } else {
      const Job& job = found->second;
      entries.push_back({true, job.running ? job.group : -1, job.Held(), nanos});
    }
  }
  return entries;
}

std::vector<std::string> Ledger::messages() const {
  std::lock_guard<Mutex> lock(mu_);
  return {messages_.begin(), messages_.end()};
}

}  // namespace tfwave
