// What the sequencer knows of a step. Plain data, guarded by the sequencer's lock.
#ifndef TFWAVE_NATIVE_STEP_H_
#define TFWAVE_NATIVE_STEP_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "order/receipt.h"
#include "base/sync.h"
#include "order/table.h"

namespace tfwave {

struct Transfer {
  int64_t step;
  int channel;
  int plan_rank;
  int64_t bytes;

  // A rank that keeps the channels apart.
  int64_t EarlyRank() const { return (static_cast<int64_t>(channel) << 32) | plan_rank; }
};

struct Held {
  Transfer transfer;
  int pair;
  std::string edge;
  Go go;
};

// Transfers that wait, by rank, and the counter that they wait for.
struct Queue {
  static constexpr int64_t kNever = -1;

  int64_t next = 0;
  int64_t size = 0;
  bool released = false;  // no rank counts any more
  bool draining = false;  // one thread at a time hands off
  std::multimap<int64_t, Held> held;

  bool HasReady() const { return !held.empty() && (released || held.begin()->first <= next); }
};

struct Step;

// One graph in one step; or, where no graph is known, all that the plan of "" says.
struct Run {
  static constexpr int64_t kWholePlan = 0;
  static constexpr int kAllChannels = 0;  // the one queue of what came early

  std::shared_ptr<Step> step;
  int64_t graph = kWholePlan;
  std::shared_ptr<const GraphOrder> order;  // null: the whole plan
  std::map<int, Queue> queues;              // by channel
  int incomplete = 0;                       // queues

  bool HoldsAnything() const {
    return std::any_of(queues.begin(), queues.end(), [](const auto& q) { return !q.second.held.empty(); });
  }
};

// A step with a counter.
struct Step {
  int64_t id = 0;
  int64_t generation = 0;       // of the plans in force
  Clock::time_point last = {};  // hand-off, or begin
  std::map<int64_t, std::shared_ptr<Run>> runs;  // by graph
  std::shared_ptr<Run> early;  // came before the step is known to have started

  bool HoldsAnything() const {
    if (early && early->HoldsAnything()) return true;
    return std::any_of(runs.begin(), runs.end(), [](const auto& r) { return r.second->HoldsAnything(); });
  }
};

// What is remembered of a step, live or over.
struct History {
  bool released = false;         // the rest of it is late
  std::vector<int64_t> started;  // graphs
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_STEP_H_
