#include "order/sequencer.h"

#include <chrono>
#include <utility>

namespace tfwave {
namespace {

void LetGo(std::vector<Go> gone) {
  for (Go& go : gone) go(nullptr);
}

}  // namespace

Sequencer::~Sequencer() {
  Install(nullptr);
  {
    Lock lock(mu_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (monitor_.joinable()) monitor_.join();
}

// What may fail, for lack of threads or of memory, comes first.
void Sequencer::Install(std::shared_ptr<const Plans> plans) {
  Lock lock(mu_);
  if (plans && !monitor_.joinable()) monitor_ = Thread(&Sequencer::Monitor, this);
  if (plans && plans->UsesPriority()) priority_.Start();
  std::vector<OrderPtr> orders;
  EdgeIndex index;
  for (const auto& [id, graph] : graphs_) {
    orders.push_back(plans ? std::make_shared<GraphOrder>(*plans, graph.function, graph.edges) : nullptr);
    if (plans && graph.function.empty()) index.Add(id, *orders.back());
  }
  plans_ = std::move(plans);
  planned_ = plans_ != nullptr;
  if (plans_) log_->BeginPlan(++generation_);
  of_no_function_ = std::move(index);
  auto order = orders.begin();
  for (auto& [id, graph] : graphs_) graph.order = std::move(*order++);
  std::vector<Go> gone = priority_.Install(plans_.get(), generation_);
  ReleaseSteps(lock, AllSteps());
  lock.unlock();
  LetGo(std::move(gone));
}

void Sequencer::SetEnabled(bool enabled) {
  Lock lock(mu_);
  enabled_ = enabled;
  if (enabled) return;
  std::vector<Go> gone = priority_.ReleaseAll();
  ReleaseSteps(lock, AllSteps());
  lock.unlock();
  LetGo(std::move(gone));
}

void Sequencer::SetDeadline(double seconds) {
  Lock lock(mu_);
  deadline_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  priority_.SetDeadline(deadline_);
  wake_.notify_all();
}

int64_t Sequencer::AddGraph(std::string function, std::vector<GraphEdge> edges) {
  Lock lock(mu_);
  OrderPtr order = plans_ ? std::make_shared<GraphOrder>(*plans_, function, edges) : nullptr;
  const Graph& graph =
      graphs_.emplace(++last_graph_, Graph{std::move(function), std::move(edges), std::move(order)}).first->second;
  if (graph.order && graph.function.empty()) of_no_function_.Add(last_graph_, *graph.order);
  return last_graph_;
}

void Sequencer::DropGraph(int64_t id) {
  Lock lock(mu_);
  const auto graph = graphs_.find(id);
  if (graph == graphs_.end()) return;
  if (graph->second.order && graph->second.function.empty()) of_no_function_.Remove(id, *graph->second.order);
  graphs_.erase(graph);
}

bool Sequencer::Orders(std::string_view source, std::string_view destination) const {
  if (!installed()) return false;
  Lock lock(mu_);
  return plans_ && plans_->PairOf(source, destination) != Plans::kNone;
}

void Sequencer::Arrive(const Arrival& arrival, Go go) {
  Lock lock(mu_);
  const int pair = plans_ ? plans_->PairOf(arrival.source, arrival.destination) : Plans::kNone;
  if (pair == Plans::kNone) return lock.unlock(), go(nullptr);
  const Verdict verdict = Judge(arrival, pair);
  const Place& place = verdict.place;
  const Transfer transfer{arrival.step, place.channel, place.plan_rank, arrival.bytes};
  if (verdict.kind == Verdict::kQueue) {
    Queue* queue = &verdict.run->queues[place.channel];
    return Hold(lock, verdict.run, queue, place.rank, {transfer, pair, arrival.edge, std::move(go)});
  }
  if (verdict.kind == Verdict::kAwaitStart) {
    const std::shared_ptr<Run> early = EarlyRun(arrival.step);
    Queue* queue = &early->queues[Run::kAllChannels];
    return Hold(lock, early, queue, transfer.EarlyRank(), {transfer, pair, arrival.edge, std::move(go)});
  }
  const int64_t generation = generation_;
  if (verdict.kind == Verdict::kPriority) return lock.unlock(), priority_.Push(transfer, generation, std::move(go));
  const bool logged = verdict.kind == Verdict::kLate || verdict.kind == Verdict::kOff;
  if (verdict.kind == Verdict::kLate) ++totals_.late;
  if (verdict.kind == Verdict::kPass && arrival.bytes > 0) ++totals_.unplanned;
  lock.unlock();
  if (logged) Log(transfer, verdict.kind == Verdict::kLate ? Reason::kLate : Reason::kOff, generation);
  go(nullptr);
}

// Case 1: a graph that the step has started has the edge: see JudgeStarted.
// Case 2: a graph of no function has it, which the step may be about to start: see JudgeUnstarted.
// Case 3: no such graph has it (it is older than this library, or unmarked): see JudgeByWholePlan.
Sequencer::Verdict Sequencer::Judge(const Arrival& arrival, int pair) {
  const History* history = history_.Find(arrival.step);
  if (history == nullptr) return JudgeUnstarted(arrival, pair);
  for (const int64_t id : history->started) {
    const auto graph = graphs_.find(id);
    const Place* place = graph == graphs_.end() ? nullptr : graph->second.order->Find(pair, arrival.edge);
    if (place != nullptr) return JudgeStarted(arrival, id, *place);
  }
  return JudgeUnstarted(arrival, pair);
}

// Case 1.1: the graph's plan does not order it: pass.
// Case 1.2: it goes by priority: see JudgeByPriority.
// Case 1.3: the hook is off, or the step was released: pass; the rest of the step can no longer be counted.
// Case 1.4: the graph still counts: that decides.
// Case 1.5: the graph has counted to its end in this step: late.
Sequencer::Verdict Sequencer::JudgeStarted(const Arrival& arrival, int64_t graph, const Place& place) {
  if (!place.IsOrdered()) return {Verdict::kPass};
  if (GoesByPriority(place)) return JudgeByPriority(arrival, place);
  if (IsOffOrReleased(arrival.step)) return OffOrLate(arrival, place);
  const auto step = steps_.find(arrival.step);
  if (step == steps_.end()) return OffOrLate(arrival, place);
  const auto run = step->second->runs.find(graph);
  if (run == step->second->runs.end()) return OffOrLate(arrival, place);
  return {Verdict::kQueue, place, run->second};
}

// Of graphs that have the edge, the one that was added first decides.
// Case 2.1: none orders it: pass.
// Case 2.2: some graph orders it by priority, in which it counts for nothing which graph the step runs: see
//           JudgeByPriority.
// Case 2.3: the hook is off, or the step was released: as case 1.3.
// Case 2.4: some graph counts the edge: wait until the step says which graph it runs.
Sequencer::Verdict Sequencer::JudgeUnstarted(const Arrival& arrival, int pair) {
  const EdgeIndex::Graphs* graphs = of_no_function_.Find(pair, arrival.edge);
  if (graphs == nullptr) return JudgeByWholePlan(arrival, pair);
  if (graphs->ordered.empty()) return {Verdict::kPass};
  const Place& place = *graphs->ordered.begin()->second;
  if (GoesByPriority(place)) return JudgeByPriority(arrival, place);
  if (IsOffOrReleased(arrival.step)) return OffOrLate(arrival, place);
  return {Verdict::kAwaitStart, place};
}

// Case 3.1: it carries nothing, or the plan of "" does not speak of it: pass.
// Case 3.2: that plan orders it by priority: see JudgeByPriority.
// Case 3.3: the hook is off, or the step was released: as case 1.3.
// Case 3.4: all of that plan counts.
Sequencer::Verdict Sequencer::JudgeByWholePlan(const Arrival& arrival, int pair) {
  const int channel = plans_->ChannelOf(pair, plans_->PlanFor(""));
  const int rank = channel == Plans::kNone ? Plans::kNone : plans_->RankOf(channel, arrival.edge);
  if (rank == Plans::kNone || (arrival.bytes == 0 && !arrival.dead)) return {Verdict::kPass};
  if (arrival.dead && !plans_->NamesExactly(channel, arrival.edge)) return {Verdict::kPass};
  const Place place{channel, rank, rank};
  if (GoesByPriority(place)) return JudgeByPriority(arrival, place);
  if (IsOffOrReleased(arrival.step)) return OffOrLate(arrival, place);
  return {Verdict::kQueue, place, WholePlanRun(arrival.step, channel)};
}

// Case 4.1: it carries nothing: pass; nobody waits for its turn.
// Case 4.2: the hook is off: pass.
// Case 4.3: it waits for room.
Sequencer::Verdict Sequencer::JudgeByPriority(const Arrival& arrival, const Place& place) const {
  if (arrival.bytes == 0) return {Verdict::kPass};
  return {enabled_ ? Verdict::kPriority : Verdict::kOff, place};
}

bool Sequencer::IsOffOrReleased(int64_t step) const {
  if (!enabled_) return true;
  const History* history = history_.Find(step);
  return history != nullptr && history->released;
}

// What carries nothing, unless an untaken branch made it so, is not a planned transfer.
Sequencer::Verdict Sequencer::OffOrLate(const Arrival& arrival, const Place& place) {
  if (!enabled_) history_.At(arrival.step).released = true;
  if (arrival.bytes == 0 && !arrival.dead) return {Verdict::kPass};
  return {enabled_ ? Verdict::kLate : Verdict::kOff, place};
}

void Sequencer::Release(int64_t step_id) {
  LetGo(priority_.Release(step_id));
  Lock lock(mu_);
  const auto step = steps_.find(step_id);
  if (step != steps_.end()) ReleaseSteps(lock, {step->second});
}

void Sequencer::ReleaseAll() {
  LetGo(priority_.ReleaseAll());
  Lock lock(mu_);
  ReleaseSteps(lock, AllSteps());
}

Counters Sequencer::counters() const {
  Lock lock(mu_);
  Counters now = totals_;
  now.live_steps = static_cast<int64_t>(steps_.size());
  const Counters by_priority = priority_.counters();
  now.held += by_priority.held;
  now.ordered += by_priority.ordered;
  now.released += by_priority.released;
  now.deadlines += by_priority.deadlines;
  return now;
}

bool Sequencer::enabled() const {
  Lock lock(mu_);
  return enabled_;
}

bool Sequencer::UsesPriority() const {
  Lock lock(mu_);
  return enabled_ && plans_ && plans_->UsesPriority();
}

double Sequencer::deadline_seconds() const {
  Lock lock(mu_);
  return std::chrono::duration<double>(deadline_).count();
}

}  // namespace tfwave
