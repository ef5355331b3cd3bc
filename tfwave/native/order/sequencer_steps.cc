// The sequencer's live steps: how they begin, what they take over, how they end.
#include "order/sequencer.h"

#include <algorithm>
#include <utility>

namespace tfwave {

void Sequencer::StartStep(int64_t step_id, int64_t graph) {
  Lock lock(mu_);
  if (graphs_.count(graph) == 0) return;
  History& history = history_.At(step_id);
  auto& started = history.started;
  if (std::find(started.begin(), started.end(), graph) != started.end()) return;  // it counts once
  started.push_back(graph);
  history.released |= !plans_ || !enabled_;  // what leaves before the hook is on cannot be counted
  if (history.released) return;
  const std::shared_ptr<Step> step = FindOrCreateStep(step_id);
  const std::shared_ptr<Run> run = GraphRun(step, graph);
  const std::vector<Go> leaving = ClaimEarly(step.get(), run.get());
  EraseIfIdle(step.get());
  for (auto& [channel, queue] : run->queues) Drain(lock, run, &queue);
  lock.unlock();
  for (const Go& go : leaving) go(nullptr);
}

std::shared_ptr<Step> Sequencer::FindOrCreateStep(int64_t id) {
  std::shared_ptr<Step>& step = steps_[id];
  if (step) return step;
  step = std::make_shared<Step>();
  step->id = id;
  step->generation = generation_;
  step->last = Clock::now();
  if (monitor_sleeps_) wake_.notify_all();
  return step;
}

std::shared_ptr<Run> Sequencer::WholePlanRun(int64_t step_id, int channel) {
  const std::shared_ptr<Step> step = FindOrCreateStep(step_id);
  std::shared_ptr<Run>& run = step->runs[Run::kWholePlan];
  if (!run) {
    run = std::make_shared<Run>();
    run->step = step;
  }
  const auto [queue, is_new] = run->queues.try_emplace(channel);
  if (is_new) {
    queue->second.size = plans_->SizeOf(channel);
    ++run->incomplete;
  }
  return run;
}

std::shared_ptr<Run> Sequencer::EarlyRun(int64_t step_id) {
  const std::shared_ptr<Step> step = FindOrCreateStep(step_id);
  if (step->early) return step->early;
  step->early = std::make_shared<Run>();
  step->early->step = step;
  step->early->queues[Run::kAllChannels].next = Queue::kNever;
  return step->early;
}

std::shared_ptr<Run> Sequencer::GraphRun(const std::shared_ptr<Step>& step, int64_t graph) {
  auto run = std::make_shared<Run>();
  run->step = step;
  run->graph = graph;
  run->order = graphs_[graph].order;
  for (const auto& [channel, size] : run->order->sizes()) run->queues[channel].size = size;
  run->incomplete = static_cast<int>(run->queues.size());
  if (run->incomplete > 0) step->runs[graph] = run;
  return run;
}

// Moves what came before the start to its queues in `run`; returns what turns out to have no counter: it is not
// ordered, or goes by priority.
std::vector<Go> Sequencer::ClaimEarly(Step* step, Run* run) {
  std::vector<Go> leaving;
  if (!step->early) return leaving;
  auto& early = step->early->queues[Run::kAllChannels].held;
  for (auto it = early.begin(); it != early.end();) {
    Held& held = it->second;
    const Place* place = run->order->Find(held.pair, held.edge);
    if (place == nullptr) {
      ++it;
      continue;
    }
    held.transfer.channel = place->channel;
    held.transfer.plan_rank = place->plan_rank;
    if (place->IsOrdered() && !GoesByPriority(*place)) {
      run->queues[place->channel].held.emplace(place->rank, std::move(held));
    } else {
      --totals_.held;
      leaving.push_back(WithoutCounter(*place, std::move(held)));
    }
    it = early.erase(it);
  }
  return leaving;
}

Go Sequencer::WithoutCounter(const Place& place, Held held) {
  const bool empty = held.transfer.bytes == 0;
  if (place.IsOrdered() && !empty) {
    return [this, transfer = held.transfer, generation = generation_, go = std::move(held.go)](const Receipt&) {
      priority_.Push(transfer, generation, go);
    };
  }
  if (!empty) ++totals_.unplanned;
  return std::move(held.go);
}

void Sequencer::EraseIfIdle(Step* step) {
  if (!step->runs.empty() || step->HoldsAnything()) return;
  step->early.reset();
  steps_.erase(step->id);
}

void Sequencer::ReleaseSteps(Lock& lock, const std::vector<std::shared_ptr<Step>>& steps) {
  std::vector<std::shared_ptr<Run>> runs;
  for (const std::shared_ptr<Step>& step : steps) {
    steps_.erase(step->id);
    history_.At(step->id).released = true;
    if (step->early) runs.push_back(std::move(step->early));
    for (auto& [graph, run] : step->runs) runs.push_back(run);
    step->runs.clear();
    step->early.reset();
  }
  for (const auto& run : runs) {
    for (auto& [channel, queue] : run->queues) queue.released = true;
  }
  for (const auto& run : runs) {
    for (auto& [channel, queue] : run->queues) Drain(lock, run, &queue);
  }
}

std::vector<std::shared_ptr<Step>> Sequencer::AllSteps() const {
  std::vector<std::shared_ptr<Step>> all;
  for (const auto& [id, step] : steps_) all.push_back(step);
  return all;
}

}  // namespace tfwave
