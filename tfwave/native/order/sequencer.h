// Holds transfers until their turn: the counter of each (step, graph, channel), and all that keeps it from
// waiting for ever. Says which transfers go by priority instead. Knows nothing of TensorFlow.
#ifndef TFWAVE_NATIVE_SEQUENCER_H_
#define TFWAVE_NATIVE_SEQUENCER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "order/counters.h"
#include "order/edge_index.h"
#include "order/hand_off_log.h"
#include "order/priority_queues.h"
#include "order/receipt.h"
#include "base/recent_map.h"
#include "order/step.h"
#include "base/sync.h"
#include "order/table.h"

namespace tfwave {

// A tensor that is ready to leave.
struct Arrival {
  int64_t step;
  std::string_view source;
  std::string_view destination;
  std::string edge;
  int64_t bytes;
  bool dead;  // of an untaken branch: carries no value, but has its turn
};

// Thread-safe. No callback runs under a lock; callbacks may call back.
class Sequencer {
 public:
  explicit Sequencer(HandOffLog* log) : log_(log), priority_(log) {}
  ~Sequencer();  // releases all
  Sequencer(const Sequencer&) = delete;

  // Replaces the plans; null removes them. What is held under the old ones is released. Throws, and changes nothing,
  // where the system has no more threads.
  void Install(std::shared_ptr<const Plans> plans);
  // Off: all that is held is released, and transfers pass as they come.
  void SetEnabled(bool enabled);
  // The longest time in which nothing of an incomplete step, or of a priority channel on which something waits, is
  // handed off before that is released.
  void SetDeadline(double seconds);

  // A graph that this process runs, of a function or of none (""); returns its id, from 1 on. What a function's
  // graph sends must wait for its StartStep; of others it may arrive before.
  int64_t AddGraph(std::string function, std::vector<GraphEdge> edges);
  void DropGraph(int64_t graph);
  // A step begins to run a graph: from now on its exact edges, and its function's plan, decide.
  void StartStep(int64_t step, int64_t graph);

  // Whether some plan orders what goes from one device to the other; cheap.
  bool Orders(std::string_view source, std::string_view destination) const;
  // Calls `go` once: now, or when it is its turn, or when its step is released. On a priority channel the tensor
  // is in flight until the receipt ends.
  void Arrive(const Arrival& arrival, Go go);

  // Lets go what is held of a step, which has ended.
  void Release(int64_t step);
  void ReleaseAll();

  Counters counters() const;
  bool installed() const { return planned_.load(std::memory_order_relaxed); }
  bool enabled() const;  // of the switch, whether or not plans are installed
  bool UsesPriority() const;  // whether something may go by priority now
  double deadline_seconds() const;

 private:
  using Lock = std::unique_lock<Mutex>;
  using OrderPtr = std::shared_ptr<const GraphOrder>;
  struct Graph {
    std::string function;
    std::vector<GraphEdge> edges;
    OrderPtr order;  // null without plans
  };

  // Where a transfer between devices that some plan speaks of belongs.
  struct Verdict {
    enum Kind { kPass, kOff, kLate, kQueue, kAwaitStart, kPriority } kind;
    Place place = {};
    std::shared_ptr<Run> run = nullptr;  // of kQueue
  };
  Verdict Judge(const Arrival& arrival, int pair);
  Verdict JudgeStarted(const Arrival& arrival, int64_t graph, const Place& place);
  Verdict JudgeUnstarted(const Arrival& arrival, int pair);
  Verdict JudgeByWholePlan(const Arrival& arrival, int pair);
  Verdict JudgeByPriority(const Arrival& arrival, const Place& place) const;
  bool GoesByPriority(const Place& place) const { return plans_->WindowOf(place.channel) > 0; }
  Verdict OffOrLate(const Arrival& arrival, const Place& place);
  bool IsOffOrReleased(int64_t step) const;

  std::shared_ptr<Step> FindOrCreateStep(int64_t step);
  std::shared_ptr<Run> WholePlanRun(int64_t step, int channel);
  std::shared_ptr<Run> EarlyRun(int64_t step);
  std::shared_ptr<Run> GraphRun(const std::shared_ptr<Step>& step, int64_t graph);
  std::vector<Go> ClaimEarly(Step* step, Run* run);
  Go WithoutCounter(const Place& place, Held held);
  void Hold(Lock& lock, const std::shared_ptr<Run>& run, Queue* queue, int64_t rank, Held held);
  void Drain(Lock& lock, const std::shared_ptr<Run>& run, Queue* queue);
  Reason Take(Run* run, Queue* queue, int64_t rank);
  void Complete(Run* run);
  void EraseIfIdle(Step* step);
  void ReleaseSteps(Lock& lock, const std::vector<std::shared_ptr<Step>>& steps);
  std::vector<std::shared_ptr<Step>> AllSteps() const;

  void Log(const Transfer& transfer, Reason reason, int64_t generation);
  void Monitor();
  void ReleaseExpired(Lock& lock);
  Clock::time_point NextDue() const;

  HandOffLog* const log_;
  PriorityQueues priority_;  // its lock is taken inside this one's
  std::atomic<bool> planned_{false};

  mutable Mutex mu_;
  Condition wake_;
  std::shared_ptr<const Plans> plans_;
  int64_t generation_ = 0;  // of the plans
  bool enabled_ = true;
  Clock::duration deadline_ = std::chrono::seconds(5);
  std::map<int64_t, Graph> graphs_;
  EdgeIndex of_no_function_;  // those of graphs_ that a step may start after its tensors come; empty without plans
  int64_t last_graph_ = 0;
  std::unordered_map<int64_t, std::shared_ptr<Step>> steps_;
  RecentMap<int64_t, History> history_{16384};  // by step
  Counters totals_;
  bool monitor_sleeps_ = true;
  bool stopping_ = false;
  Thread monitor_;  // started with the first plans: TensorFlow, which brings steps, takes no exception
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_SEQUENCER_H_
