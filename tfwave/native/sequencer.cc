#include "sequencer.h"

#include <chrono>
#include <utility>

namespace tfwave {

Sequencer::~Sequencer() {
  Install(nullptr);
  {
    Lock lock(mu_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (monitor_.joinable()) monitor_.join();
}

void Sequencer::Install(std::shared_ptr<const Plan> plan) {
  Lock lock(mu_);
  plan_ = std::move(plan);
  planned_ = plan_ != nullptr;
  if (plan_) log_->BeginPlan(++generation_);
  for (auto& [id, graph] : graphs_) {
    graph.order = plan_ ? std::make_shared<GraphOrder>(*plan_, graph.edges) : nullptr;
  }
  ReleaseSteps(lock, AllSteps());
}

void Sequencer::SetEnabled(bool enabled) {
  Lock lock(mu_);
  enabled_ = enabled;
  if (!enabled) ReleaseSteps(lock, AllSteps());
}

void Sequencer::SetDeadline(double seconds) {
  Lock lock(mu_);
  deadline_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  wake_.notify_all();
}

int64_t Sequencer::AddGraph(std::vector<GraphEdge> edges) {
  Lock lock(mu_);
  Graph& graph = graphs_[++last_graph_];
  graph.edges = std::move(edges);
  if (plan_) graph.order = std::make_shared<GraphOrder>(*plan_, graph.edges);
  return last_graph_;
}

void Sequencer::DropGraph(int64_t graph) {
  Lock lock(mu_);
  graphs_.erase(graph);
}

void Sequencer::StartStep(int64_t step_id, int64_t graph) {
  Lock lock(mu_);
  if (!plan_ || !enabled_) return released_.Add(step_id);  // what leaves before the hook is on cannot be counted
  if (released_.Has(step_id) || graphs_.count(graph) == 0) return;
  const std::shared_ptr<Step> step = FindOrCreateStep(step_id);
  const std::shared_ptr<Run> run = GraphRun(step, graph);
  const std::vector<std::function<void()>> unplanned = ClaimEarly(step.get(), run.get());
  EraseIfIdle(step.get());
  for (auto& [channel, queue] : run->queues) Drain(lock, run, &queue);
  lock.unlock();
  for (const auto& go : unplanned) go();
}

bool Sequencer::Orders(std::string_view source, std::string_view destination) const {
  if (!installed()) return false;
  Lock lock(mu_);
  return plan_ && plan_->ChannelOf(source, destination) != Plan::kNone;
}

void Sequencer::Arrive(const Arrival& arrival, std::function<void()> go) {
  Lock lock(mu_);
  const int channel = plan_ ? plan_->ChannelOf(arrival.source, arrival.destination) : Plan::kNone;
  if (channel == Plan::kNone) return lock.unlock(), go();
  const int plan_rank = plan_->RankOf(channel, arrival.edge);
  const Transfer transfer{arrival.step, channel, plan_rank, arrival.bytes};
  Verdict verdict = Judge(arrival, channel, plan_rank);
  if (verdict.kind == Verdict::kQueue) {
    Queue* queue = &verdict.run->queues[channel];
    return Hold(lock, verdict.run, queue, verdict.rank, {transfer, arrival.edge, std::move(go)});
  }
  if (verdict.kind == Verdict::kAwaitStart) {
    const std::shared_ptr<Run> early = EarlyRun(arrival.step);
    Queue* queue = &early->queues[Run::kAllChannels];
    return Hold(lock, early, queue, transfer.EarlyRank(), {transfer, arrival.edge, std::move(go)});
  }
  const bool logged = verdict.kind == Verdict::kLate || verdict.kind == Verdict::kOff;
  if (verdict.kind == Verdict::kLate) ++totals_.late;
  if (verdict.kind == Verdict::kPass && arrival.bytes > 0) ++totals_.unplanned;
  const int64_t generation = generation_;
  lock.unlock();
  if (logged) Log(transfer, verdict.kind == Verdict::kLate ? Reason::kLate : Reason::kOff, generation);
  go();
}

// Case 1: the plan does not speak of it: pass.
// Case 2: the hook is off: pass; the rest of the step can no longer be counted.
// Case 3: its step was released: late.
// Case 4: a graph that the step runs has the edge: that decides.
// Case 5: see JudgeByRegisteredGraphs.
// What carries nothing, unless an untaken branch made it so, is not a planned transfer.
Sequencer::Verdict Sequencer::Judge(const Arrival& arrival, int channel, int plan_rank) {
  const bool empty = arrival.bytes == 0 && !arrival.dead;
  if (plan_rank == Plan::kNone) return {Verdict::kPass};
  if (!enabled_) {
    released_.Add(arrival.step);
    return {empty ? Verdict::kPass : Verdict::kOff};
  }
  if (released_.Has(arrival.step)) return {empty ? Verdict::kPass : Verdict::kLate};
  const auto step = steps_.find(arrival.step);
  if (step == steps_.end()) return JudgeByRegisteredGraphs(arrival, channel, plan_rank);
  for (const auto& [graph, run] : step->second->runs) {
    int rank = Plan::kNone;
    if (!run->order || !run->order->Find(channel, arrival.edge, &rank)) continue;
    if (rank == Plan::kNone) return {Verdict::kPass};
    return {Verdict::kQueue, run, rank};
  }
  return JudgeByRegisteredGraphs(arrival, channel, plan_rank);
}

// Case 5.1: a graph has the edge and has had its turn in this step: late.
// Case 5.2: some graph orders the edge: wait until the step says which graph it runs.
// Case 5.3: graphs have the edge, and none orders it: pass.
// Case 5.4: no graph has it (it was registered before this library came): the whole plan counts.
Sequencer::Verdict Sequencer::JudgeByRegisteredGraphs(const Arrival& arrival, int channel, int plan_rank) {
  const bool empty = arrival.bytes == 0 && !arrival.dead;
  bool known = false;
  bool ordered = false;
  for (const auto& [id, graph] : graphs_) {
    int rank = Plan::kNone;
    if (!graph.order->Find(channel, arrival.edge, &rank)) continue;
    if (finished_.Has({arrival.step, id})) {
      return {rank == Plan::kNone || empty ? Verdict::kPass : Verdict::kLate};
    }
    known = true;
    ordered |= rank != Plan::kNone;
  }
  if (ordered) return {Verdict::kAwaitStart};
  if (known || empty) return {Verdict::kPass};
  if (arrival.dead && !plan_->NamesExactly(channel, arrival.edge)) return {Verdict::kPass};
  return {Verdict::kQueue, WholePlanRun(arrival.step, channel), plan_rank};
}

void Sequencer::Release(int64_t step_id) {
  Lock lock(mu_);
  const auto step = steps_.find(step_id);
  if (step != steps_.end()) ReleaseSteps(lock, {step->second});
}

void Sequencer::ReleaseAll() {
  Lock lock(mu_);
  ReleaseSteps(lock, AllSteps());
}

Counters Sequencer::counters() const {
  Lock lock(mu_);
  Counters now = totals_;
  now.live_steps = static_cast<int64_t>(steps_.size());
  return now;
}

bool Sequencer::enabled() const {
  Lock lock(mu_);
  return enabled_;
}

double Sequencer::deadline_seconds() const {
  Lock lock(mu_);
  return std::chrono::duration<double>(deadline_).count();
}

}  // namespace tfwave
