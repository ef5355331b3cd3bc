// The ledger's clock: no request waits for longer than the deadline.
#include <utility>

#include "pool/ledger.h"

namespace tfwave {

void Ledger::WatchDeadlines() {
  Lock lock(mu_);
  while (!stopping_) {
    watch_sleeps_ = waiting_.empty();
    if (watch_sleeps_) {
      wake_.wait(lock);
      continue;
    }
    const auto due = waiting_.begin()->second.since + wait_;
    if (Clock::now() < due) {
      wake_.wait_until(lock, due);
      continue;
    }
    std::vector<Answer> answers;
    ReleaseExpired(&answers);
    Settle(&answers);
    Deliver(lock, &answers);
    lock.lock();
  }
}

void Ledger::ReleaseExpired(std::vector<Answer>* answers) {
  const auto expired = Clock::now() - wait_;
  while (!waiting_.empty() && waiting_.begin()->second.since <= expired) {
    const auto oldest = waiting_.begin();
    Request& request = oldest->second;
    Note(request);
    request.job->group = std::max(0, request.group);
    request.job->running = request.group != kJoin;
    ++counters_.released;
    Take(oldest, Verdict::kGo, answers);
  }
}

void Ledger::Note(const Request& request) {
  const Footprint& footprint = request.job->footprint;
  const bool joins = request.group == kJoin;
  const int64_t needed = joins ? footprint.Before(0) : footprint.During(request.group) - request.job->Held();
  const double seconds = std::chrono::duration<double>(Clock::now() - request.since).count();
  std::string text = joins ? "the job '" + request.name + "'"
                           : "group " + std::to_string(request.group) + " of the job '" + request.name + "'";
  text += " waited " + std::to_string(seconds) + " s for " + std::to_string(needed) + " bytes and was let through:";
  for (const auto& [name, job] : jobs_) {
    if (job.group == kJoin) continue;
    text += " '" + name + "' holds " + std::to_string(job.Held()) + " bytes";
    text += job.running        ? " and runs group " + std::to_string(job.group) + ","
            : job.IsMidStep() ? " before group " + std::to_string(job.group) + ","
                              : " between steps,";
  }
  text.back() = ';';
  text += " the pool has " + std::to_string(rooms_.alone) + " bytes";
  messages_.push_back(std::move(text));
  if (messages_.size() > kMessages) messages_.pop_front();
}

}  // namespace tfwave
